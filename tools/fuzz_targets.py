"""What is fuzzed: for every reader, how a hostile input is made from a seed and how it is read to the end.

An input is a function of a random generator alone, so that a failure is known by the reader and the seed.
"""

from __future__ import annotations

import collections
import functools
import gzip
import json
import pickle
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_spoiling import Files, odd_value, spoil_bytes, spoil_npz, spoil_one, spoil_text
from scipy import sparse


@dataclass(frozen=True)
class Target:
    """A reader: files of a good input, what makes one hostile, and what reads it to the end."""

    good: Callable[[], Files]
    spoil: Callable[[random.Random, Files], Files]
    read: Callable[[Path, random.Random], None]


# Graph files


def graph(**changes: Any) -> Any:
    from fishergcn.graph import Graph

    rng = np.random.default_rng(1)
    edges = [(i, (i + 1) % 12) for i in range(12)] + [(0, 5), (3, 9)]
    features = sparse.csr_array(rng.random((12, 5)) * (rng.random((12, 5)) < 0.6))
    arguments: dict[str, Any] = {
        "features": features,
        "labels": np.arange(12) % 3,
        "name": "toy",
        "node_ids": [f"n{i}" for i in range(12)],
        "class_names": ["a", "b", "c"],
        "standard_split": {"train": [0, 1, 2], "val": [3, 4, 5], "test": [6, 7, 8]},
    }
    return Graph.from_edges(edges, **(arguments | changes))


@functools.cache
def _graph_files() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        known = graph()
        known.save(f"{folder}/graph.npz")
        links, x = np.argwhere(np.triu(known.adjacency.toarray())), sparse.csr_array(known.features)
        masks = {
            f"{part}_masks": np.eye(known.num_nodes, dtype=bool)[2 * at : 2 * at + 2]
            for at, part in enumerate(("train", "val", "test"))
        }
        rows = {"x_indptr": x.indptr, "x_indices": x.indices, "x_data": x.data, "x_shape": np.array(x.shape)}
        np.savez(f"{folder}/plain.npz", edges=links, labels=known.labels, **rows, **masks)
        return {name: Path(folder, name).read_bytes() for name in ("graph.npz", "plain.npz")}


def _spoil_one(rng: random.Random, files: Files) -> Files:
    name = rng.choice(sorted(files))
    return files | {name: spoil_npz(rng, files[name])}


def _read_graph(folder: Path, _: random.Random) -> None:
    from fishergcn.graph import Graph

    for name in ("graph.npz", "plain.npz"):
        found = Graph.load(folder / name)
        found.save(folder / "again.npz")
        assert Graph.load(folder / "again.npz").digest == found.digest


# Text tables


def _tables() -> Files:
    edges = "".join(f"n{i},n{(i + 1) % 8},{1 + i / 4}\n" for i in range(8))
    features = "".join(f"n{i},{i / 3:.3f},{i % 2},-1.5e-3\n" for i in range(8))
    labels = "".join(f'n{i},"class {i % 2}"\n' for i in range(7))
    return {"edges.csv": edges.encode(), "features.csv": features.encode(), "labels.csv": labels.encode()}


def _spoil_tables(rng: random.Random, files: Files) -> Files:
    if rng.random() < 0.4:
        return spoil_one(rng, files)
    name = rng.choice(sorted(files))
    encoding = rng.choice(("utf-8",) * 8 + ("utf-16", "utf-8-sig"))
    return files | {name: spoil_text(rng, files[name].decode()).encode(encoding, "surrogatepass")}


def _read_tables(folder: Path, rng: random.Random) -> None:
    from fishergcn.errors import InputError
    from fishergcn.graph import Graph

    paths = [folder / name for name in ("edges.csv", "features.csv", "labels.csv")]
    used = [paths[0], *(path if rng.random() < 0.7 else None for path in paths[1:])]
    found = Graph.from_files(
        *used,
        header=rng.choice((None, None, False, True, "edges", ["features", "labels"])),
        text=rng.choice(("refuse", "drop", "one-hot")),
        empty=rng.choice(("refuse", "drop", "fill")),
        label=rng.choice((None, None, 2, "class 0")),
        missing=rng.choice((None, None, "0", ("a", "-1"))),
        unknown=rng.choice(("refuse", "drop")),
        repeated=rng.choice(("refuse", "first")),
        weight=rng.choice((None, None, "none")),
        directed=rng.choice(("undirected", "symmetrize", "refuse")),
        self_links=rng.choice(("keep", "drop")),
    )
    found.save(folder / "again.npz")
    again = Graph.load(folder / "again.npz")
    assert (again.node_ids, again.reading) == (found.node_ids, found.reading)
    try:
        alike = Graph.from_files(*used[:2], like=again)  # the same tables once more
    except InputError as error:
        raise AssertionError(f"tables that were read are refused: {error}") from error
    assert alike.node_ids == found.node_ids
    assert alike.feature_names == found.feature_names


# Tables of other formats


@functools.cache
def _other_tables() -> Files:
    import networkx
    import pyarrow
    from pyarrow import feather, parquet

    links = {
        "since": list(range(8)),
        "source": [f"n{i}" for i in range(8)],
        "target": [f"n{(i + 1) % 8}" for i in range(8)],
    }
    nodes = {
        "id": [f"n{i}" for i in range(8)],
        "height": [i / 3 for i in range(7)] + [None],
        "city": ["Rome", "Oslo"] * 4,
        "member": [True, False] * 4,
        "team": ["red", "blue", None, "red"] * 2,
        "fold": ["train", "val", "test", None] * 2,
    }
    text = (
        ",".join(nodes)
        + "\n"
        + "".join(
            ",".join("" if cell is None else str(cell) for cell in row) + "\n"
            for row in zip(*nodes.values(), strict=True)
        )
    )
    made = networkx.Graph()
    for at, node in enumerate(nodes["id"]):
        known = {name: cells[at] for name, cells in nodes.items() if name != "id" and cells[at] is not None}
        made.add_node(node, **known)
    made.add_edges_from(zip(links["source"], links["target"], strict=True), weight=1.5)
    masks = {f"{part}_masks": np.arange(8)[:, None] % 4 == [at, at] for at, part in enumerate(("train", "val", "test"))}
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(pyarrow.table(links), f"{folder}/links.parquet")
        feather.write_feather(pyarrow.table(links), f"{folder}/links.feather", compression="uncompressed")
        parquet.write_table(pyarrow.table(nodes), f"{folder}/nodes.parquet")
        feather.write_feather(pyarrow.table(nodes), f"{folder}/nodes.feather")
        networkx.write_graphml(made, f"{folder}/nodes.graphml")
        networkx.write_edgelist(made, f"{folder}/links.edgelist")
        np.savez(f"{folder}/masks.npz", **masks)
        Path(folder, "nodes.csv").write_text(text)
        Path(folder, "nodes.csv.gz").write_bytes(gzip.compress(text.encode()))
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def _spoil_others(rng: random.Random, files: Files) -> Files:
    spoiled = dict(files)
    for name in rng.sample(sorted(files), 5):
        data = files[name]
        if name.endswith(".npz"):
            spoiled[name] = spoil_npz(rng, data)
        elif name.endswith((".csv", ".edgelist", ".graphml")) and rng.random() < 0.7:
            spoiled[name] = spoil_text(rng, data.decode(), ",{}'<>=\"").encode("utf-8", "surrogatepass")
        elif name.endswith(".gz") and rng.random() < 0.7:
            spoiled[name] = gzip.compress(
                spoil_text(rng, gzip.decompress(data).decode()).encode("utf-8", "surrogatepass")
            )
        else:
            spoiled[name] = spoil_bytes(rng, data)
    return spoiled


def _read_others(folder: Path, rng: random.Random) -> None:
    from fishergcn.graph import Graph

    links = rng.choice(("links.parquet", "links.feather", "links.edgelist", "nodes.graphml"))
    nodes = rng.choice(("nodes.parquet", "nodes.feather", "nodes.csv", "nodes.csv.gz"))
    found = Graph.from_files(
        folder / links,
        None if links == "nodes.graphml" else folder / nodes,
        label=rng.choice(("team", "team", None, "missing", 5)),
        parts=rng.choice(("fold", (), str(folder / "masks.npz"))),
        drop=rng.choice(((), "city", ["height", 3])),
        text=rng.choice(("refuse", "drop", "one-hot", "one-hot")),
        empty=rng.choice(("refuse", "drop", "fill", "fill")),
    )
    found.save(folder / "again.npz")
    assert Graph.load(folder / "again.npz").digest == found.digest


# Planetoid


@functools.cache
def _planetoid() -> Files:
    rng = np.random.default_rng(5)
    values = rng.random((514, 7), dtype=np.float32)
    matrix = sparse.csr_matrix(np.where(values < 0.4, values, 0))
    labels = np.eye(3, dtype=np.int32)[rng.integers(3, size=514)]
    links = collections.defaultdict(list, {node: [(node + 1) % 520] for node in range(520)})
    parts = {"x": matrix[:4], "y": labels[:4], "allx": matrix[:510], "ally": labels[:510], "tx": matrix[510:]}
    files = {f"ind.toy.{part}": pickle.dumps(value, 4) for part, value in (parts | {"ty": labels[510:]}).items()}
    return files | {"ind.toy.graph": pickle.dumps(links, 2), "ind.toy.test.index": b"519\n512\n510\n515\n"}


def _spoil_planetoid(rng: random.Random, files: Files) -> Files:
    if rng.random() < 0.7:
        return spoil_one(rng, files)
    name = rng.choice(sorted(files))
    value = rng.choice(
        (odd_value(rng), {0: [1], 1: [odd_value(rng)]}, {odd_value(rng, 0): []}, print, np.array([[0.5]]))
    )
    return files | {name: pickle.dumps(value, rng.randrange(5))}


def _read_planetoid(folder: Path, _: random.Random) -> None:
    from fishergcn import Graph

    assert Graph.from_planetoid(folder, "toy").num_nodes == 520


# Presets


def _preset() -> Files:
    from importlib import resources

    names = ("quick", "ablation", "table1", "robustness-quick")
    folder = resources.files("fishergcn.studies") / "presets"
    return {f"{name}.toml": (folder / f"{name}.toml").read_bytes() for name in names}


TOML_VALUES = [
    "0",
    "-1",
    "1e400",
    "nan",
    "inf",
    "true",
    '""',
    '"\\u0000"',
    '"gcn"',
    "[]",
    "[[1], [2]]",
    '["gcn", 3]',
    "{}",
]
TOML_VALUES += [
    "9" * 5000,
    "[" * 5000,
    "1979-05-27T07:32:00Z",
    "{a = {b = 1}}",
    "'../x'",
    "0x" + "f" * 40,
    "'''",
    "1_000_000_000_000",
]


def _spoil_preset(rng: random.Random, files: Files) -> Files:
    name = rng.choice(sorted(files))
    if rng.random() < 0.3:
        return {name: spoil_bytes(rng, files[name])}
    lines = files[name].decode().splitlines()
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(lines))
        key, equals, _ = lines[at].partition("=")
        lines[at] = rng.choice((f"{key}= {rng.choice(TOML_VALUES)}", "", "[config]", "[[published]]", lines[at] * 2))
        if not equals and rng.random() < 0.5:
            lines[at] = f"{rng.choice(('title', 'seeds', 'odd', 'methods'))} = {rng.choice(TOML_VALUES)}"
    return {name: "\n".join(lines).encode()}


def _read_preset(folder: Path, _: random.Random) -> None:
    from fishergcn import studies
    from fishergcn.studies import Plan, make_plan
    from fishergcn.studies._data_table import _QUANTITIES, _shown

    for path in folder.glob("*.toml"):
        found = studies.load_preset(path)
        if found.kind == "data":
            assert all(_shown(key, facts[key]) for facts in found.facts for key in _QUANTITIES)
        elif found.splits * found.seeds < 10**5:
            plan = make_plan(found)
            assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


TARGETS = {
    "npz": Target(_graph_files, _spoil_one, _read_graph),
    "csv": Target(_tables, _spoil_tables, _read_tables),
    "tables": Target(_other_tables, _spoil_others, _read_others),
    "planetoid": Target(_planetoid, _spoil_planetoid, _read_planetoid),
    "preset": Target(_preset, _spoil_preset, _read_preset),
}
