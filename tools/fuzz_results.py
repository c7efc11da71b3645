"""What is fuzzed, continued: model folders, searches, and runs as a database and as an archive."""

from __future__ import annotations

import contextlib
import csv
import functools
import hashlib
import io
import json
import random
import sqlite3
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_spoiling import (
    Files,
    odd_array,
    odd_value,
    spoil_bytes,
    spoil_npz,
    spoil_one,
    spoil_text,
    spoil_value,
    to_json,
)
from fuzz_targets import Target, graph

STATEMENTS = (
    "DROP TABLE runs",
    "DROP TABLE facts",
    "ALTER TABLE runs RENAME COLUMN seed TO s",
    "ALTER TABLE runs ADD COLUMN more TEXT",
    "DELETE FROM facts",
    "DELETE FROM runs",
)

# Model folders


@functools.cache
def _model(kind: str = "classes") -> Files:
    """Return the files of a calibrated model of classes, of an ensemble, of several labels or of a number a node."""
    from fishergcn.execution import train
    from fishergcn.models import Ensemble, TrainedModel, save_models
    from fishergcn.splits import Split
    from fishergcn.training import TrainConfig

    labels: dict[str, Any] = {
        "labels": np.array([[at % 2, at % 3 == 0] for at in range(12)]),
        "numbers": np.arange(12) * 1.5,
    }
    names = {"labels": ["a", "b"], "numbers": None}
    toy = graph(labels=labels[kind], class_names=names[kind]) if kind in labels else graph()
    split = Split("s", np.array([0, 1, 2]), np.array([3, 4, 5]), np.array([6, 7, 8]))
    config = TrainConfig(max_epochs=2, hidden=3)
    methods = ("gcn", "mlp") if kind == "ensemble" else ("gcn",)
    records = [train(toy, name, split, config=config, keep_weights=True) for name in methods]
    with tempfile.TemporaryDirectory() as folder:
        if kind == "ensemble":
            members = [TrainedModel.from_records(toy, each, split) for each in records]
            found = Ensemble.from_models(members, shares=[0.4, 0.6], temperatures=[1.0, 2.0])
            found.save(f"{folder}/model", runs=[each for part in records for each in part])
        else:
            save_models(f"{folder}/model", toy, [*records[0]], split)
        return {path.name: path.read_bytes() for path in Path(folder, "model").iterdir()}


def _spoil_model(rng: random.Random, files: Files) -> Files:
    if rng.random() < 0.2:
        return spoil_one(rng, files)
    parts = ("model.json", "model.json", "weights.safetensors", "split.safetensors", "graph.npz", "runs.json")
    name = rng.choice([each for each in parts if each in files])
    facts = json.loads(files["model.json"])
    if name == "model.json" and rng.random() < 0.4 and facts.get("calibration"):
        facts["calibration"] = spoil_value(rng, facts["calibration"])
        return files | {name: to_json(facts, rng)}
    if name.endswith(".json"):
        return files | {name: to_json(spoil_value(rng, json.loads(files[name])), rng)}
    data = files[name]
    if name == "graph.npz":
        data = spoil_npz(rng, data)
    else:
        length = int.from_bytes(data[:8], "little")
        if name == "split.safetensors" and rng.random() < 0.5:  # nodes that are not there, or twice
            nodes = np.frombuffer(data[8 + length :], dtype="<i8").copy()
            nodes[rng.randrange(len(nodes))] = rng.choice((-1, 0, 3, 11, 12, 1 << 40))
            data = data[: 8 + length] + nodes.tobytes()
        elif rng.random() < 0.3:  # finite weights of which no finite output can be made
            numbers = np.frombuffer(data[8 + length :], dtype="<f4").copy()
            numbers[:: rng.randrange(1, 4)] = rng.choice((3e38, -3e38, 1e30))
            data = data[: 8 + length] + numbers.tobytes()
        if name == "split.safetensors" and rng.random() < 0.5:
            facts["sha256"][name] = hashlib.sha256(data).hexdigest()
            return files | {name: data, "model.json": json.dumps(facts).encode()}
        header = to_json(spoil_value(rng, json.loads(data[8 : 8 + length])), rng)
        data = (
            spoil_bytes(rng, data)
            if rng.random() < 0.3
            else struct.pack("<Q", len(header)) + header + data[8 + length :]
        )
    facts["sha256"][name] = hashlib.sha256(data).hexdigest()  # so that more than the sum is tested
    return files | {name: data, "model.json": json.dumps(facts).encode()}


def _read_model(folder: Path, rng: random.Random) -> None:
    from fishergcn.models import load_model
    from fishergcn.report import write_report

    model = load_model(folder)
    assert model.graph.task == "regression" or np.isfinite(model.probabilities()).all()
    assert len(list(csv.reader(io.StringIO(model.predictions_csv())))) == 13
    if rng.random() < 0.3:  # it takes a while
        assert write_report(folder).stat().st_size < 2_000_000


# Sequences of graphs


@functools.cache
def _sequence() -> Files:
    """Return a table of links with days, a folder of graph files, and a folder of distances that is half done."""
    from fishergcn.geometry.statistics import GraphCollection, pairwise

    days = [f"2024-01-0{day},n{at},n{(at + day) % 6},{1 + at / 4}" for day in (1, 2, 3) for at in range(6)]
    found = {"calls.csv": "\n".join(["day,from,to,weight", *days]).encode()}
    with tempfile.TemporaryDirectory() as folder:
        graphs = [graph(), graph(labels=None, class_names=None)]
        for at, each in enumerate(graphs):
            each.save(f"{folder}/g{at}.npz")
        pairwise(GraphCollection([each.adjacency for each in (*graphs, graphs[0])]), folder=f"{folder}/distances")
        places = [path for path in Path(folder).rglob("*") if path.is_file()]
        for path in places:
            inside = path.relative_to(folder)
            name = str(inside if inside.parts[0] == "distances" else Path("graphs") / inside)
            found[name] = path.read_bytes()
    return found


def _spoil_sequence(rng: random.Random, files: Files) -> Files:
    name = rng.choice(sorted(files))
    if name.endswith(".npz"):
        return files | {name: spoil_npz(rng, files[name])}
    if name.endswith(".json"):
        return files | {name: to_json(spoil_value(rng, json.loads(files[name])), rng)}
    return files | {name: spoil_text(rng, files[name].decode()).encode("utf-8", "surrogatepass")}


def _read_sequence(folder: Path, rng: random.Random) -> None:
    from fishergcn.geometry.statistics import GraphCollection, pairwise
    from fishergcn.graph import read_graphs

    found = read_graphs(
        folder / "calls.csv", empty=rng.choice(("refuse", "skip")), every=rng.choice((None, "month", 2.0))
    )
    assert all(each.num_links for each in found.graphs.values())
    read_graphs(folder / "graphs")
    toy = graph().adjacency
    distances = pairwise(GraphCollection([toy, toy, toy]), folder=folder / "distances")
    assert np.isfinite(distances.values).all()


# Graphs in mapped folders, and large ones


@functools.cache
def _large() -> Files:
    """Return a mapped graph, its tables, and the folder of work on it that is half done."""
    import pyarrow
    from pyarrow import parquet

    from fishergcn.large import fit_large

    with tempfile.TemporaryDirectory() as folder:
        toy = graph(class_names=None, node_ids=None)
        toy.save(f"{folder}/mapped", mapped=True)
        links = np.argwhere(np.triu(toy.adjacency.toarray()))
        parquet.write_table(pyarrow.table({"a": links[:, 0], "b": links[:, 1]}), f"{folder}/edges.parquet")
        words = ["train", "train", "val", "val", "test", None] * 2
        columns = {"label": [f"class {each}" for each in toy.labels], "part": words, "x": np.arange(12) / 7}
        parquet.write_table(pyarrow.table(columns), f"{folder}/nodes.parquet")
        fit_large(f"{folder}/mapped", out=f"{folder}/out", settings=_large_settings(), workers=1)
        paths = (path for path in Path(folder).rglob("*") if path.is_file() and path.name != "runs.lock")
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _large_settings() -> Any:
    from fishergcn.large import LargeSettings

    return LargeSettings(memory=700_000_000, hops=0, epochs=1, hidden=2)


def _spoil_large(rng: random.Random, files: Files) -> Files:
    name = rng.choice(sorted(files))
    if name.endswith(".npy"):
        array = np.load(io.BytesIO(files[name]))
        return files | {name: odd_array(rng, array) if rng.random() < 0.7 else spoil_bytes(rng, files[name])}
    if name.endswith(".json"):
        return files | {name: to_json(spoil_value(rng, json.loads(files[name])), rng)}
    return files | {name: spoil_bytes(rng, files[name])}


def _read_large(folder: Path, rng: random.Random) -> None:
    from fishergcn.graph import Graph
    from fishergcn.large import LargeFit, check_parts, fit_large, plan_large

    tables = {"edges": folder / "edges.parquet", "nodes": folder / "nodes.parquet"}
    assert check_parts(folder / "out", LargeFit.load(folder / "out").nodes)
    plan_large(**tables, settings=_large_settings())
    plan_large(folder / "mapped", settings=_large_settings())
    assert len(Graph.load(folder / "mapped").digest) == 64
    if rng.random() < 0.1:  # it takes a while
        fit_large(**tables, out=folder / "new", settings=_large_settings(), workers=1)


@functools.cache
def _search() -> Files:
    from fishergcn.studies import Trial, Tuning, write_tuning
    from fishergcn.training import TrainConfig

    trials = tuple(
        Trial({"dropout": 0.1 * each, "scaling": "rows", "bias": True}, 0.5 + each / 20, 1.0) for each in range(1, 5)
    )
    with tempfile.TemporaryDirectory() as folder:
        write_tuning(Path(folder), Tuning("gcn", TrainConfig(), trials, "mine", (("public", 2019),)), graph())
        return {"tuning.json": Path(folder, "tuning.json").read_bytes()}


def _spoil_search(rng: random.Random, files: Files) -> Files:
    if rng.random() < 0.2:
        return spoil_one(rng, files)
    return {"tuning.json": to_json(spoil_value(rng, json.loads(files["tuning.json"])), rng)}


def _read_search(folder: Path, _: random.Random) -> None:
    from fishergcn.report import write_report

    assert write_report(folder).stat().st_size < 2_000_000


@functools.cache
def _geometry() -> Files:
    from fishergcn.geometry.extrinsic import GeometryRecord, NodeLinks

    links = NodeLinks("a", "red", 0.9, (("a", "b", True, -0.25),), {"a": 0, "b": 1})
    record = GeometryRecord("gcn on mine", (2.0, 1.0), (0.5, 0.1, -0.6), 0.01, (0.2, 0.1), (0.05,), links)
    return {"geometry.json": json.dumps(record.to_dict()).encode()}


def _spoil_geometry(rng: random.Random, files: Files) -> Files:
    if rng.random() < 0.2:
        return spoil_one(rng, files)
    return {"geometry.json": to_json(spoil_value(rng, json.loads(files["geometry.json"])), rng)}


def _read_geometry(folder: Path, rng: random.Random) -> None:
    from fishergcn.drawing import draw_fisher, draw_links
    from fishergcn.geometry.extrinsic import GeometryRecord

    record = GeometryRecord.load(folder / "geometry.json")
    pictures = draw_fisher(record), draw_links(record.links)
    if rng.random() < 0.2:  # it takes a while
        assert all(picture.svg for picture in pictures)


# Runs


@functools.cache
def _made_up_runs() -> Any:
    from fishergcn import studies
    from fishergcn.studies import make_plan
    from fishergcn.training import RunRecord

    plan = make_plan(studies.load_preset("quick"), splits=2, seeds=2, epochs=3)
    rng = np.random.default_rng(3)

    def record(cell: Any, split: str, seed: int) -> RunRecord:
        scores = {
            f"{part}_{name}": rng.random() for part in ("test", "val") for name in ("accuracy", "loss", "cross_entropy")
        }
        curves = {name: rng.random(3).tolist() for name in ("train_loss", "train_accuracy", "val_loss", "val_accuracy")}
        more = {
            "curves": curves,
            "shape": rng.random(3).tolist(),
            "seconds": 1.0,
            "device": "cpu",
            "versions": {"torch": "2"},
        }
        return RunRecord(
            cell.dataset, cell.method, split, seed, "ok", 3, scores, **more,
            config=cell.config.to_dict(), graph_digest=plan.digests[cell.dataset],
        )  # fmt: skip

    return plan, [(cell, [record(cell, *run) for run in plan.runs()]) for cell in plan.cells]


@functools.cache
def _database() -> Files:
    from fishergcn.studies import RunStore

    plan, cells = _made_up_runs()
    with tempfile.TemporaryDirectory() as folder:
        with RunStore(folder, writable=True) as store:
            store.begin(plan, command="fishergcn reproduce quick", created="2026-01-01T00:00:00+00:00")
            store.remember("spectrum cora renormalized", lambda: [1.5, 1.25, 1.0])
            for cell, records in cells:
                store.add(cell, records)
        return {"runs.sqlite": Path(folder, "runs.sqlite").read_bytes()}


def _spoil_database(rng: random.Random, files: Files) -> Files:
    from fishergcn.studies import _store as store

    if rng.random() < 0.35:
        return {"runs.sqlite": spoil_bytes(rng, files["runs.sqlite"])}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "runs.sqlite")
        path.write_bytes(files["runs.sqlite"])
        with (
            contextlib.closing(sqlite3.connect(path)) as connection,
            contextlib.suppress(sqlite3.Error, ValueError, OverflowError),
        ):
            match rng.randrange(7):
                case 0:
                    sealed = connection.execute("SELECT value FROM facts WHERE name = 'plan'").fetchone()[0]
                    value = spoil_value(rng, json.loads(sealed.partition(" ")[2]))
                    value = store._sealed(value) if rng.random() < 0.9 else odd_value(rng, 0)
                    connection.execute("UPDATE facts SET value = ? WHERE name = 'plan'", (value,))
                case 1 | 2 | 3:
                    *key, blob, _ = connection.execute(
                        "SELECT * FROM runs LIMIT 1 OFFSET ?", (rng.randrange(12),)
                    ).fetchone()
                    old = list(key)
                    if rng.random() < 0.2:
                        key[rng.randrange(6)] = odd_value(rng, 0)
                    text = to_json(spoil_value(rng, json.loads(zlib.decompress(blob))), rng)
                    blob = zlib.compress(text) if rng.random() < 0.95 else rng.choice((b"", b"x", None, "text", 3))
                    with contextlib.suppress(TypeError):
                        row = (*key, blob, store._checksum(tuple(key), blob))
                        connection.execute(
                            "DELETE FROM runs WHERE cell = ? AND split = ? AND seed = ?", (old[1], old[3], old[4])
                        )
                        connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
                case 4:
                    column = rng.choice(("dataset", "cell", "method", "split", "seed", "status", "record", "checksum"))
                    connection.execute(f"UPDATE runs SET {column} = ? WHERE rowid = 3", (odd_value(rng, 0),))
                case 5:
                    value = rng.choice((odd_value(rng, 0), store._sealed(odd_value(rng)), b"\xff"))
                    connection.execute(
                        "UPDATE facts SET value = ? WHERE name = ?", (value, rng.choice(("schema", "plan")))
                    )
                case _:
                    connection.execute(rng.choice(STATEMENTS))
            connection.commit()
        return {"runs.sqlite": path.read_bytes()}


@functools.cache
def _archive() -> Files:
    from fishergcn.studies import open_runs, write_archive

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "runs.sqlite").write_bytes(_database()["runs.sqlite"])
        runs = open_runs(folder)
        write_archive(f"{folder}/archive", runs, curves="all")
        runs.close()
        return {path.name: path.read_bytes() for path in Path(folder, "archive").iterdir()}


def _spoil_archive(rng: random.Random, files: Files) -> Files:
    name = rng.choice(sorted(files))
    if rng.random() < 0.25:
        return spoil_one(rng, files)
    if name == "plan.json":
        return files | {name: to_json(spoil_value(rng, json.loads(files[name])), rng)}
    if name.endswith(".npz"):
        return files | {name: spoil_npz(rng, files[name])}
    return files | {name: spoil_text(rng, files[name].decode(), ",").encode("utf-8", "surrogatepass")}


def _read_runs(folder: Path, rng: random.Random) -> None:
    from fishergcn import studies
    from fishergcn.studies import export, open_runs

    with open_runs(folder) as runs:
        for _, record in runs.entries():
            assert record.to_dict()
        for cell in runs.plan.cells:
            runs.bands(cell.dataset, cell.name)
            runs.spectrum(cell)
        studies.summarize(runs)
        studies.compare(runs)
        export(runs, folder / rng.choice(("out.csv", "out.json", "out.parquet")))


TARGETS = {
    "geometry": Target(_geometry, _spoil_geometry, _read_geometry),
    "model": Target(_model, _spoil_model, _read_model),
    "ensemble": Target(functools.partial(_model, "ensemble"), _spoil_model, _read_model),
    "labels": Target(functools.partial(_model, "labels"), _spoil_model, _read_model),
    "numbers": Target(functools.partial(_model, "numbers"), _spoil_model, _read_model),
    "sequence": Target(_sequence, _spoil_sequence, _read_sequence),
    "large": Target(_large, _spoil_large, _read_large),
    "search": Target(_search, _spoil_search, _read_search),
    "database": Target(_database, _spoil_database, _read_runs),
    "archive": Target(_archive, _spoil_archive, _read_runs),
}
