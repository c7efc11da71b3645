"""A small copy of an experiment's results in text files, to be kept with the code.

``plan.json`` holds the plan and where the runs were made; ``runs.csv`` one line per run, with scores to the
last bit; ``curves.csv`` the learning curves of each cell, as mean and quantiles over its runs (four digits).
Only with ``curves="all"`` the curves of each run are kept, in ``curves.npz`` (float32).
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.files import atomic_path, make_folder, write_text
from fishergcn._base.json import parse_json
from fishergcn._base.npz import read_arrays
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, FisherGCNError, reason
from fishergcn.studies._plan_check import checked_plan
from fishergcn.studies._runs import CURVES, Band, Runs, bands_of
from fishergcn.training import RunRecord

__all__ = ["Archive", "read_archive", "write_archive"]

FORMAT = 1
_SCORES = tuple(f"{part}_{name}" for part in ("test", "val") for name in ("accuracy", "loss", "cross_entropy"))
_RUN_COLUMNS = ("dataset", "cell", "split", "seed", "status", "epochs", *_SCORES, "seconds", "made", "shape")
_CURVE_COLUMNS = ("dataset", "cell", "curve", "epoch", "mean", "low", "high", "runs")


def write_archive(folder: str | Path, runs: Runs, *, curves: str = "mean", epochs: int = 100) -> None:
    """Write the results of an experiment as small text files.

    Parameters
    ----------
    folder
        Where; made if it is not there.
    runs
        See :func:`fishergcn.studies._store.open_runs`.
    curves
        ``"mean"``: mean, 10 % and 90 % quantile of each cell; ``"none"``; ``"all"``: of each run as well.
    epochs
        How many epochs of the bands. By the paper's rule no run stops before epoch 102, so that the first 100
        are over all runs.
    """
    check_choice("curves", curves, ("mean", "none", "all"))
    epochs = check_integer("epochs", epochs, minimum=1)
    folder = Path(folder)
    make_folder(folder)
    made: dict[str, int] = {}  # device and versions, as JSON, numbered
    _write_csv(folder / "runs.csv", _RUN_COLUMNS, (_line(cell, record, made) for cell, record in runs.entries()))
    places = [json.loads(text) for text in made]
    for name in ("curves.csv", "curves.npz"):
        (folder / name).unlink(missing_ok=True)  # of an earlier archive
    if curves != "none":
        _write_csv(folder / "curves.csv", _CURVE_COLUMNS, _band_lines(runs, epochs))
    if curves == "all":
        with atomic_path(folder / "curves.npz") as temporary:
            np.savez_compressed(temporary, allow_pickle=False, **dict(_all_curves(runs)))
    # Last, since an archive is there when its plan is.
    write_text(folder / "plan.json", json.dumps({**runs.plan, "format": FORMAT, "made": places}, indent=1) + "\n")


def _write_csv(path: Path, columns: tuple[str, ...], lines: Iterator[list[Any]]) -> None:
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(lines)


def _line(cell: str, record: RunRecord, made: dict[str, int]) -> list[Any]:
    place = json.dumps({"device": record.device, "versions": record.versions})
    scores = [repr(getattr(record, name)) for name in _SCORES]
    shape = " ".join(f"{value:.5g}" for value in record.shape)
    first = [record.dataset, cell, record.split, record.seed, record.status, record.epochs]
    return [*first, *scores, f"{record.seconds:.3f}", made.setdefault(place, len(made)), shape]


def _band_lines(runs: Runs, epochs: int) -> Iterator[list[Any]]:
    for cell in runs.plan["cells"]:
        for name, band in runs.bands(cell["dataset"], cell["name"], epochs).items():
            for epoch, count in enumerate(band.runs.tolist(), start=1):
                values = (f"{each[epoch - 1]:.4g}" for each in (band.mean, band.low, band.high))
                yield [cell["dataset"], cell["name"], name, epoch, *values, count]


def _all_curves(runs: Runs) -> Iterator[tuple[str, AnyArray]]:
    """Yield one array per run, in the order of ``runs.csv``: its curves as rows."""
    for number, record in enumerate(runs.records()):
        rows = [record.curves.get(name, []) for name in CURVES]
        yield f"run{number}", np.array(rows, dtype=np.float32)


@dataclasses.dataclass(frozen=True)
class Archive:
    """Results read from an archive; shapes have five digits, and curves of single runs may be missing."""

    plan: dict[str, Any]
    _entries: tuple[tuple[str, RunRecord], ...]
    _bands: Mapping[tuple[str, str], dict[str, Band]]

    def entries(self, dataset: str | None = None, cell: str | None = None) -> Iterator[tuple[str, RunRecord]]:
        """Yield (name of the cell, record), in the order of the plan; of one data set or cell if named."""
        for name, record in self._entries:
            if dataset in (None, record.dataset) and cell in (None, name):
                yield name, record

    def records(self) -> Iterator[RunRecord]:
        """Yield all records, in the order of the plan."""
        return (record for _, record in self._entries)

    def bands(self, dataset: str, cell: str, epochs: int | None = None) -> dict[str, Band]:
        """Return the learning curves of a cell by name."""
        whole = bands_of((record for _, record in self.entries(dataset, cell)), epochs)
        if whole:
            return whole
        known = self._bands.get((dataset, cell), {})
        return {
            name: Band(*(getattr(band, field.name)[:epochs] for field in dataclasses.fields(Band)))
            for name, band in known.items()
        }

    def close(self) -> None:
        """Nothing is open."""


def read_archive(folder: str | Path) -> Archive:
    """Read what :func:`write_archive` wrote."""
    folder = Path(folder)
    try:
        plan = parse_json((folder / "plan.json").read_text(encoding="utf-8"))
        if plan.get("format") != FORMAT:
            raise DataFileError(f"{folder} has archive format {plan.get('format')}, and this version reads {FORMAT}.")
        checked_plan(plan, folder / "plan.json")
        cells = {(cell["dataset"], cell["name"]): cell for cell in plan["cells"]}
        lines = _read_csv(folder / "runs.csv", _RUN_COLUMNS)
        curves = _read_all_curves(folder / "curves.npz", len(lines))
        entries = tuple(
            (line["cell"], _record(line, plan, cells[line["dataset"], line["cell"]], each))
            for line, each in zip(lines, curves, strict=True)
        )
        return Archive(plan, entries, _read_bands(folder / "curves.csv"))
    except FisherGCNError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, csv.Error) as error:
        raise DataFileError(f"{folder} is not a readable archive of runs ({reason(error)}).") from error


def _read_csv(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream, strict=True)
        if tuple(reader.fieldnames or ()) != columns:
            raise DataFileError(f"{path} must have the columns {', '.join(columns)}.")
        return list(reader)


def _record(
    line: Mapping[str, str], plan: Mapping[str, Any], cell: Mapping[str, Any], curves: dict[str, list[float]]
) -> RunRecord:
    place = plan["made"][int(line["made"])]
    values = dict(
        dataset=line["dataset"],
        method=cell["method"],
        split=line["split"],
        seed=int(line["seed"]),
        status=line["status"],
        epochs=int(line["epochs"]),
        **_scores(line),
        curves=curves,
        shape=[float(value) for value in line["shape"].split()],
        seconds=float(line["seconds"]),
        device=place["device"],
        versions=place["versions"],
        config=cell["config"],
        graph_digest=plan["digests"][line["dataset"]],
    )
    return RunRecord.from_dict(values)


def _scores(line: Mapping[str, str]) -> dict[str, Any]:
    return {name: float(line[name]) for name in _SCORES}


def _read_all_curves(path: Path, count: int) -> list[dict[str, list[float]]]:
    if not path.is_file():
        return [{} for _ in range(count)]
    arrays = read_arrays(path)
    return [
        dict(zip(CURVES, rows.tolist(), strict=True)) if rows.size else {}
        for rows in (arrays[f"run{number}"] for number in range(count))
    ]


def _read_bands(path: Path) -> dict[tuple[str, str], dict[str, Band]]:
    if not path.is_file():
        return {}
    numbers: dict[tuple[str, str], dict[str, list[tuple[float, ...]]]] = {}
    for line in _read_csv(path, _CURVE_COLUMNS):
        values = tuple(float(line[name]) for name in ("mean", "low", "high", "runs"))
        cell = numbers.setdefault((line["dataset"], line["cell"]), {})
        cell.setdefault(line["curve"], []).append(values)
        if int(line["epoch"]) != len(cell[line["curve"]]) or not all(map(math.isfinite, values)):
            raise DataFileError(f"{path} must list finite values of the epochs 1, 2, …, in order.")
    if any(set(cell) != set(CURVES) for cell in numbers.values()):
        raise DataFileError(f"{path} must have the curves {', '.join(CURVES)} of each cell.")
    return {key: {name: _band(rows) for name, rows in cell.items()} for key, cell in numbers.items()}


def _band(rows: list[tuple[float, ...]]) -> Band:
    mean, low, high, count = np.array(rows).T
    return Band(mean, low, high, count.astype(np.int64))
