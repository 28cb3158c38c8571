"""Random target checkpoints of several layouts, and what transformers computes for them in float64."""
import json

import torch
from safetensors.torch import save_file
from transformers import (AutoConfig, Qwen3_5Config, Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration,
                          Qwen3_5TextConfig, Qwen3Config, Qwen3ForCausalLM)
import double
from golden_weights import random_tensor, randomise

TOKENS = 300
STORED_ROWS = (0, 1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 191, 192, 255, 256, 298, 299)
F32_NAMES = ("linear_attn.A_log", "linear_attn.norm.weight")
VOCABULARY, EOS = 256, 250


def hybrid_config(layers, key_heads, value_heads, tied, value_dim=16):
    """Text config with rotary on 4 of 16 dims; `layers` is a string of L (linear) and F (full attention)."""
    names = {"L": "linear_attention", "F": "full_attention"}
    return Qwen3_5TextConfig(
        vocab_size=VOCABULARY, hidden_size=48, intermediate_size=96, num_hidden_layers=len(layers),
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, linear_num_key_heads=key_heads,
        linear_num_value_heads=value_heads, linear_key_head_dim=16, linear_value_head_dim=value_dim,
        layer_types=[names[x] for x in layers], tie_word_embeddings=tied, max_position_embeddings=4096, eos_token_id=EOS,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000_000.0, "partial_rotary_factor": 0.25,
                         "mrope_section": [1, 1, 0], "mrope_interleaved": True})


def dense_config(tied, theta):
    return Qwen3Config(vocab_size=VOCABULARY, hidden_size=48, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
                       num_key_value_heads=2, head_dim=32, tie_word_embeddings=tied, max_position_embeddings=4096, eos_token_id=EOS,
                       rope_parameters={"rope_type": "default", "rope_theta": theta})


def stored(model, dtype, f32_names=()):
    """The state dict in its on-disk dtypes, without a tied head."""
    tied = model.config.tie_word_embeddings
    return {name: t.detach().to(torch.float32 if name.endswith(f32_names) and f32_names else dtype).contiguous()
            for name, t in model.state_dict().items() if not (tied and name == "lm_head.weight")}


def write_config(folder, config, architecture, stored_dtype, **changes):
    """config.json as save_pretrained writes it, then `changes` (None as value removes a key)."""
    data = config.to_diff_dict() | {"model_type": config.model_type, "architectures": [architecture], "dtype": stored_dtype,
                                    "tie_word_embeddings": config.tie_word_embeddings} | changes
    data = {k: v for k, v in data.items() if v is not None}
    (folder / "config.json").write_text(json.dumps(data, indent=2) + "\n")


def write_hybrid(folder, seed, layers, key_heads, value_heads, tied, dtype, mixed=False, value_dim=16, **changes):
    """A text-only Qwen3.5 checkpoint; mixed keeps A_log and linear_attn.norm in F32 as the published files do.

    `changes` go into config.json: layer_types=None leaves the pattern to the default interval of 4.
    """
    config = hybrid_config(layers, key_heads, value_heads, tied, value_dim)
    model = Qwen3_5ForCausalLM(config)
    randomise(model, seed, zero_centred=True)
    save_file(stored(model, getattr(torch, dtype), F32_NAMES if mixed else ()), folder / "model.safetensors", {"format": "pt"})
    write_config(folder, config, "Qwen3_5ForCausalLM", dtype, **changes)


def write_dense(folder, seed, tied, dtype, flat_rope):
    """A Qwen3 checkpoint; flat_rope writes the rope fields of the published 2025 files."""
    config = dense_config(tied, 1_000_000.0)
    model = Qwen3ForCausalLM(config)
    randomise(model, seed, zero_centred=False)
    save_file(stored(model, getattr(torch, dtype)), folder / "model.safetensors", {"format": "pt"})
    old = dict(rope_parameters=None, layer_types=None, dtype=None, torch_dtype=dtype, rope_theta=1000000,
               sliding_window=None, use_sliding_window=False, max_window_layers=4, transformers_version="4.51.0")
    write_config(folder, config, "Qwen3ForCausalLM", dtype, **(old if flat_rope else {}))
    if flat_rope:
        data = json.loads((folder / "config.json").read_text()) | {"rope_scaling": None, "sliding_window": None}
        (folder / "config.json").write_text(json.dumps(data, indent=2) + "\n")


def mtp_tensors(text, seed):
    """The multi-token-prediction head of a published file: named like one full-attention layer, ignored by transformers."""
    h, d, inner = text.hidden_size, text.head_dim, text.intermediate_size
    q, kv = text.num_attention_heads * d, text.num_key_value_heads * d
    shapes = {"fc.weight": (h, 2 * h), "norm.weight": (h,), "pre_fc_norm_embedding.weight": (h,), "pre_fc_norm_hidden.weight": (h,)}
    layer = {"self_attn.q_proj.weight": (2 * q, h), "self_attn.k_proj.weight": (kv, h), "self_attn.v_proj.weight": (kv, h),
             "self_attn.o_proj.weight": (h, q), "self_attn.q_norm.weight": (d,), "self_attn.k_norm.weight": (d,),
             "mlp.gate_proj.weight": (inner, h), "mlp.up_proj.weight": (inner, h), "mlp.down_proj.weight": (h, inner),
             "input_layernorm.weight": (h,), "post_attention_layernorm.weight": (h,)}
    shapes |= {f"layers.0.{name}": shape for name, shape in layer.items()}
    return {f"mtp.{name}": random_tensor(f"mtp.{name}", shape, seed, True) for name, shape in shapes.items()}


def write_composite(folder, seed):
    """The published Qwen3.5 layout: nested text config, vision and MTP weights, two oddly named shards with an index."""
    text = hybrid_config("LLLF" * 2, 2, 4, True)
    vision = dict(depth=1, hidden_size=16, intermediate_size=32, num_heads=2, patch_size=4, out_hidden_size=48, num_position_embeddings=16)
    config = Qwen3_5Config(text_config=text.to_dict(), vision_config=vision, tie_word_embeddings=True, image_token_id=254,
                           video_token_id=253, vision_start_token_id=251, vision_end_token_id=252)
    model = Qwen3_5ForConditionalGeneration(config)
    randomise(model, seed, zero_centred=True)
    tensors = stored(model, torch.bfloat16, F32_NAMES) | {n: t.to(torch.bfloat16) for n, t in mtp_tensors(text, seed).items()}
    names = sorted(tensors)
    shards = {"model.safetensors-00001-of-00002.safetensors": names[::2], "model.safetensors-00002-of-00002.safetensors": names[1::2]}
    for shard, members in shards.items():
        save_file({n: tensors[n] for n in members}, folder / shard, {"format": "pt"})
    index = {"metadata": {"total_size": sum(t.numel() * t.element_size() for t in tensors.values())},
             "weight_map": {n: shard for shard, members in shards.items() for n in members}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
    inner = text.to_diff_dict() | {"model_type": "qwen3_5_text", "dtype": "bfloat16", "tie_word_embeddings": True, "full_attention_interval": 4, "attn_output_gate": True, "mamba_ssm_dtype": "float32",
                              "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False, "mlp_only_layers": []}
    outer = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "tie_word_embeddings": True, "image_token_id": 254,
             "video_token_id": 253, "vision_start_token_id": 251, "vision_end_token_id": 252, "transformers_version": "4.57.0.dev0",
             "text_config": inner, "vision_config": vision | {"model_type": "qwen3_5"}}
    (folder / "config.json").write_text(json.dumps(outer, indent=2) + "\n")


def load(folder):
    """The checkpoint as transformers reads it, in float64 arithmetic."""
    return double.load(folder, AutoConfig.from_pretrained(folder).architectures[0])


@torch.no_grad()
def golden(folder, taps, seed):
    """One full pass over TOKENS random ids: the tensors described in ../golden/README.md."""
    model = load(folder)
    text = model.config.get_text_config()
    ids = torch.randint(0, EOS, (1, TOKENS), generator=torch.Generator().manual_seed(seed))
    out = model(ids, use_cache=True, output_hidden_states=True)
    logits, rows = out.logits[0], torch.tensor(STORED_ROWS)
    top = logits.topk(2, -1).values
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers
    linear = [i for i, kind in enumerate(kinds) if kind == "linear_attention"]
    full = kinds.index("full_attention")
    tensors = {
        "input_ids": ids[0], "logit_rows": rows, "logits": logits[rows], "argmax": logits.argmax(-1), "top2_gap": top[:, 0] - top[:, 1],
        "logsumexp": logits.logsumexp(-1), "hidden": out.hidden_states[-1][0],
        "tap_layers": torch.tensor(taps), "taps": torch.stack([out.hidden_states[layer + 1][0][rows] for layer in taps], 1),
        "kv_layer": torch.tensor([full]), "kv_k": out.cache.layers[full].keys[0].transpose(0, 1), "kv_v": out.cache.layers[full].values[0].transpose(0, 1),
    }
    if linear:
        tensors["linear_layers"] = torch.tensor(linear)
        tensors["recurrent_state"] = torch.stack([out.cache.layers[i].recurrent_states[0][0] for i in linear])
        tensors["conv_state"] = torch.stack([out.cache.layers[i].conv_states[0][0, :, -3:].t() for i in linear])
    tensors = {name: (t.float() if t.is_floating_point() else t).contiguous() for name, t in tensors.items()}
    save_file(tensors, folder / "golden.safetensors")
    return logits.abs().max().item()


CASES = {
    "hybrid_ratio1_untied_f32": (write_hybrid, dict(seed=11, layers="LLLF", key_heads=2, value_heads=2, tied=False, dtype="float32", layer_types=None), [0, 1, 2]),
    "hybrid_ratio2_tied_mixed": (write_hybrid, dict(seed=12, layers="LLLF" * 2, key_heads=2, value_heads=4, tied=True, dtype="bfloat16", mixed=True), [1, 3, 6]),
    "hybrid_ratio3_untied_bf16": (write_hybrid, dict(seed=13, layers="LLLFLF", key_heads=1, value_heads=3, tied=False, dtype="bfloat16", value_dim=32), [0, 3, 4]),
    "hybrid_composite_mixed": (write_composite, dict(seed=14), [1, 4, 6]),
    "dense_untied_f32": (write_dense, dict(seed=15, tied=False, dtype="float32", flat_rope=False), [0, 1, 2]),
    "dense_tied_bf16_flat": (write_dense, dict(seed=16, tied=True, dtype="bfloat16", flat_rope=True), [0, 1, 2]),
}


def make(out):
    """Write every checkpoint and its golden below `out`."""
    for name, (write, arguments, taps) in CASES.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, **arguments)
        print(f"{name}: logits up to {golden(folder, taps, arguments['seed']):.2f}")
