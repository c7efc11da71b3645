"""The graph, and reading, writing and converting it."""

from __future__ import annotations

from fishergcn.graph._adjacency import as_square_csr, check_adjacency, symmetric_or_raise
from fishergcn.graph._graph import Graph

__all__ = ["Graph", "as_square_csr", "check_adjacency", "symmetric_or_raise"]
