"""A small copy of a study's results in text files, to be kept with the code.

``plan.json`` holds the plan, the facts and where the runs were made; ``runs.csv`` one line per run, with scores to the
last bit, empty where there are none; ``curves.csv`` the learning curves of each cell, as mean and quantiles over its
runs (four digits). Only with ``curves="all"`` the curves of each run are kept, in ``curves.npz`` (float32).
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.files import atomic_path, changed_folder, read_bytes, refuse_links, write_text
from fishergcn._base.foreign import from_spreadsheet
from fishergcn._base.json import parse_json
from fishergcn._base.npz import read_arrays
from fishergcn._base.text import csv_text
from fishergcn._base.types import AnyArray
from fishergcn._version import __version__
from fishergcn.errors import DataFileError, FisherGCNError, reason
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._runs import CURVES, Band, KnownRuns, Runs
from fishergcn.training import RunRecord, score_fields

_FILES = ("plan.json", "runs.csv", "curves.npz", "curves.csv")
_LARGEST_PLAN = 64 << 20
FORMAT = 4  # 1 and 2, of version 0.1, have fewer facts and columns, and 3 five scores; all are read
Curves = Literal["mean", "none", "all"]
_RUN_COLUMNS = ("dataset", "cell", "split", "seed", "status", "epochs"), ("seconds", "made", "shape", "extra")
SCORED = ("test_", "val_")  # how the names of scores begin
_CURVE_COLUMNS = ("dataset", "cell", "curve", "epoch", "mean", "low", "high", "runs")


def write_archive(folder: str | Path, runs: Runs, *, curves: Curves = "mean", epochs: int = 100) -> None:
    """Write the results of a study as small text files.

    Parameters
    ----------
    folder
        Where; made if it is not there.
    runs
        See :func:`open_runs`.
    curves
        ``"mean"``: mean, 10% and 90% quantile of each cell; ``"none"``; ``"all"``: of each run as well.
    epochs
        How many epochs of the bands. By the paper's rule no run stops before epoch 102, so that the first 100
        are over all runs.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import studies
    >>> plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=1, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder, studies.run(plan, folder, workers=1) as runs:
    ...     write_archive(f"{folder}/copy", runs)
    ...     sorted(path.name for path in Path(folder, "copy").iterdir())
    ['curves.csv', 'plan.json', 'runs.csv']
    """
    check_choice("curves", curves, get_args(Curves))
    epochs = check_integer("epochs", epochs, minimum=1)
    folder = Path(folder)
    refuse_links(folder, *_FILES)
    made: dict[str, int] = {}  # device and versions, as JSON, numbered
    found = [
        (cell, dataclasses.replace(record, curves={})) for cell in runs.plan.cells for record in runs.of_cell(cell)
    ]
    known = {name for _, record in found for name in record.scores}
    scores = [*filter(known.__contains__, score_fields()), *sorted(known.difference(score_fields()))]
    lines = [_line(cell, record, scores, made) for cell, record in found]
    places = [json.loads(text) for text in made]
    more = {"facts": dict(runs.facts), "format": FORMAT, "made": places}
    with changed_folder(folder) as new:
        write_text(new / "runs.csv", csv_text((*_RUN_COLUMNS[0], *scores, *_RUN_COLUMNS[1]), lines))
        for name in ("curves.csv", "curves.npz"):
            (new / name).unlink(missing_ok=True)  # of an earlier archive
        if curves != "none":
            write_text(new / "curves.csv", csv_text(_CURVE_COLUMNS, list(_band_lines(runs, epochs))))
        if curves == "all":
            with atomic_path(new / "curves.npz") as temporary:
                np.savez_compressed(temporary, allow_pickle=False, **dict(_all_curves(runs)))
        write_text(new / "plan.json", _json(runs.plan.to_dict() | more))


def _json(values: Mapping[str, Any]) -> str:
    """Return an object as JSON, an entry a line, and a line for each item of an entry."""
    parts = []
    for name, value in values.items():
        items = [json.dumps(item) for item in value] if isinstance(value, list) else []
        if isinstance(value, dict):
            items = [f"{json.dumps(key)}: {json.dumps(item)}" for key, item in value.items()]
        left, right = ("{", "}") if isinstance(value, dict) else ("[", "]")
        inner = ",\n  ".join(items)
        text = f"{left}\n  {inner}\n {right}" if items else json.dumps(value)
        parts.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _line(cell: Cell, record: RunRecord, names: Iterable[str], made: dict[str, int]) -> list[Any]:
    place = json.dumps({"device": record.device, "versions": record.versions})
    scores = [repr(record.scores[name]) if name in record.scores else "" for name in names]
    shape = " ".join(f"{value:.5g}" for value in record.shape)
    extra = " ".join(f"{name}={value!r}" for name, value in record.extra.items() if name not in cell.options)
    first = [record.dataset, cell.name, record.split, record.seed, record.status, record.epochs]
    return [*first, *scores, f"{record.seconds:.3f}", made.setdefault(place, len(made)), shape, extra]


def _band_lines(runs: Runs, epochs: int) -> Iterator[list[Any]]:
    for cell in runs.plan.cells:
        for name, band in runs.bands(cell.dataset, cell.name, epochs).items():
            for epoch, count in enumerate(band.runs.tolist(), start=1):
                values = (f"{each[epoch - 1]:.4g}" for each in (band.mean, band.low, band.high))
                yield [cell.dataset, cell.name, name, epoch, *values, count]


def _all_curves(runs: Runs) -> Iterator[tuple[str, AnyArray]]:
    """Yield one array per run, in the order of ``runs.csv``: its curves as rows."""
    for number, record in enumerate(runs.records()):
        rows = [record.curves.get(name, []) for name in CURVES]
        yield f"run{number}", np.array(rows, dtype=np.float32)


Identity = tuple[str, str]  # data set, name of the cell


class Archive(KnownRuns):
    """Results read from an archive; shapes have five digits, and curves of single runs may be missing."""

    def __init__(
        self,
        plan: Plan,
        facts: Mapping[str, Any],
        records: Mapping[Identity, list[RunRecord]],
        bands: Mapping[Identity, dict[str, Band]],
    ) -> None:
        super().__init__(plan, facts)
        self._records, self._bands = records, bands

    def of_cell(self, cell: Cell) -> Iterator[RunRecord]:
        """Yield the records of a cell, by split and seed."""
        return iter(self._records.get((cell.dataset, cell.name), ()))

    def bands(self, dataset: str, cell: str, epochs: int | None = None) -> dict[str, Band]:
        """Return the learning curves of a cell by name."""
        known = self._bands.get((dataset, cell), {})
        return super().bands(dataset, cell, epochs) or {
            name: Band(*(getattr(band, field.name)[:epochs] for field in dataclasses.fields(Band)))
            for name, band in known.items()
        }


def read_archive(folder: str | Path) -> Archive:
    """Read what :func:`write_archive` wrote."""
    folder = Path(folder)
    refuse_links(folder, *_FILES)
    try:
        values = parse_json(read_bytes(folder / "plan.json", limit=_LARGEST_PLAN))
        if (version := values.get("format")) not in range(1, FORMAT + 1):
            raise DataFileError(
                f"{folder} has archive format {version}, and fishergcn {__version__} reads up to {FORMAT}: it "
                "was written by a later version; update fishergcn."
            )
        plan = Plan.from_dict(values, str(folder / "plan.json"))
        cells = {(cell.dataset, cell.name): (cell, cell.config.to_dict()) for cell in plan.cells}
        lines = _read_csv(folder / "runs.csv", *_RUN_COLUMNS)
        curves = _read_all_curves(folder / "curves.npz", len(lines))
        records: dict[Identity, list[RunRecord]] = {}
        for line, each in zip(lines, curves, strict=True):
            key = line["dataset"], line["cell"]
            record = _record(line, values["made"][int(line["made"])], plan.digests[key[0]], *cells[key], each)
            records.setdefault(key, []).append(record)
        old = {name: values[name] for name in ("command", "created") if name in values}  # of version 0.1
        return Archive(plan, {**old, **values.get("facts", {})}, records, _read_bands(folder / "curves.csv"))
    except FisherGCNError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, csv.Error) as error:
        raise DataFileError(f"{folder} is not a readable archive of runs ({reason(error)}).") from error


def _read_csv(path: Path, first: tuple[str, ...], last: tuple[str, ...] = ()) -> list[dict[str, str]]:
    """Read lines whose columns are ``first``, any scores, and ``last``, of which the oldest archives lack ``extra``."""
    if path.exists() and not path.is_file():  # a pipe would have us wait for ever
        raise DataFileError(f"{path} is not a file.")
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream, strict=True)
        found = tuple(reader.fieldnames or ())
        scores = tuple(name for name in found if last and name.startswith(SCORED))
        if len(set(scores)) < len(scores) or found not in [(*first, *scores, *last), (*first, *scores, *last[:-1])]:
            between = "then scores, then " if last else ""
            raise DataFileError(f"{path} must have the columns {', '.join(first)}, {between}{', '.join(last)}.")
        # A line that is too long or too short has cells under None, or None for cells.
        return [{key: from_spreadsheet(cell) if isinstance(cell, str) else cell for key, cell in line.items()}
                for line in reader]  # fmt: skip


def _record(
    line: Mapping[str, str],
    made: Mapping[str, Any],
    digest: str,
    cell: Cell,
    config: Mapping[str, Any],
    curves: dict[str, list[float]],
) -> RunRecord:
    extra = dict(entry.split("=") for entry in line.get("extra", "").split())
    values = dict(
        dataset=line["dataset"],
        method=cell.method,
        split=line["split"],
        seed=int(line["seed"]),
        status=line["status"],
        epochs=int(line["epochs"]),
        **{name: float(line[name]) for name in line if str(name).startswith(SCORED) and line[name]},
        curves=curves,
        shape=[float(value) for value in line["shape"].split()],
        seconds=float(line["seconds"]),
        device=made["device"],
        versions=made["versions"],
        config={**config},
        graph_digest=digest,
        extra={**cell.options, **{name: float(value) for name, value in extra.items()}},
    )
    return RunRecord.from_dict(values)


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
