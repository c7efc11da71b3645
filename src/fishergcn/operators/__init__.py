"""Matrices as what they do: everything that a graph convolution can multiply with."""

from __future__ import annotations

from fishergcn.operators._block import BlockOperator, NodeBlockOperator
from fishergcn.operators._congruence import CongruenceOperator, PolynomialOperator
from fishergcn.operators._dense import DenseOperator, IdentityOperator, as_operator
from fishergcn.operators._graphs import LinkOperator, PooledOperator
from fishergcn.operators._low_rank import SparsePlusLowRank
from fishergcn.operators._operator import Operator
from fishergcn.operators._sparse import SparseMatrix, spmm

__all__ = ["DenseOperator", "Operator", "SparseMatrix", "SparsePlusLowRank"]

SHARED = (
    "BlockOperator", "CongruenceOperator", "IdentityOperator", "LinkOperator", "NodeBlockOperator",
    "PolynomialOperator", "PooledOperator", "as_operator", "spmm",
)  # fmt: skip
