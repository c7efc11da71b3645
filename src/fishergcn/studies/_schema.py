"""SQLite files of anybody: nothing in them is run, and what they may declare is what we declare ourselves.

A database can hold triggers, views, generated columns and expressions that SQLite runs as rows are read or written.
The schema is therefore compared with our own before anything else is asked of a file.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from fishergcn._base.files import refuse_links
from fishergcn.errors import DataFileError, reason

_LONGEST = 65 << 20  # bytes of a value; a record has at most 64 MiB
_LONGEST_STATEMENT = 1 << 20
_BESIDE = ("", "-wal", "-shm", "-journal")  # files that SQLite reads and writes beside a database
_RUNS_SOMETHING = re.compile(r"\b(generated|as\s*\(|virtual|default|check\s*\()", re.IGNORECASE)
_PLAIN_INDEX = re.compile(r"CREATE (UNIQUE )?INDEX \w+ ON \w+ \([\w, ]+\)")
# The tables of a search by Optuna, whose schema changes with its versions: those that it may have.
_OPTUNA = re.compile(r"studies|study_\w+|trials|trial_\w+|version_info|alembic_version")


def refuse_linked_database(path: Path) -> None:
    """Raise if a database, or a file that SQLite keeps beside it, is a link."""
    refuse_links(path.parent, *(f"{path.name}{suffix}" for suffix in _BESIDE))


def restrain(connection: sqlite3.Connection) -> None:
    """Have SQLite run no function that a schema names, and hold no value beyond our limits."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    if hasattr(connection, "setlimit"):  # from Python 3.11 on
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_STATEMENT)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0)


def foreign_object(connection: sqlite3.Connection, statements: Iterable[str]) -> str:
    """Name something in a database that the statements do not make; nothing if there is none.

    The indexes that SQLite makes for a table itself have no statement.
    """
    known = {_normal(each) for each in statements}
    query = "SELECT type, substr(name, 1, 60), substr(sql, 1, 10000) FROM sqlite_master"
    for kind, name, sql in connection.execute(query):
        if _normal(sql or "") not in known and not (kind == "index" and sql is None):
            return f"{kind} {str(name)!r}"
    return ""


def _normal(statement: str) -> str:
    return " ".join(str(statement).split())


def check_search(path: Path, *, mode: Literal["ro", "rw"] = "ro") -> None:
    """Raise if the database of a search holds anything but tables and indexes as Optuna makes them.

    A write that was cut off left a journal beside it, which only a connection that may write (``"rw"``) can roll back.
    """
    refuse_linked_database(path)
    if not path.exists():
        return
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)) as connection:
            restrain(connection)
            rows = connection.execute("SELECT type, name, tbl_name, substr(sql, 1, 10000) FROM sqlite_master LIMIT 200")
            for kind, name, table, sql in rows:
                if kind == "index" and sql is not None and not _PLAIN_INDEX.fullmatch(str(sql)):
                    kind = "index of an expression"
                odd = _RUNS_SOMETHING.search(str(sql or "")) and not _only_checks_words(str(sql))
                if kind not in ("table", "index") or not _OPTUNA.fullmatch(str(table)) or odd:
                    raise DataFileError(
                        f"{path} is refused: it holds the {kind} {str(name)[:60]!r}, which no search of ours makes."
                    )
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if mode == "ro" and os.path.lexists(f"{path}-journal"):
            raise DataFileError(
                f"{path} was left amid a write ({reason(error)}); give the command that made it again."
            ) from error
        raise DataFileError(f"{path} is not a study that can be opened ({reason(error)}).") from error


def _only_checks_words(sql: str) -> bool:
    """Say whether the checks of a table compare with words or a number, as Optuna's do, and nothing else is run."""
    rest = re.sub(r"CHECK\s*\(\s*\w+\s*(IN\s*\([\w\s,']*\)|=\s*\d+)\s*\)", "", sql, flags=re.IGNORECASE)
    return _RUNS_SOMETHING.search(rest) is None
