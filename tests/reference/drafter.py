"""The DFlash block drafter (z-lab tensor names) with a training forward over many anchor blocks at once.

slow_drafter.py has the plain form of the same mathematics, used for goldens.
"""
import json
import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tinynet import rms_norm, rope, rope_tables

BLOCK, MASK = 16, 2047


def make_config(target_config, taps, modes=1, dtype="bfloat16"):
    """config.json of a tiny drafter for the target with the given tapped layers."""
    config = {
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3",
        "hidden_size": target_config["hidden_size"], "intermediate_size": 448, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
        "vocab_size": target_config["vocab_size"], "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "rope_theta": 10000.0,
        "attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu",
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "sliding_window": 128, "use_sliding_window": True, "tie_word_embeddings": True,
        "num_target_layers": target_config["num_hidden_layers"], "eos_token_id": 2042, "dtype": dtype,
        "block_size": BLOCK,
        "dflash_config": {"block_size": BLOCK, "mask_token_id": MASK, "target_layer_ids": list(taps)},
    }
    if modes > 1:
        config["mfd_config"] = {"num_modes": modes, "mode_embed_rows": "all", "mode_gate_input": "last_context_feature",
                                "dpace_alpha": 0.5, "winner_weight": 0.9, "gate_weight": 0.1}
    return config


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden, d = c["hidden_size"], c["head_dim"]
        self.q_proj = nn.Linear(hidden, c["num_attention_heads"] * d, bias=False)
        self.k_proj = nn.Linear(hidden, c["num_key_value_heads"] * d, bias=False)
        self.v_proj = nn.Linear(hidden, c["num_key_value_heads"] * d, bias=False)
        self.o_proj = nn.Linear(c["num_attention_heads"] * d, hidden, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(d), nn.RMSNorm(d)


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden, inner = c["hidden_size"], c["intermediate_size"]
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(c["hidden_size"])
        self.post_attention_layernorm = nn.RMSNorm(c["hidden_size"])
        self.self_attn, self.mlp = Attention(c), Mlp(c)


class Geometry:
    """Rotary tables and visibility of one batch of blocks; shared by all layers."""

    def __init__(self, c, length, anchors):
        cos, sin = rope_tables(torch.arange(length + BLOCK), c["head_dim"], c["rope_theta"])
        self.context_rope = cos[:length], sin[:length]
        rows = anchors[:, :, None] + torch.arange(BLOCK)                               # [S, N, 16]
        self.block_rope = cos[rows][:, :, None, None], sin[rows][:, :, None, None]     # [S, N, 1, 1, 16, d]
        keys = torch.arange(length)
        before = (keys < anchors[:, :, None])[:, :, None, :].expand(*anchors.shape, BLOCK, length)
        within = before & (rows[..., None] - keys < c["sliding_window"])
        causal = torch.ones(BLOCK, BLOCK, dtype=torch.bool).tril()
        self.visible = {"sliding_attention": (within, causal), "full_attention": (before, torch.ones_like(causal))}


class Drafter(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        hidden = config["hidden_size"]
        self.fc = nn.Linear(hidden * len(config["dflash_config"]["target_layer_ids"]), hidden, bias=False)
        self.hidden_norm, self.norm = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        for p in self.parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.03)
        self.modes = config.get("mfd_config", {}).get("num_modes", 1)
        if self.modes > 1:
            self.mode_embed = nn.Parameter(torch.zeros(self.modes, hidden))
            self.mode_gate = nn.Linear(hidden, self.modes, bias=False)

    def forward(self, embedding, features, tokens, anchors, mode_index=None):
        """Draft the blocks that start at anchors [S, N] of tokens [S, T].

        embedding [V, H] (frozen), features [S, T, taps * H]; mode_index [S, N, M] picks modes, None runs all.
        Returns hidden states [S, N, M, 15, H] after the final norm, and the context features [S, T, H].
        """
        c = self.config
        context = rms_norm(self.fc(features), self.hidden_norm.weight, c["rms_norm_eps"])
        x = embedding[MASK].expand(*anchors.shape, BLOCK, -1).clone()
        x[:, :, 0] = embedding[tokens.gather(1, anchors)]
        x = x[:, :, None]
        if self.modes > 1:
            x = x + (self.mode_embed if mode_index is None else self.mode_embed[mode_index])[..., None, :]
        x = x.contiguous()
        geometry = Geometry(c, features.shape[1], anchors)
        for kind, layer in zip(c["layer_types"], self.layers):
            x = x + self._attend(layer.self_attn, rms_norm(x, layer.input_layernorm.weight, c["rms_norm_eps"]), context, geometry, kind)
            x = x + layer.mlp(rms_norm(x, layer.post_attention_layernorm.weight, c["rms_norm_eps"]))
        return rms_norm(x[:, :, :, 1:], self.norm.weight, c["rms_norm_eps"]), context

    def _attend(self, a, x, context, geometry, kind):
        """Block rows x [S, N, M, 16, H] attend to context rows before their anchor and to their own block."""
        c = self.config
        S, N, M = x.shape[:3]
        T, nh, nkv, d, eps = context.shape[1], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], c["rms_norm_eps"]
        group = nh // nkv
        q = rope(rms_norm(a.q_proj(x).view(S, N, M, BLOCK, nh, d), a.q_norm.weight, eps).transpose(3, 4), *geometry.block_rope)
        k_own = rope(rms_norm(a.k_proj(x).view(S, N, M, BLOCK, nkv, d), a.k_norm.weight, eps).transpose(3, 4), *geometry.block_rope)
        v_own = a.v_proj(x).view(S, N, M, BLOCK, nkv, d).transpose(3, 4)
        k_ctx = rope(rms_norm(a.k_proj(context).view(S, T, nkv, d), a.k_norm.weight, eps).transpose(1, 2), *geometry.context_rope)
        v_ctx = a.v_proj(context).view(S, T, nkv, d).transpose(1, 2)

        before, own = geometry.visible[kind]
        q = q.view(S, N, M, nkv, group, BLOCK, d)
        per_head = q.permute(0, 3, 1, 2, 4, 5, 6).reshape(S, nkv, -1, d)
        s_ctx = (per_head @ k_ctx.transpose(2, 3)).view(S, nkv, N, M, group, BLOCK, T).permute(0, 2, 3, 1, 4, 5, 6)
        s_ctx = s_ctx.masked_fill(~before[:, :, None, None, None], float("-inf"))
        s_own = (q.reshape(S, N, M, nkv, group * BLOCK, d) @ k_own.transpose(-1, -2)).view(S, N, M, nkv, group, BLOCK, BLOCK)
        s_own = s_own.masked_fill(~own, float("-inf"))
        p_ctx, p_own = (torch.cat([s_ctx, s_own], -1) * d ** -0.5).softmax(-1).split([T, BLOCK], -1)
        o = (p_ctx.permute(0, 3, 1, 2, 4, 5, 6).reshape(S, nkv, -1, T) @ v_ctx).view(S, nkv, N, M, group, BLOCK, d).permute(0, 2, 3, 1, 4, 5, 6)
        o = o + (p_own.reshape(S, N, M, nkv, group * BLOCK, BLOCK) @ v_own).view(S, N, M, nkv, group, BLOCK, d)
        return a.o_proj(o.permute(0, 1, 2, 5, 3, 4, 6).reshape(S, N, M, BLOCK, nh * d))


def load_weights(drafter, folder):
    """Start from a saved drafter; tensors it lacks (mode_*) keep their initial values. Returns the names it had."""
    tensors = load_file(pathlib.Path(folder) / "model.safetensors")
    drafter.load_state_dict({name: t.float() for name, t in tensors.items()}, strict=False)
    return set(tensors)


def save_drafter(drafter, folder):
    """Write config.json and model.safetensors in the dtype that the config names."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    dtype = getattr(torch, drafter.config["dtype"])
    tensors = {name: t.detach().to(dtype).contiguous() for name, t in drafter.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(drafter.config, indent=2))
