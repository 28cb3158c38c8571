#!/usr/bin/env python3
"""Checks a bundle that was exported with --copy-weights, without any of forkcast's own code.

    onnx_check.py BUNDLE [--target GOLDEN] [--drafter GOLDEN]

Every graph must pass the ONNX checker and strict shape inference. Graphs of f32 and f16 bundles must
also load in plain ONNX Runtime, which inlines the function bodies of the custom operators. For f32 bundles
a golden file (see golden/README.md) is compared with what the graphs compute: the target over its tokens in
several chunks, with a commit after each, the drafter over its context and one block.
Needs numpy, onnx and onnxruntime only. Exit code 1 when something is off.
"""

import argparse
import json
import struct
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

TYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}
NUMPY = {"f32": np.float32, "f16": np.float16}
PADDING = 5  # rows of garbage behind the committed ones: a graph must not read them


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    body = data[8 + length :]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            array = np.frombuffer(body[start:end], TYPES[entry["dtype"]])
            tensors[name] = array.reshape(entry["shape"])
    return tensors


class Bundle:
    """Sessions of a bundle and the state of one stream."""

    def __init__(self, folder):
        self.folder = folder
        self.manifest = json.loads((folder / "manifest.json").read_text())
        self.dtype = NUMPY[self.manifest["dtype"]]
        self.sessions = {
            stage: onnxruntime.InferenceSession(str(folder / graph["file"]), providers=["CPUExecutionProvider"])
            for stage, graph in self.manifest["graphs"].items()
        }
        table = self.manifest["embedding"]
        count = table["shape"][0] * table["shape"][1]
        flat = np.fromfile(folder / table["file"], self.dtype, count=count, offset=table["offset"])
        self.embedding = flat.reshape(table["shape"])
        self.reset()

    def reset(self):
        self.committed = 0
        self.state = {}
        for i, layer in enumerate(self.manifest["target"]["layers"]):
            if attention := layer.get("attention"):
                empty = np.zeros((0, attention["kv_heads"], attention["head_dim"]), self.dtype)
                self.state[f"past_k.{i}"] = self.state[f"past_v.{i}"] = empty
            else:
                d = layer["delta_net"]
                values = d["value_heads"] * d["value_dim"]
                channels = 2 * d["key_heads"] * d["key_dim"] + values
                self.state[f"conv.{i}"] = np.zeros((d["kernel"] - 1, channels), self.dtype)
                shape = (d["value_heads"], d["key_dim"], d["value_dim"])
                self.state[f"state.{i}"] = np.zeros(shape, np.float32)

    def run(self, stage, values):
        session = self.sessions[stage]
        feeds = {i.name: values[i.name] for i in session.get_inputs()}
        return dict(zip((o.name for o in session.get_outputs()), session.run(None, feeds)))

    def padded(self, rows):
        return np.concatenate([rows, np.full((PADDING, *rows.shape[1:]), 7, rows.dtype)])

    def chunk(self, ids):
        """Runs a chain of tokens and commits all of it."""
        rows = np.arange(len(ids))
        values = {n: self.padded(v) if n.startswith("past_") else v for n, v in self.state.items()}
        values |= {
            "x": self.embedding[ids],
            "positions": self.committed + rows,
            "ancestors": np.tril(np.ones((len(ids), len(ids)), bool)),
            "past_len": np.array([self.committed]),
            "path": rows,
        }
        out = self.run("target", values)
        for name in list(self.state):
            if name.startswith("past_"):
                self.state[name] = np.concatenate([self.state[name], out[name[len("past_") :]]])
        if "commit" in self.sessions:
            for name, value in self.run("commit", values | out).items():
                self.state[name[len("new_") :]] = value
        self.committed += len(ids)
        return out

    def prefill(self, ids, chunks):
        self.reset()
        parts = [self.chunk(part) for part in np.split(ids, chunks)]
        return {name: np.concatenate([p[name] for p in parts]) for name in ("hidden", "taps") if name in parts[0]}

    def logits(self, hidden):
        return self.run("head", {"hidden": hidden})["logits"]


class Report:
    failed = False

    def check(self, what, error, bound):
        ok = error <= bound
        self.failed |= not ok
        print(f"{'ok  ' if ok else 'FAIL'} {what}: {error:.1e} (bound {bound:.0e})")

    def compare(self, what, ours, golden, bound):
        self.check(what, float(np.abs(ours - golden).max()), bound)


def check_files(bundle, manifest):
    for stage, graph in manifest["graphs"].items():
        path = str(bundle / graph["file"])
        onnx.checker.check_model(path, full_check=True)
        model = onnx.load(path, load_external_data=False)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        print(f"ok   {stage}: {len(model.graph.node)} nodes pass the checker")


def check_target(bundle, golden, report):
    """Goldens of a whole checkpoint (`input_ids`) or of trained targets (`a.ids`, `c.ids`, `e.ids`)."""
    for case in ("", "a.", "c.", "e."):
        ids = golden.get(f"{case}ids" if case else "input_ids")
        if ids is None:
            continue
        rows = golden[f"{case}logit_rows"]
        # Up to 64 rows in one pass: longer chains lose precision in the delta rule's body by design.
        for chunks in (range(64, len(ids), 64), [1, 8, 9, 25]):
            out = bundle.prefill(ids, list(chunks))
            name = f"target {case}{len(ids)} tokens in {len(chunks) + 1} chunks"
            hidden = out["hidden"][rows] if case else out["hidden"]
            scale = max(1.0, float(np.abs(golden[f"{case}hidden"]).max()))
            report.compare(f"{name}, hidden", hidden, golden[f"{case}hidden"], 2e-4 * scale)
            logits = bundle.logits(out["hidden"][rows])
            report.compare(f"{name}, logits", logits, golden[f"{case}logits"], 1e-3)


def check_drafter(bundle, golden, report):
    drafter = bundle.manifest["drafter"]
    taps = golden["context_taps"]
    context = bundle.run("context", {"taps": taps, "positions": np.arange(len(taps))})
    ids = [int(golden["anchor"][0])] + [drafter["mask_id"]] * (drafter["block"] - 1)
    values = {f"past_{name}": bundle.padded(rows) for name, rows in context.items()}
    values |= {
        "block": bundle.embedding[ids],
        "positions": len(taps) + np.arange(drafter["block"]),
        "past_len": np.array([len(taps)]),
    }
    hidden = bundle.run("draft", values)["hidden"]
    report.compare("drafter, hidden", hidden.reshape(golden["hidden"].shape), golden["hidden"], 1e-4)
    logits = bundle.logits(hidden[golden["logit_rows"]])
    report.compare("drafter, logits", logits, golden["logits"], 1e-3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--drafter", type=Path)
    options = parser.parse_args()
    report = Report()
    manifest = json.loads((options.bundle / "manifest.json").read_text())
    check_files(options.bundle, manifest)
    if manifest["dtype"] in NUMPY:
        bundle = Bundle(options.bundle)
        out = bundle.chunk(np.array([1, 2, 3]))
        report.check("three rows give finite numbers", 0.0 if np.isfinite(out["hidden"]).all() else 1.0, 0.0)
        if options.target:
            check_target(bundle, read_safetensors(options.target), report)
        if options.drafter:
            check_drafter(bundle, read_safetensors(options.drafter), report)
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
