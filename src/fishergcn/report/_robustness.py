"""What a study of robustness found: its pictures, and a table of the ends of its curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fishergcn._base.text import signed_points as signed
from fishergcn.drawing import Html, data_link, tag
from fishergcn.report._geometry import geometry_figures
from fishergcn.studies import holds_robustness

if TYPE_CHECKING:
    from fishergcn.studies._robustness_summary import Cell

__all__ = ["draw_robustness", "robustness_parts", "robustness_words"]

_HEADS = ("data set", "attack", "method", "level", "accuracy %", "95 % interval", "minus its control, points")


def draw_robustness(folder: Path, figures: Path) -> None:
    """Draw the curves of the study in a folder, as ``robustness-NAME-*.svg``."""
    from fishergcn.drawing import write_pictures

    write_pictures(_cells(folder), figures)


def robustness_parts(folder: Path, figures: Path) -> list[Html]:
    """Return the pictures that are there, and the table if the folder holds a study."""
    return geometry_figures(figures, "robustness") + _table(folder)


def robustness_words(folder: Path) -> str:
    """Say what was measured on what."""
    from fishergcn.studies import read_points

    found = list(read_points(folder / "points.csv"))
    names = ", ".join(dict.fromkeys(point.dataset for point in found))
    return f"{len(found):,} points: trained networks on changed graphs and features of {names}."


def _cells(folder: Path) -> list[Cell]:
    from fishergcn.studies import read_points
    from fishergcn.studies._robustness_summary import summarize

    return summarize(read_points(folder / "points.csv"))


def _table(folder: Path) -> list[Html]:
    """Return accuracies at the highest level of each attack, with all levels as data."""
    if not holds_robustness(folder):
        return []
    from fishergcn.studies._robustness_summary import ends, summary_csv

    cells = _cells(folder)
    rows = [tag("tr", *(tag("td", text) for text in _texts(cell))) for _, cell in ends(cells)]
    head = tag("thead", tag("tr", *(tag("th", text, scope="col") for text in _HEADS)))
    table = tag("table", head, tag("tbody", *rows), class_="robustness")
    region = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="Robustness")
    link = data_link("all levels (CSV)", "robustness.csv", summary_csv(cells))
    words = "At the highest level of each attack. Data: "
    return [tag("h3", "Ends of the curves"), region, tag("p", words, link, class_="caption")]


def _texts(cell: Cell) -> list[str]:
    found, gap = cell.accuracy, cell.difference
    interval = f"{100 * found.low:.2f} – {100 * found.high:.2f}" if found.low <= found.high else "–"
    apart = "–"
    if gap is not None:
        apart = signed(gap.mean) + (f" [{signed(gap.low)}, {signed(gap.high)}]" if gap.low <= gap.high else "")
    return [cell.dataset, cell.attack, cell.method, f"{cell.level:.0%}", f"{100 * found.mean:.2f}", interval, apart]
