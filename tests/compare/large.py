"""A Qwen3.5-4B-shaped bundle in 4 bits on this host: export, load against reading the files, tokens per second, peak memory.

The checkpoint is made of holes (all zeros), so it takes no room on disk and its text means nothing; a dense product does the same work on
zeros, but pages that were never written are read faster than a disk reads: `--target` takes a real checkpoint instead.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from common import BINARY, DATA, ROOT, THREADS, cannot, context, median, spread, table


def run(args):
    """Runs a command; returns (seconds, peak resident bytes, what it printed)."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.perf_counter()
        child = subprocess.Popen(list(map(str, args)), stdout=out, stderr=err, cwd=ROOT)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode != 0:
            raise RuntimeError(f"{args[0]}: exit {child.returncode}: {err.read().decode().strip()}")
        return seconds, usage.ru_maxrss * 1024, out.read().decode()


def files(bundle):
    """Files of weights of a bundle."""
    return sorted(bundle.glob("*.weights"))


def evict(bundle):
    """Asks the system to forget the cached pages of a bundle's weights."""
    for path in files(bundle):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(bundle):
    """Seconds of reading every byte of the weights, 8 MiB at a time."""
    buffer = bytearray(8 << 20)
    begin = time.perf_counter()
    for path in files(bundle):
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return time.perf_counter() - begin


def main():
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", help="a real checkpoint instead of one of zeros")
    parser.add_argument("--dtype", default="int4")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="do not delete checkpoint and bundle")
    args = parser.parse_args()
    if not BINARY.is_file():
        cannot(f"{BINARY.name} is not built: cargo build --release -p forkcast --bin forkcast")
    DATA.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(DATA).free < 8 << 30:
        cannot("less than 8 GB of disk are free")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="large-", dir=DATA))
    try:
        measure(args, folder)
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)


def measure(args, folder):
    """One export, then loads and answers in turns."""
    target, bundle = args.target, folder / "bundle"
    if target is None:
        target = folder / "checkpoint"
        run(["cargo", "run", "-q", "--release", "--locked", "-p", "forkcast-exporter", "--example", "sparse_checkpoint", "--", "qwen3.5-4b", target])
    exported, export_peak, _ = run([BINARY, "export", "--target", target, "--dtype", args.dtype, "--out", bundle])
    size = sum(path.stat().st_size for path in files(bundle))
    reads, starts, warm, rates, peaks = [], [], [], [], []
    for _ in range(args.repeat):
        evict(bundle)
        reads.append(read(bundle))
        evict(bundle)
        ids = ["--ids", "1,2,3,4,5,6,7,8", "--threads", THREADS, "--json"]
        starts.append(run([BINARY, "generate", bundle, "--max-tokens", 1, *ids])[0])
        warm.append(run([BINARY, "generate", bundle, "--max-tokens", 1, *ids])[0])
        _, peak, text = run([BINARY, "generate", bundle, "--method", "plain", "--max-tokens", args.tokens, *ids])
        rates.append(json.loads(text)["tokens_per_second"])
        peaks.append(peak)
        print(f"read {reads[-1]:.2f} s, start {starts[-1]:.2f} s, {rates[-1]:.2f} tokens/s", file=sys.stderr)
    gigabytes = 1e9
    table(["what", "seen"], [
        ["weights of the bundle", f"{size / gigabytes:.2f} GB"],
        ["export", f"{exported:.1f} s, peak {export_peak / 1e6:.0f} MB"],
        ["reading the weights, not cached", f"{spread(reads, 2)} s"],
        ["start to first token (8-token prompt), not cached", f"{spread(starts, 2)} s"],
        ["the same, cached", f"{spread(warm, 2)} s"],
        ["start / reading", f"{median(starts) / median(reads):.2f}"],
        ["plain decoding", f"{spread(rates, 2)} tokens/s"],
        ["peak memory, mapped weights included", f"{max(peaks) / gigabytes:.2f} GB"],
    ])
    context()


if __name__ == "__main__":
    main()
