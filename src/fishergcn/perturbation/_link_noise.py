"""Graphs that differ in their links: random links removed and added, or graphs drawn before, for comparison.

Each sample b has its own graph A_b and Ã_b = (D_b + I)^-1/2 (A_b + I) (D_b + I)^-1/2. Removing drops each
link with probability ``rate``; flipping also adds round(rate * m) random pairs, so that the number of links
stays about the same. A random pair that is linked already gains weight. Self-links stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.checks import check_real
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.operators import LinkOperator, PooledOperator, SparseMatrix
from fishergcn.perturbation._perturbation import Perturbation
from fishergcn.streams import LINKS, draw_words, unpack


class OtherWeights(Perturbation):
    """Graphs with the links of A, each with weights of its own: how Ã is made of them."""

    def __init__(self, adjacency: CSRArray, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(device, dtype)
        links = sparse.coo_array(sparse.triu(adjacency, 1))
        self.nodes = adjacency.shape[0]
        self._ends: AnyArray = np.stack(links.coords).astype(np.int64)
        self._weights: FloatArray = links.data
        self._own: FloatArray = adjacency.diagonal() + 1.0

    def _graph(self, weights: FloatArray, own: FloatArray) -> SparseMatrix:
        """Return Ã of the graph whose links have some weights (m,), where ``own`` is the diagonal of A + I."""
        upper = sparse.coo_array((weights, tuple(self._ends)), shape=(self.nodes, self.nodes))
        full = sparse.csr_array(upper + upper.T + sparse.diags_array(own))
        root = sparse.diags_array(full.sum(axis=1) ** -0.5)
        return SparseMatrix.from_scipy(root @ full @ root, device=self._device, dtype=self._dtype)

    @property
    def propagation(self) -> SparseMatrix:
        """Ã of the graph itself."""
        return self._graph(self._weights, self._own)


class LinkNoise(OtherWeights):
    """Graphs from which each link is removed with probability ``rate`` and, to ``flip``, as many random ones added."""

    def __init__(self, adjacency: CSRArray, rate: float, flip: bool, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(adjacency, device, dtype)
        self.rate = check_real("rate", rate, minimum=0.0, maximum=1.0)
        self.added = round(rate * len(self._weights)) if flip else 0
        self._place()

    def _place(self) -> None:
        self.ends = torch.as_tensor(self._ends, device=self._device)
        self.weights = torch.as_tensor(self._weights, dtype=self._dtype, device=self._device)
        self.own = torch.as_tensor(self._own, dtype=self._dtype, device=self._device)

    def __repr__(self) -> str:
        what = f"{len(self.weights)} links removed with probability {self.rate:g}, {self.added} added"
        return f"LinkNoise({self.nodes} nodes, {what}, {self.dtype}, {self.device})"

    def mean_operator(self) -> SparseMatrix:
        """Return Ã of the mean graph: links have weight 1 - rate; added pairs, a constant in the mean, are left out."""
        weights, own = (each.double().cpu().numpy() for each in (self.weights, self.own))
        return self._graph(weights * (1.0 - self.rate), own)

    def draw(self, keys: Tensor, samples: int, epoch: int) -> LinkOperator:
        """Return the graphs of one step, for R runs with M samples each."""
        count = self.ends.shape[1]
        words = draw_words(keys, samples, LINKS, epoch, (count + 31) // 32, self.rate)
        kept = unpack(words, count).T.to(self.weights) * self.weights[:, None]
        raw = draw_words(keys, samples, LINKS + 1, epoch, 2 * self.added, 0.5)[:, : 2 * self.added]
        scaled = ((raw.long() & 0xFFFFFFFF) * self.nodes) >> 32  # the ends of added links
        return LinkOperator(self.ends, kept, scaled.view(len(raw), 2, self.added).permute(1, 2, 0), self.own)


class GraphPool(OtherWeights):
    """A few graphs made before, which have the links of A with other ``weights`` (K, m); see :func:`pool_weights`."""

    def __init__(self, adjacency: CSRArray, weights: FloatArray, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(adjacency, device, dtype)
        self.matrices = [self._graph(each, self._own) for each in weights]
        self._mean = self._graph(weights.mean(axis=0), self._own)

    def _place(self) -> None:
        self.matrices = [each.to(self._device, self._dtype) for each in self.matrices]
        self._mean = self._mean.to(self._device, self._dtype)

    def __repr__(self) -> str:
        return f"GraphPool({len(self.matrices)} graphs, {self.nodes} nodes, {self.dtype}, {self.device})"

    def mean_operator(self) -> SparseMatrix:
        """Return Ã of the graph whose weights are the means over the graphs."""
        return self._mean

    def draw(self, keys: Tensor, samples: int, epoch: int) -> PooledOperator:
        """Return the graphs of one step, each one of the pool, for R runs with M samples each."""
        words = draw_words(keys, samples, LINKS, epoch, 1, 0.5)[:, 0]
        return PooledOperator(self.matrices, ((words.long() & 0xFFFFFFFF) * len(self.matrices)) >> 32)


def pool_weights(adjacency: CSRArray, graphs: Sequence[MatrixLike]) -> FloatArray:
    """Return the link weights, (K, m), above the diagonal row by row of A, of graphs that have only links of A."""
    if not graphs:
        raise InputError("moved must hold at least one graph, got none.")
    links = sparse.coo_array(sparse.triu(adjacency, 1))
    rows, columns = links.coords
    found = np.empty((len(graphs), links.nnz))
    for number, given in enumerate(graphs):
        matrix = check_adjacency(given)
        if matrix.shape != adjacency.shape:
            raise InputError(f"moved[{number}] must have {adjacency.shape[0]} nodes, got {matrix.shape[0]}.")
        found[number] = matrix[rows, columns]
        others = sparse.triu(matrix, 1).nnz - int(np.count_nonzero(found[number]))
        if others:
            raise InputError(f"moved[{number}] must have links of the graph only, got {others:,} others.")
    return found
