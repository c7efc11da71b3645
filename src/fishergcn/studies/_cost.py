"""What a plan costs: its cells as parts whose memory is counted and whose epochs are timed."""

from __future__ import annotations

from collections.abc import Iterator

from fishergcn.execution import Cost, Part, cost_of
from fishergcn.graph import Graph
from fishergcn.studies._jobs import graph_of, splits_of
from fishergcn.studies._plan import Cell, Plan
from fishergcn.training import Sizes, learnable, parse_method


def plan_cost(plan: Plan, device: str, workers: int | None) -> Cost:
    """Return what the training of a plan takes."""
    parts = [part for dataset in plan.datasets for part in _parts(plan, dataset)]
    return cost_of(parts, device, workers)


def _parts(plan: Plan, dataset: str) -> Iterator[Part]:
    graph, known, usable = graph_of(plan, dataset), dict[str, Sizes](), dict[bool, Graph]()
    splits = list(splits_of(plan, dataset, graph).values())
    for cell in _trained(plan, dataset):
        method, matrix = parse_method(cell.method), plan.matrix(cell)
        if method.trained not in usable:
            usable[method.trained] = learnable(graph, [method])
        if matrix not in known:
            known[matrix] = Sizes.of(usable[method.trained], method, cell.config, splits)
        name = cell.name if plan.measure == "training" else f"{cell.method} {cell.variant}".strip()
        runs = len(plan.runs(cell))
        yield Part(dataset, name, known[matrix], method, cell.config, runs, usable[method.trained], splits)


def _trained(plan: Plan, dataset: str) -> list[Cell]:
    """Return the cells that are trained: of those that attack the same networks, one."""
    cells = [cell for cell in plan.cells if cell.dataset == dataset]
    if plan.measure == "training":
        return cells
    return list({(cell.method, cell.variant): cell for cell in cells}.values())
