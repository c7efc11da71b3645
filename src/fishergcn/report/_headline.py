"""The top of the page of a study: the verdict in one or two sentences, and one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fishergcn._base.text import signed_points
from fishergcn.drawing import Look, tag
from fishergcn.report import _captions as captions
from fishergcn.report._chart import chart_figure
from fishergcn.report._chart_study import accuracy_panel, row_chart
from fishergcn.report._forest import verdict
from fishergcn.report._markup import Section
from fishergcn.report._outcome import Outcome
from fishergcn.studies import Cell, Comparison

# Rows of a panel; those of longer lists are chosen by their means.
_MOST_ROWS = 14


def headline(outcome: Outcome, looks: Mapping[str, Look], said: str = "") -> Section | None:
    """Say which method came out first and whether the perturbation helps; draw the accuracy of all methods.

    What is ``said`` by others about the perturbation comes first, and is not said again.
    """
    if not outcome.summaries:
        return None
    panels = [
        accuracy_panel(dataset if len(outcome.datasets) > 1 else "", rows, outcome, looks)
        for dataset in outcome.datasets
        if (rows := _rows(outcome, dataset))
    ]
    chart = row_chart("headline", f"Test accuracy on {', '.join(outcome.datasets)}", panels, looks)
    words = [tag("p", each, class_="verdict") for each in _verdict(outcome, said)]
    return Section("headline", "In short", [*words, chart_figure("Test accuracy", captions.HEADLINE, [chart])], [chart])


def _rows(outcome: Outcome, dataset: str) -> list[Cell]:
    """Return the cells to draw: those without variants, the best where there are too many."""
    cells = [cell for cell in outcome.cells(dataset).values() if cell in outcome.summaries]
    plain = [cell for cell in cells if not cell.variant] or cells
    best = sorted(plain, key=lambda cell: -_mean(outcome, cell))[:_MOST_ROWS]
    return [cell for cell in plain if cell in best]


def _mean(outcome: Outcome, cell: Cell) -> float:
    accuracy = outcome.summaries[cell].accuracy
    return accuracy.mean if accuracy is not None else -1.0


def _verdict(outcome: Outcome, said: str) -> list[str]:
    return [said, _best(outcome)] if said else [_best(outcome), *_controls(outcome)]


def _best(outcome: Outcome) -> str:
    found = []
    for dataset in outcome.datasets:
        cells = [cell for cell in outcome.summaries if cell.dataset == dataset]
        best = max(cells, key=lambda cell: _mean(outcome, cell))
        found.append((best.name, dataset, f"{_mean(outcome, best):.1%}"))
    methods = len({cell.name for cell in outcome.summaries})
    what = "the mean test accuracy" if methods == 1 else f"the highest mean test accuracy of {methods} methods"
    if len(found) == 1:
        ((name, dataset, value),) = found
        return (
            f"{name} has {what} on {dataset}: {value}." if methods > 1 else f"{name} has {what} {value} on {dataset}."
        )
    listed = ", ".join(f"{name} on {dataset} ({value})" for name, dataset, value in found)
    return f"{what[0].upper()}{what[1:]}: {listed}."


def _controls(outcome: Outcome) -> list[str]:
    """Sum up how perturbed methods did against their controls, in one sentence."""
    plain = {cell.name for cell in outcome.runs if not cell.variant}
    judged = [one for one in outcome.comparisons if one.role == "control" and one.cell in plain]
    judged = judged or [one for one in outcome.comparisons if one.role == "control"]
    if not judged:
        return []
    if len(judged) == 1:
        return [sentence(judged[0])]
    sides = [verdict(one.difference) for one in judged]
    return [
        "Changing the graph during training, compared with a control trained without it: better in "
        f"{_of(sides, 'above')}, worse in {_of(sides, 'below')}, no measurable difference in "
        f"{_of(sides, 'zero', 'unknown', 'equal')} of {len(judged)} comparisons."
    ]


def _of(sides: Sequence[str], *wanted: str) -> str:
    return str(sum(side in wanted for side in sides))


def sentence(one: Comparison) -> str:
    """Say how a method did against its control."""
    side, gain = verdict(one.difference), one.difference
    names = f"{one.cell} and its control {one.reference} on {one.dataset}"
    if side == "unknown":
        return f"{names} differ by {signed_points(gain.mean)} points; there are too few runs to say more."
    if side == "equal":
        return f"{names} have equal results in all runs."
    interval = f"95% interval {signed_points(gain.low)} to {signed_points(gain.high)}"
    if side == "zero":
        return f"{names} cannot be told apart: {signed_points(gain.mean)} points ({interval})."
    better = "better" if side == "above" else "worse"
    said = f"{one.cell} is {better} than its control {one.reference} on {one.dataset}"
    return f"{said}: {signed_points(gain.mean)} points ({interval})."
