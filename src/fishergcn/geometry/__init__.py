"""Three ways to measure how far a graph has moved, each in a module of its own.

:mod:`fishergcn.geometry.intrinsic` looks at the graph alone, as a density matrix under the Bures metric.
"""

from __future__ import annotations

from fishergcn.geometry import intrinsic

__all__ = ["intrinsic"]
