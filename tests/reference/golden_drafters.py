"""Drafter goldens in float32 from slow_drafter.py, for the trained drafters and two random ones."""
import json

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
import golden_targets
from golden_weights import random_tensor
from slow_drafter import SlowDrafter

CONTEXT, TOP, FULL_ROWS = 40, 8, (0, 7, 14)
TRAINED = {"tiny-qwen3.5-dflash": "tiny-qwen3.5", "tiny-qwen3.5-mfd": "tiny-qwen3.5",
           "tiny-qwen3-dflash": "tiny-qwen3", "tiny-qwen3-mdraft": "tiny-qwen3"}
RANDOM_TARGET = "dense_untied_f32"
SHAPE = {"hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "vocab_size": golden_targets.VOCABULARY, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "attention_bias": False,
         "attention_dropout": 0.0, "hidden_act": "silu", "num_target_layers": 4, "eos_token_id": golden_targets.EOS, "dtype": "float32"}
RANDOM = {
    # as the first published drafters: every layer sees the whole block, no is_causal, block and theta at top level
    "drafter_first_generation": SHAPE | {
        "num_hidden_layers": 2, "layer_types": ["full_attention"] * 2, "sliding_window": None, "use_sliding_window": False, "rope_theta": 1000000,
        "rope_scaling": None, "tie_word_embeddings": False, "block_size": 16, "dflash_config": {"mask_token_id": 255, "target_layer_ids": [0, 2]}},
    # as the current ones, with modes, and a window shorter than the context so that it matters
    "drafter_second_generation": SHAPE | {
        "num_hidden_layers": 3, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"], "sliding_window": 24,
        "use_sliding_window": True, "tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0},
        "dflash_config": {"block_size": 16, "mask_token_id": 255, "target_layer_ids": [0, 1, 2]},
        "mfd_config": {"num_modes": 3, "mode_embed_rows": "all"}},
}


def random_weights(config, seed):
    """Every tensor of a drafter with this config, float32."""
    h, d, inner = config["hidden_size"], config["head_dim"], config["intermediate_size"]
    q, kv = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    layer = {"input_layernorm.weight": (h,), "post_attention_layernorm.weight": (h,), "self_attn.q_proj.weight": (q, h),
             "self_attn.k_proj.weight": (kv, h), "self_attn.v_proj.weight": (kv, h), "self_attn.o_proj.weight": (h, q),
             "self_attn.q_norm.weight": (d,), "self_attn.k_norm.weight": (d,), "mlp.gate_proj.weight": (inner, h),
             "mlp.up_proj.weight": (inner, h), "mlp.down_proj.weight": (h, inner)}
    shapes = {"fc.weight": (h, h * len(config["dflash_config"]["target_layer_ids"])), "hidden_norm.weight": (h,), "norm.weight": (h,)}
    shapes |= {f"layers.{i}.{name}": shape for i in range(config["num_hidden_layers"]) for name, shape in layer.items()}
    modes = config.get("mfd_config", {}).get("num_modes", 1)
    if modes > 1:
        shapes |= {"mode_embed": (modes, h), "mode_gate.weight": (modes, h)}
    tensors = {name: random_tensor(name, shape, seed, zero_centred=False) for name, shape in shapes.items()}
    if modes > 1:
        tensors["mode_embed"] *= 2.0
    return tensors


def write_random(folder, config, seed):
    folder.mkdir(parents=True, exist_ok=True)
    written = {"architectures": ["DFlashDraftModel"], "model_type": "qwen3"} | config
    (folder / "config.json").write_text(json.dumps(written, indent=2) + "\n")
    save_file(random_weights(config, seed), folder / "model.safetensors", {"format": "pt"})


def write_golden(path, drafter, features, anchor, embedding, head):
    hidden = drafter.hidden(features, anchor, embedding)
    logits = hidden @ head.t()
    top = logits.log_softmax(-1).topk(TOP, -1)
    tensors = {"context_taps": features, "anchor": torch.tensor([anchor]), "hidden": hidden, "top_ids": top.indices, "top_log_probs": top.values,
               "logit_rows": torch.tensor(FULL_ROWS), "logits": logits[0, list(FULL_ROWS)]}
    save_file({name: t.contiguous() for name, t in tensors.items()}, path)


@torch.no_grad()
def context_of(model, ids, taps):
    """Features [CONTEXT, taps * H] of the first CONTEXT ids, from transformers."""
    hidden = model(torch.tensor([ids[:CONTEXT]]), use_cache=False, output_hidden_states=True).hidden_states
    return torch.cat([hidden[layer + 1][0] for layer in taps], -1).float()


def make_trained(out, models):
    for name, target in TRAINED.items():
        if not (models / name).exists():
            print(f"{name}: no such checkpoint, skipped")
            continue
        model = AutoModelForCausalLM.from_pretrained(models / target, dtype=torch.float32).eval()
        message = json.loads((models / "prompts" / "prompts_c.jsonl").read_text().splitlines()[1])["messages"]
        ids = AutoTokenizer.from_pretrained(models / target).apply_chat_template(message, add_generation_prompt=True, return_dict=False)
        drafter, embedding = SlowDrafter(models / name), model.get_input_embeddings().weight.detach()
        write_golden(out / f"{name}.safetensors", drafter, context_of(model, ids, drafter.taps), ids[CONTEXT], embedding, embedding)
        print(f"{name}: modes {len(drafter.mode_embed)}")


def make_random(out):
    """Needs the golden of RANDOM_TARGET: its first ids and taps are the context, its embedding and head are used."""
    target = golden_targets.load(out / RANDOM_TARGET)
    with safe_open(out / RANDOM_TARGET / "golden.safetensors", "pt") as f:
        ids = f.get_tensor("input_ids").tolist()
    embedding, head = (m.weight.detach().float() for m in (target.get_input_embeddings(), target.get_output_embeddings()))
    for seed, (name, config) in enumerate(RANDOM.items(), 21):
        write_random(out / name, config, seed)
        drafter = SlowDrafter(out / name)
        write_golden(out / name / "golden.safetensors", drafter, context_of(target, ids, drafter.taps), ids[CONTEXT], embedding, head)
        print(f"{name}: modes {len(drafter.mode_embed)}")
