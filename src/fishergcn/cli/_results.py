"""Tables of ``fishergcn train``: each run, the mean of each method, and how methods compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fishergcn._base.json import plain
from fishergcn._base.terminal import narrow, table
from fishergcn.training import TrainConfig, control_of, find_score, find_task, registered_scores, score_fields, titled

if TYPE_CHECKING:
    from rich.table import Table

    from fishergcn.training import RunRecord

Results = Mapping[str, "Sequence[RunRecord]"]  # the runs of each method
# Short heads, so that the tables fit a terminal.
_SHORT = {"accuracy": "", "balanced_accuracy": "bal.", "macro_f1": "F1", "loss": "loss"}
_SPREAD = ("accuracy", "loss")  # the scores whose deviation is shown; the rest is in the JSON


def runs_table(results: Results, title: str) -> Table:
    """Return a table with a row for each run."""
    scores = _shown(results, "test_cross_entropy", *_main(results), "val_loss")
    rows = [
        [
            method,
            record.split,
            str(record.seed),
            *(_number(name, getattr(record, name)) for name in scores),
            f"{record.epochs}" if record.status == "ok" else f"{record.epochs} ({record.status})",
            f"{record.seconds:.1f}",
        ]
        for method, records in results.items()
        for record in records
    ]
    return table(f"Runs on {title}", ["method", "split", "seed", *map(_head, scores), "epochs", "seconds"], rows)


def means_table(results: Results, title: str) -> Table:
    """Return a table with a row for each method: mean ± sample standard deviation over its runs (means by class)."""
    scores = _shown(results, *_main(results))
    rows = []
    for fact in means(results):
        diverged = f" ({fact['diverged']} diverged)" if fact["diverged"] else ""
        row = [fact["method"], f"{fact['runs']}{diverged}"]
        row += [_mean(name, fact[name]) for name in scores]
        rows.append([*row, f"{fact['epochs']['mean']:.0f}", f"{fact['seconds']['mean']:.1f}"])
    columns = ["method", "runs", *map(_head, scores), "epochs", "sec."]
    return narrow(table(f"Mean ± standard deviation on {title}", columns, rows))


def differences_table(results: Results, config: TrainConfig) -> Table | None:
    """Return a table of paired differences between methods, or None if there is nothing to compare."""
    found = differences(results, config)
    if not found:
        return None
    name = found[0]["measure"]
    rows, score = [], find_score(name)
    for each in found:
        low, mean, high = ("" if each[key] is None else score.difference(each[key]) for key in ("low", "mean", "high"))
        rows.append([each["method"], each["reference"], mean, f"[{low}, {high}]" if low else "-"])
    heads = ["method", "minus", score.unit.strip() or "difference", f"95% interval over {found[0]['unit']}"]
    return table(f"Paired differences in {titled(name)}", heads, rows)


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
                for name in (*score_fields(), "epochs", "seconds")
            },
        }
        for method, records in results.items()
    ]


def differences(results: Results, config: TrainConfig) -> list[dict[str, Any]]:
    """Return the paired differences between methods, a dictionary for each pair."""
    from fishergcn.studies import paired_difference

    main = _main(results)[0].removeprefix("val_")
    measure = f"test_{main}" if _known(results, f"test_{main}") else f"val_{main}"
    values = {
        method: {(record.split, record.seed): getattr(record, measure) for record in records if record.status == "ok"}
        for method, records in results.items()
    }
    found = []
    for method in results:
        reference = reference_of(method, list(results), config)
        if reference is None or not values[method].keys() & values[reference].keys():
            continue
        difference, *_ = paired_difference(values[method], values[reference], bounds=find_score(main).bounds)
        numbers = {name: plain(getattr(difference, name)) for name in ("mean", "low", "high")}
        names = {"method": method, "reference": reference, "measure": measure, "unit": difference.unit}
        found.append({**names, **numbers})
    return found


def _shown(results: Results, *more: str) -> list[str]:
    """Return the scores that have numbers: those of validation where nothing was tested."""
    tested = _known(results, "test_loss")
    names = [f"{'test' if tested else 'val'}_{score.name}" for score in registered_scores(None) if score.shown]
    return [name for name in dict.fromkeys([*names, *(more if tested else ())]) if _known(results, name)]


def _main(results: Results) -> list[str]:
    """Return the validation score of the task of these runs, in a list."""
    known = [f"val_{find_task(name).score}" for name in ("classification", "multilabel", "regression")]
    return [name for name in known if _known(results, name)] or known[:1]


def _head(name: str) -> str:
    """Return the head of a column: what is said of test nodes alone needs no word for them."""
    score, part = find_score(name), "val." if name.startswith("val_") else ""
    title = _SHORT.get(score.name, score.title)
    if not part and score.name in _SPREAD:
        part = "test"
    return " ".join(filter(None, [part, title, "%" * score.percent]))


def _known(results: Results, name: str) -> bool:
    """Say whether any run has this score: without test nodes, none has been tested."""
    return any(not math.isnan(getattr(record, name)) for records in results.values() for record in records)


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    known = np.array([value for value in values if not math.isnan(value)], dtype=np.float64)
    return {
        "mean": float(known.mean()) if known.size else None,
        "std": float(known.std(ddof=1)) if known.size > 1 else None,
    }


def _number(name: str, value: float | None) -> str:
    score = find_score(name)
    return score.number(value, 2 if score.percent else 1)


def _mean(name: str, found: Mapping[str, float | None]) -> str:
    if found["std"] is None or find_score(name).name not in _SPREAD:
        return _number(name, found["mean"])
    return f"{_number(name, found['mean'])}±{_number(name, found['std'])}"
