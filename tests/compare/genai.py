"""forkcast against OpenVINO GenAI and onnxruntime-genai: plain greedy decoding of the same dense Qwen3 checkpoints.

onnxruntime-genai: its own model builder makes the graph from the local folder. OpenVINO GenAI: its GGUF reader loads the checkpoint, with
weights in f16 (it refuses f32 ones) and arithmetic in f32. An engine that cannot is named with its reason.
"""
import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

from checkpoints import float_copy, small_pair, tiny_pair
from common import DATA, THREADS, bench, bundle, cannot, context, greedy, prompt_ids, rates, ratio, same, spread, stage_milliseconds, table
from gguf_file import gguf

STOPS = (2044, 2042)
SMALL_PROMPT = [1000 + 37 * i for i in range(16)]


class OrtGenai:
    """onnxruntime-genai, graph by its own builder."""

    name = "onnxruntime-genai, f32"

    def __init__(self, folder, label):
        import onnxruntime_genai as api
        self.api = api
        out = DATA / f"{label}-ortgenai"
        if not (out / "genai_config.json").is_file():
            shutil.rmtree(out, ignore_errors=True)
            # The builder prints to stdout, and is run apart so that torch's memory is returned.
            done = subprocess.run([sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(folder), "-o", str(out), "-p", "fp32",
                                   "-e", "cpu", "-c", str(DATA / "cache")], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                shutil.rmtree(out, ignore_errors=True)
                raise RuntimeError("its model builder: " + done.stderr.strip().splitlines()[-1])
            path = out / "genai_config.json"
            config = json.loads(path.read_text())
            config["model"]["decoder"].setdefault("session_options", {})["intra_op_num_threads"] = THREADS
            path.write_text(json.dumps(config, indent=1))
        self.model = api.Model(str(out))

    def decode(self, prompt, count):
        """(tokens, tokens per second after the first one)."""
        params = self.api.GeneratorParams(self.model)
        params.set_search_options(max_length=len(prompt) + count, do_sample=False)
        generator = self.api.Generator(self.model, params)
        generator.append_tokens(prompt)
        generator.generate_next_token()
        tokens, begin = [int(generator.get_next_tokens()[0])], time.perf_counter()
        while len(tokens) < count and not generator.is_done():
            generator.generate_next_token()
            tokens.append(int(generator.get_next_tokens()[0]))
        return tokens, (len(tokens) - 1) / (time.perf_counter() - begin)


class OpenVino:
    """OpenVINO GenAI, checkpoint by its GGUF reader."""

    name = "OpenVINO GenAI, f16 weights"

    def __init__(self, folder, label):
        import openvino_genai as api
        self.api = api
        path = gguf(folder, f"{label}-vocabulary", "f16", vocabulary=True)
        self.pipe = api.LLMPipeline(str(path), "CPU", INFERENCE_NUM_THREADS=THREADS, INFERENCE_PRECISION_HINT="f32", ATTENTION_BACKEND="SDPA")

    def decode(self, prompt, count):
        """(tokens, tokens per second after the first one, by its own metrics)."""
        import numpy as np
        import openvino as ov
        config = self.api.GenerationConfig(max_new_tokens=count, do_sample=False, apply_chat_template=False, ignore_eos=True)
        ids = np.array([prompt], np.int64)
        result = self.pipe.generate(self.api.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids))), config)
        return list(result.tokens[0]), 1e3 / result.perf_metrics.get_tpot().mean


def compare(label, pair, engine, args):
    """One row, and a note; a row without figures where the engine does not load the checkpoint."""
    target, drafter = pair
    prompt, tokens = (prompt_ids(target), args.tiny_tokens) if label == "tiny" else (SMALL_PROMPT, args.small_tokens)
    model = bundle(f"{label}-f32", target, drafter)
    try:
        folder = float_copy(target, f"{label}-float") if label == "tiny" else target
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            theirs = engine(folder, label)
        theirs.decode(prompt, 8)
    except Exception as error:  # noqa: BLE001 - whatever an engine raises is the reason that is reported
        return [label, engine.name, "does not run", "", "", "", str(error).strip().splitlines()[-1][:160]], None
    ours, other = [], []
    for _ in range(args.repeat):
        record = bench(model, [prompt], ["plain"], [1], tokens, 1, 1)
        ours += rates(record)["plain", 0]
        found, rate = theirs.decode(prompt, tokens)
        other.append(rate)
    words = same(greedy(model, prompt, tokens), found, STOPS) if label == "tiny" else "random weights, not compared"
    stages, _ = stage_milliseconds(record, "plain", 0)
    where = ", ".join(f"{k} {1e3 * v:.0f} us" for k, v in stages.items() if k not in ("prefill", "draft"))
    row = [label, engine.name, spread(other), spread(ours), ratio(ours, other), f"{max(ours) / max(other):.2f}", words]
    return row, f"{label}: a token of forkcast's plain: {where}"


def clear(label):
    """Removes what an engine made of a large checkpoint: about 6 GB."""
    shutil.rmtree(DATA / f"{label}-ortgenai", ignore_errors=True)
    shutil.rmtree(DATA / "cache", ignore_errors=True)
    (DATA / f"{label}-vocabulary-f16.gguf").unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tiny-tokens", type=int, default=128)
    parser.add_argument("--small-tokens", type=int, default=16)
    parser.add_argument("--models", default="tiny,small")
    args = parser.parse_args()
    rows, notes = [], {}
    for label in args.models.split(","):
        pair = tiny_pair() if label == "tiny" else small_pair()
        for engine in (OrtGenai, OpenVino):
            row, note = compare(label, pair, engine, args)
            rows.append(row)
            notes |= {label: note} if note else {}
        if label == "small":
            clear(label)
    if all(row[2] == "does not run" for row in rows):
        cannot("; ".join(f"{row[0]} {row[1]}: {row[-1]}" for row in rows))
    table(["model", "engine", "its plain, tokens/s", "forkcast plain, tokens/s", "forkcast / engine", "fastest / fastest", "tokens, or why not"], rows)
    print()
    for note in notes.values():
        print("* " + note)
    context(repeats=args.repeat)


if __name__ == "__main__":
    main()
