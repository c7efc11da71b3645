"""Honest numbers: every cell with an interval over splits, beside the published value, against references.

See :mod:`fishergcn.studies._resampling` for how intervals and differences are made.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fishergcn.errors import InputError
from fishergcn.studies._plan import BASELINE
from fishergcn.studies._resampling import Estimate, Key, cluster_bootstrap, estimate, paired_difference
from fishergcn.studies._runs import Runs
from fishergcn.training import RunRecord

__all__ = [
    "CellSummary",
    "Comparison",
    "Estimate",
    "cluster_bootstrap",
    "compare",
    "estimate",
    "paired_difference",
    "summarize",
]


@dataclass(frozen=True)
class Comparison:
    """A cell against a reference, paired on (split, seed).

    Attributes
    ----------
    dataset, cell, reference
        What is compared with what.
    role
        ``"baseline"`` (plain GCN) or ``"control"`` (the same without the perturbation).
    metric
        Which value.
    difference
        Mean of cell minus reference, with its interval.
    p_value
        Of the two-sided Wilcoxon signed-rank test on the mean differences of the splits (or seeds).
    won, tied, lost
        In how many splits (or seeds) the cell is above, equal to or below the reference.

    Examples
    --------
    >>> import tempfile
    >>> from contextlib import closing
    >>> from fishergcn import studies
    >>> small = studies.make_plan("quick", datasets=["cora"], methods=["gcn-x5"], splits=2, seeds=1, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     counts = studies.run(small, folder, device="cpu", workers=1)
    ...     with closing(studies.open_runs(folder)) as runs:
    ...         [found] = compare(runs)
    >>> found.cell, found.reference, found.won + found.tied + found.lost
    ('gcn-x5', 'gcn', 2)
    >>> found.difference.low <= found.difference.mean <= found.difference.high
    True
    """

    dataset: str
    cell: str
    reference: str
    role: str
    metric: str
    difference: Estimate
    p_value: float
    won: int
    tied: int
    lost: int


@dataclass(frozen=True)
class CellSummary:
    """One entry of the results table.

    Attributes
    ----------
    dataset, cell, method, variant
        Which.
    accuracy, loss, cross_entropy
        On the test nodes, over the runs that ended well; None if there are none. The loss contains the weight
        decay.
    epochs
        Mean number of steps.
    ok, diverged, failed, planned
        How many runs.
    published
        The published entry as plain values (accuracies are fractions), or None.
    accuracy_gap, loss_gap
        (ours - published) / standard error of ours; None where nothing was published, or not for these settings.
    comparable
        Whether the settings are the preset's own, to which the published numbers belong.

    Examples
    --------
    >>> import tempfile
    >>> from contextlib import closing
    >>> from fishergcn import studies
    >>> small = studies.make_plan("quick", datasets=["cora"], methods=["gcn-x5"], splits=2, seeds=1, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     counts = studies.run(small, folder, device="cpu", workers=1)
    ...     with closing(studies.open_runs(folder)) as runs:
    ...         first, second = summarize(runs)
    >>> first.cell, first.epochs, first.published["accuracy"]
    ('gcn', 1.0, 0.8052)
    >>> first.comparable, first.accuracy_gap  # published for 500 epochs, not for one
    (False, None)
    """

    dataset: str
    cell: str
    method: str
    variant: str
    accuracy: Estimate | None
    loss: Estimate | None
    cross_entropy: Estimate | None
    epochs: float
    ok: int
    diverged: int
    failed: int
    planned: int
    published: Mapping[str, Any] | None
    accuracy_gap: float | None
    loss_gap: float | None
    comparable: bool = True


def summarize(runs: Runs) -> list[CellSummary]:
    """Return the results table, one entry per cell of the plan.

    Examples
    --------
    >>> import tempfile
    >>> from contextlib import closing
    >>> from fishergcn import studies
    >>> small = studies.make_plan("quick", datasets=["cora"], methods=["gcn-x5"], splits=2, seeds=1, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     counts = studies.run(small, folder, device="cpu", workers=1)
    ...     with closing(studies.open_runs(folder)) as runs:
    ...         table = summarize(runs)
    >>> [(entry.cell, entry.ok, entry.planned, entry.accuracy.unit) for entry in table]
    [('gcn', 2, 2, 'splits'), ('gcn-x5', 2, 2, 'splits')]
    """
    plan = runs.plan
    planned = len(plan["splits"]) * len(plan["seeds"])
    published = {(entry["dataset"], entry["method"]): entry for entry in plan["published"]}
    made = [_summary(cell, _scalars(runs, cell["dataset"], cell["name"]), planned, published) for cell in plan["cells"]]
    if not plan.get("changed"):
        return made
    return [replace(entry, accuracy_gap=None, loss_gap=None, comparable=False) for entry in made]


_METRICS = ("test_accuracy", "test_loss", "test_cross_entropy")


def _scalars(runs: Runs, dataset: str, cell: str) -> dict[Key, dict[str, Any]]:
    """Return what statistics need of each run, without its curves."""
    names = ("status", "epochs", *_METRICS)
    return {
        (record.split, record.seed): {name: getattr(record, name) for name in names}
        for _, record in runs.entries(dataset, cell)
    }


def _summary(
    cell: Mapping[str, Any],
    scalars: Mapping[Key, Mapping[str, Any]],
    planned: int,
    published: Mapping[tuple[str, str], Mapping[str, Any]],
) -> CellSummary:
    fine = {key: entry for key, entry in scalars.items() if entry["status"] == "ok"}
    diverged = sum(entry["status"] == "diverged" for entry in scalars.values())
    accuracy, loss, cross_entropy = (
        estimate({key: entry[name] for key, entry in fine.items()}) if fine else None for name in _METRICS
    )
    # A published number belongs to the method as the preset sets it, not to its variants.
    known = None if cell["variant"] else published.get((cell["dataset"], cell["method"]))
    return CellSummary(
        dataset=cell["dataset"],
        cell=cell["name"],
        method=cell["method"],
        variant=cell["variant"],
        accuracy=accuracy,
        loss=loss,
        cross_entropy=cross_entropy,
        epochs=float(np.mean([entry["epochs"] for entry in fine.values()])) if fine else math.nan,
        ok=len(fine),
        diverged=diverged,
        failed=len(scalars) - len(fine) - diverged,
        planned=planned,
        published=known,
        accuracy_gap=_gap(accuracy, known, "accuracy"),
        loss_gap=_gap(loss, known, "loss"),
    )


def _gap(ours: Estimate | None, published: Mapping[str, Any] | None, name: str) -> float | None:
    theirs = None if published is None else published[name]
    if ours is None or theirs is None or not ours.standard_error > 0:
        return None
    return float((ours.mean - theirs) / ours.standard_error)


def compare(runs: Runs, metric: str = "test_accuracy") -> list[Comparison]:
    """Compare every cell with the plain GCN and with its control, on the same splits and seeds.

    Parameters
    ----------
    runs
        See :func:`fishergcn.studies._store.open_runs`.
    metric
        A number of :class:`fishergcn.RunRecord`, such as ``"test_accuracy"`` or ``"test_loss"``.

    Returns
    -------
    list of Comparison
        In the order of the plan; cells and references that share no finished run are left out.

    Examples
    --------
    >>> import tempfile
    >>> from contextlib import closing
    >>> from fishergcn import studies
    >>> small = studies.make_plan("quick", datasets=["cora"], methods=["gcn-x5"], splits=2, seeds=1, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     counts = studies.run(small, folder, device="cpu", workers=1)
    ...     with closing(studies.open_runs(folder)) as runs:
    ...         [found] = compare(runs, "test_loss")
    >>> found.cell, found.reference, found.role, found.metric
    ('gcn-x5', 'gcn', 'baseline', 'test_loss')
    """
    if metric not in RunRecord.__dataclass_fields__ or not metric.startswith(("test_", "val_")):
        raise InputError(f"metric must be a score of a run, such as 'test_accuracy' or 'val_loss', got {metric!r}.")
    values: dict[tuple[str, str], dict[Key, float]] = defaultdict(dict)
    for cell, record in runs.entries():
        if record.status == "ok":
            values[record.dataset, cell][record.split, record.seed] = getattr(record, metric)
    found = []
    for cell in runs.plan["cells"]:
        for reference, role in _references(cell).items():
            ours, theirs = values[cell["dataset"], cell["name"]], values[cell["dataset"], reference]
            if ours.keys() & theirs.keys():
                difference, p_value, counts = paired_difference(ours, theirs)
                names = (cell["dataset"], cell["name"], reference, role, metric)
                found.append(Comparison(*names, difference, p_value, *counts))
    return found


def _references(cell: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells to compare with, and as what; a control that is the baseline counts as control."""
    references = {} if cell["name"] == BASELINE else {BASELINE: "baseline"}
    if cell["control"] is not None:
        references[cell["control"]] = "control"
    return references
