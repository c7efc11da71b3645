"""Results on many graphs in a folder, a part for each question, from which a page is made."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.entries import Entries
from fishergcn._base.files import make_folder, read_bytes, refuse_links, write_text
from fishergcn._base.json import parse_json, plain
from fishergcn._base.locks import folder_lock
from fishergcn.errors import DataFileError, InputError
from fishergcn.geometry.statistics._changes import ChangePoints
from fishergcn.geometry.statistics._collection import GraphCollection
from fishergcn.geometry.statistics._mean import GraphMean, laplacian_of
from fishergcn.geometry.statistics._regression import GraphLine
from fishergcn.geometry.statistics._tangent import TangentPCA

FILE = "graphs.json"
_FORMAT = 1
_LARGEST = 1 << 30
_MOST = 20  # nodes and links of a change that are kept


@dataclass(frozen=True)
class GraphResults:
    """What a folder holds about many graphs: their names, times, numbers of links, and parts by name."""

    names: tuple[str, ...]
    times: tuple[float, ...] | None
    nodes: int
    links: tuple[int, ...]
    settings: Mapping[str, str]
    parts: Mapping[str, Any]


def keep_results(
    folder: str | os.PathLike[str], graphs: GraphCollection, settings: Mapping[str, str], part: str, values: Any
) -> Path:
    """Add a part to the results of a folder, or begin one; results on other graphs or settings are refused."""
    place = Path(folder)
    about = {
        "format": _FORMAT,
        "digest": graphs.digest,
        "names": list(graphs.names),
        "times": None if graphs.times is None else list(graphs.times),
        "nodes": graphs.num_nodes,
        "links": [int(sparse.triu(matrix, 1).nnz) for matrix in graphs.adjacencies],
        "settings": dict(settings),
    }  # fmt: skip
    make_folder(place)
    with folder_lock(place, wait=True):  # so that of two commands at once none loses its part
        parts: dict[str, Any] = {}
        if os.path.exists(place / FILE):
            before = _read(place)
            differs = [name for name in ("digest", "names", "settings") if before.get(name) != about[name]]
            if differs:
                what = "settings" if differs == ["settings"] else "graphs"
                raise InputError(f"{place} holds results on other {what}; choose another folder.")
            parts = dict(Entries(before, str(place / FILE)).table("parts"))
        write_text(place / FILE, json.dumps(plain({**about, "parts": {**parts, part: values}})) + "\n", inside=place)
    return place / FILE


def load_results(folder: str | os.PathLike[str]) -> GraphResults:
    """Read the results of a folder."""
    place = Path(folder)
    try:
        found = Entries(_read(place), str(place / FILE))
        names = found.texts("names")
        times = None if found.values.get("times") is None else found.reals("times")
        links = found.wholes("links")
        settings = {str(key): str(value) for key, value in found.table("settings").items()}
        result = GraphResults(names, times, found.whole("nodes"), links, settings, found.table("parts"))
    except InputError as error:
        raise DataFileError(f"{place / FILE} is damaged: {error}") from None
    if len(links) != len(names) or (times is not None and len(times) != len(names)):
        raise DataFileError(f"{place / FILE} is damaged: its lists are not of one length.")
    return result


def _read(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    refuse_links(folder, FILE)
    try:
        found = parse_json(read_bytes(path, limit=_LARGEST))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{path} is damaged, and is no results on graphs.") from None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise DataFileError(f"{path} is damaged, or was written by another version.")
    return found


def change_facts(found: ChangePoints, graphs: GraphCollection, most: int = _MOST) -> dict[str, Any]:
    """Return change points as plain values, with the nodes and links that account for most of each."""
    ids: Sequence[str] = graphs.node_ids or [str(at) for at in range(graphs.num_nodes)]
    changes = []
    for each in found.changes:
        row: dict[str, Any] = {
            name: getattr(each, name) for name in ("step", "name", "size", "statistic", "p_value", "stable")
        }
        if (made := each.explanation) is not None:
            row["distance"] = made.distance
            total = made.distance**2 or 1.0
            row["nodes"] = [{"node": ids[at], "share": float(made.nodes[at]) / total} for at in made.top_nodes(most)]
            row["links"] = [
                {
                    "node": ids[made.links[at, 0]],
                    "other": ids[made.links[at, 1]],
                    "share": float(made.contributions[at]) / total,
                    "before": float(made.before[at]),
                    "after": float(made.after[at]),
                }
                for at in made.top_links(most)
            ]
        changes.append(row)
    lists = {name: getattr(found, name).tolist() for name in ("sizes", "alone", "statistics", "p_values")}
    numbers = {name: getattr(found, name) for name in ("window", "level", "smallest_p")}
    more = {"notes": list(found.notes), "ranked": found.ranked(), "odd": list(found.odd)}
    facts = {**numbers, **more, **lists, "changes": changes}
    return dict(plain(facts))


def mean_facts(found: GraphMean, graphs: GraphCollection, most: int = _MOST) -> dict[str, Any]:
    """Return a mean as plain values, with its strongest links: their weights add up to one over all links."""
    ids: Sequence[str] = graphs.node_ids or [str(at) for at in range(graphs.num_nodes)]
    upper = sparse.triu(found.adjacency(), 1, format="coo")
    rows, columns = upper.coords
    order = np.argsort(-upper.data, kind="stable")[:most]
    total = float(upper.data.sum()) or 1.0
    links = [
        {"node": ids[rows[at]], "other": ids[columns[at]], "weight": float(upper.data[at]) / total} for at in order
    ]
    names = ["variance", "lowest_variance", "residual", "iterations", "method"]
    names += ["variance_error", "residual_error"] if found.method == "estimate" else []
    numbers = {name: getattr(found, name) for name in names}
    words = words_of_mean(found)
    return dict(plain({**numbers, "distances": found.distances.tolist(), "links": links, "words": words}))


def words_of_mean(found: GraphMean) -> str:
    """Return the certificate of a mean in sentences."""
    if found.method == "exact":
        return f"Variance {found.variance:.6g}, and no density matrix has less than {found.lowest_variance:.6g}."
    return (
        f"Variance {found.variance:.4g} ± {found.variance_error:.1g}, and no density matrix has less than "
        f"{found.lowest_variance:.4g} (95%). This is the best of some sparse matrices, estimated with random probes; "
        f"the true mean is about {found.residual:.2g} ± {found.residual_error:.1g} away."
    )


def pca_facts(found: TangentPCA, graphs: GraphCollection, most: int = _MOST) -> dict[str, Any]:
    """Return principal components as plain values, with the links that change most in each."""
    weights = found.mean.adjacency()
    components = []
    for at, share in enumerate(found.shares):
        pairs, changes = found.top_links(at, most)
        before = np.array([weights[one, other] for one, other in pairs])
        components.append(
            {
                "share": float(share),
                "deviation": float(np.sqrt(found.variances[at])),
                "scores": found.scores[:, at].tolist(),
                "links": _link_rows(pairs, before, before + changes, graphs),
            }
        )
    return dict(plain({"variance": found.mean.variance, "components": components}))


def line_facts(found: GraphLine, graphs: GraphCollection, most: int = _MOST) -> dict[str, Any]:
    """Return a line as plain values, with the links that change most along it."""
    numbers = {name: getattr(found, name) for name in ("middle", "speed", "variance", "explained", "p_value")}
    pairs, _ = found.top_links(most)
    first, last = (
        -laplacian_of(found.at(float(time)), found.geometry)[tuple(pairs.T)]
        for time in (found.times.min(), found.times.max())
    )
    links = _link_rows(pairs, first, last, graphs)
    span = float(np.ptp(found.times))
    return dict(plain({**numbers, "span": span, "distances": found.distances.tolist(), "links": links}))


def _link_rows(pairs: Any, before: Any, after: Any, graphs: GraphCollection) -> list[dict[str, Any]]:
    """Return changes of links as rows, with shares of the largest change; an entry below zero is no link."""
    ids: Sequence[str] = graphs.node_ids or [str(at) for at in range(graphs.num_nodes)]
    changes = np.abs(after - before)
    shares = changes / max(changes, default=1.0)
    return [
        {
            "node": ids[one],
            "other": ids[other],
            "share": float(share),
            "before": max(0.0, first),
            "after": max(0.0, last),
        }
        for (one, other), share, first, last in zip(pairs, shares, before.tolist(), after.tolist(), strict=True)
    ]


def facts_of_test(found: Any) -> dict[str, Any]:
    """Return a test as plain values."""
    return dict(plain({"kind": type(found).__name__, **asdict(found)}))


def words_of_test(found: Any) -> str:
    """Return a test in sentences."""
    p_value = f"p = {found.p_value:.4g}"
    if found.p_range[0] < found.p_range[1]:
        p_value += " ({:.4g} to {:.4g} within the error bars of the distances)".format(*found.p_range)
    how = f"{'all' if found.method == 'exact' else 'random'} permutations, {found.permutations:,}"
    if not hasattr(found, "effect"):
        return f"Distance correlation {found.correlation:.3f}, {p_value} ({how})."
    interval = "" if found.low != found.low else f", 95% interval {found.low:.3f} to {found.high:.3f}"
    words = " and ".join(f"{name} ({size} graphs)" for name, size in zip(found.groups, found.sizes, strict=True))
    least = f" So few graphs cannot have a p-value below {found.smallest_p:.2g}." if found.smallest_p > 0.05 else ""
    return f"{words}: {p_value} ({how}); effect {found.effect:.3f}{interval}.{least}"
