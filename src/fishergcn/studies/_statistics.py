"""Honest numbers: every cell with an interval over splits, beside the published value, against references.

See :mod:`fishergcn.studies._resampling` for how intervals and differences are made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn._base.temporary import temporary_folder
from fishergcn._base.warn import warn
from fishergcn.errors import DataFileError, InputError
from fishergcn.graph import Graph
from fishergcn.studies._plan import Cell, Plan, Role
from fishergcn.studies._planning import make_comparison
from fishergcn.studies._preset import Published
from fishergcn.studies._resampling import Estimate, Key, estimate, paired_difference
from fishergcn.studies._runner import run
from fishergcn.studies._runs import Runs
from fishergcn.training import RunRecord, find_score, registered_scores, score_field

SPLITS_TO_JUDGE = 10  # with fewer random splits a mean is not set beside a published one in standard errors


@dataclass(frozen=True)
class Comparison:
    """A cell against a reference, paired on (split, seed); see :func:`compare`."""

    dataset: str
    cell: str
    reference: str
    role: Role
    metric: str
    difference: Estimate
    p_value: float
    won: int = 0
    tied: int = 0
    lost: int = 0


@dataclass(frozen=True)
class CellSummary:
    """One entry of the results table; see :func:`summarize`."""

    dataset: str
    cell: str
    method: str
    variant: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, Estimate] = field(default_factory=dict)
    epochs: float = math.nan
    ok: int = 0
    diverged: int = 0
    failed: int = 0
    planned: int = 0
    extra: Mapping[str, float] = field(default_factory=dict)
    published: Published | None = None
    accuracy_gap: float | None = None
    loss_gap: float | None = None
    comparable: bool = True

    def __getattr__(self, name: str) -> Estimate | None:
        """Return a score, None if it is missing."""
        known: Mapping[str, Estimate] = self.__dict__.get("scores", {})
        if name in known or any(name == score.name for score in registered_scores()):
            return known.get(name)
        raise AttributeError(f"a summary has no field and no score {name!r}.")


def summarize(runs: Runs) -> list[CellSummary]:
    """Return the results table, one entry per cell of the plan.

    Parameters
    ----------
    runs
        See :func:`open_runs`.

    Returns
    -------
    list of CellSummary
        With ``dataset``, ``cell``, ``method``, ``variant`` and ``options`` of each cell; its ``scores`` on the test
        nodes by name, over the runs that ended well, each an attribute too (``summary.accuracy``, None if it was not
        measured) with ``mean``, ``low`` and ``high`` of the interval of 95%; the mean number of ``epochs``; how many
        runs are ``ok``, ``diverged``, ``failed`` and ``planned``; means of what the measure adds (``extra``); the
        ``published`` entry, and ``accuracy_gap`` and ``loss_gap``, (ours - published) / standard error of ours. These
        are None with other settings than the published ones (``comparable`` is then False) and with fewer than ten
        random splits: a few splits are easily all lucky, and their spread does not show it.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import studies
    >>> plan = studies.make_plan("quick", methods=["gcn-x5"], splits=2, seeds=1, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder, studies.run(plan, folder, workers=1) as runs:
    ...     first, second = summarize(runs)
    >>> second.cell, second.ok, second.planned, second.accuracy.unit
    ('gcn-x5', 2, 2, 'splits')
    >>> first.published.accuracy, first.comparable, first.accuracy_gap  # published for 500 epochs, not for one
    (0.8052, False, None)
    """
    plan = runs.plan
    published = {(entry.dataset, entry.method): entry for entry in plan.published}
    made = []
    for cell in plan.cells:
        # A published number belongs to the method as the preset sets it, not to its variants or under attack.
        known = None if cell.variant or cell.options else published.get((cell.dataset, cell.method))
        # Without curves, which of many runs would fill the memory.
        records = [replace(record, curves={}) for record in runs.of_cell(cell)]
        summary = _summary(plan, cell, records, known)
        made.append(replace(summary, accuracy_gap=None, loss_gap=None, comparable=False) if plan.changed else summary)
    return made


def _summary(plan: Plan, cell: Cell, records: list[RunRecord], published: Published | None) -> CellSummary:
    fine = [record for record in records if record.status == "ok"]
    diverged = sum(record.status == "diverged" for record in records)
    tested = {
        score.name: estimate(values, bounds=score.bounds, crossed=plan.crossed)
        for score in registered_scores()
        if (values := scores_of(fine, f"test_{score.name}"))
    }
    splits = {record.split for record in fine}
    enough = splits == {"public"} or len(splits) >= SPLITS_TO_JUDGE
    return CellSummary(
        dataset=cell.dataset,
        cell=cell.name,
        method=cell.method,
        variant=cell.variant,
        options=cell.options,
        scores=tested,
        epochs=float(np.mean([record.epochs for record in fine])) if fine else math.nan,
        ok=len(fine),
        diverged=diverged,
        failed=len(records) - len(fine) - diverged,
        planned=len(plan.runs(cell)),
        extra=_means(cell, fine),
        published=published,
        accuracy_gap=_gap(tested.get("accuracy"), published.accuracy if published and enough else None),
        loss_gap=_gap(tested.get("loss"), published.loss if published and enough else None),
    )


def _means(cell: Cell, records: Iterable[RunRecord]) -> dict[str, float]:
    """Return the means of what was measured besides the scores, each over the records that have it."""
    values: dict[str, list[float]] = {}
    for record in records:
        for name, value in record.extra.items():
            if name in cell.options:
                continue
            if isinstance(value, str):
                where = f"{cell.name} on {cell.dataset}, split {record.split}, seed {record.seed}"
                raise DataFileError(f"{name!r:.80} of {where} must be a number, got {value!r:.80}.")
            values.setdefault(name, []).append(value)
    return {name: sum(found) / len(found) for name, found in sorted(values.items())}


def scores_of(records: Iterable[RunRecord], metric: str) -> dict[Key, float]:
    """Return a score of every run that ended well and has it: of the test nodes, unless its name says ``val_``."""
    name = score_field(metric)
    return {
        (each.split, each.seed): each.scores[name] for each in records if each.status == "ok" and name in each.scores
    }


def _gap(ours: Estimate | None, theirs: float | None) -> float | None:
    if ours is None or theirs is None or not ours.standard_error > 0:
        return None
    return float((ours.mean - theirs) / ours.standard_error)


def compare(
    runs: Runs | Graph,
    methods: str | Sequence[str] | None = None,
    metric: str = "test_accuracy",
    *,
    folder: str | Path | None = None,
    device: str = "auto",
    workers: int | None = None,
    **planned: Any,
) -> list[Comparison]:
    """Compare every cell with its baseline, its control and the same network without links, run by run.

    References have the same options, such as an attack and its level, and the same variant if there is such a cell.

    Parameters
    ----------
    runs
        See :func:`open_runs`; or a graph, on which the methods are run first, as ``fishergcn compare`` does.
    methods
        On a graph: those to compare. Their references are added. With runs, the metric may stand here.
    metric
        A score by its name, such as ``"macro_f1"``, on the test nodes; with ``"val_"`` before it on validation nodes.
    folder, device, workers
        On a graph: where to keep the runs, and where to make them, as in :func:`run`. Without a folder they are not
        kept.
    **planned
        On a graph: ``splits``, ``seeds``, ``config`` and ``settings``, as in :func:`make_comparison`.

    Returns
    -------
    list of Comparison
        In the order of the plan; cells and references that share no finished run are left out. Each has ``dataset``,
        ``cell``, ``reference`` and ``role`` (``"baseline"``, ``"control"`` or ``"without links"``); ``difference``, the
        mean of cell minus reference with its interval; ``p_value`` of the two-sided Wilcoxon signed-rank test on the
        mean differences of the splits (or seeds), and how many of these the cell has ``won``, ``tied`` and ``lost``; of
        a score that should be low, a difference below zero is won.

    Examples
    --------
    >>> from fishergcn import TrainConfig, datasets
    >>> few = TrainConfig(max_epochs=1)
    >>> found = compare(datasets.load("cora"), ["gcn-x5"], "loss", splits=2, config=few, device="cpu", workers=1)
    >>> [(each.cell, each.reference, each.role) for each in found][-1], found[-1].won + found[-1].tied + found[-1].lost
    (('gcn-x5', 'mlp-x5', 'without links'), 2)
    """
    if not isinstance(runs, Graph):
        if planned or folder is not None:
            raise InputError("runs are compared as they are: only a score goes with them.")
        return _compare(runs, methods if isinstance(methods, str) else metric)
    if not methods:
        raise InputError("methods must name at least one method to compare on the graph.")
    find_score(metric)
    plan = make_comparison([runs], [methods] if isinstance(methods, str) else methods, **planned)
    with temporary_folder() as spare:
        place = spare / "study" if folder is None else folder
        with run(plan, place, device=device, workers=workers) as made:
            if lost := len(plan) - made.counts().get("ok", 0):
                warn(f"{lost} of {len(plan)} runs diverged or failed and are left out of the comparison.")
            return _compare(made, metric)


def _compare(runs: Runs, metric: str) -> list[Comparison]:
    plan, score = runs.plan, find_score(metric)
    values = {(cell.dataset, cell.name): scores_of(runs.of_cell(cell), metric) for cell in plan.cells}
    found = []
    for cell in plan.cells:
        for reference, role in plan.references(cell).items():
            ours, theirs = (values[each.dataset, each.name] for each in (cell, reference))
            if ours.keys() & theirs.keys():
                how = paired_difference(ours, theirs, bounds=score.bounds, crossed=plan.crossed)
                difference, p_value, counts = how
                names = (cell.dataset, cell.name, reference.name)
                counts = counts if score.better == "high" else counts[::-1]
                found.append(Comparison(*names, role, metric, difference, p_value, *counts))
    return found
