"""Matrices as what they do: everything that a graph convolution can multiply with."""

from __future__ import annotations

from fishergcn.operators._block import BlockOperator
from fishergcn.operators._low_rank import ArrayOrTensor, SparsePlusLowRank, as_tensor
from fishergcn.operators._sparse import SparseMatrix, spmm

__all__ = ["ArrayOrTensor", "BlockOperator", "SparseMatrix", "SparsePlusLowRank", "as_tensor", "spmm"]
