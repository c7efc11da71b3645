"""The result table beside the paper's: for the page, as Markdown and as CSV."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from fishergcn._base.foreign import markdown
from fishergcn._base.text import csv_text, markdown_table, signed_points
from fishergcn.drawing import Html, Look, tag
from fishergcn.report._forest import points_text
from fishergcn.report._outcome import Outcome
from fishergcn.report._page import interval, number, percent, table
from fishergcn.studies import Cell, CellSummary, Comparison
from fishergcn.training import registered_scores

Column = tuple[str, str, Callable[[CellSummary], float | None], Callable[[float], str]]


def _decimal(value: float) -> str:
    return f"{value:.3f}"


def _part(name: str, part: str) -> Callable[[CellSummary], float | None]:
    return lambda summary: getattr(getattr(summary, name), part, None)


def _difference(summary: CellSummary) -> float | None:
    published = summary.published.accuracy if summary.published and summary.comparable else None
    return None if published is None or summary.accuracy is None else summary.accuracy.mean - published


def _signed(value: float) -> str:
    text = f"{value:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")


# Name in files, head on the page, value, how it is shown. Accuracies are fractions, shown in percent.
_COLUMNS: tuple[Column, ...] = (
    ("runs", "runs", lambda summary: summary.ok, lambda value: f"{value:,.0f}"),
    ("accuracy", "accuracy %", _part("accuracy", "mean"), percent),
    ("accuracy_low", "low", _part("accuracy", "low"), percent),
    ("accuracy_high", "high", _part("accuracy", "high"), percent),
    ("accuracy_std", "std", _part("accuracy", "std"), percent),
    ("balanced_accuracy", "balanced %", _part("balanced_accuracy", "mean"), percent),
    ("macro_f1", "macro F1 %", _part("macro_f1", "mean"), percent),
    ("loss", "loss", _part("loss", "mean"), _decimal),
    ("published_accuracy", "accuracy %", _part("published", "accuracy"), percent),
    ("published_accuracy_std", "std", _part("published", "accuracy_std"), lambda value: f"{100 * value:.1f}"),
    ("published_loss", "loss", _part("published", "loss"), lambda value: f"{value:.2f}"),
    ("accuracy_difference", "points", _difference, signed_points),
    ("accuracy_gap", "std. errors", lambda summary: summary.accuracy_gap, _signed),
)
_COMPARED = ("published_accuracy", "published_accuracy_std", "published_loss", "accuracy_difference", "accuracy_gap")
_JUDGED = ("accuracy_difference", "accuracy_gap")
_SOFT = frozenset({"runs", "accuracy_low", "accuracy_high", "accuracy_std", "balanced_accuracy", "macro_f1"})


def _own() -> list[Column]:
    """Return a column for each score that was registered beside those above."""
    known = {name for name, _, _, _ in _COLUMNS}
    return [
        (each.name, each.title + " %" * each.percent, _part(each.name, "mean"), percent if each.percent else _decimal)
        for each in registered_scores()
        if each.shown and each.name not in known
    ]


def judged(outcome: Outcome) -> bool:
    """Say whether there are enough splits, of the preset's settings, to measure the distance from the paper."""
    return any(summary.accuracy_gap is not None for summary in outcome.summaries.values())


def result_table(outcome: Outcome, dataset: str, looks: Mapping[str, Look]) -> Html:
    """Return the results on one data set; every number cell carries its full value in ``data-value``."""
    left_out = set() if outcome.plan.published else {*_COMPARED}
    left_out |= set() if judged(outcome) else {*_JUDGED}
    own, place = _own(), [name for name, _, _, _ in _COLUMNS].index("published_accuracy")
    columns = [each for each in (*_COLUMNS[:place], *own, *_COLUMNS[place:]) if each[0] not in left_out]
    spans = ("", 1), ("ours", 6 + len(own)), ("paper", 3), ("ours − paper", 2)  # low and high share a column
    shown = spans[: 4 if judged(outcome) else 3]
    groups = [tag("th", text, class_="group", colspan=str(span), scope="colgroup") for text, span in shown]
    heads = [
        "95% interval" if name == "accuracy_low" else head for name, head, *_ in columns if name != "accuracy_high"
    ]
    rows = [
        [_name_cell(cell, looks), *_number_cells(outcome.summaries[cell], columns)]
        for cell in outcome.cells(dataset).values()
    ]
    # Without the paper's numbers beside them there is nothing from which to tell ours.
    above = tag("tr", tag("td", ""), *groups) if outcome.plan.published else None
    heads = ["method", *(f"#{head}" for head in heads)]
    return table(f"Results on {dataset}", heads, rows, above, class_="results", data_dataset=dataset)


def tables_csv(outcome: Outcome) -> str:
    """Return all results, one row for each cell, with every digit."""
    numbers = [*_COLUMNS, *_own()]
    columns = ["dataset", "cell", "method", "variant", *(name for name, _, _, _ in numbers)]
    rows = [
        [cell.dataset, cell.name, cell.method, cell.variant, *(_known(value(summary)) for _, _, value, _ in numbers)]
        for cell, summary in outcome.summaries.items()
    ]
    return csv_text(columns, rows)


def tables_markdown(outcome: Outcome) -> str:
    """Return results and paired differences as Markdown."""
    heads = ["data set", "method", "runs", "accuracy % [95% interval]", "std", "balanced accuracy %", "macro F1 %",
             "loss", "paper: accuracy %", "paper: loss", "difference, points", "in std. errors"]  # fmt: skip
    results = [[cell.dataset, cell.name, *_markdown_cells(summary)] for cell, summary in outcome.summaries.items()]
    if not judged(outcome):
        heads, *results = (row[: 10 if outcome.plan.published else 8] for row in (heads, *results))
    for _, head, value, text in _own():
        heads = [*heads, head]
        means = [_known(value(summary)) for summary in outcome.summaries.values()]
        results = [[*row, "–" if mean is None else text(mean)] for row, mean in zip(results, means, strict=True)]
    paired = ["data set", "method − reference", "reference is", "difference, points [95% interval]",
              "won / tied / lost", "Wilcoxon p"]  # fmt: skip
    differences = [_markdown_difference(comparison) for comparison in outcome.comparisons]
    parts = [
        f"# {markdown(outcome.plan.title)}",
        "## Results",
        markdown_table(heads, results, right=range(2, len(heads))),
    ]
    if differences:
        parts += ["## Paired differences", markdown_table(paired, differences, right=range(3, len(paired)))]
    return "\n\n".join(parts) + "\n"


def _name_cell(cell: Cell, looks: Mapping[str, Look]) -> Html:
    return tag("th", tag("span", looks[cell.name].swatch, cell.name, class_="name"), scope="row")


def _number_cells(summary: CellSummary, columns: Sequence[Column]) -> list[Html]:
    cells = []
    for name, _, value, shown in columns:
        found = _known(value(summary))
        kind = "main" if name == "accuracy" else "published" if name.startswith("published") or name in _SOFT else ""
        if name == "accuracy_low":
            low, high = (_known(getattr(summary.accuracy, part, None)) for part in ("low", "high"))
            text = "–" if low is None or high is None else interval(low, high)
            cells.append(number(text, None, kind, data_column="interval", data_low=low, data_high=high))
        elif name != "accuracy_high":
            cells.append(number("–" if found is None else shown(found), found, kind, data_column=name))
    return cells


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _markdown_cells(summary: CellSummary) -> list[str]:
    shown = {}
    for name, _, value, text in _COLUMNS:
        found = _known(value(summary))
        shown[name] = "–" if found is None else text(found)
    paper = shown["published_accuracy"]
    if shown["published_accuracy_std"] != "–":
        paper += f" ± {shown['published_accuracy_std']}"
    interval = f"{shown['accuracy']} [{shown['accuracy_low']}, {shown['accuracy_high']}]"
    return [shown["runs"], interval, shown["accuracy_std"], shown["balanced_accuracy"], shown["macro_f1"],
            shown["loss"], paper, shown["published_loss"], shown["accuracy_difference"],
            shown["accuracy_gap"]]  # fmt: skip


def _markdown_difference(comparison: Comparison) -> list[str]:
    return [
        comparison.dataset,
        f"{comparison.cell} − {comparison.reference}",
        comparison.role,
        points_text(comparison.difference),
        f"{comparison.won} / {comparison.tied} / {comparison.lost}",
        f"{comparison.p_value:.2g}",
    ]
