#!/usr/bin/env python3
"""Adaptive rounds against plain and every fixed budget, on a good, a slow and a bad drafter.

    tests/compare/adaptive.py [--repeat 5] [--samples 2] [--max-tokens 256]

Exports the trained tiny pairs to a temporary folder, tunes each, then answers the first prompts of all five domains with
every setting in turn: medians of interleaved repeats of the summed decode time. Texts must be equal.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAIRS = [
    ("tiny-qwen3.5", "tiny-qwen3.5-dflash", "ddtree"),
    ("tiny-qwen3.5", "tiny-qwen3.5-mfd", "mfd"),
    ("tiny-qwen3", "tiny-qwen3-dflash", "ddtree"),
]
BUDGETS = [4, 8, 12, 24, 48]


def forkcast(*args):
    done = subprocess.run([ROOT / "target/release/forkcast", *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"forkcast {args[0]}: {done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=256)
    args = parser.parse_args()
    models = ROOT / "tests/models"
    suites = sorted((models / "prompts").glob("*.jsonl"))
    print(f"load {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    print("| pair | setting | tokens/s | against plain | drafted rounds | nodes a drafted round |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        chats = []
        for suite in suites:
            for line in suite.read_text().splitlines()[: args.samples]:
                path = Path(folder) / f"chat{len(chats)}.json"
                path.write_text(json.dumps(json.loads(line)["messages"]))
                chats.append(path)
        for target, drafter, method in PAIRS:
            bundle = Path(folder) / drafter
            forkcast("export", "--target", models / target, "--drafter", models / drafter, "--out", bundle)
            flags = [x for s in suites for x in ("--suite", s)]
            forkcast("tune", bundle, *flags, "--samples", args.samples)
            settings = {"plain": ["--method", "plain"]}
            settings |= {f"{method} {b}": ["--method", method, "--budget", b] for b in BUDGETS}
            settings["as tuned"] = []
            settings["adaptive"] = ["--adaptive"]
            report(drafter, settings, chats, bundle, args)


def report(name, settings, chats, bundle, args):
    seconds = {s: [] for s in settings}
    tokens, drafted, nodes, rounds = {}, {}, {}, {}
    for _ in range(args.repeat):
        for setting, flags in settings.items():
            total, texts = 0.0, []
            used = [0, 0, 0]
            for chat in chats:
                command = ["generate", bundle, "--chat", chat, "--max-tokens", args.max_tokens, "--json"]
                answer = json.loads(forkcast(*command, *flags))
                texts.append(answer["token_ids"])
                if answer["tokens_per_second"]:
                    total += (len(answer["token_ids"]) - 1) / answer["tokens_per_second"]
                own = answer.get("adaptive") or {}
                used[0] += own.get("drafted_rounds", 0 if answer["method"] == "plain" else answer["rounds"])
                used[1] += own.get("nodes", 0)
                used[2] += answer["rounds"]
            seconds[setting].append(total)
            tokens[setting], (drafted[setting], nodes[setting], rounds[setting]) = texts, used
    for setting, times in seconds.items():
        if tokens[setting] != tokens["plain"]:
            raise SystemExit(f"{name}: {setting} gives another text than plain")
        count = sum(len(t) - 1 for t in tokens[setting])
        middle = statistics.median(times)
        ratio = statistics.median(seconds["plain"]) / middle
        size = f"{nodes[setting] / max(drafted[setting], 1):.1f}" if nodes[setting] else "-"
        share = f"{drafted[setting]} of {rounds[setting]}"
        print(f"| {name} | {setting} | {count / middle:.0f} | {ratio:.2f} | {share} | {size} |", flush=True)


if __name__ == "__main__":
    main()
