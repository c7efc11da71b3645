"""Changes of two real sequences of graphs, beside LAD's published ones and a baseline of degree vectors.

    python benchmarks/sequences.py DIR [--workers 2] [--kept FOLDER] [--out FILE.json]

DIR holds ``us-legis.npz`` (who sponsored whose bills in the US Senate, 12 congresses) and ``uci-messages.npz``
(messages of students, 196 days), from the data of LAD (Huang et al., KDD 2020): arrays ``a``, ``b``, ``t``, ``w`` and
``times``. They are not part of this repository; its record holds scores alone, and the gallery shows them. Distances
are kept in the folder ``--kept``, if one is given, so that an interrupted run continues.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _record import machine, write_record
from _sequences import angle_scores, singular_vectors, window_scores

from fishergcn._base.npz import read_arrays
from fishergcn.geometry import statistics
from fishergcn.graph import read_graphs

#: Steps that LAD reports as change points, and the windows that it looks back.
_PUBLISHED = {"us-legis": (3, 7), "uci-messages": (65, 158)}
_WINDOWS = {"us-legis": (1, 2), "uci-messages": (7, 14)}


def spread(scores: Any, windows: tuple[int, ...]) -> list[float]:
    """Return how much a score rises at every step, the larger of two windows; 0 up to the first score of the longer."""
    found = [np.maximum(np.diff(np.nan_to_num(scores(window)), prepend=0.0), 0.0) for window in windows]
    best = np.max(found, axis=0)
    best[: max(windows) + 1] = 0.0  # a first score has nothing to rise from
    return [round(float(value), 6) for value in best]


def rank(values: list[float], place: int) -> int:
    return 1 + sum(value > values[place] for value in values)


def one_sequence(name: str, folder: Path, workers: int, kept: Path) -> dict[str, Any]:
    """Return scores of all steps by three methods, the marked steps, and the ranks of the published ones."""
    path = folder / f"{name}.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = read_graphs(path, empty="skip")
    graphs = statistics.GraphCollection(found.graphs, times=found.times)
    labels = [str(each) for each in read_arrays(path)["times"].tolist()]
    distances = statistics.pairwise(graphs, workers=workers, folder=kept / name)
    changes = statistics.change_points(graphs, distances=distances, explain=False)
    dense = []
    for adjacency in graphs.adjacencies:
        linked = np.flatnonzero(np.diff(adjacency.indptr))
        dense.append(adjacency[linked][:, linked].toarray())
    degrees = np.array([np.asarray(each.sum(axis=1)).ravel() for each in graphs.adjacencies])
    windows = _WINDOWS[name]
    scores = {
        "bures": spread(partial(window_scores, distances.values), windows),
        "lad": spread(partial(angle_scores, padded_signatures(dense)), windows),
        "degrees": spread(partial(angle_scores, degrees), windows),
    }
    places = [graphs.names.index(labels[step]) for step in _PUBLISHED[name]]
    return {
        "graphs": len(graphs),
        "skipped": len(labels) - len(graphs),
        "nodes": graphs.num_nodes,
        "names": list(graphs.names),
        "window": changes.window,
        "windows": list(windows),
        "steps": scores,
        **{
            part: [None if np.isnan(each) else round(float(each), 6) for each in getattr(changes, part)]
            for part in ("sizes", "alone", "statistics", "p_values")
        },
        "odd": list(changes.odd),
        "changes": [{"step": each.step, "name": each.name, "p_value": each.p_value} for each in changes.changes],
        "ranked": changes.ranked(10),
        "notes": list(changes.notes),
        "published": [
            {"step": step, "name": labels[step], "place": place}
            for step, place in zip(_PUBLISHED[name], places, strict=True)
        ],
        "published_ranks": {method: [rank(each, place) for place in places] for method, each in scores.items()},
    }  # fmt: skip


def padded_signatures(graphs: list[Any]) -> Any:
    """Return LAD's signatures; graphs with fewer nodes than singular values have zeros."""
    found = [singular_vectors([each])[0] for each in graphs]
    return np.array([np.pad(each, (0, max(map(len, found)) - len(each))) for each in found])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kept", type=Path, help="where distances are kept, so that an interrupted run continues")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "sequences.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        kept = options.kept or Path(temporary)
        record: dict[str, Any] = {"benchmark": "sequences", "machine": machine(), "sequences": {}}
        for name in _PUBLISHED:
            record["sequences"][name] = one_sequence(name, options.folder, options.workers, kept)
            short = {key: record["sequences"][name][key] for key in ("changes", "published_ranks", "notes", "ranked")}
            print(name, short, flush=True)
    write_record(options.out, record)


if __name__ == "__main__":
    main()
