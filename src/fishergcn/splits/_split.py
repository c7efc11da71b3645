"""A split: three disjoint lists of node indices."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from fishergcn._base.arrays import check_indices
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.errors import InputError

PARTS = ("train", "val", "test")


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """Disjoint node indices for training, validation and test.

    Parameters
    ----------
    name
        How the split was made, for instance ``"public"`` or ``"shuffled:2019"``.
    train, val, test
        Node indices, each index in one list at most; the order is kept. ``train`` must not be empty.
    node_weight
        How much each of the n nodes counts where it is learned from, finite and not negative; all the same by default.
        The training loss is the mean with these weights. A network is needed, and validation and test stay unweighted.

    Examples
    --------
    >>> split = Split("mine", train=[0, 1], val=[4], test=[3, 2])
    >>> split
    Split('mine', train=2, val=1, test=2)
    >>> split.test
    array([3, 2])
    """

    name: str
    train: IntArray
    val: IntArray
    test: IntArray
    node_weight: FloatArray | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"The name of a split must be a non-empty string, got {self.name!r}.")
        for part in PARTS:
            object.__setattr__(self, part, _indices(part, getattr(self, part)))
        if self.train.size == 0:
            raise InputError("train must list at least one node, got none.")
        for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
            shared = np.intersect1d(getattr(self, first), getattr(self, second), assume_unique=True)
            if shared.size:
                raise InputError(f"{first} and {second} must be disjoint, but both list node {shared[0]}.")
        if self.node_weight is not None:
            object.__setattr__(self, "node_weight", _node_weight(self.node_weight, self.train))

    def check(self, num_nodes: int) -> Split:
        """Return the split itself if every index is below ``num_nodes``, else raise.

        Examples
        --------
        >>> Split("mine", [0], [1], [2]).check(3)
        Split('mine', train=1, val=1, test=1)
        """
        for part in PARTS:
            nodes = getattr(self, part)
            if nodes.size and nodes.max() >= num_nodes:
                raise InputError(f"{part} of split {self.name!r} must list nodes below {num_nodes}, got {nodes.max()}.")
        if self.node_weight is not None and len(self.node_weight) != num_nodes:
            raise InputError(
                f"node_weight of split {self.name!r} must have a number for each of {num_nodes} nodes, "
                f"got {len(self.node_weight)}."
            )
        return self

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part}={getattr(self, part).size}" for part in PARTS)
        return f"Split({self.name!r}, {sizes})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Split):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies sent to other processes go through the constructor, so that they are read-only too.
        return Split, (self.name, self.train, self.val, self.test, self.node_weight)

    def _key(self) -> tuple[str | bytes, ...]:
        parts = (self.train, self.val, self.test, *(() if self.node_weight is None else (self.node_weight,)))
        return self.name, *(part.tobytes() for part in parts)


def _indices(part: str, values: Any) -> IntArray:
    """Return ``values`` as distinct node indices."""
    nodes = check_indices(part, values)
    distinct, counts = np.unique(nodes, return_counts=True)
    if distinct.size < nodes.size:
        raise InputError(f"{part} must list every node once, but node {distinct[counts > 1][0]} is repeated.")
    return nodes


def _node_weight(values: Any, train: IntArray) -> FloatArray:
    """Return ``values`` as read-only numbers of which at least one training node has a positive one."""
    weight = np.array(values, dtype=np.float64)
    if weight.ndim != 1 or not np.isfinite(weight).all() or (weight < 0).any():
        raise InputError("node_weight must be a list of finite numbers, one for each node, none of them negative.")
    if len(weight) <= train.max() or not (weight[train] > 0).any():
        raise InputError("node_weight must be positive for at least one training node.")
    weight.setflags(write=False)
    return weight
