"""Acceptance length tau per domain at T = 0, by replaying rounds against the target's own greedy text.

At T = 0 every method emits the greedy text, so a round only has to be walked along it: the reply is generated once by
transformers in float32 (plain decoding), one more full pass gives the features of every position, and then each round
drafts from the features before its anchor, builds its tree and counts how far the true text stays inside it.
Nothing here shares code with the runtime, and no state is carried from round to round.

tau = mean over replies of the mean over rounds of tokens emitted by a round (accepted drafts + the next token), cut at
a stop token. The first token of a reply comes from prefill and belongs to no round.
"""
import argparse
import json
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from slow_drafter import SlowDrafter
from trees import best_first, chain

STOP, MAX_NEW, BLOCK = (2044, 2042), 128, 16


class Reply:
    """A greedy reply with everything a drafter may look at."""

    def __init__(self, ids, prompt_length, hidden_states):
        self.ids, self.prompt_length, self.hidden_states = ids, prompt_length, hidden_states

    def features(self, taps, end):
        """Concatenated residual streams after the tapped layers, positions 0 .. end - 1."""
        return torch.cat([self.hidden_states[layer + 1][0, :end] for layer in taps], -1)


@torch.no_grad()
def greedy_reply(model, prompt):
    """Up to MAX_NEW tokens plus one block (the last round may overshoot), stop token included."""
    ids, cache, feed = list(prompt), None, torch.tensor([prompt])
    while len(ids) - len(prompt) < MAX_NEW + BLOCK:
        out = model(feed, cache=cache, use_cache=True)
        cache = out.cache
        ids.append(int(out.logits[0, -1].argmax()))
        feed = torch.tensor([[ids[-1]]])
        if ids[-1] in STOP:
            break
    hidden = model(torch.tensor([ids]), output_hidden_states=True, use_cache=False).hidden_states
    return Reply(ids, len(prompt), hidden)


def accepted_lengths(reply, drafter, embedding, build):
    """Tokens emitted by each round; the anchor of a round is its last emitted token."""
    lengths, anchor, end = [], reply.prompt_length, len(reply.ids)
    while anchor + 1 < min(end, reply.prompt_length + MAX_NEW):
        if build is None:
            lengths.append(1)
        else:
            log_q = drafter.log_probs(reply.features(drafter.taps, anchor), reply.ids[anchor], embedding)
            accepted = build(log_q.numpy()).walk(reply.ids[anchor + 1:])
            lengths.append(min(accepted + 1, end - anchor - 1))
        anchor += lengths[-1]
    return lengths


def make_methods(args):
    """name -> (drafter or None, tree builder or None)."""
    methods = {"plain": (None, None)}
    for folder in args.drafters:
        drafter, name = SlowDrafter(folder), folder.name
        if len(drafter.mode_embed) > 1:
            for b in args.budgets:
                methods[f"mfd {b} {name}"] = drafter, lambda q, b=b: best_first(q, b)
                methods[f"ddtree {b} {name} mode 0"] = drafter, lambda q, b=b: best_first(q[:1], b)
        else:
            methods[f"chain {name}"] = drafter, chain
            for b in args.budgets:
                methods[f"ddtree {b} {name}"] = drafter, lambda q, b=b: best_first(q, b)
    return methods


def replies_of(model, tokenizer, conversation):
    """One greedy reply per user turn; earlier replies stay in the history (the template drops their think block)."""
    history = []
    for turn in conversation["messages"]:
        history.append(turn)
        prompt = tokenizer.apply_chat_template(history, add_generation_prompt=True, return_dict=False)
        reply = greedy_reply(model, prompt)
        text = tokenizer.decode(reply.ids[reply.prompt_length:][:MAX_NEW], skip_special_tokens=True)
        history.append({"role": "assistant", "content": text})
        yield reply


def measure(args):
    """tau[method][domain]."""
    tokenizer = AutoTokenizer.from_pretrained(args.target)
    model = AutoModelForCausalLM.from_pretrained(args.target, dtype=torch.float32)
    embedding = model.get_input_embeddings().weight.detach()
    methods = make_methods(args)
    tau = {name: {} for name in methods}
    for domain in args.domains:
        lines = (args.prompts / f"prompts_{domain}.jsonl").read_text().splitlines()[:args.limit]
        means = {name: [] for name in methods}
        for line in lines:
            for reply in replies_of(model, tokenizer, json.loads(line)):
                for name, (drafter, build) in methods.items():
                    lengths = accepted_lengths(reply, drafter, embedding, build)
                    if lengths:
                        means[name].append(sum(lengths) / len(lengths))
        for name, values in means.items():
            tau[name][domain] = sum(values) / len(values)
    return tau


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("drafters", type=pathlib.Path, nargs="+")
    parser.add_argument("--prompts", type=pathlib.Path, default=here.parent / "models" / "prompts")
    parser.add_argument("--limit", type=int, default=10, help="prompts per domain")
    parser.add_argument("--domains", default="abcde")
    parser.add_argument("--budgets", type=lambda s: [int(x) for x in s.split(",") if x], default=[64, 256])
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tau = measure(args)
    print("| method | " + " | ".join(args.domains) + " | mean |")
    print("|---|" + "---|" * (len(args.domains) + 1))
    for name, row in tau.items():
        figures = [row[d] for d in args.domains]
        print(f"| {name} | " + " | ".join(f"{x:.2f}" for x in figures + [sum(figures) / len(figures)]) + " |")


if __name__ == "__main__":
    main()
