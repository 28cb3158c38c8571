"""Muon (momentum + Newton-Schulz orthogonalisation) for weight matrices."""
import torch


class Muon:
    """Matrices of equal shape are orthogonalised together in one batch."""

    def __init__(self, params, lr, weight_decay=0.01):
        self.params, self.lr, self.weight_decay = params, lr, weight_decay
        self.momenta = [torch.zeros_like(p) for p in params]
        self.groups = {}
        for i, p in enumerate(params):
            self.groups.setdefault(tuple(sorted(p.shape)), []).append(i)

    @torch.no_grad()
    def step(self, scale, momentum):
        """One update; `scale` multiplies the learning rate (the schedule)."""
        for indices in self.groups.values():
            updates = torch.stack([self._wide(self._direction(i, momentum)) for i in indices])
            for i, update in zip(indices, orthogonalise(updates)):
                p = self.params[i]
                update = update if p.shape[0] <= p.shape[1] else update.t()
                p.mul_(1 - self.lr * scale * self.weight_decay)
                p.add_(update, alpha=-self.lr * scale * 0.2 * max(p.shape) ** 0.5)

    def _direction(self, i, momentum):
        grad = self.params[i].grad
        self.momenta[i].mul_(momentum).add_(grad)
        return grad + momentum * self.momenta[i]

    @staticmethod
    def _wide(x):
        return x if x.shape[0] <= x.shape[1] else x.t()


def orthogonalise(x):
    """Five Newton-Schulz steps on a batch of wide matrices."""
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(5):
        gram = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * (gram @ gram)) @ x
    return x


def split_params(named):
    """(matrices for Muon, everything else for AdamW); embeddings and heads count as everything else."""
    matrices, rest = [], []
    for name, p in named:
        is_matrix = p.ndim == 2 and min(p.shape) >= 16 and "embed" not in name and "lm_head" not in name
        (matrices if is_matrix else rest).append(p)
    return matrices, rest
