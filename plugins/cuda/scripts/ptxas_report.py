#!/usr/bin/env python3
"""Turns the `-Xptxas -v` output of the cubins into one table: registers, spills, stack and static shared memory.

Usage: ptxas_report.py LOG_DIR REQUIREMENTS
"""

import pathlib
import re
import subprocess
import sys

TYPES = {"__nv_bfloat16": "bf16", "__half": "f16", "float": "f32"}


def demangle(symbol: str) -> str:
    """forkcast::tree_attention_kernel<float, 256>(...) -> tree_attention_kernel<f32, 256>"""
    text = subprocess.run(["c++filt", symbol], capture_output=True, text=True, check=True).stdout.strip()
    text = re.sub(r"^void ", "", text).split("(")[0].replace("forkcast::", "")
    for long, short in TYPES.items():
        text = text.replace(long, short)
    return text


def entries(log: str):
    """(symbol, SM, registers, stack, spill stores, spill loads, static shared) of every kernel of one log."""
    for block in log.split("Compiling entry function '")[1:]:
        number = lambda pattern: int(m.group(1)) if (m := re.search(pattern, block)) else 0
        yield (
            block.split("'")[0],
            number(r"for 'sm_(\d+)'"),
            number(r"Used (\d+) registers"),
            number(r"(\d+) bytes stack frame"),
            number(r"(\d+) bytes spill stores"),
            number(r"(\d+) bytes spill loads"),
            number(r"(\d+) bytes smem"),
        )


def main() -> None:
    root, requirements = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text()
    compiler = re.search(r"nvidia-cuda-nvcc==(\S+)", requirements).group(1)
    rows = []
    for log in sorted(root.glob("*.ptxas")):
        rows += [(demangle(symbol), *figures) for symbol, *figures in entries(log.read_text())]
    rows.sort()
    spilled = [r for r in rows if r[4] or r[5]]
    print(f"Made by `make cubins` with nvcc {compiler}. One line a kernel and SM; bytes unless said otherwise.")
    print(f"{len(rows)} kernels, {len(spilled)} with spills, most registers: {max(r[2] for r in rows)}.\n")
    print(f"{'kernel':<46}{'SM':>5}{'registers':>11}{'stack':>7}{'spill st':>10}{'spill ld':>10}{'shared':>8}")
    for name, sm, registers, stack, stores, loads, shared in rows:
        print(f"{name:<46}{sm:>5}{registers:>11}{stack:>7}{stores:>10}{loads:>10}{shared:>8}")


if __name__ == "__main__":
    main()
