"""The database of an experiment: every finished run, safe as soon as it is written.

One SQLite file in write-ahead mode, written by one process (the runner, which holds the folder's lock) and
read by any number. Each record carries a checksum: damage is found and named instead of averaged in.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fishergcn._base.json import parse_json
from fishergcn.errors import DataFileError, reason
from fishergcn.studies._folders import no_runs
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._plan_check import checked_plan
from fishergcn.studies._runs import Band, Runs, bands_of
from fishergcn.training import RunRecord

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["DATABASE", "SCHEMA", "RunStore", "open_runs"]

DATABASE = "runs.sqlite"
SCHEMA = 1
_LARGEST_RECORD = 64 << 20
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE runs (
    dataset TEXT NOT NULL, cell TEXT NOT NULL, method TEXT NOT NULL,
    split TEXT NOT NULL, seed INTEGER NOT NULL,
    status TEXT NOT NULL, record BLOB NOT NULL, checksum TEXT NOT NULL,
    UNIQUE (dataset, cell, method, split, seed)
);
"""


def open_runs(folder: str | Path) -> Runs:
    """Open the runs in a folder for reading: a database (``runs.sqlite``) or an archive (``plan.json``).

    See :class:`fishergcn.studies._runs.Runs` for what can be read.

    Examples
    --------
    >>> import tempfile
    >>> from contextlib import closing
    >>> from fishergcn import studies
    >>> small = studies.make_plan("quick", datasets=["cora"], methods=["gcn"], splits=2, seeds=1, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     counts = studies.run(small, folder, device="cpu", workers=1)
    ...     with closing(open_runs(folder)) as runs:
    ...         scores = [(cell, record.split, record.epochs) for cell, record in runs.entries()]
    >>> scores
    [('gcn', 'shuffled:2019', 1), ('gcn', 'shuffled:2020', 1)]
    """
    folder = Path(folder)
    if os.path.isfile(folder / DATABASE):  # unlike Path.is_file, no exception for any path
        return RunStore(folder, writable=False)
    if os.path.isfile(folder / "plan.json"):
        from fishergcn.studies._archive import read_archive

        return read_archive(folder)
    raise no_runs(folder)


class RunStore:
    """The database ``folder/runs.sqlite``.

    Parameters
    ----------
    folder
        Where it is.
    writable
        Whether this process may write; the caller then holds the folder's lock.
    """

    def __init__(self, folder: str | Path, *, writable: bool) -> None:
        self.path = Path(folder) / DATABASE
        with _explained(self.path):
            self._connection = _connect(self.path, writable)
        try:
            with _explained(self.path):
                self._check(writable)
        except BaseException:
            self._connection.close()
            raise

    def _check(self, writable: bool) -> None:
        problems = [row[0] for row in self._connection.execute("PRAGMA integrity_check(1)")]
        if problems != ["ok"]:
            raise _damaged(self.path, problems[0].splitlines()[-1])
        tables = {row[0] for row in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables and writable:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                for statement in filter(str.strip, _TABLES.split(";")):
                    self._connection.execute(statement)
                self._put("schema", SCHEMA)
        elif not {"facts", "runs"} <= tables:
            raise _damaged(self.path, "its tables are missing")
        if (version := self._get("schema")) != SCHEMA:
            raise DataFileError(
                f"{self.path} has schema version {version}, and this version of fishergcn reads {SCHEMA}."
            )

    # What an experiment is

    @property
    def plan(self) -> dict[str, Any]:
        """What is to be run, as plain values, with the command line and the time it was first given."""
        with _explained(self.path):
            values = self._get("plan")
        if values is None:
            raise DataFileError(f"{self.path} has no plan yet; run fishergcn reproduce again.")
        return checked_plan(values, self.path)

    def begin(self, plan: Plan, **remarks: str) -> None:
        """Write the plan, with remarks such as the command line; one that is there must be the same."""
        with _explained(self.path):
            known = self._get("plan")
            if known is None:
                with self._connection:
                    self._put("plan", plan.to_dict() | remarks)
                return
        differences = plan.differences(Plan.from_dict(checked_plan(known, self.path)))
        if differences:
            raise DataFileError(
                f"{self.path.parent} holds runs with other settings; now asked for: {'; '.join(differences)} "
                "(take another folder, or the same settings)."
            )

    def remember(self, name: str, value: Any) -> Any:
        """Return the value kept under ``name``, which is this one if there was none."""
        with _explained(self.path):
            known = self._get(f"fact {name}")
            if known is not None:
                return known
            with self._connection:
                self._put(f"fact {name}", value)
            return value

    # Runs

    def add(self, cell: Cell, records: Iterable[RunRecord]) -> None:
        """Write records of a cell, all or none, and return when they are on disk; they replace older ones."""
        rows = [_row(cell.name, record) for record in records]
        with _explained(self.path), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def finished(self, cell: Cell) -> set[tuple[str, int]]:
        """Return the (split, seed) of a cell's runs that need not be run again; failed ones do."""
        query = "SELECT split, seed FROM runs WHERE dataset = ? AND cell = ? AND status NOT LIKE 'failed%'"
        with _explained(self.path):
            return set(self._connection.execute(query, (cell.dataset, cell.name)))

    def counts(self) -> dict[str, int]:
        """Return how many runs have which status: ok, diverged, failed."""
        query = "SELECT substr(status || ':', 1, instr(status || ':', ':') - 1), count(*) FROM runs GROUP BY 1"
        with _explained(self.path):
            return dict(self._connection.execute(query))

    def entries(self, dataset: str | None = None, cell: str | None = None) -> Iterator[tuple[str, RunRecord]]:
        """Yield (name of the cell, record), in the order of the plan; of one data set or cell if named."""
        for known in self.plan["cells"]:
            if dataset in (None, known["dataset"]) and cell in (None, known["name"]):
                for record in self._records(known["dataset"], known["name"]):
                    yield known["name"], record

    def _records(self, dataset: str, cell: str) -> Iterator[RunRecord]:
        query = "SELECT * FROM runs WHERE dataset = ? AND cell = ? ORDER BY split, seed"
        with _explained(self.path):
            for row in self._connection.execute(query, (dataset, cell)):
                yield _record(self.path, row)

    def records(self) -> Iterator[RunRecord]:
        """Yield all records, in the order of the plan."""
        return (record for _, record in self.entries())

    def bands(self, dataset: str, cell: str, epochs: int | None = None) -> dict[str, Band]:
        """Return the learning curves of a cell by name."""
        return bands_of(self._records(dataset, cell), epochs)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _put(self, name: str, value: Any) -> None:
        self._connection.execute("INSERT INTO facts VALUES (?, ?)", (name, _sealed(value)))

    def _get(self, name: str) -> Any:
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else _unsealed(self.path, name, row[0])


def _connect(path: Path, writable: bool) -> sqlite3.Connection:
    if writable:
        connection = sqlite3.connect(path, timeout=30.0, isolation_level="IMMEDIATE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # safe even if the power fails
        return connection
    # A folder that may not be written can be read too, as nobody is writing there.
    still = "" if path.with_name(f"{path.name}-wal").exists() or os.access(path.parent, os.W_OK) else "&immutable=1"
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro{still}", timeout=30.0, uri=True)


def _row(cell: str, record: RunRecord) -> tuple[Any, ...]:
    blob = zlib.compress(json.dumps(record.to_dict(), allow_nan=False).encode(), 6)
    key = (record.dataset, cell, record.method, record.split, record.seed, record.status)
    return *key, blob, _checksum(key, blob)


def _record(path: Path, row: tuple[Any, ...]) -> RunRecord:
    try:
        *key, blob, checksum = row
        dataset, cell, _, split, seed, _ = key
        intact = _checksum(tuple(key), blob) == checksum
    except (TypeError, ValueError) as error:
        raise _damaged(path, "a record has the wrong form") from error
    name = f"the record of {cell} on {dataset}, split {split}, seed {seed}"
    if not intact:
        raise _damaged(path, f"{name} fails its checksum")
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(blob, _LARGEST_RECORD)
        if unpacker.unconsumed_tail:
            raise _damaged(path, f"{name} is larger than {_LARGEST_RECORD} bytes")
        return RunRecord.from_dict(parse_json(text))
    except DataFileError as error:
        raise error if str(path) in str(error) else _damaged(path, f"{name}: {reason(error)}") from None
    except (zlib.error, ValueError, RecursionError) as error:
        raise _damaged(path, f"{name} is not JSON") from error


def _checksum(key: tuple[Any, ...], blob: bytes) -> str:
    return hashlib.sha256(json.dumps(key).encode() + b"\n" + blob).hexdigest()


def _sealed(value: Any) -> str:
    text = json.dumps(value, allow_nan=False)
    return f"{hashlib.sha256(text.encode()).hexdigest()} {text}"


def _unsealed(path: Path, name: str, sealed: Any) -> Any:
    checksum, _, text = sealed.partition(" ") if isinstance(sealed, str) else ("", "", "")
    if hashlib.sha256(text.encode()).hexdigest() != checksum:
        raise _damaged(path, f"the entry {name!r} fails its checksum")
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"the entry {name!r} is not JSON") from error


def _damaged(path: Path, why: str) -> DataFileError:
    return DataFileError(f"{path} is damaged ({why}); restore a copy, or move it away and run again.")


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what SQLite reports into a sentence with a remedy."""
    try:
        yield
    except UnicodeDecodeError as error:  # of a name within the file
        raise _damaged(path, "a text is not UTF-8") from error
    except sqlite3.Error as error:
        text = reason(error)
        if "full" in text or "I/O" in text:
            free = shutil.disk_usage(path.parent).free
            raise DataFileError(
                f"{path} cannot be written: {text} ({free / 1e6:.0f} MB free); all runs before are safe: "
                "make room and run the same command again."
            ) from error
        if isinstance(error, sqlite3.OperationalError) and "malformed" not in text:
            raise DataFileError(f"{path} cannot be used: {text}.") from error
        raise _damaged(path, text) from error
