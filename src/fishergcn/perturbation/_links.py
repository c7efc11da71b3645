"""Random links removed and added: the other way to perturb a graph, for comparison.

Each sample b has its own graph A_b and Ã_b = (D_b + I)^-1/2 (A_b + I) (D_b + I)^-1/2. Removing drops each
link with probability ``rate``; flipping also adds round(rate * m) random pairs, so that the number of links
stays about the same. A random pair that is linked already gains weight. Self-links stay.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.types import CSRArray
from fishergcn.streams import LINKS, draw_words, unpack

__all__ = ["LinkNoise"]


class LinkNoise:
    """Draws perturbed graphs for a batch of samples."""

    def __init__(self, adjacency: CSRArray, rate: float, flip: bool, device: torch.device, dtype: torch.dtype) -> None:
        links = sparse.coo_array(sparse.triu(adjacency, 1))
        self.nodes = adjacency.shape[0]
        self.rate = rate
        self.added = round(rate * links.nnz) if flip else 0
        ends = np.stack(links.coords).astype(np.int64)
        self.ends = torch.as_tensor(ends, device=device)
        self.weights = torch.as_tensor(links.data, dtype=dtype, device=device)
        self.own = torch.as_tensor(adjacency.diagonal() + 1.0, dtype=dtype, device=device)

    def draw(self, keys: Tensor, samples: int, epoch: int) -> PerturbedLinks:
        """Return the graphs of one step, for R runs with M samples each."""
        count = self.ends.shape[1]
        words = draw_words(keys, samples, LINKS, epoch, (count + 31) // 32, self.rate)
        kept = unpack(words, count).T.to(self.weights) * self.weights[:, None]
        pairs = self._random_pairs(keys, samples, epoch)
        return PerturbedLinks(self.ends, kept, pairs, self.own)

    def _random_pairs(self, keys: Tensor, samples: int, epoch: int) -> Tensor:
        """Return ends of added links, shape (2, added, B)."""
        raw = draw_words(keys, samples, LINKS + 1, epoch, 2 * self.added, 0.5)[:, : 2 * self.added]
        scaled = ((raw.long() & 0xFFFFFFFF) * self.nodes) >> 32
        return scaled.view(len(raw), 2, self.added).permute(1, 2, 0)


class PerturbedLinks:
    """Ã_b for each sample b, as an operator on node-major activations."""

    def __init__(self, ends: Tensor, kept: Tensor, pairs: Tensor, own: Tensor) -> None:
        self.ends, self.kept, self.pairs, self.own = ends, kept, pairs, own
        batch = kept.shape[1]
        degree = own[:, None].repeat(1, batch)
        for end in ends:
            degree.index_add_(0, end, kept)
        for end in pairs:
            degree.scatter_add_(0, end, torch.ones_like(end, dtype=degree.dtype))
        self.root = degree.rsqrt().unsqueeze(-1)

    def propagate(self, dense: Tensor) -> Tensor:
        """Return Ã_b Z[:, b] for Z of shape (n, B, d)."""
        scaled = dense * self.root
        out = scaled * self.own[:, None, None]
        kept = self.kept.unsqueeze(-1)
        for here, there in (self.ends, self.ends.flip(0)):
            out = out.index_add(0, here, scaled[there] * kept)
        for here, there in (self.pairs, self.pairs.flip(0)):
            wide = [each.unsqueeze(-1).expand(-1, -1, dense.shape[2]) for each in (here, there)]
            out = out.scatter_add(0, wide[0], scaled.gather(0, wide[1]))
        return out * self.root
