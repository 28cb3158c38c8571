"""Checkpoints that comparisons decode: the tiny dense pair in f32, and a random pair of the shape of Qwen3-0.6B."""
import json
import pathlib
import shutil
import struct

import numpy as np

from common import DATA, MODELS

# Shapes of the published dense 0.6B model; weights are random, so its text means nothing.
SMALL = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
         "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
         "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
         "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "hidden_act": "silu", "attention_bias": False,
         "attention_dropout": 0.0, "tie_word_embeddings": True, "use_sliding_window": False, "sliding_window": None,
         "max_window_layers": 28, "layer_types": ["full_attention"] * 28, "initializer_range": 0.02, "use_cache": True,
         "bos_token_id": 151643, "eos_token_id": 151645, "dtype": "float32"}
SMALL_DRAFTER = {**{k: v for k, v in SMALL.items() if k != "max_window_layers"}, "architectures": ["DFlashDraftModel"],
                 "num_hidden_layers": 3, "layer_types": ["full_attention"] * 3, "num_target_layers": 28, "block_size": 16,
                 "dflash_config": {"block_size": 16, "mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25]}}


def layer_shapes(config, prefix):
    """Names and shapes of one decoder layer's tensors."""
    h, i, d = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    return {f"{prefix}{name}.weight": shape for name, shape in {
        "input_layernorm": (h,), "post_attention_layernorm": (h,), "self_attn.q_norm": (d,), "self_attn.k_norm": (d,),
        "self_attn.q_proj": (q, h), "self_attn.k_proj": (kv, h), "self_attn.v_proj": (kv, h), "self_attn.o_proj": (h, q),
        "mlp.gate_proj": (i, h), "mlp.up_proj": (i, h), "mlp.down_proj": (h, i)}.items()}


def write_random(folder, config, shapes, seed):
    """A checkpoint of f32 tensors, normal with deviation 0.02 (norms 1), written tensor by tensor; whole or not at all."""
    header, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    with open(part / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            (np.ones(shape, np.float32) if len(shape) == 1 else rng.standard_normal(shape, np.float32) * 0.02).tofile(file)
    (part / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def small_pair():
    """(target, drafter) folders of the random 0.6B-shaped pair, made if they are not there (about 2.6 GB)."""
    target, drafter = DATA / "small", DATA / "small-dflash"
    if not target.is_dir():
        shapes = {"model.embed_tokens.weight": (SMALL["vocab_size"], SMALL["hidden_size"])}
        for i in range(SMALL["num_hidden_layers"]):
            shapes |= layer_shapes(SMALL, f"model.layers.{i}.")
        write_random(target, SMALL, shapes | {"model.norm.weight": (SMALL["hidden_size"],)}, 1)
        (target / "generation_config.json").write_text('{"eos_token_id": [151645, 151643]}\n')
    if not drafter.is_dir():
        h = SMALL["hidden_size"]
        shapes = {"fc.weight": (h, 4 * h), "hidden_norm.weight": (h,)}
        for i in range(SMALL_DRAFTER["num_hidden_layers"]):
            shapes |= layer_shapes(SMALL_DRAFTER, f"layers.{i}.")
        write_random(drafter, SMALL_DRAFTER, shapes | {"norm.weight": (h,)}, 2)
    return target, drafter


def tiny_pair():
    """(target, drafter) folders of the trained tiny dense pair."""
    return MODELS / "tiny-qwen3", MODELS / "tiny-qwen3-dflash-long"


def tensors(folder):
    """Tensors of a checkpoint as float32 arrays, one at a time: (name, array)."""
    path = pathlib.Path(folder) / "model.safetensors"
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        kind = {"F32": np.float32, "BF16": np.uint16}[entry["dtype"]]
        raw = np.memmap(path, kind, "r", 8 + size + begin, ((end - begin) // np.dtype(kind).itemsize,)).reshape(entry["shape"])
        yield name, raw if kind is np.float32 else (raw.astype(np.uint32) << 16).view(np.float32)


def float_copy(folder, name):
    """The same checkpoint with f32 weights under DATA, for engines that would otherwise compute in bf16."""
    out = DATA / name
    if not out.is_dir():
        from safetensors.numpy import save_file
        part = DATA / (name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(folder, part)
        save_file({key: np.ascontiguousarray(value) for key, value in tensors(folder)}, part / "model.safetensors", {"format": "pt"})
        config = json.loads((part / "config.json").read_text())
        (part / "config.json").write_text(json.dumps(config | {"dtype": "float32"}, indent=1))
        part.rename(out)
    return out


def stretched(folder, positions):
    """The same weights with a config that allows more positions: what long contexts cost, not what they say."""
    out = DATA / f"{folder.name}-{positions}"
    if not out.is_dir():
        part = out.with_name(out.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(folder, part)
        config = json.loads((part / "config.json").read_text())
        (part / "config.json").write_text(json.dumps(config | {"max_position_embeddings": positions}, indent=1))
        part.rename(out)
    return out
