"""The graph, and reading, writing and converting it."""

from __future__ import annotations

from fishergcn.graph._components import components, largest_component
from fishergcn.graph._formats._covariates import read_covariate
from fishergcn.graph._formats._many import ManyGraphs, read_graphs
from fishergcn.graph._graph import Graph
from fishergcn.graph._targets import TASKS, Task, for_task, known_nodes, strata, target_words

__all__ = ["Graph", "components", "largest_component", "read_graphs"]

SHARED = ("TASKS", "ManyGraphs", "Task", "for_task", "known_nodes", "read_covariate", "strata", "target_words")
