"""A folder of distances: the graphs for other processes, and a file for each graph whose distances are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from fishergcn._base.entries import Entries
from fishergcn._base.files import refuse_links
from fishergcn._base.npz import read_arrays, write_arrays
from fishergcn._base.records import load_record
from fishergcn._base.types import FloatArray
from fishergcn.errors import DataFileError
from fishergcn.geometry.statistics._collection import GraphCollection
from fishergcn.geometry.statistics._determinants import Rule

_PARTS = ("data", "indices", "indptr")


def row_path(folder: Path, index: int) -> Path:
    """Return where the distances of a graph to those after it are."""
    return folder / f"row-{index:05d}.npz"


def save_row(folder: Path, index: int, row: FloatArray) -> None:
    """Write the distances of a graph."""
    write_arrays(row_path(folder, index), {"distances": row}, inside=folder)


def check_distances(folder: Path) -> int:
    """Read all rows of distances in a folder; return how many there are."""
    load_record(folder / "distances.json", lambda values: Entries(values, "distances").text("graphs"), "distances")
    places = [int(each.stem[4:]) for each in folder.glob("row-*.npz") if each.stem[4:].isdecimal()]
    if len({index + read_row(folder, index).shape[1] for index in places}) > 1:
        raise DataFileError(f"{folder} holds rows of distances that do not belong together.")
    return len(places)


def read_row(folder: Path, index: int, count: int | None = None) -> FloatArray:
    """Read the distances of a graph to the ``count`` after it, or however many there are."""
    path = row_path(folder, index)
    refuse_links(folder, path.name)
    found = read_arrays(path).get("distances", np.empty(0))
    shape = (3, count) if count is not None else (3, *found.shape[1:2])
    if found.ndim != 2 or found.shape != shape or found.dtype != np.float64 or not np.isfinite(found).all():
        raise DataFileError(
            f"{path} must hold 3 × {count or 'some'} distances, but it does not; remove it to compute them again."
        )
    return np.asarray(found)


def save_graphs(folder: Path, graphs: GraphCollection) -> None:
    """Write the adjacency matrices for other processes."""
    if not (folder / "graphs.npz").is_file():
        arrays = {
            f"{part}_{index}": getattr(matrix, part)
            for index, matrix in enumerate(graphs.adjacencies)
            for part in _PARTS
        }
        write_arrays(folder / "graphs.npz", arrays, inside=folder)


def load_graphs(folder: Path) -> GraphCollection:
    """Read what :func:`save_graphs` wrote."""
    refuse_links(folder, "graphs.npz")
    arrays = read_arrays(folder / "graphs.npz")
    count = len(arrays) // len(_PARTS)
    size = arrays["indptr_0"].size - 1
    return GraphCollection(
        [
            sparse.csr_array(tuple(arrays[f"{part}_{index}"] for part in _PARTS), shape=(size, size))
            for index in range(count)
        ]
    )


def save_rule(folder: Path, rule: Rule) -> None:
    """Write how fidelities are bounded."""
    write_arrays(folder / "rule.npz", {name: np.asarray(value) for name, value in vars(rule).items()}, inside=folder)


def load_rule(folder: Path) -> Rule | None:
    """Read what :func:`save_rule` wrote; None if nothing is there."""
    if not (folder / "rule.npz").is_file():
        return None
    refuse_links(folder, "rule.npz")
    arrays = read_arrays(folder / "rule.npz")
    try:
        points, below, above = (np.asarray(arrays[name], dtype=np.float64) for name in ("points", "below", "above"))
        square, share, rounding = (arrays[name].item() for name in ("square", "share", "rounding"))
        return Rule(points, bool(square), below, above, float(share), float(rounding))
    except (KeyError, TypeError, ValueError) as error:
        raise DataFileError(f"{folder / 'rule.npz'} is damaged; remove it to find the rule again.") from error
