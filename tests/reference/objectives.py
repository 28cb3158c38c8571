"""Training objectives of block drafters on recorded replies: DFlash and MFD (mdraft.py has MDraft).

Every objective is a function (drafter, embedding, blocks) -> (loss, dict of figures to log).
"""
import torch
import torch.nn.functional as F

GAMMA, ALPHA, WINNER, GATE = 7.0, 0.5, 0.9, 0.1


def label_log_probs(drafter, embedding, blocks, mode_index=None):
    """log q of the true tokens [S, N, M, 15], which of them exist [S, N, 1, 15], context features [S, T, H]."""
    hidden, context = drafter(embedding, blocks.features, blocks.tokens, blocks.anchors, mode_index)
    labels = blocks.labels
    target = labels.clamp(min=0)[:, :, None].expand(hidden.shape[:-1])
    log_q = -F.cross_entropy((hidden @ embedding.t()).flatten(0, -2), target.flatten(), reduction="none")
    return log_q.view(hidden.shape[:-1]), (labels >= 0)[:, :, None].float(), context


def soft_coverage(log_q, exists):
    """sum_j prod_{i<=j} q_i: the expected number of accepted drafts if each is accepted with probability q."""
    return (log_q.detach().exp().cumprod(-1) * exists).sum(-1)


def dpace_weights(q, exists, alpha=ALPHA):
    """w_k = sum_{j>=k} P_j with P_k = prod_{i<=k} ((1 - alpha) q_i + alpha), over positions that exist."""
    r = torch.where(exists > 0, (1 - alpha) * q + alpha, torch.ones_like(q))
    survival = r.cumprod(-1) * exists
    return survival.flip(-1).cumsum(-1).flip(-1) * exists


def dpace_loss(log_q, exists):
    """D-PACE loss of every block and mode, [S, N, M]; the weights carry no gradient."""
    return (dpace_weights(log_q.detach().exp(), exists) * -log_q).sum(-1)


def dflash(drafter, embedding, blocks):
    """Cross-entropy with weight exp(-(k - 1) / 7) at block position k, weighted mean."""
    log_q, exists, _ = label_log_probs(drafter, embedding, blocks)
    weights = torch.exp(-torch.arange(log_q.shape[-1]) / GAMMA) * exists
    loss = (-log_q * weights).sum() / weights.sum()
    return loss, {"coverage": soft_coverage(log_q, exists).mean().item()}


def mode_coverage(drafter, embedding, blocks):
    """Soft coverage of every mode, [S, N, M]; no gradient."""
    with torch.no_grad():
        log_q, exists, _ = label_log_probs(drafter, embedding, blocks)
        return soft_coverage(log_q, exists)


def mfd(drafter, embedding, blocks):
    """Relaxed winner-take-all over the modes: the best-covering mode weighs 0.9, the others share 0.1.

    One random loser stands for the other modes with their whole weight (unbiased, two modes with gradient not eight).
    """
    coverage = mode_coverage(drafter, embedding, blocks)
    modes, winner = coverage.shape[-1], coverage.argmax(-1)
    loser = (winner + torch.randint(1, modes, winner.shape)) % modes
    log_q, exists, context = label_log_probs(drafter, embedding, blocks, torch.stack([winner, loser], -1))
    per_mode = dpace_loss(log_q, exists)
    before = context.gather(1, (blocks.anchors - 1)[..., None].expand(-1, -1, context.shape[-1]))
    gate = F.cross_entropy(drafter.mode_gate(before).flatten(0, 1), winner.flatten())
    loss = (WINNER * per_mode[..., 0] + (1 - WINNER) * per_mode[..., 1]).mean() / log_q.shape[-1] + GATE * gate
    return loss, {"coverage": coverage.mean().item(), "best mode": coverage.max(-1).values.mean().item(), "gate": gate.item()}
