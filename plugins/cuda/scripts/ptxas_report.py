#!/usr/bin/env python3
"""Turns the `-Xptxas -v` output of the cubins into one table and checks it.

Usage: ptxas_report.py LOG_DIR REQUIREMENTS SM...

Prints the table: a line a kernel, registers for every SM, then the largest stack frame, spill and static shared
memory over the SMs. Exits 1, naming the kernel, if a kernel spills registers, needs a stack frame, or was not compiled
for every SM.
"""

import pathlib
import re
import subprocess
import sys

TYPES = {"__nv_bfloat16": "bf16", "__half": "f16", "float": "f32"}
FIGURES = {
    "registers": r"Used (\d+) registers",
    "stack": r"(\d+) bytes stack frame",
    "stores": r"(\d+) bytes spill stores",
    "loads": r"(\d+) bytes spill loads",
    "shared": r"(\d+) bytes smem",
}


def demangle(symbols: list[str]) -> dict[str, str]:
    """forkcast::tree_attention_kernel<float, 256>(...) -> tree_attention_kernel<f32, 256>"""
    found = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True)
    names = {}
    for symbol, text in zip(symbols, found.stdout.splitlines()):
        text = re.sub(r"^void ", "", text).split("(")[0].replace("forkcast::", "")
        for long, short in TYPES.items():
            text = text.replace(long, short)
        names[symbol] = text
    return names


def entries(log: str) -> dict[tuple[str, int], dict[str, int]]:
    """(symbol, SM) -> figures of every kernel of one log."""
    found = {}
    for block in log.split("Compiling entry function '")[1:]:
        symbol, sm = block.split("'")[0], re.search(r"for 'sm_(\d+)'", block)
        if sm is None:
            raise ValueError(f"no SM given for {symbol}")
        matches = {name: re.search(pattern, block) for name, pattern in FIGURES.items()}
        if matches["registers"] is None:
            raise ValueError(f"no register count for {symbol}")
        found[symbol, int(sm[1])] = {name: int(m[1]) if m else 0 for name, m in matches.items()}
    return found


def problems(kernels: dict[str, dict[int, dict[str, int]]], sms: list[int]) -> list[str]:
    """Why the figures are not accepted: spills and stack frames are expected nowhere."""
    out = [] if kernels else ["no kernel was compiled"]
    for name, by_sm in kernels.items():
        if sorted(by_sm) != sorted(sms):
            out.append(f"{name}: compiled for {sorted(by_sm)}, not for {sorted(sms)}")
        for sm, figures in by_sm.items():
            for what in ("stores", "loads", "stack"):
                if figures[what]:
                    label = "stack frame" if what == "stack" else f"spill {what}"
                    out.append(f"{name}: {figures[what]} bytes of {label} on SM {sm}")
    return out


def table(kernels: dict[str, dict[int, dict[str, int]]], sms: list[int]) -> str:
    """The report without its head."""
    width = max(map(len, kernels), default=0) + 2
    heads = [*(f"SM {sm}" for sm in sms), "stack", "spill", "shared"]
    lines = [f"{'kernel':<{width}}" + "".join(f"{head:>8}" for head in heads)]
    for name, by_sm in sorted(kernels.items()):
        worst = lambda *what: max(sum(f[w] for w in what) for f in by_sm.values())
        registers = "".join(f"{by_sm[sm]['registers'] if sm in by_sm else '-':>8}" for sm in sms)
        lines.append(f"{name:<{width}}{registers}{worst('stack'):>8}{worst('stores', 'loads'):>8}{worst('shared'):>8}")
    return "\n".join(lines)


def main() -> int:
    root, requirements = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text()
    sms = [int(sm) for sm in sys.argv[3:]]
    compiler = re.search(r"nvidia-cuda-nvcc==(\S+)", requirements)[1]
    found = {}
    for log in sorted(root.glob("*.ptxas")):
        found.update(entries(log.read_text()))
    names = demangle(sorted({symbol for symbol, _ in found}))
    kernels: dict[str, dict[int, dict[str, int]]] = {}
    for (symbol, sm), figures in found.items():
        kernels.setdefault(names[symbol], {})[sm] = figures
    most = max((f["registers"] for by_sm in kernels.values() for f in by_sm.values()), default=0)
    print(f"Made by `make cubins` with nvcc {compiler}: registers a thread of every kernel on every SM; the largest")
    print("stack frame, spill (stores and loads) and static shared memory over the SMs, in bytes.")
    print(f"{len(kernels)} kernels, {len(found)} cubin entries, most registers: {most}.\n")
    print(table(kernels, sms))
    wrong = problems(kernels, sms)
    for text in wrong:
        print(f"ptxas_report.py: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
