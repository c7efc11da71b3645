"""Tables of ``fishergcn train``: each run, the mean of each method, and how methods compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fishergcn._base.json import plain
from fishergcn._base.terminal import narrow, table
from fishergcn.training import TrainConfig, control_of

if TYPE_CHECKING:
    from rich.table import Table

    from fishergcn.training import RunRecord

Results = Mapping[str, "Sequence[RunRecord]"]  # the runs of each method
_SCORES = {  # column: field of a record
    "test %": "test_accuracy",
    "bal. %": "test_balanced_accuracy",
    "F1 %": "test_macro_f1",
    "test loss": "test_loss",
    "cross entropy": "test_cross_entropy",
    "val. %": "val_accuracy",
    "val. bal. %": "val_balanced_accuracy",
    "val. F1 %": "val_macro_f1",
    "val. loss": "val_loss",
}
# So that the tables fit a terminal; the rest is in the JSON, and validation by class where nothing was tested.
_BY_CLASS = ("bal. %", "F1 %", "val. bal. %", "val. F1 %")
_RUN_SCORES = ("test %", "bal. %", "F1 %", "test loss", "cross entropy", "val. %", "val. loss")
_MEAN_SCORES = ("test %", "bal. %", "F1 %", "test loss", "val. %")
_UNTESTED_SCORES = ("val. %", "val. bal. %", "val. F1 %", "val. loss")


def runs_table(results: Results, title: str) -> Table:
    """Return a table with a row for each run."""
    scores = {column: _SCORES[column] for column in _shown(results, _RUN_SCORES)}
    rows = [
        [
            method,
            record.split,
            str(record.seed),
            *(_number(column, getattr(record, name)) for column, name in scores.items()),
            f"{record.epochs}" if record.status == "ok" else f"{record.epochs} ({record.status})",
            f"{record.seconds:.1f}",
        ]
        for method, records in results.items()
        for record in records
    ]
    return table(f"Runs on {title}", ["method", "split", "seed", *scores, "epochs", "seconds"], rows)


def means_table(results: Results, title: str) -> Table:
    """Return a table with a row for each method: mean ± sample standard deviation over its runs (means by class)."""
    scores = _shown(results, _MEAN_SCORES)
    rows = []
    for fact in means(results):
        diverged = f" ({fact['diverged']} diverged)" if fact["diverged"] else ""
        row = [fact["method"], f"{fact['runs']}{diverged}"]
        row += [_mean(column, fact[_SCORES[column]]) for column in scores]
        rows.append([*row, f"{fact['epochs']['mean']:.0f}", f"{fact['seconds']['mean']:.1f}"])
    columns = ["method", "runs", *scores, "epochs", "sec."]
    return narrow(table(f"Mean ± standard deviation on {title}", columns, rows))


def differences_table(results: Results, config: TrainConfig) -> Table | None:
    """Return a table of paired differences between methods, or None if there is nothing to compare."""
    found = differences(results, config)
    if not found:
        return None
    rows = []
    for each in found:
        interval = "-" if each["low"] is None else f"[{100 * each['low']:+.2f}, {100 * each['high']:+.2f}]"
        rows.append([each["method"], each["reference"], f"{100 * each['mean']:+.2f}", interval])
    what = "test" if found[0]["measure"] == "test_accuracy" else "validation"
    return table(
        f"Paired differences in {what} accuracy",
        ["method", "minus", "points", f"95% interval over {found[0]['unit']}"],
        rows,
    )


def reference_of(method: str, methods: Sequence[str], config: TrainConfig) -> str | None:
    """Return what a method is compared with: its control if that was trained too, else the first method."""
    control = control_of(method, config)
    if control in methods:
        return control
    return None if method == methods[0] else methods[0]


def means(results: Results) -> list[dict[str, Any]]:
    """Return mean and standard deviation of every score, a dictionary for each method."""
    return [
        {
            "method": method,
            "runs": len(records),
            "diverged": sum(record.status != "ok" for record in records),
            **{
                name: _spread([getattr(record, name) for record in records])
                for name in (*_SCORES.values(), "epochs", "seconds")
            },
        }
        for method, records in results.items()
    ]


def differences(results: Results, config: TrainConfig) -> list[dict[str, Any]]:
    """Return the paired differences between methods, a dictionary for each pair."""
    from fishergcn.studies import paired_difference

    measure = "test_accuracy" if _known(results, "test_accuracy") else "val_accuracy"
    values = {
        method: {(record.split, record.seed): getattr(record, measure) for record in records if record.status == "ok"}
        for method, records in results.items()
    }
    found = []
    for method in results:
        reference = reference_of(method, list(results), config)
        if reference is None or not values[method].keys() & values[reference].keys():
            continue
        difference, *_ = paired_difference(values[method], values[reference], bounds=(0.0, 1.0))
        numbers = {name: plain(getattr(difference, name)) for name in ("mean", "low", "high")}
        names = {"method": method, "reference": reference, "measure": measure, "unit": difference.unit}
        found.append({**names, **numbers})
    return found


def _shown(results: Results, columns: Sequence[str]) -> list[str]:
    """Return the columns that have numbers: those of validation where nothing was tested."""
    wanted = columns if _known(results, "test_accuracy") else _UNTESTED_SCORES
    return [column for column in wanted if _known(results, _SCORES[column])]


def _known(results: Results, name: str) -> bool:
    """Say whether any run has this score: without test nodes, none has been tested."""
    return any(not math.isnan(getattr(record, name)) for records in results.values() for record in records)


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    known = np.array([value for value in values if not math.isnan(value)], dtype=np.float64)
    return {
        "mean": float(known.mean()) if known.size else None,
        "std": float(known.std(ddof=1)) if known.size > 1 else None,
    }


def _number(column: str, value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return f"{100 * value:.2f}" if "%" in column else f"{value:.3f}"


def _mean(column: str, found: Mapping[str, float | None]) -> str:
    if found["std"] is None or column in _BY_CLASS:
        return _number(column, found["mean"])
    return f"{_number(column, found['mean'])}±{_number(column, found['std'])}"
