"""Training batches for drafters: target replies grouped by length, with random anchor positions inside the reply."""
from typing import NamedTuple

import torch
from drafter import BLOCK


class Blocks(NamedTuple):
    """S replies of at most T tokens with N anchors each."""
    ids: torch.Tensor          # [S, T + 16], -1 past the end of a reply
    features: torch.Tensor     # [S, T, taps * H]
    anchors: torch.Tensor      # [S, N]

    @property
    def tokens(self):
        """Token ids [S, T] with padding replaced by 0."""
        return self.ids[:, :self.features.shape[1]].clamp(min=0)

    @property
    def labels(self):
        """The 15 tokens after each anchor, [S, N, 15]; -1 past the end of the reply."""
        positions = self.anchors[:, :, None] + torch.arange(1, BLOCK)
        return self.ids.gather(1, positions.flatten(1)).view(*self.anchors.shape, BLOCK - 1)


def load_replies(paths):
    """Replies of sample_replies.py that are long enough to hold an anchor."""
    data = [reply for path in paths for reply in torch.load(path)]
    return [(ids, prompt, features) for ids, prompt, features in data if len(ids) - prompt >= 4]


def batches(data, rng, sequences, anchors):
    """Endless shuffled Blocks of `sequences` replies of similar length."""
    while True:
        order = sorted(range(len(data)), key=lambda i: len(data[i][0]) + rng.random() * 30)
        groups = [order[i:i + sequences] for i in range(0, len(order) - sequences + 1, sequences)]
        rng.shuffle(groups)
        for group in groups:
            yield collate([data[i] for i in group], rng, anchors)


def collate(replies, rng, anchors):
    """Anchors are uniform over reply positions, from the first reply token to the second last."""
    length = max(len(ids) for ids, _, _ in replies)
    out = Blocks(torch.full((len(replies), length + BLOCK), -1),
                 torch.zeros(len(replies), length, replies[0][2].shape[1]),
                 torch.zeros(len(replies), anchors, dtype=torch.long))
    for j, (ids, prompt, features) in enumerate(replies):
        out.ids[j, :len(ids)] = ids
        out.features[j, :len(features)] = features.float()
        last = max(prompt + 1, len(ids) - 1)
        out.anchors[j] = torch.tensor([rng.randrange(prompt, last) for _ in range(anchors)])
    return out
