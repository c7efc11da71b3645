"""Sampled neighborhoods for mini-batches, from random numbers that belong to nodes.

A batch of nodes needs, one layer after the other, the rows of Ã of what it has reached so far. A row with more than f
neighbors is replaced by f of them, drawn without replacement and weighted d/f, beside the node itself:

    Σ_j ã_ij z_j  ≈  ã_ii z_i + (d_i/f) Σ_{j in S_i} ã_ij z_j,   |S_i| = f

Every neighbor is drawn with probability f/d_i, so the sum is unbiased (Horvitz and Thompson 1952); a network of several
layers, which is not linear, is not. Which neighbors a node draws depends on run, step, layer and node alone: however a
batch is cut into parts, its nodes draw the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.arrays import ranges, row_blocks
from fishergcn._base.checks import check_integer
from fishergcn._base.types import CSRArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.streams import node_fractions, random_order

ALL = -1  # a fanout that takes every neighbor


@dataclass(frozen=True)
class Block:
    """One layer of a sampled neighborhood: p nodes out, q nodes in, both ascending, and their part of Ã, p x q."""

    rows: IntArray
    columns: IntArray
    matrix: CSRArray


@dataclass(frozen=True)
class BatchSettings:
    """How a step is cut out of the graph.

    Parameters
    ----------
    batch_size
        Labeled nodes a step, at most.
    fanout
        Neighbors that a node draws, for each layer, that next to the batch (the last) first; -1 for all.

    Examples
    --------
    >>> BatchSettings(512, (10, 10)).fanout
    (10, 10)
    """

    batch_size: int
    fanout: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", check_integer("batch size", self.batch_size, minimum=1))
        object.__setattr__(self, "fanout", check_fanout(self.fanout))


class NeighborSampler:
    """Draw for each node of a batch the neighbors that its layers read, beside the node itself.

    ``fanout`` has one number for each layer, that next to the batch (the last) first; -1 takes all. With ``itself`` a
    layer reads the nodes that it outputs even where the matrix does not lead to them.
    """

    def __init__(self, propagation: CSRArray, fanout: Sequence[int], key: int, *, itself: bool = False) -> None:
        self.propagation, self.itself = propagation, itself
        self.fanout = check_fanout(fanout)
        self.key = key
        # Where the diagonal entry of each row stands; -1 where there is none. Ã may be mapped: a block at a time.
        nodes, indptr = propagation.shape[0], propagation.indptr
        self._diagonal = np.full(nodes, -1, dtype=np.int64)
        for first, last in row_blocks(indptr):
            owner = np.repeat(np.arange(first, last), np.diff(indptr[first : last + 1]))
            at = np.flatnonzero(propagation.indices[indptr[first] : indptr[last]] == owner)
            self._diagonal[owner[at]] = at + indptr[first]

    def blocks(self, nodes: IntArray, step: int) -> list[Block]:
        """Return the blocks of a batch of distinct nodes, first layer first; each step draws anew."""
        found: list[Block] = []
        reached = np.sort(nodes)
        for hop, fanout in enumerate(self.fanout):
            found.append(self._block(reached, fanout, hop, step))
            reached = found[-1].columns
        return found[::-1]

    def _block(self, rows: IntArray, fanout: int, hop: int, step: int) -> Block:
        matrix: Any = self.propagation
        starts = matrix.indptr[rows].astype(np.int64)
        lengths = matrix.indptr[rows + 1] - starts
        diagonal = self._diagonal[rows]
        degrees = lengths - (diagonal >= 0)
        sampled = degrees > fanout if fanout != ALL else np.zeros(len(rows), dtype=np.bool_)
        whole = ranges(starts[~sampled], lengths[~sampled])
        itself = diagonal[sampled & (diagonal >= 0)]
        drawn = self._draw(rows[sampled], degrees[sampled], fanout, hop, step)
        drawn += starts[sampled, None]
        drawn += (drawn >= diagonal[sampled, None]) & (diagonal[sampled, None] >= 0)  # step over the node itself
        weights = np.repeat(degrees[sampled] / max(fanout, 1), drawn.shape[1])
        entries = np.concatenate([whole, itself, drawn.ravel()])
        factors = np.concatenate([np.ones(len(whole) + len(itself)), weights])
        # Rows ascend, and so do entries within and between rows: one order serves for both.
        order = np.argsort(entries, kind="stable")
        counts = np.where(sampled, fanout + (diagonal >= 0), lengths)
        return self._assemble(rows, entries[order], factors[order], counts)

    def _assemble(self, rows: IntArray, entries: IntArray, factors: FloatArray, counts: IntArray) -> Block:
        matrix: Any = self.propagation
        indices = matrix.indices[entries]
        columns = np.unique(np.concatenate([indices, rows]) if self.itself else indices)
        position = np.searchsorted(columns, indices)
        pointers = np.concatenate([[0], np.cumsum(counts)])
        values = matrix.data[entries] * factors
        part: Any = sparse.csr_array((values, position, pointers), shape=(len(rows), len(columns)))
        return Block(rows, columns.astype(np.int64), part)

    def _draw(self, nodes: IntArray, degrees: IntArray, fanout: int, hop: int, step: int) -> IntArray:
        """Draw ``fanout`` different numbers below each degree, by Floyd's algorithm for all nodes at once."""
        chosen = np.empty((len(nodes), max(fanout, 0)), dtype=np.int64)
        if len(nodes) == 0:
            return chosen
        fractions = node_fractions(self.key, nodes, fanout, hop, step)
        for draw in range(fanout):
            last = degrees - fanout + draw
            picked = (fractions[:, draw] * (last + 1)).astype(np.int64)
            taken = (chosen[:, :draw] == picked[:, None]).any(axis=1)
            chosen[:, draw] = np.where(taken, last, picked)
        return chosen


def check_fanout(fanout: Sequence[int], layers: int | None = None) -> tuple[int, ...]:
    """Return the fanouts as a tuple, one for each layer, or raise."""
    found = tuple(check_integer("fanout", each, minimum=ALL) for each in fanout)
    if 0 in found:
        raise InputError("fanout must be at least 1, or -1 for all neighbors, got 0.")
    if not found or (layers is not None and len(found) != layers):
        wanted = "at least one number" if layers is None else f"{layers} numbers, one for each layer"
        raise InputError(f"fanout must hold {wanted}, got {len(found)}.")
    return found


def batches(nodes: IntArray, batch_size: int, key: int, epoch: int) -> list[IntArray]:
    """Deal nodes into as few batches of at most ``batch_size`` as possible, of equal size to within one."""
    count = -(-len(nodes) // batch_size)
    order = random_order(key, len(nodes), epoch)
    return [np.sort(part) for part in np.array_split(nodes[order], count)]
