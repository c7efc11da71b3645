"""Propagation matrices: what a graph convolution multiplies with."""

from __future__ import annotations

from fishergcn.propagation._mapped import renormalized_into
from fishergcn.propagation._matrices import (
    dense_high_order,
    high_order,
    neighbor_mean,
    normalized_adjacency,
    propagation_product,
    renormalized,
    walk_matrix,
)
from fishergcn.propagation._new_nodes import high_order_rows, joined, normalized_rows, renormalized_rows
from fishergcn.propagation._registry import (
    Matrix,
    find_matrix,
    matrices,
    outside_modules,
    register_matrix,
    share_matrices,
)
from fishergcn.propagation._walk import transition_matrix

__all__ = [
    "Matrix", "find_matrix", "high_order", "neighbor_mean", "normalized_adjacency", "register_matrix", "renormalized",
]  # fmt: skip

SHARED = (
    "dense_high_order", "high_order_rows", "joined", "matrices", "normalized_rows", "outside_modules",
    "propagation_product", "renormalized_into", "renormalized_rows", "share_matrices", "transition_matrix",
    "walk_matrix",
)  # fmt: skip
