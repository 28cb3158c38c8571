"""One-token steps of a tiny target over many independent sequences at once, each with its own exact state."""
import torch
import torch.nn.functional as F
from tinynet import is_hybrid, l2_normalise, layer_norm, linear, mlp, model_rope, rms_norm, rope, subset


class Stepper:
    """State of `slots` sequences of at most `length` tokens: KV rows, recurrent states and convolution windows."""

    def __init__(self, params, cfg, slots, length, taps):
        self.cfg, self.slots, self.taps = cfg, slots, taps
        self.embedding, self.final_norm = params["model.embed_tokens.weight"], params["model.norm.weight"]
        self.layers = [subset(params, f"model.layers.{i}.") for i in range(cfg.num_hidden_layers)]
        self.linear = [is_hybrid(cfg) and kind == "linear_attention" for kind in cfg.layer_types]
        self.cos, self.sin = model_rope(cfg, torch.arange(length))
        self.columns = torch.arange(length)
        self.state = [self._new_state(is_linear, length) for is_linear in self.linear]

    def _new_state(self, is_linear, length):
        c = self.cfg
        if is_linear:
            nk, nv, dk, dv = c.linear_num_key_heads, c.linear_num_value_heads, c.linear_key_head_dim, c.linear_value_head_dim
            return torch.zeros(self.slots * nv, dk, dv), torch.zeros(self.slots, 3, 2 * nk * dk + nv * dv)
        shape = (self.slots, c.num_key_value_heads, length, c.head_dim)
        return torch.zeros(shape), torch.zeros(shape)

    def reset(self, slot):
        """Forget the sequence in one slot (KV rows need no clearing: positions mask them)."""
        for is_linear, state in zip(self.linear, self.state):
            if is_linear:
                heads = self.cfg.linear_num_value_heads
                state[0][slot * heads:(slot + 1) * heads] = 0
                state[1][slot] = 0

    def step(self, tokens, positions):
        """Advance every slot by one token: (logits [slots, V], tapped features [slots, taps * H])."""
        norm, eps = layer_norm(self.cfg), self.cfg.rms_norm_eps
        x, features = self.embedding[tokens], []
        for i, p in enumerate(self.layers):
            h = norm(x, p["input_layernorm.weight"], eps)
            if self.linear[i]:
                h = self._delta(subset(p, "linear_attn."), i, h)
            else:
                h = self._attention(subset(p, "self_attn."), i, h, positions)
            x = x + h
            x = x + mlp(subset(p, "mlp."), norm(x, p["post_attention_layernorm.weight"], eps))
            if i in self.taps:
                features.append(x)
        return norm(x, self.final_norm, eps) @ self.embedding.t(), torch.cat(features, -1)

    def _delta(self, p, layer, h):
        c, slots = self.cfg, self.slots
        nk, nv, dk, dv = c.linear_num_key_heads, c.linear_num_value_heads, c.linear_key_head_dim, c.linear_value_head_dim
        recurrent, window = self.state[layer]
        rows = torch.cat([window, linear(p, "in_proj_qkv", h)[:, None]], 1)
        window.copy_(rows[:, 1:])
        conv = F.silu((rows * p["conv1d.weight"][:, 0].t()).sum(1))
        q, k, v = conv.split([nk * dk, nk * dk, nv * dv], -1)
        q = l2_normalise(q.view(slots, nk, dk)).repeat_interleave(nv // nk, 1).reshape(-1, 1, dk) * dk ** -0.5
        k = l2_normalise(k.view(slots, nk, dk)).repeat_interleave(nv // nk, 1).reshape(-1, 1, dk)
        beta = linear(p, "in_proj_b", h).sigmoid().view(-1, 1, 1)
        log_decay = -p["A_log"].exp() * F.softplus(linear(p, "in_proj_a", h) + p["dt_bias"])
        recurrent.mul_(log_decay.exp().view(-1, 1, 1))
        u = (v.reshape(-1, 1, dv) - k @ recurrent) * beta
        recurrent.baddbmm_(k.transpose(1, 2), u)
        o = (q @ recurrent).view(slots, nv, dv)
        z = linear(p, "in_proj_z", h).view(slots, nv, dv)
        o = rms_norm(o, p["norm.weight"], c.rms_norm_eps) * F.silu(z)
        return linear(p, "out_proj", o.reshape(slots, -1))

    def _attention(self, p, layer, h, positions):
        c, slots, norm = self.cfg, self.slots, layer_norm(self.cfg)
        nh, nkv, d = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        keys, values = self.state[layer]
        q = linear(p, "q_proj", h).view(slots, nh, -1)
        q, gate = q.split(d, -1) if is_hybrid(c) else (q, None)
        q = rope(norm(q, p["q_norm.weight"], c.rms_norm_eps), cos, sin)
        k = linear(p, "k_proj", h).view(slots, nkv, d)
        index = torch.arange(slots)
        keys[index, :, positions] = rope(norm(k, p["k_norm.weight"], c.rms_norm_eps), cos, sin)
        values[index, :, positions] = linear(p, "v_proj", h).view(slots, nkv, d)
        top = int(positions.max()) + 1
        hidden = (self.columns[None, :top] > positions[:, None])[:, None, None]
        score = (q.view(slots, nkv, nh // nkv, d) @ keys[:, :, :top].transpose(2, 3)) * d ** -0.5
        o = score.masked_fill(hidden, float("-inf")).softmax(-1) @ values[:, :, :top]
        o = o.reshape(slots, nh * d)
        return linear(p, "o_proj", o if gate is None else o * gate.reshape(slots, -1).sigmoid())
