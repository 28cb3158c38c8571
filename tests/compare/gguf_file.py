"""A dense Qwen3 checkpoint as a GGUF file, without a vocabulary: token ids in, logits out."""
import json
import pathlib

import numpy as np

from checkpoints import tensors
from common import DATA, need

LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    """`blk.3.attn_q.weight` for `model.layers.3.self_attn.q_proj.weight`."""
    stem = name.removesuffix(".weight")
    if stem in OUTER:
        return OUTER[stem] + ".weight"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{LAYER[rest]}.weight"


def convert(folder, out, kind):
    """Writes `out` with matrices as `f32` or `q8_0`; norms stay f32."""
    gguf = need("gguf")
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    part = out.with_name(out.name + ".part")
    writer = gguf.GGUFWriter(str(part), "qwen3")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    eight = gguf.GGMLQuantizationType.Q8_0
    for name, array in tensors(folder):
        if kind == "q8_0" and array.ndim == 2:
            writer.add_tensor(gguf_name(name), gguf.quants.quantize(np.ascontiguousarray(array), eight), raw_dtype=eight)
        else:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(array, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.rename(out)


def gguf(folder, name, kind):
    """DATA/name-kind.gguf, converted if it is not there."""
    out = DATA / f"{name}-{kind}.gguf"
    if not out.is_file():
        DATA.mkdir(parents=True, exist_ok=True)
        convert(folder, out, kind)
    return out
