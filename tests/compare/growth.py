"""How the cost of a round grows with budget and context, and prefill with the prompt, beside what the host can do.

Bounds: memory bandwidth (every weight of a graph is read once a call) and the rate of a matrix product, both measured by numpy
with as many threads as forkcast has. The bound of a stage is the larger of bytes / bandwidth and operations / rate, for its
matrix products only: attention, norms and recurrent states are not in it.
"""
import os

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
for variable in THREAD_VARIABLES:
    os.environ.setdefault(variable, os.environ.get("FORKCAST_COMPARE_THREADS", "2"))

import argparse  # noqa: E402
import json  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

import numpy as np  # noqa: E402

from checkpoints import small_pair, stretched, tiny_pair  # noqa: E402
from common import MODELS, THREADS, bench, bundle, context, median, spread, stage_milliseconds, table  # noqa: E402

TAU = 6
TINY = {"hybrid": (MODELS / "tiny-qwen3.5", MODELS / "tiny-qwen3.5-dflash"), "dense": tiny_pair()}
# Positions that the tiny models' configs are given here; the trained ones end at 4096.
POSITIONS = 16384
# Prompts from this length on are answered once after the warm-up, or a run would last too long.
LONG = 2048


def fastest(work, repeats=5):
    """Seconds of the fastest of several runs: what the host can do when it is let."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def bandwidth(megabytes=1200):
    """Bytes per second that THREADS threads read together from memory too large for the caches."""
    parts = [np.ones(megabytes * 250_000 // THREADS, np.float32) for _ in range(THREADS)]

    def read():
        threads = [threading.Thread(target=part.max) for part in parts]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    return sum(p.nbytes for p in parts) / fastest(read)


def gemm_rate(n=1536):
    """Operations per second of an f32 matrix product."""
    a = np.ones((n, n), np.float32)
    return 2 * n**3 / fastest(lambda: a @ a)


class Bound:
    """Milliseconds below which the matrix products of a call cannot go on this host."""

    def __init__(self, config, drafter):
        self.bytes_per_second, self.operations_per_second = bandwidth(), gemm_rate()
        self.target, self.drafter = layer_parameters(config), layer_parameters(drafter)
        self.head = config["vocab_size"] * config["hidden_size"]
        self.block = drafter["dflash_config"]["block_size"]

    def call(self, parameters, rows):
        return 1e3 * max(4 * parameters / self.bytes_per_second, 2 * parameters * rows / self.operations_per_second)

    def verify(self, rows, head_rows):
        """Layers over all rows; the head over the rows that the walk visits."""
        return self.call(self.target, rows) + self.call(self.head, head_rows)

    def draft(self):
        """Drafter and head over a block."""
        return self.call(self.drafter, self.block) + self.call(self.head, self.block - 1)

    def prefill(self, tokens):
        return self.call(self.target, tokens) + self.call(self.head, 1)


def layer_parameters(c):
    """Weights of the projections of all layers; hybrids count their linear layers as well."""
    h, d, layers = c["hidden_size"], c["head_dim"], c["layer_types"]
    q, kv, mlp = c["num_attention_heads"] * d, c["num_key_value_heads"] * d, 3 * h * c["intermediate_size"]
    full = h * (2 * q + 2 * kv) + (h * q if c["model_type"].startswith("qwen3_5") else 0)
    linear = 0
    if "linear_num_key_heads" in c:
        nk, nv = c["linear_num_key_heads"] * c["linear_key_head_dim"], c["linear_num_value_heads"] * c["linear_value_head_dim"]
        linear = h * (2 * nk + 3 * nv + 2 * c["linear_num_value_heads"])
    return sum(mlp + (linear if kind == "linear_attention" else full) for kind in layers)


def one(model, prompt_tokens, method, budget, tokens, repeat):
    """Mean milliseconds a round in each stage, and the seconds to the first token of each repeat."""
    repeat = 1 if prompt_tokens >= LONG else repeat
    record = bench(model, prompt_tokens, [method], [budget], tokens, repeat, TAU)
    cell = (method, 0 if method == "plain" else budget)
    first = [s["first_token"] for r in record["responses"] if r["cell"] == (0 if method == "plain" else 1) for s in r["samples"]]
    return *stage_milliseconds(record, *cell), first


def rows_of_rounds(model, bound, title, prompt_tokens, budgets, args):
    rows = []
    for budget in budgets:
        stages, tau, _ = one(model, prompt_tokens, "ddtree", budget, args.tokens, args.repeat)
        total = sum(v for k, v in stages.items() if k != "prefill")
        verify, draft = stages["verify"], stages["draft"]
        floor_v, floor_d = bound.verify(budget + 1, tau), bound.draft()
        rows.append([title, f"budget {budget}, context {prompt_tokens}", f"{total:.2f}", f"{draft:.2f} / {floor_d:.2f} = {draft / floor_d:.1f}x",
                     f"{verify:.2f} / {floor_v:.2f} = {verify / floor_v:.1f}x", f"{stages['tree'] + stages['walk']:.3f}", f"{stages['commit']:.2f}", f"{tau:.1f}"])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--model", choices=["hybrid", "dense", "small"], default="hybrid")
    parser.add_argument("--budgets", type=lambda s: [int(x) for x in s.split(",")], default=[1, 4, 8, 16, 32, 64, 128, 256])
    parser.add_argument("--contexts", type=lambda s: [int(x) for x in s.split(",")], default=[128, 512, 2048, 8192])
    parser.add_argument("--prompts", type=lambda s: [int(x) for x in s.split(",")], default=[16, 128, 512, 2048, 8192])
    args = parser.parse_args()
    pair = small_pair() if args.model == "small" else [stretched(folder, POSITIONS) for folder in TINY[args.model]]
    model = bundle({"hybrid": "tiny-hybrid-long-f32", "dense": "tiny-long-f32", "small": "small-f32"}[args.model], *pair)
    config, drafter = (json.loads((folder / "config.json").read_text()) for folder in pair)
    longest = config["max_position_embeddings"] - args.tokens - max(args.budgets)
    bound = Bound(config, drafter)
    rows = rows_of_rounds(model, bound, "round", 128, args.budgets, args)
    for length in sorted({min(c, longest) for c in args.contexts}):
        rows += rows_of_rounds(model, bound, "round", length, [16], args)
    for length in sorted({min(p, longest) for p in args.prompts}):
        _, _, first = one(model, length, "plain", 1, 2, args.repeat)
        milliseconds = 1e3 * median(first)
        floor = bound.prefill(length)
        rows.append(["prefill", f"{length} tokens: {length / median(first):.0f} tokens/s", f"{spread([1e3 * x for x in first], 2)}", "",
                     f"{milliseconds:.2f} / {floor:.2f} = {milliseconds / floor:.1f}x", "", "", ""])
    table(["stage", "at", "all, ms", "draft / bound, ms", "verify or prefill / bound, ms", "tree + walk, ms", "commit, ms", "tau"], rows)
    print(f"\n* host, numpy f32, {THREADS} threads, fastest of 5: reads {bound.bytes_per_second / 1e9:.1f} GB/s from memory, "
          f"matrix product {bound.operations_per_second / 1e9:.0f} GFLOP/s")
    print(f"* {args.model}: {bound.target / 1e6:.2f} M weights in layers, {bound.head / 1e6:.2f} M in the head, {bound.drafter / 1e6:.2f} M in the drafter; prompts from {LONG} tokens on one repeat")
    context(repeats=args.repeat)


if __name__ == "__main__":
    main()
