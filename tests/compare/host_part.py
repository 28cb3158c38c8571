"""The host part of a round (tree, mask, walk) at K = 8 modes, budget 256 and a vocabulary of 248,320: forkcast against Python.

forkcast: `cargo bench -p forkcast --bench round`, p50 and p99 of single rounds. Python: the same work by `tests/reference/trees.py`
and the usual mask by copying the parent's row, on lists of the same kind: 256 candidates a position, 15 positions.
"""
import argparse
import os
import re
import subprocess
import sys
import time

from common import ROOT, cannot, context, need, table

np = need("numpy")
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import trees  # noqa: E402

MODES, POSITIONS, K, BUDGET, VOCABULARY, TARGET = 8, 15, 256, 256, 248_320, 100.0


def lists(rng):
    """(ids, log-probabilities) [modes, positions, K]: a peak that weakens with depth, a Zipf tail, modes that mostly agree."""
    common = rng.integers(0, VOCABULARY, POSITIONS)
    ids, logp = np.empty((MODES, POSITIONS, K), np.int64), np.empty((MODES, POSITIONS, K))
    weights = (np.arange(K) + 1.0) ** -1.3
    for mode in range(MODES):
        for position in range(POSITIONS):
            sure = (0.95 - 0.04 * position) * (0.4 + 0.6 * rng.random())
            p = weights / weights.sum() * (1 - sure)
            p[0] += sure
            row = (rng.integers(1000) + 7 * np.arange(K)) % 1000
            row[0] = common[position] if rng.random() < 0.6 else rng.integers(VOCABULARY)
            order = np.argsort(-p, kind="stable")
            ids[mode, position], logp[mode, position] = row[order], np.log(p[order])
    return ids, logp


def parents(tree):
    found = [0] * len(tree.children)
    for node, children in enumerate(tree.children):
        for child in children.values():
            found[child] = node
    return found


def mask(tree):
    """Which row sees which: its ancestors and itself."""
    above = parents(tree)
    seen = np.zeros((len(above), len(above)), bool)
    seen[0, 0] = True
    for row in range(1, len(above)):
        seen[row] = seen[above[row]]
        seen[row, row] = True
    return seen


def likely_path(tree):
    """Tokens of the first children down to a leaf: what a walk meets when the drafter was right."""
    node, path = 0, []
    while tree.children[node]:
        token, node = next(iter(tree.children[node].items()))
        path.append(token)
    return path


def python_microseconds(samples):
    rng = np.random.default_rng(11)
    rounds = [lists(rng) for _ in range(16)]
    paths = [likely_path(trees.best_first_of_lists(*r, BUDGET)) for r in rounds]
    times = []
    for i in range(samples):
        at = i % len(rounds)
        begin = time.perf_counter()
        tree = trees.best_first_of_lists(*rounds[at], BUDGET)
        mask(tree)
        tree.walk(paths[at])
        times.append((time.perf_counter() - begin) * 1e6)
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100]


def forkcast_microseconds():
    environment = dict(os.environ, CARGO_INCREMENTAL="0")
    try:
        done = subprocess.run(["cargo", "bench", "--locked", "-p", "forkcast", "--bench", "round", "--", "quantiles"],
                              cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    except FileNotFoundError:
        cannot("cargo is not installed")
    found = re.search(r"p50 ([\d.]+) us, p99 ([\d.]+) us", done.stdout)
    if found is None:
        raise RuntimeError(f"cargo bench: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return float(found[1]), float(found[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1000)
    args = parser.parse_args()
    ours, theirs = forkcast_microseconds(), python_microseconds(args.samples)
    rows = [[name, f"{a:.1f}", f"{b:.0f}", f"{b / a:.0f}x", "" if name != "p50" else ("yes" if a <= TARGET else "no")]
            for name, a, b in zip(("p50", "p99"), ours, theirs)]
    table(["", "forkcast, us", "reference Python, us", "ratio", f"at most {TARGET:.0f} us"], rows)
    context(python=sys.version.split()[0], samples=args.samples)


if __name__ == "__main__":
    main()
