"""What a set of nodes sees of the graph through a network of given depth.

The output of node i after l layers depends on the nodes within l links of i and on nothing else. For a few
hundred labeled nodes that is often a small part of the graph, and rows outside it need not be computed.
Dropout masks belong to nodes and stored entries of the whole graph, so leaving rows out changes no result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.types import AnyArray, CSRArray, IntArray
from fishergcn.nn._features import DenseFeatures, SparseFeatures
from fishergcn.operators import SparseMatrix

__all__ = ["Features", "Operator", "View", "full_view", "local_view"]

Features: TypeAlias = "SparseFeatures | DenseFeatures"


class Operator(Protocol):
    """Anything a graph convolution can multiply with."""

    def propagate(self, dense: Tensor) -> Tensor:
        """Return the product with node-major activations (n, B, d), shape (p, B, d)."""


@dataclass(frozen=True)
class View:
    """A network's view of the graph.

    Attributes
    ----------
    features
        The features, restricted to the rows that enter.
    operators
        What each layer multiplies with, first layer first.
    rows
        The nodes that each layer outputs, or None for all nodes in order.
    """

    features: Features
    operators: tuple[Operator, ...]
    rows: tuple[Tensor | None, ...]

    def position(self, nodes: IntArray) -> IntArray:
        """Return the output rows at which ``nodes`` stand."""
        last = self.rows[-1]
        return nodes if last is None else np.searchsorted(last.cpu().numpy(), nodes)


def full_view(features: Features, operator: Operator, depth: int) -> View:
    """Return the view of all nodes: every layer multiplies with the same operator and outputs every node."""
    return View(features, (operator,) * depth, (None,) * depth)


def local_view(
    features: Features,
    propagation: CSRArray,
    nodes: IntArray,
    depth: int,
    *,
    device: torch.device | str,
    dtype: torch.dtype,
) -> View:
    """Return the view of some nodes: each layer only outputs what the next one needs.

    Parameters
    ----------
    features
        X of the whole graph.
    propagation
        Ã, n x n.
    nodes
        The nodes whose outputs are wanted.
    depth
        The number of layers.
    device, dtype
        Where and in which precision the products run.
    """
    operators: list[Operator] = []
    rows: list[Tensor] = []
    reached = np.unique(nodes)
    for _ in range(depth):
        rows.append(torch.as_tensor(reached, dtype=torch.int32, device=device))
        block = sparse.csr_array(propagation[reached])
        sources = np.unique(block.indices)
        narrow = _columns(block, sources, propagation.shape[1])
        operators.append(SparseMatrix.from_scipy(narrow, device=device, dtype=dtype))
        reached = sources.astype(np.int64)
    entering = torch.as_tensor(reached, dtype=torch.int32, device=device)
    return View(features.restrict(entering), tuple(reversed(operators)), tuple(reversed(rows)))


def _columns(block: Any, kept: AnyArray, total: int) -> Any:
    """Return the block with only the columns that hold entries, renumbered in order."""
    number = np.zeros(total, dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    return sparse.csr_array((block.data, number[block.indices], block.indptr), shape=(block.shape[0], len(kept)))
