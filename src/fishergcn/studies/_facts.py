"""What is noted about the data of a study beside its runs, so that no reader of them needs the data."""

from __future__ import annotations

from fishergcn.studies._plan import Cell
from fishergcn.training import parse_method

__all__ = ["spectrum_key"]


def spectrum_key(cell: Cell) -> str:
    """Return under which name the largest eigenvalues of L of a cell's graph are noted in :attr:`Runs.facts`.

    Examples
    --------
    >>> from fishergcn import studies
    >>> plan = studies.make_plan("quick", datasets=["cora"], methods=["fishergcn", "fishergcn-t"])
    >>> for cell in plan.cells:
    ...     if cell.name.startswith("fisher"):
    ...         print(spectrum_key(cell))
    spectrum cora renormalized
    spectrum cora high-order 5 0.0001
    """
    if not parse_method(cell.method).high_order:
        return f"spectrum {cell.dataset} renormalized"
    return f"spectrum {cell.dataset} high-order {cell.config.order} {cell.config.threshold:g}"
