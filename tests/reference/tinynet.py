"""Fast training-time forward passes over the parameters of transformers modules.

The modules are ordinary transformers models, so save_pretrained gives standard weights. The functions here only
evaluate the same mathematics faster on a CPU (shift-and-multiply convolution, one triangular solve per chunk);
train_target.py prints the difference to transformers' own logits before it trains.
"""
import torch
import torch.nn.functional as F


def zero_centred_norm(x, w, eps):
    """Qwen3.5 layer norm: (1 + w) * x / rms(x)."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (1.0 + w)


def rms_norm(x, w, eps):
    """Qwen3 layer norm: w * x / rms(x)."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def l2_normalise(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def rope_tables(positions, dim, theta):
    """(cos, sin), each [..., dim], for half-split rotary embeddings."""
    inv = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    angle = positions.float()[..., None] * inv
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rope(x, cos, sin):
    """Rotate the first cos.shape[-1] channels of x [..., T, D], half-split layout."""
    rotary = cos.shape[-1]
    head, tail = x[..., :rotary], x[..., rotary:]
    half = rotary // 2
    turned = torch.cat([-head[..., half:], head[..., :half]], -1)
    head = head * cos + turned * sin
    return torch.cat([head, tail], -1) if tail.shape[-1] else head


def subset(params, prefix):
    """The parameters whose names start with prefix, without it."""
    return {k[len(prefix):]: v for k, v in params.items() if k.startswith(prefix)}


def linear(params, name, x):
    return x @ params[f"{name}.weight"].t()


def mlp(p, x):
    return linear(p, "down_proj", F.silu(linear(p, "gate_proj", x)) * linear(p, "up_proj", x))


def is_hybrid(cfg):
    return cfg.model_type.startswith("qwen3_5")


def layer_norm(cfg):
    return zero_centred_norm if is_hybrid(cfg) else rms_norm


def model_rope(cfg, positions):
    dim = int(cfg.head_dim * cfg.rope_parameters.get("partial_rotary_factor", 1.0))
    return rope_tables(positions, dim, cfg.rope_parameters["rope_theta"])


def delta_mix(p, x, cfg, chunk):
    """Gated DeltaNet mixer in chunk form; x [B, T, H] with T a multiple of chunk."""
    nk, nv = cfg.linear_num_key_heads, cfg.linear_num_value_heads
    dk, dv = cfg.linear_key_head_dim, cfg.linear_value_head_dim
    batch, length, _ = x.shape
    chunks, ratio = length // chunk, nv // nk

    def heads(t, h, d):
        return t.view(batch, chunks, chunk, h, d).permute(0, 3, 1, 2, 4)      # [B, h, chunks, chunk, d]

    qkv = F.pad(linear(p, "in_proj_qkv", x), (0, 0, 3, 0))
    w = p["conv1d.weight"][:, 0, :]
    conv = F.silu(sum(qkv[:, j:length + j] * w[:, j] for j in range(4)))
    q, k, v = conv.split([nk * dk, nk * dk, nv * dv], -1)
    q = l2_normalise(heads(q, nk, dk)).repeat_interleave(ratio, 1) * dk ** -0.5
    k = l2_normalise(heads(k, nk, dk)).repeat_interleave(ratio, 1)
    v = heads(v, nv, dv)
    beta = heads(linear(p, "in_proj_b", x).sigmoid(), nv, 1)
    log_decay = -p["A_log"].exp() * F.softplus(linear(p, "in_proj_a", x) + p["dt_bias"])
    G = heads(log_decay, nv, 1).squeeze(-1).cumsum(-1)                        # [B, h, chunks, chunk]

    causal = torch.ones(chunk, chunk, dtype=torch.bool).tril()
    decay = (G[..., :, None] - G[..., None, :]).masked_fill(~causal, float("-inf")).exp()
    L = ((k * beta) @ k.transpose(-1, -2)) * decay
    A = (q @ k.transpose(-1, -2)) * decay
    rhs = torch.cat([v * beta, k * beta * G.exp()[..., None]], -1)
    u0, kc = torch.linalg.solve_triangular(L, rhs, upper=False, unitriangular=True).split([dv, dk], -1)
    q_decayed = q * G.exp()[..., None]
    k_end = (k * (G[..., -1:] - G).exp()[..., None]).transpose(-1, -2)
    end = G[..., -1].exp()[..., None, None]

    state, outs = x.new_zeros(batch, nv, dk, dv), []
    for u0_i, kc_i, q_i, A_i, k_i, end_i in zip(*(t.unbind(2) for t in (u0, kc, q_decayed, A, k_end, end))):
        u = u0_i - kc_i @ state
        outs.append(q_i @ state + A_i @ u)
        state = state * end_i + k_i @ u
    o = torch.stack(outs, 2).permute(0, 2, 3, 1, 4).reshape(batch, length, nv, dv)
    z = linear(p, "in_proj_z", x).view(batch, length, nv, dv)
    o = rms_norm(o, p["norm.weight"], cfg.rms_norm_eps) * F.silu(z)
    return linear(p, "out_proj", o.reshape(batch, length, nv * dv))


def attention_qkv(p, x, cfg, cos, sin):
    """(q [B, QH, T, D], k, v [B, KVH, T, D], gate [B, T, QH * D] or None), norms and rotary applied."""
    batch, length, _ = x.shape
    nh, nkv, d, eps, norm = cfg.num_attention_heads, cfg.num_key_value_heads, cfg.head_dim, cfg.rms_norm_eps, layer_norm(cfg)
    gate = None
    if is_hybrid(cfg):
        q, gate = linear(p, "q_proj", x).view(batch, length, nh, 2 * d).split(d, -1)
        gate = gate.reshape(batch, length, nh * d)
    else:
        q = linear(p, "q_proj", x).view(batch, length, nh, d)
    q = norm(q, p["q_norm.weight"], eps).transpose(1, 2)
    k = norm(linear(p, "k_proj", x).view(batch, length, nkv, d), p["k_norm.weight"], eps).transpose(1, 2)
    v = linear(p, "v_proj", x).view(batch, length, nkv, d).transpose(1, 2)
    return rope(q, cos, sin), rope(k, cos, sin), v, gate


def attention_mix(p, x, cfg, cos, sin):
    """Causal attention over the whole sequence, gated for Qwen3.5."""
    q, k, v, gate = attention_qkv(p, x, cfg, cos, sin)
    group = cfg.num_attention_heads // cfg.num_key_value_heads
    o = F.scaled_dot_product_attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), is_causal=True)
    o = o.transpose(1, 2).reshape(*x.shape[:2], -1)
    return linear(p, "o_proj", o if gate is None else o * gate.sigmoid())


def forward_target(params, cfg, ids, taps=(), chunk=64):
    """(logits [B, T, V], residual streams after the layers named in taps). params: transformers names -> tensors."""
    norm, eps = layer_norm(cfg), cfg.rms_norm_eps
    x = params["model.embed_tokens.weight"][ids]
    cos, sin = model_rope(cfg, torch.arange(ids.shape[1]))
    features = []
    for i in range(cfg.num_hidden_layers):
        p = subset(params, f"model.layers.{i}.")
        h = norm(x, p["input_layernorm.weight"], eps)
        if is_hybrid(cfg) and cfg.layer_types[i] == "linear_attention":
            x = x + delta_mix(subset(p, "linear_attn."), h, cfg, chunk)
        else:
            x = x + attention_mix(subset(p, "self_attn."), h, cfg, cos, sin)
        x = x + mlp(subset(p, "mlp."), norm(x, p["post_attention_layernorm.weight"], eps))
        if i in taps:
            features.append(x)
    return norm(x, params["model.norm.weight"], eps) @ params["model.embed_tokens.weight"].t(), features
