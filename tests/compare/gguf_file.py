"""A dense Qwen3 checkpoint as a GGUF file; without a vocabulary unless asked: token ids in, logits out."""
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


def invent_vocabulary(writer, gguf, config):
    """A vocabulary of the right size for a model without one: for readers that refuse a file without it."""
    count = config["vocab_size"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(["a", "b", "ab"] + [f"t{i}" for i in range(3, count)])
    writer.add_token_types([gguf.TokenType.NORMAL] * count)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(count - 1)
    writer.add_bos_token_id(count - 1)
    writer.add_pad_token_id(count - 1)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{{ messages[0].content }}")


def add_vocabulary(writer, gguf, folder):
    """Byte-level BPE of tokenizer.json: readers that want text need it, token ids alone do not."""
    if not (folder / "tokenizer.json").is_file():
        invent_vocabulary(writer, gguf, json.loads((folder / "config.json").read_text()))
        return
    parts = json.loads((folder / "tokenizer.json").read_text())
    special = {token["id"]: token["content"] for token in parts["added_tokens"]}
    tokens = {number: token for token, number in parts["model"]["vocab"].items()} | special
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([tokens[i] for i in range(len(tokens))])
    writer.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(len(tokens))])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in parts["model"]["merges"]])
    end = json.loads((folder / "config.json").read_text())["eos_token_id"]
    writer.add_eos_token_id(end)
    writer.add_bos_token_id(end)
    writer.add_pad_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_chat_template((folder / "chat_template.jinja").read_text())


def convert(folder, out, kind, vocabulary=False):
    """Writes `out` with matrices as `f32`, `f16` or `q8_0`; norms stay f32."""
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
    types = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
    writer.add_file_type(types[kind])
    writer.add_vocab_size(config["vocab_size"])
    if vocabulary:
        add_vocabulary(writer, gguf, pathlib.Path(folder))
    else:
        writer.add_tokenizer_model("none")
    eight = gguf.GGMLQuantizationType.Q8_0
    for name, array in tensors(folder):
        if kind == "q8_0" and array.ndim == 2:
            writer.add_tensor(gguf_name(name), gguf.quants.quantize(np.ascontiguousarray(array), eight), raw_dtype=eight)
        elif kind == "f16" and array.ndim == 2:
            writer.add_tensor(gguf_name(name), array.astype(np.float16))
        else:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(array, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.rename(out)


def gguf(folder, name, kind, vocabulary=False):
    """DATA/name-kind.gguf, converted if it is not there."""
    out = DATA / f"{name}-{kind}.gguf"
    if not out.is_file():
        DATA.mkdir(parents=True, exist_ok=True)
        convert(folder, out, kind, vocabulary)
    return out
