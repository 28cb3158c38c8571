"""Draft trees: a chain, or the best-scoring prefixes of one (DDTree) or several (MFD) drafted futures."""
import heapq

import numpy as np


class Tree:
    """Node 0 is the anchor; children[i] maps a token to the node it leads to."""

    def __init__(self):
        self.children, self.scores = [{}], [0.0]

    def child(self, parent, token, score):
        """The node for `token` below `parent`, made with this score if absent; (node, was it made)."""
        known = self.children[parent].get(token)
        if known is not None:
            return known, False
        self.children.append({})
        self.scores.append(score)
        self.children[parent][token] = len(self.children) - 1
        return len(self.children) - 1, True

    def walk(self, tokens):
        """How many of the true next tokens lie on a path from the anchor."""
        node = accepted = 0
        for token in tokens:
            if token not in self.children[node]:
                break
            node, accepted = self.children[node][token], accepted + 1
        return accepted


def chain(log_q, budget=None):
    """The most likely token of each position of mode 0, one below the other."""
    tree, node, score = Tree(), 0, 0.0
    for row in log_q[0][:budget]:
        token = int(row.argmax())
        score += float(row[token])
        node, _ = tree.child(node, token, score)
    return tree


def best_first(log_q, budget):
    """The `budget` prefixes with the highest best-mode log-probability; log_q [modes, depth, V].

    Ties: score, then rank tuple, then mode.
    """
    k = min(budget, log_q.shape[-1])
    top = np.argsort(-log_q, axis=-1, kind="stable")[..., :k]
    return best_first_of_lists(top, np.take_along_axis(log_q, top, -1).astype(np.float64), budget)


def best_first_of_lists(top, log_top, budget):
    """best_first from the best k tokens of each position, best first: top (ids) and log_top [modes, depth, k]."""
    modes, depth, k = top.shape
    tree = Tree()
    heap = [(-log_top[m, 0, 0], (0,), m, 0) for m in range(modes)] if k else []
    heapq.heapify(heap)
    nodes = 0
    while nodes < budget and heap:
        negative, ranks, mode, parent = heapq.heappop(heap)
        score, d, rank = -negative, len(ranks) - 1, ranks[-1]
        node, made = tree.child(parent, int(top[mode, d, rank]), score)
        nodes += made
        if rank + 1 < k:
            sibling = score - log_top[mode, d, rank] + log_top[mode, d, rank + 1]
            heapq.heappush(heap, (-sibling, ranks[:-1] + (rank + 1,), mode, parent))
        if d + 1 < depth:
            heapq.heappush(heap, (-(score + log_top[mode, d + 1, 0]), ranks + (0,), mode, node))
    return tree
