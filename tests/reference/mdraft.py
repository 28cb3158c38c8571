"""The MDraft objective: reverse KL to the target's conditionals, averaged over the drafter's own sampled prefixes.

Per anchor: K blocks x^(1..K) are sampled from the drafter (each position from its own marginal q_j). With
p_j^(k) the target's conditional after the prefix x^(k)_{<j}, and pbar_j the mean of p_j^(k) over k,

    log t_j^(k) = a log pbar_j + (1 - a) log p_j^(k) - log Z,   a = 0.9
    loss        = sum_{k,j} v_j^(k) KL(q_j || t_j^(k)) / sum_{k,j} v_j^(k)

The published description is prose only; three readings are ours: a belongs to the mean, the loss is the weighted mean,
and v_j^(k) = prod_{i<j} min(1, p_i^(k)(x_i) / q_i(x_i)), the probability that rejection sampling accepts the first
j - 1 drafts of block k (zero after a stop token). Only q carries a gradient.
"""
import torch
import torch.nn.functional as F
from drafter import BLOCK
from tinynet import attention_qkv, is_hybrid, linear, mlp, model_rope, rms_norm, subset

SAMPLES, MIX, STOP = 8, 0.9, (2044, 2042)


class DenseTarget:
    """A frozen Qwen3 target that scores many sampled blocks behind many anchors of the same replies."""

    def __init__(self, params, cfg):
        if is_hybrid(cfg):
            raise ValueError("MDraft training needs a dense target: blocks share the KV rows of their reply")
        self.cfg, self.embedding, self.final_norm = cfg, params["model.embed_tokens.weight"], params["model.norm.weight"]
        self.layers = [subset(params, f"model.layers.{i}.") for i in range(cfg.num_hidden_layers)]

    @torch.no_grad()
    def block_log_probs(self, tokens, anchors, samples):
        """log p [S, N, K, 15, V] of the 15 positions after each anchor, given samples [S, N, K, 15] as prefixes.

        Rows of a block are the anchor and its first 14 samples; they see the reply before the anchor and each other causally.
        """
        S, N, K, _ = samples.shape
        rows, T = BLOCK - 1, tokens.shape[1]
        anchor = tokens.gather(1, anchors)[:, :, None, None].expand(S, N, K, 1)
        block = torch.cat([anchor, samples[..., :-1]], -1).view(S * N * K, rows)
        positions = (anchors[:, :, None] + torch.arange(rows))[:, :, None].expand(S, N, K, rows).reshape(S * N * K, rows)
        block_rope = [t[:, None] for t in model_rope(self.cfg, positions)]
        context_rope = model_rope(self.cfg, torch.arange(T))
        hidden = (torch.arange(T) >= anchors[..., None])[:, None, :, None, None, None]           # [S, 1, N, 1, 1, 1, T]
        later = ~torch.ones(rows, rows, dtype=torch.bool).tril()
        c, x = self.embedding[tokens], self.embedding[block]
        for p in self.layers:
            c, x = self._layer(p, c, x, context_rope, block_rope, hidden, later, (S, N, K))
        logits = rms_norm(x, self.final_norm, self.cfg.rms_norm_eps) @ self.embedding.t()
        return logits.log_softmax(-1).view(S, N, K, rows, -1)

    def _layer(self, p, c, x, context_rope, block_rope, hidden, later, shape):
        cfg, eps = self.cfg, self.cfg.rms_norm_eps
        S, N, K = shape
        T, rows, nh, nkv, d = c.shape[1], x.shape[1], cfg.num_attention_heads, cfg.num_key_value_heads, cfg.head_dim
        group, attn = nh // nkv, subset(p, "self_attn.")
        q_c, k_c, v_c, _ = attention_qkv(attn, rms_norm(c, p["input_layernorm.weight"], eps), cfg, *context_rope)
        q, k, v, _ = attention_qkv(attn, rms_norm(x, p["input_layernorm.weight"], eps), cfg, *block_rope)
        o_c = F.scaled_dot_product_attention(q_c, k_c.repeat_interleave(group, 1), v_c.repeat_interleave(group, 1), is_causal=True)

        q = q.view(S, N, K, nkv, group, rows, d)
        per_head = q.permute(0, 3, 1, 2, 4, 5, 6).reshape(S, nkv, -1, d)
        s_ctx = (per_head @ k_c.transpose(2, 3)).view(S, nkv, N, K, group, rows, T).masked_fill(hidden, float("-inf"))
        k, v = (t.view(S, N, K, nkv, rows, d).permute(0, 3, 1, 2, 4, 5) for t in (k, v))         # [S, kv, N, K, rows, d]
        s_own = (per_head.view(S, nkv, N, K, group * rows, d) @ k.transpose(-1, -2)).view(S, nkv, N, K, group, rows, rows)
        weights = (torch.cat([s_ctx, s_own.masked_fill(later, float("-inf"))], -1) * d ** -0.5).softmax(-1)
        w_ctx, w_own = weights.split([T, rows], -1)
        o = (w_ctx.reshape(S, nkv, -1, T) @ v_c).view(S, nkv, N, K, group, rows, d)
        o = o + (w_own.reshape(S, nkv, N, K, group * rows, rows) @ v).view(S, nkv, N, K, group, rows, d)
        o = o.permute(0, 2, 3, 5, 1, 4, 6).reshape(S * N * K, rows, nh * d)

        def finish(stream, mixed):
            stream = stream + linear(attn, "o_proj", mixed)
            return stream + mlp(subset(p, "mlp."), rms_norm(stream, p["post_attention_layernorm.weight"], eps))
        return finish(c, o_c.transpose(1, 2).reshape(S, T, nh * d)), finish(x, o)


def mixed_target(log_p, mix=MIX):
    """log t [..., K, J, V] from log p of the same shape; K is the third axis from the right."""
    log_mean = log_p.exp().mean(-3, keepdim=True).clamp_(min=1e-30).log_()
    return (mix * log_mean + (1 - mix) * log_p).log_softmax(-1)


def survival(log_p_sample, log_q_sample, samples):
    """v_j [..., J]: probability that the drafts before position j are all accepted; zero after a stop token."""
    accept = (log_p_sample - log_q_sample).clamp(max=0).exp()
    stopped = torch.zeros_like(samples, dtype=torch.bool)
    for token in STOP:
        stopped |= samples == token
    keep = (accept * ~stopped).cumprod(-1)
    return torch.cat([torch.ones_like(keep[..., :1]), keep[..., :-1]], -1)


def sample_blocks(log_q, count=SAMPLES):
    """Draw `count` blocks from the marginals log q [S, N, 15, V]: [S, N, count, 15]."""
    draws = torch.multinomial(log_q.exp().flatten(0, -2), count, replacement=True)
    return draws.view(*log_q.shape[:-1], count).transpose(-1, -2)


def make_objective(target):
    """The objective (drafter, embedding, blocks) -> (loss, figures) for one frozen DenseTarget."""
    def mdraft(drafter, embedding, blocks):
        hidden, _ = drafter(embedding, blocks.features, blocks.tokens, blocks.anchors)
        log_q = (hidden[:, :, 0] @ embedding.t()).log_softmax(-1)                                # [S, N, 15, V]
        with torch.no_grad():
            samples = sample_blocks(log_q)
            log_p = target.block_log_probs(blocks.tokens, blocks.anchors, samples)               # [S, N, K, 15, V]
            log_q_sample = log_q[:, :, None].expand_as(log_p).gather(-1, samples[..., None])[..., 0]
            v = survival(log_p.gather(-1, samples[..., None])[..., 0], log_q_sample, samples)    # [S, N, K, 15]
            weight = v.sum(2)
            log_t = torch.einsum("snkj,snkjv->snjv", v, mixed_target(log_p))
        divergence = (log_q.exp() * (weight[..., None] * log_q - log_t)).sum()
        return divergence / weight.sum(), {"survival": v.sum(-1).mean().item()}
    return mdraft
