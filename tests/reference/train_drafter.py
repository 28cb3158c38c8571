"""Train a block drafter for a frozen tiny target with one of three objectives, for a budget of process CPU time.

The CPU budget (all threads of the process) makes objectives of different cost comparable and does not depend on how
busy the machine is. The learning rate warms up over 30 steps, is constant for 40 % of the budget, then falls linearly.
"""
import argparse
import pathlib
import random
import time

import torch
import torch.nn as nn
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM
import mdraft
import objectives
from blocks import batches, load_replies
from drafter import Drafter, load_weights, make_config, save_drafter
from optim import Muon, split_params

MODES = 8
VALIDATION_REPLIES, VALIDATION_BATCHES = 40, 4


def load_embedding(target):
    with safe_open(target / "model.safetensors", "pt") as f:
        return f.get_tensor("model.embed_tokens.weight").float()


def build(args, embedding):
    """The drafter to train, started from --init where given."""
    modes = MODES if args.objective == "mfd" else 1
    dtype = "float32" if args.objective == "mdraft" else "bfloat16"
    drafter = Drafter(make_config(AutoConfig.from_pretrained(args.target).to_dict(), args.taps, modes, dtype))
    known = load_weights(drafter, args.init) if args.init else set()
    if modes > 1 and "mode_embed" not in known:
        nn.init.normal_(drafter.mode_embed, std=embedding.pow(2).mean().sqrt().item())
    return drafter


def pick_objective(args):
    if args.objective != "mdraft":
        return getattr(objectives, args.objective)
    model = AutoModelForCausalLM.from_pretrained(args.target, dtype=torch.float32)
    return mdraft.make_objective(mdraft.DenseTarget({n: p.detach() for n, p in model.named_parameters()}, model.config))


class Optimiser:
    """Muon for the matrices; AdamW for norms (half rate) and mode parameters (full rate)."""

    def __init__(self, drafter, rate):
        self.drafter, self.rate = drafter, rate
        matrices, rest = split_params([(n, p) for n, p in drafter.named_parameters() if not n.startswith("mode")])
        modes = [p for n, p in drafter.named_parameters() if n.startswith("mode")]
        self.muon = Muon(matrices, rate)
        self.adam = torch.optim.AdamW([{"params": rest, "share": 0.5}, {"params": modes, "share": 1.0}],
                                      lr=rate, betas=(0.9, 0.97), weight_decay=0.0)

    def step(self, scale, step):
        nn.utils.clip_grad_norm_(list(self.drafter.parameters()), 1.0)
        for group in self.adam.param_groups:
            group["lr"] = self.rate * scale * group["share"]
        self.muon.step(scale, min(0.95, 0.85 + step / 2000))
        self.adam.step()
        for p in self.drafter.parameters():
            p.grad = None


def schedule(step, spent):
    """Learning-rate factor after `step` steps and the fraction `spent` of the budget."""
    return min(1.0, (step + 1) / 30) * (1.0 if spent < 0.4 else max(0.02, (1 - spent) / 0.6))


def validate(drafter, embedding, held):
    """Mean soft coverage of true replies (expected accepted drafts) over held-out blocks: one mode, best mode."""
    coverage = [objectives.mode_coverage(drafter, embedding, b) for b in held]
    return sum(c.mean().item() for c in coverage) / len(held), sum(c.max(-1).values.mean().item() for c in coverage) / len(held)


def train(args, drafter, objective, embedding, data):
    held = [b for _, b in zip(range(VALIDATION_BATCHES), batches(data[:VALIDATION_REPLIES], random.Random(3), 8, 8))]
    optimiser = Optimiser(drafter, args.rate or (2e-3 if args.init else 6e-3))
    start = time.process_time()
    reported, figures = 0.0, {}
    for step, blocks in enumerate(batches(data[VALIDATION_REPLIES:], random.Random(args.seed), args.sequences, args.anchors)):
        cpu = time.process_time() - start
        if cpu >= args.cpu_seconds or step == args.max_steps:
            break
        loss, info = objective(drafter, embedding, blocks)
        loss.backward()
        optimiser.step(schedule(step, cpu / args.cpu_seconds), step)
        for name, value in {"loss": loss.item(), **info}.items():
            figures[name] = 0.95 * figures.get(name, value) + 0.05 * value
        if cpu - reported > args.report_seconds:
            reported = cpu
            save_drafter(drafter, args.out)
            one, best = validate(drafter, embedding, held)
            text = " ".join(f"{name} {value:.4f}" for name, value in figures.items())
            print(f"cpu {cpu:.0f} step {step + 1} {text} | held-out coverage {one:.3f} best mode {best:.3f}", flush=True)
    save_drafter(drafter, args.out)
    one, best = validate(drafter, embedding, held)
    print(f"done: steps {step} cpu {time.process_time() - start:.0f} loss {figures.get('loss', float('nan')):.4f} held-out coverage {one:.3f} best mode {best:.3f}")


def parse_args(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objective", choices=("dflash", "mfd", "mdraft"))
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("replies", help="comma-separated files of sample_replies.py")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--init", type=pathlib.Path, help="drafter folder to start from")
    parser.add_argument("--taps", type=lambda s: [int(x) for x in s.split(",")], default=[1, 4, 6])
    parser.add_argument("--cpu-seconds", type=float, default=540)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--report-seconds", type=float, default=30)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--anchors", type=int, default=24)
    parser.add_argument("--rate", type=float, default=None, help="default 2e-3 with --init, else 6e-3")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_args(argv)
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    embedding = load_embedding(args.target)
    drafter, data = build(args, embedding), load_replies(args.replies.split(","))
    print("parameters", sum(p.numel() for p in drafter.parameters()), "replies", len(data), flush=True)
    train(args, drafter, pick_objective(args), embedding, data)


if __name__ == "__main__":
    main()
