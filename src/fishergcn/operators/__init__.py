"""Matrices as what they do: everything that a graph convolution can multiply with."""

from __future__ import annotations

from fishergcn.operators._block import BlockOperator
from fishergcn.operators._congruence import CongruenceOperator, NodeBlockOperator, PolynomialOperator
from fishergcn.operators._dense import DenseOperator
from fishergcn.operators._identity import IdentityOperator, as_operator
from fishergcn.operators._links import LinkOperator
from fishergcn.operators._low_rank import SparsePlusLowRank
from fishergcn.operators._operator import Operator
from fishergcn.operators._pooled import PooledOperator
from fishergcn.operators._sparse import SparseMatrix, spmm

__all__ = [
    "BlockOperator", "CongruenceOperator", "DenseOperator", "IdentityOperator", "LinkOperator", "NodeBlockOperator",
    "Operator", "PolynomialOperator", "PooledOperator", "SparseMatrix", "SparsePlusLowRank", "as_operator", "spmm",
]  # fmt: skip
