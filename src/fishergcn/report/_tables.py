"""The result table beside the paper's: for the page, as Markdown and as CSV."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from fishergcn._base.foreign import markdown
from fishergcn._base.text import csv_text, markdown_table, signed
from fishergcn.drawing import Html, Look, tag
from fishergcn.report._forest import difference_text
from fishergcn.report._outcome import Outcome
from fishergcn.report._page import number, table
from fishergcn.studies import Cell, CellSummary, Comparison
from fishergcn.training import Score, find_score, scores_shown

Column = tuple[str, str, Callable[[CellSummary], float | None], Callable[[float], str]]


def _part(name: str, part: str) -> Callable[[CellSummary], float | None]:
    return lambda summary: getattr(getattr(summary, name), part, None)


def _difference(summary: CellSummary) -> float | None:
    published = summary.published.accuracy if summary.published and summary.comparable else None
    return None if published is None or summary.accuracy is None else summary.accuracy.mean - published


_ACCURACY = find_score("accuracy")
# Name in files, head on the page, value, how it is shown: what the paper has, and the distance from it.
_PAPER: tuple[Column, ...] = (
    ("published_accuracy", _ACCURACY.head, _part("published", "accuracy"), _ACCURACY.number),
    ("published_accuracy_std", "std", _part("published", "accuracy_std"), partial(_ACCURACY.number, digits=1)),
    ("published_loss", "loss", _part("published", "loss"), lambda value: f"{value:.2f}"),
)
_JUDGED: tuple[Column, ...] = (
    ("accuracy_difference", _ACCURACY.change, _difference, _ACCURACY.difference),
    ("accuracy_gap", "std. errors", lambda summary: summary.accuracy_gap, partial(signed, digits=1)),
)


def scores_of_tables(outcome: Outcome) -> list[Score]:
    """Return the scores that tables have, as far as there are runs with them; first the one they are about."""
    known = {outcome.score.name}.union(*(summary.scores for summary in outcome.summaries.values()))
    return [each for each in scores_shown(outcome.score) if each.name in known]


def _ours(score: Score, others: Sequence[Score]) -> list[Column]:
    """Return the columns of our runs: the score that the tables are about with its interval, then the others."""
    parts = {"mean": ("", score.head), "low": ("_low", "low"), "high": ("_high", "high"), "std": ("_std", "std")}
    return [
        ("runs", "runs", lambda summary: summary.ok, lambda value: f"{value:,.0f}"),
        *((score.name + end, head, _part(score.name, part), score.number) for part, (end, head) in parts.items()),
        *((each.name, each.head, _part(each.name, "mean"), each.number) for each in others),
    ]


def _columns(outcome: Outcome) -> list[Column]:
    first, *others = scores_of_tables(outcome)
    return [*_ours(first, others), *(_PAPER if beside_paper(outcome) else ()), *(_JUDGED if judged(outcome) else ())]


def beside_paper(outcome: Outcome) -> bool:
    """Say whether there are published numbers of the score that the tables are about."""
    return bool(outcome.plan.published) and outcome.score.name == _ACCURACY.name


def judged(outcome: Outcome) -> bool:
    """Say whether there are enough splits, of the preset's settings, to measure the distance from the paper."""
    return beside_paper(outcome) and any(each.accuracy_gap is not None for each in outcome.summaries.values())


def result_table(outcome: Outcome, dataset: str, looks: Mapping[str, Look]) -> Html:
    """Return the results on one data set; every number cell carries its full value in ``data-value``."""
    columns, low = _columns(outcome), f"{outcome.score.name}_low"
    ours = 2 + len(scores_of_tables(outcome))  # the interval, which is one column, and the spread beside them
    spans = ("", 1), ("ours", ours), ("paper", len(_PAPER)), ("ours − paper", len(_JUDGED))
    shown = spans[: 4 if judged(outcome) else 3]
    groups = [tag("th", text, class_="group", colspan=str(span), scope="colgroup") for text, span in shown]
    heads = [
        "95% interval" if name == low else head for name, head, *_ in columns if name != f"{outcome.score.name}_high"
    ]
    rows = [
        [_name_cell(cell, looks), *_number_cells(outcome, cell, columns)]
        for cell in outcome.cells(dataset).values()
        if cell in outcome.summaries
    ]
    # Without the paper's numbers beside them there is nothing from which to tell ours.
    above = tag("tr", tag("td", ""), *groups) if beside_paper(outcome) else None
    heads = ["method", *(f"#{head}" for head in heads)]
    return table(f"Results on {dataset}", heads, rows, above, class_="results", data_dataset=dataset)


def tables_csv(outcome: Outcome) -> str:
    """Return all results, one row for each cell, with every digit."""
    first, *others = scores_shown(outcome.score)
    numbers = [*_ours(first, others), *((*_PAPER, *_JUDGED) if outcome.score is _ACCURACY else ())]
    columns = ["dataset", "cell", "method", "variant", *(name for name, _, _, _ in numbers)]
    rows = [
        [cell.dataset, cell.name, cell.method, cell.variant, *(_known(value(summary)) for _, _, value, _ in numbers)]
        for cell, summary in outcome.summaries.items()
    ]
    return csv_text(columns, rows)


def tables_markdown(outcome: Outcome) -> str:
    """Return results and paired differences as Markdown."""
    score = outcome.score
    heads = ["data set", "method", "runs", f"{score.head} [95% interval]", "std"]
    heads += [each.head for each in scores_of_tables(outcome)[1:]]
    heads += ["paper: accuracy %", "paper: loss"] if beside_paper(outcome) else []
    heads += ["difference in accuracy, points", "in std. errors"] if judged(outcome) else []
    results = [[cell.dataset, cell.name, *_markdown_cells(outcome, cell)] for cell in outcome.summaries]
    paired = ["data set", "method − reference", "reference is", f"difference in {score.change} [95% interval]",
              "won / tied / lost", "Wilcoxon p"]  # fmt: skip
    differences = [_markdown_difference(comparison, score) for comparison in outcome.comparisons]
    parts = [
        f"# {markdown(outcome.plan.title)}",
        "## Results",
        markdown_table(heads, results, right=range(2, len(heads))),
    ]
    if differences:
        title = f"## Paired differences in test {score.title} ({score.direction})"
        parts += [title, markdown_table(paired, differences, right=range(3, len(paired)))]
    return "\n\n".join(parts) + "\n"


def _name_cell(cell: Cell, looks: Mapping[str, Look]) -> Html:
    return tag("th", tag("span", looks[cell.name].swatch, cell.name, class_="name"), scope="row")


def _number_cells(outcome: Outcome, cell: Cell, columns: Sequence[Column]) -> list[Html]:
    summary, own = outcome.summaries[cell], outcome.score.name
    plain = {own, "loss", "accuracy_difference", "accuracy_gap"}
    cells = []
    for name, _, value, shown in columns:
        found = _known(value(summary))
        kind = "main" if name == own else "" if name in plain else "published"
        if name == f"{own}_low":
            low, high = (_known(getattr(outcome.estimate(cell), part)) for part in ("low", "high"))
            text = "–" if low is None or high is None else f"{shown(low)} – {shown(high)}"
            cells.append(number(text, None, kind, data_column="interval", data_low=low, data_high=high))
        elif name != f"{own}_high":
            cells.append(number("–" if found is None else shown(found), found, kind, data_column=name))
    return cells


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _markdown_cells(outcome: Outcome, cell: Cell) -> list[str]:
    shown = {}
    for name, _, value, text in _columns(outcome):
        found = _known(value(outcome.summaries[cell]))
        shown[name] = "–" if found is None else text(found)
    own = outcome.score.name
    shown[own] += f" [{shown.pop(f'{own}_low')}, {shown.pop(f'{own}_high')}]"
    if (spread := shown.pop("published_accuracy_std", "–")) != "–":
        shown["published_accuracy"] += f" ± {spread}"
    return [*shown.values()]


def _markdown_difference(comparison: Comparison, score: Score) -> list[str]:
    return [
        comparison.dataset,
        f"{comparison.cell} − {comparison.reference}",
        comparison.role,
        difference_text(comparison.difference, score),
        f"{comparison.won} / {comparison.tied} / {comparison.lost}",
        f"{comparison.p_value:.2g}",
    ]
