"""forkcast against llama.cpp, plain greedy decoding of the same dense Qwen3 checkpoints, and forkcast's trees beside both.

Rows: the trained tiny model, and a random one of the shape of Qwen3-0.6B; f32 and 8 bit (llama.cpp q8_0, forkcast int8). Both
sides take turns within one run. llama.cpp is timed inside `llama_decode` only, forkcast over its whole decoding loop.
"""
import argparse

from checkpoints import small_pair, tiny_pair
from common import bench, bundle, context, forkcast, greedy, need, prompt_ids, rates, ratio, same, spread, stage_milliseconds, table
from gguf_file import gguf
from llama_plain import LlamaPlain

STOPS = (2044, 2042)
TAU = 6
BUDGETS = (6, 8, 12, 16, 24)
# Ids that drafts of the model with the full vocabulary may choose among, tried beside all of them.
DRAFT_VOCAB = 16384
SMALL_PROMPT = [1000 + 37 * i for i in range(16)]


def eight_bit():
    """Whether this forkcast exports int8 bundles."""
    return "int8" in forkcast("export", "--help")


def faster(path, prompt):
    """llama.cpp with the weight layout (its own for this CPU, or that of the file) that decodes faster here."""
    speeds = []
    for repack in (True, False):
        model = LlamaPlain(path, repack=repack)
        speeds.append((max(model.decode(prompt, 8)[1] for _ in range(2)), repack))
        model.close()
    return LlamaPlain(path, repack=max(speeds)[1])


def measure(name, pair, kind, prompt, args):
    """One row of the table, and lines on what it rests on."""
    target, drafter = pair
    model = bundle(f"{name}-{'f32' if kind == 'f32' else 'int8'}", target, drafter, "f32" if kind == "f32" else "int8")
    tokens = args.tiny_tokens if name == "tiny" else args.small_tokens
    options = [()] if name == "tiny" else [(), ("--draft-vocab", DRAFT_VOCAB)]
    found = [(rates(bench(model, [prompt], ["chain", "ddtree"], BUDGETS, tokens, 1, TAU, extra)), extra) for extra in options]
    tried = [(cells[cell][0], cell, extra) for cells, extra in found for cell in cells if cell[0] != "plain"]
    _, best, extra = max(tried, key=lambda entry: entry[0])
    theirs = LlamaPlain(gguf(target, name, "f32"), repack=False) if kind == "f32" else faster(gguf(target, name, "q8_0"), prompt)
    theirs.decode(prompt, 8)
    ours, trees, other = [], [], []
    for _ in range(args.repeat):
        record = bench(model, [prompt], [best[0]], [best[1]], tokens, 1, TAU, extra)
        cells = rates(record)
        ours += cells["plain", 0]
        trees += cells[best]
        tokens_there, rate = theirs.decode(prompt, tokens)
        other.append(rate)
    theirs.close()
    stages, _ = stage_milliseconds(record, "plain", 0)
    verify = stages["verify"]
    note = f"{name} {kind}: in its last repeat plain took {1e3 / ours[-1]:.2f} ms a token, {verify:.2f} ms of it in the target and head graphs"
    if kind == "f32" and name == "tiny":
        note += "; tokens against llama.cpp: " + same(greedy(model, prompt, tokens), tokens_there, STOPS)
    if name == "tiny":
        real = rates(bench(model, [prompt], ["ddtree"], [12], tokens, args.repeat))
        note += f"; with its trained drafter (not synthetic) ddtree 12 is {ratio(real['ddtree', 12], other)}x of llama.cpp"
    over = f" over {DRAFT_VOCAB} ids" if extra else ""
    fastest = f"{max(ours) / max(other):.2f}"
    row = [name, kind, spread(other), spread(ours), ratio(ours, other), fastest, f"{best[0]} {best[1]}{over}: {spread(trees)}", ratio(trees, ours)]
    return row, trees, other, note


def llama_alone(args):
    """Words: tokens per second of llama.cpp in 8 bit, with and without its own weight layouts."""
    words = []
    for name in args.models.split(","):
        pair = tiny_pair() if name == "tiny" else small_pair()
        for repack in (True, False):
            model = LlamaPlain(gguf(pair[0], name, "q8_0"), repack=repack)
            rates_there = [model.decode(SMALL_PROMPT, args.small_tokens)[1] for _ in range(args.repeat)]
            model.close()
            words.append(f"{name} {'own layouts' if repack else 'plain layout'} {spread(rates_there)} tokens/s")
    return "; ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tiny-tokens", type=int, default=256)
    parser.add_argument("--small-tokens", type=int, default=24)
    parser.add_argument("--models", default="tiny,small")
    args = parser.parse_args()
    version = need("llama_cpp").__version__
    kinds = ["f32"] + (["8 bit"] if eight_bit() else [])
    rows, notes, float_plain = [], [], {}
    for name in args.models.split(","):
        pair = tiny_pair() if name == "tiny" else small_pair()
        prompt = prompt_ids(pair[0]) if name == "tiny" else SMALL_PROMPT
        for kind in kinds:
            row, trees, other, note = measure(name, pair, kind, prompt, args)
            float_plain.setdefault(name, other)
            rows.append(row + [ratio(trees, float_plain[name])])
            notes.append(note)
    table(["model", "weights", "llama.cpp plain, tokens/s", "forkcast plain, tokens/s", "plain / llama.cpp", "fastest / fastest",
           f"best tree at acceptance {TAU}, tokens/s", "tree / own plain", "tree / llama.cpp f32 plain"], rows)
    print()
    for note in notes:
        print("* " + note)
    if len(kinds) == 1:
        print("* 8 bit: this forkcast has no `export --dtype int8`; llama.cpp alone, q8_0: " + llama_alone(args))
    context(llama_cpp_python=version, repeats=args.repeat)


if __name__ == "__main__":
    main()
