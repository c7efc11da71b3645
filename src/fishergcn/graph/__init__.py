"""The graph, and reading, writing and converting it."""

from __future__ import annotations

from fishergcn.graph._components import components, largest_component
from fishergcn.graph._graph import Graph

__all__ = ["Graph", "components", "largest_component"]
