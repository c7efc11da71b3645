"""Graphs that differ from each other, one for each entry of a batch: in single links, or out of a few."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fishergcn.operators._operator import Placed
from fishergcn.operators._sparse import SparseMatrix


class LinkOperator(Placed):
    """Ã_b = (D_b + I)^-1/2 (A_b + I) (D_b + I)^-1/2 of graphs A_b, b = 1..B, given by their links.

    ``ends`` (2, m) are the links that the graphs share, each once, and ``kept`` (m, B) their weights, 0 where one is
    missing; ``pairs`` (2, a, B) are links of weight 1 that each graph has of its own; ``own`` (n,) is the diagonal of A
    + I.
    """

    _parts = ("ends", "kept", "pairs", "own")

    def __init__(self, ends: Tensor, kept: Tensor, pairs: Tensor, own: Tensor) -> None:
        self.ends, self.kept, self.pairs, self.own = ends, kept, pairs, own
        self._core = own
        degree = own[:, None].repeat(1, kept.shape[1])
        for end in ends:
            degree = degree.index_add(0, end, kept)  # not in place: torch.func may have mapped the weights
        for end in pairs:
            degree = degree.scatter_add(0, end, torch.ones_like(end, dtype=degree.dtype))
        self._root = degree.rsqrt().unsqueeze(-1)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n), of each graph."""
        return len(self.own), len(self.own)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """(B,)."""
        return (self.kept.shape[1],)

    def propagate(self, dense: Tensor) -> Tensor:
        """Return Ã_b Z[:, b] for Z of shape (n, B, d)."""
        scaled = dense * self._root
        out = scaled * self.own[:, None, None]
        kept = self.kept.unsqueeze(-1)
        for here, there in (self.ends, self.ends.flip(0)):
            out = out.index_add(0, here, scaled[there] * kept)
        for here, there in (self.pairs, self.pairs.flip(0)):
            wide = [each.unsqueeze(-1).expand(-1, -1, dense.shape[2]) for each in (here, there)]
            out = out.scatter_add(0, wide[0], scaled.gather(0, wide[1]))
        return out * self._root


class PooledOperator(Placed):
    """Ã_b = Ã^(k_b), b = 1..B: each entry of a batch has one of K ``matrices`` of one shape, k ``chosen`` from 0 on."""

    _parts = ("matrices", "chosen")

    def __init__(self, matrices: Sequence[SparseMatrix], chosen: Tensor) -> None:
        self._core = matrices[0]
        self.matrices, self.chosen = matrices, chosen

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """(B,)."""
        return (len(self.chosen),)

    def propagate(self, dense: Tensor) -> Tensor:
        """Return Ã_b Z[:, b] for Z of shape (n, B, d): one product for each matrix that is used."""
        order = self.chosen.argsort()
        sizes = torch.bincount(self.chosen, minlength=len(self.matrices)).tolist()
        groups = zip(self.matrices, torch.split(dense[:, order], sizes, dim=1), strict=True)
        done = [matrix.propagate(group.contiguous()) for matrix, group in groups if group.shape[1]]
        return torch.cat(done, dim=1)[:, order.argsort()]
