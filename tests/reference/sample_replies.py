"""Sample replies of a tiny target in batch and keep the tapped features, as training data for a drafter.

Prompts are fresh documents of the corpus generator; held-out prompts are skipped. Every slot advances one token a
step (prompt tokens are forced) and is refilled when its reply ends. Output: a torch file with a list of
(ids [T], prompt length, features [T - 1, taps * H] in bf16).
"""
import argparse
import json
import pathlib
import random
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from make_corpus import make_doc, to_text
from stepper import Stepper

STOP = (2044, 2042)
MAX_PROMPT, MAX_REPLY = 260, 150


def fresh_prompts(tok, seed, count, held_out):
    """Token ids of `count` prompts (fewer after the length limit) that are not among the held-out ones."""
    held = {json.loads(line)["messages"][0]["content"] for f in sorted(held_out.glob("prompts_*.jsonl")) for line in f.open()}
    rng, prompts = random.Random(seed), []
    while len(prompts) < count:
        doc = make_doc(rng, "abcde"[len(prompts) % 5])
        if doc["messages"][0]["content"] not in held:
            prompts.append(tok.encode(to_text(doc)[0], add_special_tokens=False))
    return [p for p in prompts if len(p) < MAX_PROMPT]


class Slots:
    """Which prompt occupies which slot; the queue refills slots until `accepting` is false."""

    def __init__(self, stepper, queue, slots):
        self.stepper, self.queue, self.accepting = stepper, list(reversed(queue)), True
        self.ids, self.prompt_length = [None] * slots, [0] * slots
        self.position = torch.zeros(slots, dtype=torch.long)
        self.token = torch.zeros(slots, dtype=torch.long)
        for slot in range(slots):
            self.refill(slot)

    def refill(self, slot):
        self.ids[slot] = None
        if self.queue and self.accepting:
            self.ids[slot] = list(self.queue.pop())
            self.prompt_length[slot] = len(self.ids[slot])
            self.position[slot], self.token[slot] = 0, self.ids[slot][0]
            self.stepper.reset(slot)

    def advance(self, slot, sampled):
        """Take the sampled token if the prompt is over; True when the reply just ended."""
        ids, position = self.ids[slot], int(self.position[slot]) + 1
        if position >= len(ids):
            ids.append(sampled)
            if sampled in STOP or len(ids) - self.prompt_length[slot] >= MAX_REPLY:
                return True
        self.position[slot], self.token[slot] = position, ids[position]
        return False


def gumbel_sample(logits, temperature):
    noise = -torch.log(-torch.log(torch.rand_like(logits).clamp_(1e-10, 1 - 1e-7)))
    return (logits / temperature + noise).argmax(-1)


@torch.no_grad()
def sample(model, tok, args):
    cfg = model.config
    params = {name: p.detach() for name, p in model.named_parameters()}
    queue = fresh_prompts(tok, args.seed, args.prompts, args.held_out)
    slots, length = min(192, len(queue)), MAX_PROMPT + MAX_REPLY + 6
    stepper = Stepper(params, cfg, slots, length, args.taps)
    table = Slots(stepper, queue, slots)
    features = torch.zeros(slots, length, len(args.taps) * cfg.hidden_size)
    done, start, steps = [], time.process_time(), 0
    while any(ids is not None for ids in table.ids) and time.process_time() - start < args.cpu_seconds:
        table.accepting = time.process_time() - start < 0.75 * args.cpu_seconds    # late: let running replies end
        positions = table.position.clone()
        logits, taps = stepper.step(table.token, positions)
        features[torch.arange(slots), positions] = taps
        for slot, sampled in enumerate(gumbel_sample(logits, args.temperature).tolist()):
            if table.ids[slot] is not None and table.advance(slot, sampled):
                ids = table.ids[slot]
                kept = features[slot, :len(ids) - 1].to(torch.bfloat16).clone()
                done.append((torch.tensor(ids), table.prompt_length[slot], kept))
                table.refill(slot)
        steps += 1
        if steps % 200 == 0:
            print(f"steps {steps} replies {len(done)} cpu {time.process_time() - start:.0f}s", flush=True)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--held-out", type=pathlib.Path, required=True, help="folder with prompts_*.jsonl to avoid")
    parser.add_argument("--taps", type=lambda s: [int(x) for x in s.split(",")], default=[1, 4, 6])
    parser.add_argument("--seed", type=int, default=101)
    parser.add_argument("--prompts", type=int, default=4000)
    parser.add_argument("--cpu-seconds", type=float, default=230)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model = AutoModelForCausalLM.from_pretrained(args.target, dtype=torch.float32)
    done = sample(model, AutoTokenizer.from_pretrained(args.target), args)
    torch.save(done, args.out)
    ended = sum(int(ids[-1]) == STOP[0] for ids, _, _ in done)
    print("replies", len(done), "reply tokens", sum(len(ids) - n for ids, n, _ in done), "ended by im_end", ended)


if __name__ == "__main__":
    main()
