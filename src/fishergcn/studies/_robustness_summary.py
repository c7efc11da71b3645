"""From points to curves with intervals, and to paired differences between methods and their controls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fishergcn._base.text import csv_text
from fishergcn._base.text import signed_points as signed
from fishergcn.datasets import available
from fishergcn.studies._resampling import Estimate, Key, estimate, paired_difference
from fishergcn.studies._robustness_points import Point
from fishergcn.studies._robustness_settings import ATTACKS
from fishergcn.training import METHODS, TrainConfig, control_of

__all__ = ["TITLES", "UNITS", "Cell", "ends", "markdown", "summarize", "summary_csv"]

TITLES = {
    "links-added": "random links added",
    "links-removed": "random links removed",
    "bures-ball": "worst graph in a Bures ball",
    "prbcd": "links flipped by PRBCD",
    "features": "feature entries replaced",
    "training-links": "links added before training",
}
UNITS = {
    "links-added": "share of the links",
    "links-removed": "share of the links",
    "bures-ball": "Bures distance",
    "prbcd": "share of the links",
    "features": "share of the entries",
    "training-links": "share of the links",
}


@dataclass(frozen=True)
class Cell:
    """A method at one level of an attack.

    Attributes
    ----------
    dataset, attack, level, size, method
        What; see :class:`fishergcn.attacks.Point`. ``size`` is a mean over runs.
    accuracy
        With its interval, over splits.
    control, difference
        The method without the perturbation, and accuracy minus its accuracy, paired run by run; or None.
    """

    dataset: str
    attack: str
    level: float
    size: float
    method: str
    accuracy: Estimate
    control: str | None
    difference: Estimate | None

    @property
    def place(self) -> float:
        """Where the cell stands on the axis of its curve."""
        return self.size if self.attack == "bures-ball" else self.level


def summarize(points: Iterable[Point]) -> list[Cell]:
    """Return one cell for each data set, attack, level and method, in a fixed order.

    Examples
    --------
    >>> runs = [("a", 0.8), ("b", 0.7)]
    >>> some = [Point("cora", "gcn", "prbcd", 0.1, split, 2019, 528, accuracy, 1.0) for split, accuracy in runs]
    >>> [cell] = summarize(some)
    >>> round(cell.accuracy.mean, 12), cell.control
    (0.75, None)
    """
    values: dict[tuple[str, str, float, str], dict[Key, float]] = defaultdict(dict)
    sizes: dict[tuple[str, str, float, str], list[float]] = defaultdict(list)
    places = {dataset: place for place, dataset in enumerate(available())}  # then others, as they come
    for point in points:
        name = (point.dataset, point.attack, point.level, point.method)
        values[name][point.split, point.seed] = point.accuracy
        sizes[name].append(point.size)
        places.setdefault(point.dataset, len(places))
    names = sorted(values, key=lambda name: (places[name[0]], *_order(name[1:])))
    return [_cell(name, values, sum(sizes[name]) / len(sizes[name])) for name in names]


def ends(cells: Iterable[Cell]) -> list[tuple[Cell, Cell]]:
    """Return the lowest and the highest level of each curve; levels ascend, as :func:`summarize` has them."""
    curves: dict[tuple[str, str, str], tuple[Cell, Cell]] = {}
    for cell in cells:
        name = (cell.dataset, cell.attack, cell.method)
        curves[name] = (curves.get(name, (cell, cell))[0], cell)
    return list(curves.values())


def _order(name: tuple[str, float, str]) -> tuple[int, float, int, str]:
    attack, level, method = name
    return ATTACKS.index(attack), level, METHODS.index(method) if method in METHODS else len(METHODS), method


def _cell(
    name: tuple[str, str, float, str], values: dict[tuple[str, str, float, str], dict[Key, float]], size: float
) -> Cell:
    dataset, attack, level, method = name
    control = control_of(method, TrainConfig())
    theirs = values.get((dataset, attack, level, control), {}) if control else {}
    shared = values[name].keys() & theirs.keys()
    difference = paired_difference(values[name], theirs)[0] if shared else None
    return Cell(dataset, attack, level, size, method, estimate(values[name]), control, difference)


def summary_csv(cells: Iterable[Cell]) -> str:
    """Return the cells as CSV; accuracies are fractions, intervals of 95 %."""
    columns = ["dataset", "attack", "level", "size", "method", "accuracy", "low", "high", "runs", "control",
               "difference", "difference_low", "difference_high"]  # fmt: skip
    rows = []
    for cell in cells:
        found, gap = cell.accuracy, cell.difference
        apart = [None] * 3 if gap is None else [gap.mean, gap.low, gap.high]
        rows.append([cell.dataset, cell.attack, cell.level, cell.size, cell.method, found.mean, found.low, found.high,
                     found.runs, cell.control, *apart])  # fmt: skip
    return csv_text(columns, rows)


def markdown(cells: Sequence[Cell]) -> str:
    """Return tables in Markdown, one for each data set and attack: accuracies, then paired differences."""
    parts = []
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        parts.append(f"### {dataset}\n")
        here = [cell for cell in cells if cell.dataset == dataset]
        for attack in dict.fromkeys(cell.attack for cell in here):
            parts.append(_table([cell for cell in here if cell.attack == attack]))
    return "\n".join(parts)


def _table(cells: Sequence[Cell]) -> str:
    """Return the table of one curve; intervals of 95 % in brackets."""
    attack, levels = cells[0].attack, sorted({cell.level for cell in cells})
    found = {(cell.method, cell.level): cell for cell in cells}
    methods = list(dict.fromkeys(cell.method for cell in cells))
    runs = sorted({cell.accuracy.runs for cell in cells})
    head = [f"{level:.0%}" for level in levels]
    unit = _reach(cells) if attack == "bures-ball" else UNITS[attack]
    lines = [
        f"**{_capital(attack)}** ({unit}; {'–'.join(map(str, runs))} runs a point)\n",
        f"| | {' | '.join(head)} |",
        f"|---|{'---:|' * len(levels)}",
    ]
    for method in methods:
        row = [_accuracy(found.get((method, level))) for level in levels]
        lines.append(f"| {method} | {' | '.join(row)} |")
    for method in methods:
        if any(cell.difference for cell in cells if cell.method == method):
            control = found[method, levels[0]].control
            row = [_difference(found.get((method, level))) for level in levels]
            lines.append(f"| *{method} − {control}* | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _capital(attack: str) -> str:
    """Return the words for an attack, with a capital."""
    return TITLES[attack][0].upper() + TITLES[attack][1:]


def _reach(cells: Sequence[Cell]) -> str:
    """Say what the levels of the Bures ball mean, for each propagation matrix."""
    reach = {cell.method: f"{cell.size / cell.level:.4f}" for cell in cells if cell.level > 0}
    words = [
        f"{value} for {', '.join(name for name in reach if reach[name] == value)}"
        for value in dict.fromkeys(reach.values())
    ]
    return f"share of the farthest distance, D_B = {'; '.join(words)}"


def _accuracy(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    found = cell.accuracy
    text = f"{100 * found.mean:.2f}"
    return f"{text} [{100 * found.low:.1f}, {100 * found.high:.1f}]" if found.low <= found.high else text


def _difference(cell: Cell | None) -> str:
    gap = cell.difference if cell else None
    if gap is None:
        return "–"
    text = signed(gap.mean)
    return f"{text} [{signed(gap.low)}, {signed(gap.high)}]" if gap.low <= gap.high else text
