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
from fishergcn.operators import LinkOperator, SparseMatrix
from fishergcn.streams import LINKS, draw_words, unpack


class LinkNoise:
    """Draws perturbed graphs for a batch of samples.

    Parameters
    ----------
    adjacency : csr_array of shape (n, n)
        A.
    rate : float
        The probability of a link to be removed.
    flip : bool
        Whether as many random links are added.
    device, dtype
        Where and in which precision the products run.

    Examples
    --------
    >>> ring = sparse.csr_array(np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0))
    >>> noise = LinkNoise(ring, 0.2, flip=True, device=torch.device("cpu"), dtype=torch.float32)
    >>> noise.draw(torch.tensor([7]), samples=3, epoch=0).batch_shape
    (3,)
    """

    def __init__(self, adjacency: CSRArray, rate: float, flip: bool, device: torch.device, dtype: torch.dtype) -> None:
        links = sparse.coo_array(sparse.triu(adjacency, 1))
        self.nodes = adjacency.shape[0]
        self.rate = rate
        self.added = round(rate * links.nnz) if flip else 0
        ends = np.stack(links.coords).astype(np.int64)
        self.ends = torch.as_tensor(ends, device=device)
        self.weights = torch.as_tensor(links.data, dtype=dtype, device=device)
        self.own = torch.as_tensor(adjacency.diagonal() + 1.0, dtype=dtype, device=device)

    def __repr__(self) -> str:
        what = f"{len(self.weights)} links removed with probability {self.rate:g}, {self.added} added"
        return f"LinkNoise({self.nodes} nodes, {what}, {self.own.dtype}, {self.own.device})"

    def mean_operator(self) -> SparseMatrix:
        """Return Ã of the mean graph, in which each link has weight 1 - rate.

        The pairs that flipping adds are left out: in the mean they are a constant, 2 rate m / n² for all pairs.
        """
        ends, weights = self.ends.cpu().numpy(), self.weights.double().cpu().numpy() * (1.0 - self.rate)
        upper = sparse.coo_array((weights, (ends[0], ends[1])), shape=(self.nodes, self.nodes))
        full = sparse.csr_array(upper + upper.T + sparse.diags_array(self.own.double().cpu().numpy()))
        root = sparse.diags_array(full.sum(axis=1) ** -0.5)
        return SparseMatrix.from_scipy(root @ full @ root, device=self.weights.device, dtype=self.weights.dtype)

    def draw(self, keys: Tensor, samples: int, epoch: int) -> LinkOperator:
        """Return the graphs of one step, for R runs with M samples each."""
        count = self.ends.shape[1]
        words = draw_words(keys, samples, LINKS, epoch, (count + 31) // 32, self.rate)
        kept = unpack(words, count).T.to(self.weights) * self.weights[:, None]
        pairs = self._random_pairs(keys, samples, epoch)
        return LinkOperator(self.ends, kept, pairs, self.own)

    def _random_pairs(self, keys: Tensor, samples: int, epoch: int) -> Tensor:
        """Return ends of added links, shape (2, added, B)."""
        raw = draw_words(keys, samples, LINKS + 1, epoch, 2 * self.added, 0.5)[:, : 2 * self.added]
        scaled = ((raw.long() & 0xFFFFFFFF) * self.nodes) >> 32
        return scaled.view(len(raw), 2, self.added).permute(1, 2, 0)
