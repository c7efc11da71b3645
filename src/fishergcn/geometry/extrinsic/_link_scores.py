"""The derivative of a network's output in every entry of its graph, and what it makes of links.

A network uses Ã only in products Y_l = Ã Z_l. With S_l = ∂ℓ/∂Y_l the chain rule gives

    ∂ℓ/∂Ã = Σ_l S_l Z_lᵀ = S Zᵀ,   S = [S_0 … S_{L-1}],   Z = [Z_0 … Z_{L-1}],

all entries taken as independent: n x w factors, w the sum of the widths, instead of n x n numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.checks import check_choice
from fishergcn._base.types import CSRArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic._model import logits
from fishergcn.models import TrainedModel
from fishergcn.operators import SparseMatrix, spmm

Order: TypeAlias = Literal["magnitude", "increase", "decrease"]
_RANKINGS = {"magnitude": np.abs, "increase": np.positive, "decrease": np.negative}


class _Tape:
    """Ã, which notes what it multiplies and lets the derivative of each product be asked for."""

    def __init__(self, matrix: SparseMatrix) -> None:
        self.matrix = matrix
        self.inputs: list[Tensor] = []
        self.probes: list[Tensor] = []

    shape = property(lambda self: self.matrix.shape)
    dtype = property(lambda self: self.matrix.dtype)
    device = property(lambda self: self.matrix.device)

    def to(self, *_: Any, **__: Any) -> _Tape:
        """Stay as it is: a tape that moved would be another one."""
        return self

    def _noted(self, dense: Tensor, product: Tensor) -> Tensor:
        probe = torch.zeros_like(product, requires_grad=True)
        self.inputs.append(dense.detach().reshape(len(dense), -1))
        self.probes.append(probe)
        return product + probe

    def propagate(self, dense: Tensor) -> Tensor:
        return self._noted(dense, self.matrix.propagate(dense))

    def __matmul__(self, dense: Tensor) -> Tensor:
        if dense.ndim == 1:
            return (self @ dense.unsqueeze(-1)).squeeze(-1)
        if dense.ndim != 2:
            raise InputError(f"network must multiply the operator with a matrix, got shape {tuple(dense.shape)}.")
        return self._noted(dense, spmm(self.matrix, dense))


def graph_gradient(model: TrainedModel, output: Callable[[Tensor], Tensor]) -> tuple[FloatArray, FloatArray]:
    """Return S and Z of ∂ℓ/∂Ã = S Zᵀ, each (n, w), for ℓ that ``output`` makes of the logits, by one backward pass."""
    tape = _Tape(model.operator)
    with torch.enable_grad():
        value = output(logits(model, tape))
        if not tape.probes:
            raise InputError("network must use its operator, got one that never multiplies with it.")
        errors = torch.autograd.grad(value, tape.probes, materialize_grads=True)
    return (
        np.concatenate([each.reshape(len(each), -1).numpy() for each in errors], axis=1),
        np.concatenate([each.numpy() for each in tape.inputs], axis=1),
    )


def ranking(order: Order) -> Callable[[FloatArray], FloatArray]:
    """Return what makes of scores the keys that they rank by: |score|, score or -score."""
    return _RANKINGS[check_choice("order", order, tuple(_RANKINGS))]


@dataclass(frozen=True)
class LinkScores:
    """score(i, j) = left_i · right_j of node vectors (n, w), symmetric in i and j; for i = j it is ``diagonal``."""

    left: FloatArray
    right: FloatArray
    diagonal: FloatArray

    def of(self, links: IntArray) -> FloatArray:
        """Return the scores of pairs (m, 2)."""
        i, j = links.T
        return np.asarray(np.where(i == j, self.diagonal[i], (self.left[i] * self.right[j]).sum(axis=1)))


def entry_scores(S: FloatArray, Z: FloatArray) -> LinkScores:
    """∂ℓ/∂ã_ij for a change of both ã_ij and ã_ji: S_i·Z_j + Z_i·S_j, and S_i·Z_i on the diagonal."""
    return LinkScores(np.hstack([S, Z]), np.hstack([Z, S]), (S * Z).sum(axis=1))


def raw_scores(S: FloatArray, Z: FloatArray, adjacency: CSRArray, propagation: CSRArray) -> LinkScores:
    """∂ℓ/∂a_ij through Ã = B_ij / sqrt(b_i b_j), B = A + I, b = B1, for a change of both a_ij and a_ji.

    The link enters its own entry and, through the degrees, all entries of rows and columns i and j:

        ∂ℓ/∂a_ij = (S_i·Z_j + Z_i·S_j) / sqrt(b_i b_j) - t_i - t_j,   t_i = (S_i·(ÃZ)_i + Z_i·(ÃᵀS)_i) / (2 b_i).

    A link of a node to itself changes one entry and one degree: S_i·Z_i / b_i - t_i.
    """
    degrees: FloatArray = 1 + np.asarray(adjacency.sum(axis=1)).ravel()
    forward, backward = np.asarray(propagation @ Z), np.asarray(propagation.T @ S)
    through = (S * forward + Z * backward).sum(axis=1)
    t = (through / (2 * degrees))[:, None]
    root, one = np.sqrt(degrees)[:, None], np.ones((len(S), 1))
    left = np.hstack([S / root, Z / root, -t, one])
    right = np.hstack([Z / root, S / root, one, -t])
    return LinkScores(left, right, (S * Z).sum(axis=1) / degrees - t[:, 0])


def largest(
    scores: LinkScores, count: int, order: Order, excluded: CSRArray | None, memory_limit: int
) -> tuple[IntArray, FloatArray]:
    """Return the ``count`` links i < j of largest score but those excluded, largest first and ties by (i, j)."""
    nodes = len(scores.left)
    rows = max(1, memory_limit // (40 * nodes))  # bytes of a block, its keys, a mask, and the indices found in it
    keys, values = np.empty(0), np.empty(0)
    links = np.empty((0, 2), dtype=np.int64)
    for start in range(0, nodes, rows):
        block = scores.left[start : start + rows] @ scores.right[start:].T  # with all nodes from `start` on
        key = ranking(order)(block)
        _leave_out(key, start, excluded)
        bar = keys[-1] if len(keys) == count else -np.inf
        i, j = _candidates(key, count, bar)
        keys, values = np.append(keys, key[i, j]), np.append(values, block[i, j])
        links = np.append(links, np.stack([i, j], axis=1) + start, axis=0)
        best = np.lexsort((links[:, 1], links[:, 0], -keys))[:count]
        keys, values, links = keys[best], values[best], links[best]
    return links, values


def _leave_out(key: FloatArray, start: int, excluded: CSRArray | None) -> None:
    """Rule out, in place, pairs with j ≤ i (each link is met once) and those that are excluded."""
    height = len(key)
    key[:, :height][np.tril_indices(height)] = -np.inf
    if excluded is not None:
        found = excluded[start : start + height].tocoo()
        later = found.col >= start
        key[found.row[later], found.col[later] - start] = -np.inf


def _candidates(key: FloatArray, count: int, bar: float) -> tuple[IntArray, IntArray]:
    """Return where keys are above ``bar``, at most ``count`` places: the largest keys, then the first."""
    above = np.flatnonzero(key > bar)
    if len(above) > count:
        found = key.ravel()[above]
        cut = np.partition(found, -count)[-count]
        better, equal = above[found > cut], above[found == cut]
        above = np.append(better, equal[: count - len(better)])
    i, j = np.unravel_index(above, key.shape)
    return i.astype(np.int64), j.astype(np.int64)
