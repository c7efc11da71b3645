"""Folders: what one holds, as far as one of our commands made it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from fishergcn.errors import DataFileError

_OURS = ("runs.sqlite", "plan.json")
#: All files in the folder of a study or an archive of one, as paths within it.
STUDY_FILES = re.compile(
    r"runs\.(sqlite(-wal|-shm|-journal)?|lock|csv)|plan\.json|curves\.(csv|npz)|tables\.(csv|md)|report\.html"
    r"|figures/[^/]+\.(svg|png|csv)|weights/\d+-\d+\.npz"
)


def no_runs(folder: Path) -> DataFileError:
    """Return the error that says why there are no runs to be read in a folder, and what can be done."""
    name = shlex.quote(str(folder))
    if not os.path.exists(folder):
        return DataFileError(f"{folder} does not exist; to create runs there: fishergcn reproduce quick --out {name}")
    if not os.path.isdir(folder):
        return DataFileError(f"{folder} is a file, not a folder made by fishergcn reproduce.")
    for what, advice, _ in _contents(folder):
        return DataFileError(f"{folder} holds {what} but no runs of a study; {advice}")
    # What others put there stays theirs: advise a new folder unless this one is empty.
    place = "new-folder" if any(folder.iterdir()) else name
    missing = f"neither {' nor '.join(_OURS)}"
    return DataFileError(
        f"{folder} contains no runs ({missing}); to create some: fishergcn reproduce quick --out {place}"
    )


def check_free(folder: Path) -> None:
    """Raise if a folder is a model's or a search's, or holds a copy of runs: a study would mix with it."""
    if _has(folder, "runs.sqlite"):
        return
    for what, _, mixes in _contents(folder):
        if mixes:
            raise DataFileError(f"{folder} holds {what.rstrip(',')}; use another folder for the study.")
    if _has(folder, "plan.json"):
        raise DataFileError(f"{folder} is an archive of runs and cannot be added to; use another folder.")


def _contents(folder: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield what our commands left in a folder, what to do with it, and whether a study would mix with it."""
    if _has(folder, "table1.md"):
        yield "a table of data set statistics", f"see {folder / 'table1.md'}.", False
    if (_has(folder, "points.csv") and _has(folder, "study.json")) or any(folder.glob("*/points.jsonl")):
        advice = "repeat it with: fishergcn robustness --out new-folder, or read it with that version."
        yield "a study of robustness made by fishergcn 0.1, whose files this version does not read,", advice, True
    if _has(folder, "model.json"):
        yield "a model", f"use it with: fishergcn predict {shlex.quote(str(folder))}", True
    for found in sorted(folder.glob("*/model.json"))[:1]:
        yield "models", f"use one with: fishergcn predict {shlex.quote(str(found.parent))}", False
    if _has(folder, "tuning.json"):
        yield "a search by fishergcn tune", f"its trials are in {folder / 'tuning.json'}.", True
    elif _has(folder, "study.sqlite"):
        yield "a search by fishergcn tune", "it is not finished.", True


def _has(folder: Path, name: str) -> bool:
    return os.path.isfile(folder / name)  # unlike Path.is_file, no exception for any path
