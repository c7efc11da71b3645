"""Geometries of graphs, each in a module of its own.

:mod:`fishergcn.geometry.intrinsic` looks at the graph alone, as a density matrix under the Bures metric: how far a
graph has moved; :mod:`fishergcn.geometry.differentiable` is the same in torch, for batches and with derivatives.
:mod:`fishergcn.geometry.extrinsic` asks how much a network responds to such a move.
:mod:`fishergcn.geometry.embedding` measures embeddings of the nodes, :mod:`fishergcn.geometry.statistics` has the
statistics of many graphs.
"""

from __future__ import annotations

from fishergcn.geometry import differentiable, embedding, extrinsic, intrinsic, statistics

__all__ = ["differentiable", "embedding", "extrinsic", "intrinsic", "statistics"]
