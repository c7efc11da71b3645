"""All runs in one file for other programs: CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fishergcn._base.files import atomic_path
from fishergcn._base.foreign import for_spreadsheet
from fishergcn._base.imports import require
from fishergcn.errors import InputError
from fishergcn.studies._runs import CURVES, Runs
from fishergcn.training import RunRecord, score_fields

_NESTED = ("curves", "shape", "versions", "config", "extra")
_BATCH = 200  # runs in memory at once


def export(runs: Runs, path: str | Path) -> int:
    """Write all runs to a file whose ending names the format, and return how many.

    The columns are the fields of :class:`fishergcn.RunRecord` with a column for each score, after the name of the cell.
    In CSV, curves, shape, versions, config and extra are JSON texts, and a missing score is empty. In Parquet, curves
    and shape are lists, the other three JSON texts.

    Parameters
    ----------
    runs
        See :func:`open_runs`.
    path
        Ends in ``.csv``, ``.json`` or ``.parquet``.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import studies
    >>> plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=1, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder, studies.run(plan, folder, workers=1) as runs:
    ...     export(runs, f"{folder}/runs.csv")
    1
    """
    path = Path(path)
    writers = {".csv": _write_csv, ".json": _write_json, ".parquet": _write_parquet}
    if path.suffix.lower() not in writers:
        raise InputError(f"the file must end in {', '.join(writers)}, got {path.name!r}.")
    rows = ({"cell": cell, **record.to_dict()} for cell, record in runs.entries())
    with atomic_path(path) as temporary:
        return writers[path.suffix.lower()](temporary, _columns(runs), rows)


def _columns(runs: Runs) -> dict[str, str]:
    """Return the type of each column, those of scores that nobody has registered here too."""
    scores = dict.fromkeys([*score_fields(), *(name for record in runs.records() for name in record.scores)], "float")
    columns = {"cell": "str"}
    for field in dataclasses.fields(RunRecord):
        columns |= scores if field.name == "scores" else {field.name: str(field.type)}
    return {name: kind for name, kind in columns.items() if name not in ("weights", "outputs")}


def _write_csv(path: Path, columns: Mapping[str, str], rows: Iterator[dict[str, Any]]) -> int:
    count = 0
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(columns), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            count += 1
            plain = row | {name: json.dumps(row[name]) for name in _NESTED}
            writer.writerow(
                {name: for_spreadsheet(cell) if isinstance(cell, str) else cell for name, cell in plain.items()}
            )
    return count


def _write_json(path: Path, _: Mapping[str, str], rows: Iterator[dict[str, Any]]) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as stream:
        stream.write("[")
        for count, row in enumerate(rows, start=1):
            stream.write(("\n" if count == 1 else ",\n") + json.dumps(row, ensure_ascii=False))
        stream.write("\n]\n")
    return count


def _write_parquet(path: Path, columns: Mapping[str, str], rows: Iterator[dict[str, Any]]) -> int:
    pyarrow = require("pyarrow", extra="report", purpose="Writing Parquet")
    parquet = require("pyarrow.parquet", extra="report", purpose="Writing Parquet")
    kinds = {"int": pyarrow.int64(), "float": pyarrow.float64(), "str": pyarrow.string()}
    numbers = pyarrow.list_(pyarrow.float64())
    types = {name: kinds.get(kind, pyarrow.string()) for name, kind in columns.items()}
    types |= {"shape": numbers, "curves": pyarrow.struct([(name, numbers) for name in CURVES])}
    schema = pyarrow.schema(list(types.items()))
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(itertools.islice(rows, _BATCH)):
            plain = [row | {name: json.dumps(row[name]) for name in ("versions", "config", "extra")} for row in batch]
            writer.write_table(pyarrow.Table.from_pylist(plain, schema=schema))
            count += len(batch)
    return count
