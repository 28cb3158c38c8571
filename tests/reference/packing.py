"""Rows of whole documents for training a target; every row starts with a document."""
import json

import torch
from make_corpus import to_text

LENGTH, END = 384, 2042
PROMPT_WEIGHT, REPLY_WEIGHT, END_WEIGHT = 0.2, 1.0, 0.05


def load_docs(data, tokenizer):
    """(prompt ids, reply ids) of every training document."""
    docs = []
    for line in (data / "train.jsonl").open():
        prompt, reply = to_text(json.loads(line))
        docs.append((tokenizer.encode(prompt, add_special_tokens=False), tokenizer.encode(reply, add_special_tokens=False)))
    return docs


def assign_rows(docs, rng):
    """Greedy first-fit of shuffled documents into rows of LENGTH + 1 tokens."""
    docs = docs[:]
    rng.shuffle(docs)
    rows, open_bins = [], []
    for prompt, reply in docs:
        n = len(prompt) + len(reply) + 1
        if n > LENGTH + 1:
            continue
        fitting = next((b for b in open_bins if b[0] + n <= LENGTH + 1), None)
        if fitting is None:
            fitting = [0, []]
            open_bins.append(fitting)
        fitting[0] += n
        fitting[1].append((prompt, reply))
        if fitting[0] > LENGTH - 40 or len(open_bins) > 40:
            fullest = max(open_bins, key=lambda b: b[0])
            open_bins.remove(fullest)
            rows.append(fullest[1])
    rows += [b[1] for b in open_bins]
    rng.shuffle(rows)
    return rows


def pack(docs, rng):
    """(ids, loss weight), each [rows, LENGTH + 1]."""
    rows = assign_rows(docs, rng)
    ids = torch.full((len(rows), LENGTH + 1), END)
    weight = torch.zeros(len(rows), LENGTH + 1)
    for i, row in enumerate(rows):
        at = 0
        for prompt, reply in row:
            middle, end = at + len(prompt), at + len(prompt) + len(reply)
            ids[i, at:end + 1] = torch.tensor(prompt + reply + [END])
            weight[i, at:middle], weight[i, middle:end], weight[i, end] = PROMPT_WEIGHT, REPLY_WEIGHT, END_WEIGHT
            at = end + 1
    return ids, weight
