"""The database of a study: every finished run, safe as soon as it is written.

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
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fishergcn._base.files import make_folder
from fishergcn._base.json import parse_json
from fishergcn._version import __version__
from fishergcn.errors import DataFileError, reason
from fishergcn.studies._folders import no_runs
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._runs import Runs
from fishergcn.studies._schema import foreign_object, refuse_linked_database, restrain
from fishergcn.training import RunRecord

Fact = TypeVar("Fact")
DATABASE = "runs.sqlite"
SCHEMA = 3  # 1, of version 0.1, lacks `extra` and what plans have now; 2 has five scores; all are read
_FACT = "fact "  # before the names of what the runner noted
_LARGEST_RECORD = 64 << 20
_INSERT = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PATIENCE = 30.0  # seconds that others may hold the file
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

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import studies
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=1, epochs=1)
    ...     studies.run(plan, folder, device="cpu", workers=1).close()
    ...     with open_runs(folder) as runs:
    ...         [record] = runs.records()
    >>> record.split, record.epochs
    ('shuffled:2019', 1)
    """
    folder = Path(folder)
    if os.path.isfile(folder / DATABASE):  # unlike Path.is_file, no exception for any path
        return RunStore(folder, writable=False)
    if os.path.isfile(folder / "plan.json"):
        from fishergcn.studies._archive import read_archive

        return read_archive(folder)
    raise no_runs(folder)


class RunStore(Runs):
    """The database ``folder/runs.sqlite``; who opens it as writable holds the folder's lock."""

    def __init__(self, folder: str | Path, *, writable: bool) -> None:
        self.path = Path(folder) / DATABASE
        self._place = Path(os.path.abspath(folder))  # the working folder may be gone later
        self._identity: tuple[int, int] | None = None
        self._has_log = False
        self._plan: Plan | None = None
        refuse_linked_database(self.path)
        with _explained(self.path):
            self._connection = _connect(self.path, writable)
        try:
            with _explained(self.path):
                self._check(writable)
            if writable:
                opened = os.stat(self.path)
                self._identity = opened.st_dev, opened.st_ino
                self._has_log = os.path.exists(f"{self.path}-wal")  # not on every file system
        except BaseException:
            self._connection.close()
            raise

    def _check(self, writable: bool) -> None:
        restrain(self._connection)
        if foreign := foreign_object(self._connection, _TABLES.split(";")):
            raise DataFileError(f"{self.path} is refused: it holds the {foreign}, which no study of ours makes.")
        if writable:  # before the first read, which makes the log
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")  # safe even if the power fails
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
        version = self._get("schema")
        if version not in range(1, SCHEMA + 1):
            raise DataFileError(
                f"{self.path} has schema version {version}, and fishergcn {__version__} reads up to {SCHEMA}: it "
                "was written by a later version; update fishergcn."
            )
        if writable and version < SCHEMA:  # what is added now, older versions could not read
            with self._connection:
                self._put("schema", SCHEMA)

    # What a study is

    @property
    def plan(self) -> Plan:
        """What is to be run."""
        if self._plan is None:
            with _explained(self.path):
                values = self._get("plan")
            if values is None:
                raise DataFileError(f"{self.path} has no plan yet; run the command that created it again.")
            self._plan = Plan.from_dict(values, str(self.path))
        return self._plan

    @property
    def facts(self) -> dict[str, Any]:
        """What the runner noted."""
        with _explained(self.path):
            known = self._get("plan") or {}  # where version 0.1 has the command
            query = "SELECT name, value FROM facts WHERE substr(name, 1, ?) = ?"
            noted = self._connection.execute(query, (len(_FACT), _FACT)).fetchall()
        found = {name: known[name] for name in ("command", "created") if name in known}
        return found | {name[len(_FACT) :]: _unsealed(self.path, name, value) for name, value in noted}

    def begin(self, plan: Plan, **remarks: str) -> None:
        """Write the plan, with remarks such as the command line; one that is there must be the same."""
        with _explained(self.path):
            if self._get("plan") is None:
                with self._connection:
                    self._put("plan", plan.to_dict())
                    for name, text in remarks.items():
                        self._put(_FACT + name, text)
        differences = plan.differences(self.plan)
        if differences:
            raise DataFileError(
                f"{self.path.parent} contains runs with other settings; you asked for: {'; '.join(differences)} "
                "(use another folder or the same settings)."
            )

    def remember(self, name: str, make: Callable[[], Fact]) -> Fact:
        """Return the fact of this name, and if there is none, make it and keep it; None is not kept."""
        with _explained(self.path):
            known: Fact | None = self._get(_FACT + name)
        if known is not None:
            return known
        made = make()
        if made is not None:
            with _explained(self.path), self._connection:
                self._put(_FACT + name, made)
        return made

    # Runs

    def add(self, cell: Cell, records: Iterable[RunRecord]) -> None:
        """Write records of a cell, all or none, and return when they are on disk; they replace older ones."""
        rows = [_row(cell.name, record) for record in records]
        try:
            with _explained(self.path), self._connection:
                self._connection.executemany(_INSERT, rows)
        except DataFileError:
            if self._is_there():
                raise
        if not self._is_there():
            raise self._rescued(rows)

    def _is_there(self) -> bool:
        """Say whether the file that is open, and the log beside it, are the ones at their paths.

        Written to a file that was removed, everything seems well until the process ends.
        """
        try:
            found = os.stat(self._place / DATABASE)
            if self._has_log:
                os.stat(self._place / f"{DATABASE}-wal")
        except OSError:
            return False
        return self._identity in (None, (found.st_dev, found.st_ino))

    def _rescued(self, rows: Sequence[tuple[Any, ...]]) -> DataFileError:
        """Save all runs, these too, in a new folder beside the one that is lost, and return what to say of it."""
        for parent in (self._place.parent, Path(tempfile.gettempdir())):
            names = (f"{self._place.name}-rescued{number}" for number in ("", *map(str, range(2, 100))))
            folder = next(parent / name for name in names if not os.path.lexists(parent / name))
            try:
                make_folder(folder)
                with contextlib.closing(sqlite3.connect(folder / DATABASE)) as copy:
                    self._connection.backup(copy)
                    with copy:
                        copy.executemany(_INSERT, rows)
                    [[count]] = copy.execute("SELECT count(*) FROM runs")
            except (DataFileError, sqlite3.Error, OSError):
                continue
            return DataFileError(
                f"{self.path} was removed or replaced while running; all {count} runs are saved in {folder}: rename "
                "it to the lost folder and run the same command again."
            )
        return DataFileError(f"{self.path} was removed or replaced while running, and its runs could not be saved.")

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

    def of_cell(self, cell: Cell) -> Iterator[RunRecord]:
        """Yield the records of a cell, by split and seed."""
        query = "SELECT * FROM runs WHERE dataset = ? AND cell = ? ORDER BY split, seed"
        with _explained(self.path):
            for row in self._connection.execute(query, (cell.dataset, cell.name)):
                yield _record(self.path, row)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _put(self, name: str, value: Any) -> None:
        self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, _sealed(value)))

    def _get(self, name: str) -> Any:
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else _unsealed(self.path, name, row[0])


def _connect(path: Path, writable: bool) -> sqlite3.Connection:
    if writable:
        return sqlite3.connect(path, timeout=_PATIENCE, isolation_level="IMMEDIATE")
    # A folder that may not be written can be read too, as nobody is writing there.
    still = "" if path.with_name(f"{path.name}-wal").exists() or os.access(path.parent, os.W_OK) else "&immutable=1"
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro{still}", timeout=_PATIENCE, uri=True)


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
    return DataFileError(f"{path} is damaged ({why}); restore a backup, or move it away and run again.")


def _free(folder: Path) -> str:
    try:
        return f" ({shutil.disk_usage(folder).free / 1e6:.0f} MB free)"
    except OSError:  # gone
        return ""


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
            raise DataFileError(
                f"{path} cannot be written: {text}{_free(path.parent)}; finished runs are saved: "
                "free some space and run the same command again."
            ) from error
        if "locked" in text or "busy" in text:
            raise DataFileError(
                f"{path} has been locked by another program for {_PATIENCE:.0f} s; finished runs are saved: close "
                "that program and run the same command again."
            ) from error
        if isinstance(error, sqlite3.OperationalError) and "malformed" not in text:
            raise DataFileError(f"{path} cannot be used: {text}.") from error
        raise _damaged(path, text) from error
