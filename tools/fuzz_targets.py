"""What is fuzzed: for every reader, how a hostile input is made from a seed and how it is read to the end.

An input is a function of a random generator alone, so that a failure is known by the reader and the seed.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gzip
import io
import json
import pickle
import random
import struct
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

TEXTS = [
    "",
    "\0",
    "../../x",
    "/etc/passwd",
    "<script>",
    "\ud800",
    "é" * 300,
    "nan",
    "-1",
    "1e999",
    "9" * 5000,
    "{}",
    "gcn",
    "\x1b]0;owned\x07\x1b[31m",
    "\u202eabc\u2066\u200b",
    "\x9b2J",
    "=1+1",
    "'=1+1",
    "@SUM(A1)",
    "1_000",
    "٣",
    "1e-300",
]
NUMBERS = [0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, 1e308, -1e-320, float("nan"), float("inf"), True, None]
Files = dict[str, bytes]


@dataclass(frozen=True)
class Target:
    """A reader: files of a good input, what makes one hostile, and what reads it to the end."""

    good: Callable[[], Files]
    spoil: Callable[[random.Random, Files], Files]
    read: Callable[[Path, random.Random], None]


# Spoiling bytes, text and JSON


def spoil_bytes(rng: random.Random, data: bytes) -> bytes:
    """Flip, cut, repeat, insert or overwrite at a few places."""
    spoiled = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(spoiled) + 1)
        match rng.randrange(6):
            case 0 if at < len(spoiled):
                spoiled[at] ^= 1 << rng.randrange(8)
            case 1:
                del spoiled[at:]
            case 2:
                del spoiled[at : at + rng.randrange(1, 9)]
            case 3:
                spoiled[at:at] = spoiled[at : at + rng.randrange(1, 200)]
            case 4:
                spoiled[at:at] = rng.randbytes(rng.randrange(1, 9))
            case _:
                spoiled[at : at + 8] = struct.pack("<q", rng.choice((-1, 0, 2**31, 2**62, rng.getrandbits(40))))
    return bytes(spoiled)


def odd_value(rng: random.Random, depth: int = 2) -> Any:
    """Return a value that JSON can say and a reader may not expect."""
    kind = rng.randrange(8 if depth else 6)
    if kind < 3:
        return rng.choice(NUMBERS)
    if kind < 6:
        return rng.choice(TEXTS)
    items = [odd_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return items if kind == 6 else {rng.choice(TEXTS): item for item in items}


def spoil_value(rng: random.Random, value: Any) -> Any:
    """Replace, drop or add something somewhere inside a JSON value."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        if rng.random() < 0.15:
            return {name: item for name, item in value.items() if name != key}
        return value | {key if rng.random() < 0.95 else rng.choice(TEXTS): spoil_value(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        if rng.random() < 0.15:
            return value[:at] + value[at + 1 :] * rng.randrange(3)
        return [*value[:at], spoil_value(rng, value[at]), *value[at + 1 :]]
    return odd_value(rng)


def to_json(value: Any, rng: random.Random) -> bytes:
    if rng.random() < 0.02:
        return b"[" * 100_000
    if rng.random() < 0.05:  # the same name twice, or a number that no float can hold
        odd = rng.choice(('{"%s": 1, "%s": 1e999, ', '{"%s": -1e400, "%s": 0, '))
        name = rng.choice(sorted(value)) if isinstance(value, dict) and value else "a"
        return json.dumps(value).replace("{", odd % (name, name), 1).encode("utf-8", "surrogatepass")
    return json.dumps(value).encode("utf-8", "surrogatepass")


def spoil_one(rng: random.Random, files: Files) -> Files:
    """Spoil the bytes of one file, swap two, or leave one out."""
    name = rng.choice(sorted(files))
    match rng.randrange(12):
        case 0:
            return {other: data for other, data in files.items() if other != name}
        case 1:
            return files | {name: files[rng.choice(sorted(files))]}
        case _:
            return files | {name: spoil_bytes(rng, files[name])}


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


def _odd_array(rng: random.Random, array: Any) -> bytes:
    """Return an ``.npy`` whose type, shape or content is not what it was."""
    stream = io.BytesIO()
    match rng.randrange(6):
        case 0:
            array = array.astype(rng.choice(("f8", "i1", "u8", "c16", "?", "S3", "U2", "M8[s]", ">i4", "f2")))
        case 1:
            array = np.resize(array, rng.choice(((), (0,), (1, 1), (2, 3), (1, 2, 3), (array.size + 1,))))
        case 2:
            array = array.ravel().copy()
            if array.size:
                with contextlib.suppress(OverflowError, ValueError, TypeError):
                    array[rng.randrange(array.size)] = rng.choice([n for n in NUMBERS if n is not None])
        case 3:
            shape = rng.choice(((2**40,), (2**31, 2**31), (-1,), (10**30,), (0, 2**62), ()))
            head = repr({"descr": "<f8", "fortran_order": False, "shape": shape})
            return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) + 1) + head.encode() + b"\n" + b"\0" * 16
        case 4:
            np.lib.format.write_array(stream, array)
            return spoil_bytes(rng, stream.getvalue())
        case _:
            array = np.array([odd_value(rng)], dtype=object)
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=True)
    return stream.getvalue()


def spoil_npz(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.4:
        return spoil_bytes(rng, data)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        names = source.namelist()
        chosen = rng.sample(names, rng.choice((1, 1, 2)))
        for name in names:
            content = source.read(name)
            if name in chosen:
                array = np.load(io.BytesIO(content))
                if name == "description.npy" and rng.random() < 0.8:
                    text = to_json(spoil_value(rng, json.loads(array.tobytes())), rng)
                    stream = io.BytesIO()
                    np.lib.format.write_array(stream, np.frombuffer(text, dtype=np.uint8))
                    content = stream.getvalue()
                elif rng.random() < 0.1:
                    continue
                else:
                    content = _odd_array(rng, array)
            target.writestr(rng.choice((name,) * 9 + ("../x.npy",)), content)
    spoiled = out.getvalue()
    return spoil_bytes(rng, spoiled) if rng.random() < 0.1 else spoiled


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


def spoil_text(rng: random.Random, text: str, separators: str = ",;\t =\n") -> str:
    cells = text.splitlines(keepends=True)
    for _ in range(rng.choice((1, 2, 4))):
        at = rng.randrange(len(cells))
        line = cells[at]
        head, separator, tail = line.partition(rng.choice(separators))
        cells[at] = rng.choice(
            (
                head + separator + rng.choice(TEXTS) + "\n",
                rng.choice(TEXTS) + separator + tail,
                f"{rng.choice(NUMBERS)}{separator}{tail}",
                line.replace(",", rng.choice(";\t \"'#")),
                "# " + line,
                '"' + line,
                line * 2,
                line[:-1],
                "",
            )
        )
    return "".join(cells)


def _spoil_tables(rng: random.Random, files: Files) -> Files:
    if rng.random() < 0.4:
        return spoil_one(rng, files)
    name = rng.choice(sorted(files))
    encoding = rng.choice(("utf-8",) * 8 + ("utf-16", "utf-8-sig"))
    return files | {name: spoil_text(rng, files[name].decode()).encode(encoding, "surrogatepass")}


def _read_tables(folder: Path, rng: random.Random) -> None:
    from fishergcn.graph import Graph

    paths = [folder / name for name in ("edges.csv", "features.csv", "labels.csv")]
    used = [paths[0], *(path if rng.random() < 0.7 else None for path in paths[1:])]
    found = Graph.from_files(
        *used,
        header=rng.choice((None, None, False, True, "edges", ["features", "labels"])),
        text=rng.choice(("refuse", "drop", "one-hot")),
        empty=rng.choice(("refuse", "drop", "fill")),
        label=rng.choice((None, None, 2, "class 0")),
        directed=rng.choice(("undirected", "symmetrize", "refuse")),
        self_links=rng.choice(("keep", "drop")),
    )
    found.save(folder / "again.npz")
    assert Graph.load(folder / "again.npz").node_ids == found.node_ids


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
