"""Measured points on disk: one JSON line each, appended in one write, so that a study can stop at any moment."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from fishergcn._base.files import write_text
from fishergcn.errors import DataFileError, reason

__all__ = ["Point", "PointFile", "points_csv", "read_points", "read_study"]

Key = tuple[str, str, str, float, str, int]


@dataclass(frozen=True)
class Point:
    """One trained network on one changed graph.

    Attributes
    ----------
    dataset, method, attack, level, split, seed
        What was measured; ``level`` is a share, see the presets.
    size
        The change in its own unit: links, feature entries, or Bures distance.
    accuracy, cross_entropy
        On the test nodes; a mean over draws where the change is random.

    Examples
    --------
    >>> point = Point("cora", "gcn", "links-added", 0.1, "public", 2019, size=528, accuracy=0.79, cross_entropy=0.71)
    >>> point.key
    ('cora', 'gcn', 'links-added', 0.1, 'public', 2019)
    """

    dataset: str
    method: str
    attack: str
    level: float
    split: str
    seed: int
    size: float
    accuracy: float
    cross_entropy: float

    @property
    def key(self) -> Key:
        """What was measured."""
        return self.dataset, self.method, self.attack, self.level, self.split, self.seed


class PointFile:
    """The points of one data set: ``FOLDER/points.jsonl`` beside the settings in ``FOLDER/study.json``.

    Parameters
    ----------
    folder
        Made if it is not there.
    settings
        All that changes what is measured. A folder made with other settings is refused.
    made
        Where and with what the points are made: kept as it was when the folder was made, and not compared.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], made: dict[str, Any] | None = None) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataFileError(f"Cannot write {folder}: {error.strerror}.") from error
        settings = json.loads(json.dumps(settings))  # tuples as lists, as they come back from a file
        self.path = folder / "points.jsonl"
        if (folder / "study.json").exists():
            known = read_study(folder)
            odd = list(_differences(settings, {key: value for key, value in known.items() if key != "made"}))
            if odd:
                raise DataFileError(
                    f"{folder} holds points with other settings; now asked for: {'; '.join(odd)} "
                    "(take another folder, or the same settings)."
                )
        else:
            described = settings | {"made": made or {}}
            write_text(folder / "study.json", json.dumps(described, indent=1, sort_keys=True) + "\n")
        self._drop_torn_line()
        self.done: set[Key] = {point.key for point in read_points(self.path)}

    def _drop_torn_line(self) -> None:
        """Cut off what a write that was killed half-way left at the end."""
        if not self.path.exists():
            return
        with self.path.open("r+b") as stream:
            content = stream.read()
            stream.truncate(content.rfind(b"\n") + 1)

    def append(self, points: Iterable[Point]) -> None:
        """Add points and have them on disk before returning."""
        fresh = list(points)
        text = "".join(json.dumps(asdict(point)) + "\n" for point in fresh)
        try:
            with self.path.open("ab") as stream:
                stream.write(text.encode())
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise DataFileError(f"Cannot write {self.path}: {error.strerror}.") from error
        self.done |= {point.key for point in fresh}


def _differences(asked: dict[str, Any], known: dict[str, Any]) -> Iterator[str]:
    """Yield a phrase for each setting that differs, with both values."""
    for key in sorted(asked.keys() | known.keys()):
        here, there = asked.get(key), known.get(key)
        if isinstance(here, dict) and isinstance(there, dict):
            yield from _differences(here, there)
        elif here != there:
            yield f"{key} {_shown(here)} instead of {_shown(there)}"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)


def read_points(path: Path) -> Iterator[Point]:
    """Yield the points of a ``.jsonl`` or ``.csv`` file; nothing if it is not there.

    Examples
    --------
    >>> import tempfile
    >>> point = Point("cora", "gcn", "links-added", 0.1, "public", 2019, size=528.0, accuracy=0.79, cross_entropy=0.71)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "points.csv"
    ...     written = path.write_text(points_csv([point]))
    ...     list(read_points(path)) == [point], list(read_points(path.with_name("others.csv")))
    (True, [])
    """
    with contextlib.suppress(FileNotFoundError):
        text = path.read_text(encoding="utf-8")
        lines: Iterable[dict[str, Any]]
        try:
            lines = csv.DictReader(io.StringIO(text)) if path.suffix == ".csv" else map(json.loads, text.splitlines())
            yield from [_point(line) for line in lines]
        except (ValueError, TypeError, KeyError) as error:
            raise DataFileError(f"{path} does not hold points of a study: {reason(error)}.") from error


def _point(values: dict[str, Any]) -> Point:
    made = {entry.name: values[entry.name] for entry in fields(Point)}
    for name in ("level", "size", "accuracy", "cross_entropy"):
        made[name] = float(made[name])
    return Point(**(made | {"seed": int(made["seed"])}))


def points_csv(points: Iterable[Point]) -> str:
    """Return points as CSV, in a fixed order.

    Examples
    --------
    >>> print(points_csv([Point("cora", "gcn", "prbcd", 0.1, "public", 1, 528, 0.5, 1.25)]).splitlines()[1])
    cora,gcn,prbcd,0.1,public,1,528,0.5,1.25
    """
    stream = io.StringIO()
    names = [entry.name for entry in fields(Point)]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_short(getattr(point, name)) for name in names] for point in sorted(points, key=lambda p: p.key))
    return stream.getvalue()


def _short(value: Any) -> Any:
    return f"{value:.7g}" if isinstance(value, float) else value


def read_study(folder: Path) -> dict[str, Any]:
    """Return the settings of the study in a folder."""
    path = folder / "study.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataFileError(f"{path} cannot be read: {reason(error)}.") from error
    if not isinstance(values, dict):
        raise DataFileError(f"{path} must hold an object, got {type(values).__name__}.")
    return values
