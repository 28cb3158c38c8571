"""The DFlash / MFD drafter forward pass written plainly in float32: one block, no caches, one head at a time."""
import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tinynet import linear, mlp, rms_norm, rope, rope_tables, subset


class SlowDrafter:
    """A drafter folder of either generation (block_size and rope_theta at top level or nested)."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.config = c = json.loads((folder / "config.json").read_text())
        self.weights = {name: t.float() for name, t in load_file(folder / "model.safetensors").items()}
        nested = c.get("dflash_config", {})
        self.block = nested.get("block_size", c.get("block_size", 16))
        self.mask = nested.get("mask_token_id", c.get("mask_token_id"))
        self.taps = nested["target_layer_ids"]
        self.theta = c["rope_theta"] if "rope_theta" in c else c["rope_parameters"]["rope_theta"]
        self.eps, self.heads, self.kv_heads, self.dim = c["rms_norm_eps"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.mode_embed = self.weights.get("mode_embed", torch.zeros(1, c["hidden_size"]))

    def log_probs(self, features, anchor, embedding, head=None):
        """log q [modes, block - 1, V] of the tokens after the anchor."""
        hidden = self.hidden(features, anchor, embedding)
        return (hidden @ (embedding if head is None else head).t()).log_softmax(-1)

    @torch.no_grad()
    def hidden(self, features, anchor, embedding):
        """Final hidden states [modes, block - 1, H] of the block whose anchor follows the context features [c, taps * H]."""
        context = rms_norm(linear(self.weights, "fc", features.float()), self.weights["hidden_norm.weight"], self.eps)
        tokens = [anchor] + [self.mask] * (self.block - 1)
        return torch.stack([self._one_mode(context, embedding[tokens] + mode) for mode in self.mode_embed])

    def _one_mode(self, context, x):
        for i, kind in enumerate(self.config["layer_types"]):
            p = subset(self.weights, f"layers.{i}.")
            x = x + self._attention(subset(p, "self_attn."), rms_norm(x, p["input_layernorm.weight"], self.eps), context, kind)
            x = x + mlp(subset(p, "mlp."), rms_norm(x, p["post_attention_layernorm.weight"], self.eps))
        return rms_norm(x, self.weights["norm.weight"], self.eps)[1:]

    def visible(self, start, kind):
        """[block, start + block]: which keys (context, then block) each block row sees."""
        query = start + torch.arange(self.block)[:, None]
        key = torch.arange(start + self.block)[None]
        if kind == "full_attention":
            return torch.ones(self.block, start + self.block, dtype=torch.bool)
        return (key <= query) & (query - key < self.config["sliding_window"])

    def _attention(self, p, x, context, kind):
        start, d = len(context), self.dim
        cos, sin = rope_tables(torch.arange(start + self.block), d, self.theta)
        rows = torch.cat([context, x])                            # keys and values come from both; context skips input_layernorm
        q, k, v = linear(p, "q_proj", x), linear(p, "k_proj", rows), linear(p, "v_proj", rows)
        hidden, outputs = ~self.visible(start, kind), []
        for h in range(self.heads):
            g = h // (self.heads // self.kv_heads)
            q_h = rope(rms_norm(q[:, h * d:(h + 1) * d], p["q_norm.weight"], self.eps), cos[start:], sin[start:])
            k_h = rope(rms_norm(k[:, g * d:(g + 1) * d], p["k_norm.weight"], self.eps), cos, sin)
            scores = (q_h @ k_h.t() * d ** -0.5).masked_fill(hidden, float("-inf"))
            outputs.append(F.softmax(scores, -1) @ v[:, g * d:(g + 1) * d])
        return linear(p, "o_proj", torch.cat(outputs, -1))
