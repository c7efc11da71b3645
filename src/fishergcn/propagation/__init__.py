"""Propagation matrices: what a graph convolution multiplies with."""

from __future__ import annotations

from fishergcn._settings.config import MAX_ORDER
from fishergcn.propagation._mapped import renormalized_into
from fishergcn.propagation._matrices import (
    high_order,
    neighbor_mean,
    normalized_adjacency,
    renormalized,
    walk_matrix,
)
from fishergcn.propagation._new_nodes import high_order_rows, joined, normalized_rows, renormalized_rows
from fishergcn.propagation._registry import Matrix, find_matrix, matrices, outside_modules, register_matrix
from fishergcn.propagation._torch import dense_high_order, propagation_product
from fishergcn.propagation._walk import transition_matrix

__all__ = [
    "MAX_ORDER", "Matrix", "dense_high_order", "find_matrix", "high_order", "high_order_rows", "joined", "matrices",
    "neighbor_mean", "normalized_adjacency", "normalized_rows", "propagation_product", "register_matrix",
    "renormalized", "renormalized_into", "renormalized_rows", "transition_matrix", "walk_matrix",
]  # fmt: skip

SHARED = ("outside_modules",)
