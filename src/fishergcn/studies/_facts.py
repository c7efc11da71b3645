"""What a report needs to know about the data, noted while they are at hand: sizes, and the top of the spectrum."""

from __future__ import annotations

from collections.abc import Callable

from fishergcn._base.types import CSRArray
from fishergcn.errors import FisherGCNError
from fishergcn.graph import Graph
from fishergcn.spectrum import top_spectrum
from fishergcn.studies._plan import Cell
from fishergcn.studies._runs import SHOWN
from fishergcn.studies._store import RunStore


def note_data(store: RunStore, dataset: str, graph: Graph) -> None:
    """Note the sizes of a graph."""
    sizes = {"nodes": graph.num_nodes, "links": graph.num_links, "features": graph.num_features}
    store.remember(f"data {dataset}", lambda: {**sizes, "classes": graph.num_classes})


def note_spectrum(store: RunStore, cell: Cell, propagation: Callable[[], CSRArray]) -> None:
    """Note the largest eigenvalues of L = I - Ã, three times as many as any cell on this matrix perturbs."""
    plan = store.plan
    matrix = plan.matrix(cell)

    def eigenvalues() -> list[float] | None:
        alike = [each for each in plan.cells if each.dataset == cell.dataset and plan.matrix(each) == matrix]
        rank = SHOWN * max(each.config.rank for each in alike if each.perturbs_the_top)
        try:
            return list(map(float, top_spectrum(propagation(), rank=rank).eigenvalues))
        except FisherGCNError:  # a graph so small that it has fewer
            return None

    if cell.perturbs_the_top:
        store.remember(f"spectrum {cell.dataset} {matrix}", eigenvalues)
