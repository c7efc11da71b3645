"""What a folder holds, as far as it was made by one of our commands: for messages that help."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from fishergcn.errors import DataFileError

_OURS = ("runs.sqlite", "plan.json")


def no_runs(folder: Path) -> DataFileError:
    """Return the error that says why there are no runs to be read in a folder, and what can be done.

    Examples
    --------
    >>> print(no_runs(Path("nowhere")))
    nowhere does not exist; to create runs there: fishergcn reproduce quick --out nowhere
    """
    name = shlex.quote(str(folder))
    if not os.path.exists(folder):
        return DataFileError(f"{folder} does not exist; to create runs there: fishergcn reproduce quick --out {name}")
    if not os.path.isdir(folder):
        return DataFileError(f"{folder} is a file, not a folder made by fishergcn reproduce.")
    known = _described(folder)
    if known:
        return DataFileError(f"{folder} holds {known[0]} but no runs of a study; {known[1]}")
    # What others put there stays theirs: advise a new folder unless this one is empty.
    place = "new-folder" if any(folder.iterdir()) else name
    missing = f"neither {' nor '.join(_OURS)}"
    return DataFileError(
        f"{folder} contains no runs ({missing}); to create some: fishergcn reproduce quick --out {place}"
    )


def check_free(folder: Path) -> None:
    """Raise if a folder is a model's or a search's, or holds a copy of runs: a study would mix with it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_free(Path(folder))
    """
    if _has(folder, "runs.sqlite"):
        return
    what = _model(folder) or _search(folder) or _old_study(folder)
    if what:
        raise DataFileError(f"{folder} holds {what[0].rstrip(',')}; use another folder for the study.")
    if _has(folder, "plan.json"):
        raise DataFileError(f"{folder} is an archive of runs and cannot be added to; use another folder.")


def _described(folder: Path) -> tuple[str, str] | None:
    """Return what a folder holds, and what to do with it; None if we do not know."""
    if _has(folder, "table1.md"):
        return "a table of data set statistics", f"see {folder / 'table1.md'}."
    return _old_study(folder) or _model(folder) or _models(folder) or _search(folder)


def _model(folder: Path) -> tuple[str, str] | None:
    if not _has(folder, "model.json"):
        return None
    return "a model", f"use it with: fishergcn predict {shlex.quote(str(folder))}"


def _models(folder: Path) -> tuple[str, str] | None:
    found = sorted(folder.glob("*/model.json"))
    return ("models", f"use one with: fishergcn predict {shlex.quote(str(found[0].parent))}") if found else None


def _search(folder: Path) -> tuple[str, str] | None:
    if _has(folder, "tuning.json"):
        return "a search by fishergcn tune", f"its trials are in {folder / 'tuning.json'}."
    return ("a search by fishergcn tune", "it is not finished.") if _has(folder, "study.sqlite") else None


def _old_study(folder: Path) -> tuple[str, str] | None:
    if not (_has(folder, "points.csv") and _has(folder, "study.json")) and not any(folder.glob("*/points.jsonl")):
        return None
    advice = "repeat it with: fishergcn robustness --out new-folder, or read it with that version."
    return "a study of robustness made by fishergcn 0.1, whose files this version does not read,", advice


def _has(folder: Path, name: str) -> bool:
    return os.path.isfile(folder / name)  # unlike Path.is_file, no exception for any path
