"""Inputs that once ended in a traceback, found by tools/fuzz.py; the reader and the seed are in the ids."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tracemalloc
import zlib
from importlib import resources

import pytest

from fishergcn import studies
from fishergcn._base.files import read_bytes
from fishergcn.errors import DataFileError, InputError
from fishergcn.graph import Graph
from fishergcn.models import load_model
from fishergcn.studies import RunStore, make_plan, open_runs, write_archive
from fishergcn.training import RunRecord

LONG_NAME = "é" * 300


def checksum(key, blob):
    return hashlib.sha256(json.dumps(key).encode() + b"\n" + blob).hexdigest()


def sealed(value):
    text = json.dumps(value)
    return f"{hashlib.sha256(text.encode()).hexdigest()} {text}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("seeds = " + "9" * 5000, id="preset 15: a number of 5,000 digits"),
        pytest.param("seeds = " + "[" * 5000, id="preset 78: 5,000 brackets"),
    ],
)
def test_presets(tmp_path, text):
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(DataFileError, match="is not valid TOML"):
        studies.load_preset(tmp_path / "own.toml")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param("quick", 'title = "', 'title = 1979-05-27 #"', id="preset 202676: a date for a title"),
        pytest.param("table1", "nodes = ", "nodes = true #", id="preset: a flag for a number of nodes"),
        pytest.param("table1", "split = ", "split = 3 #", id="preset: a number for three"),
        pytest.param("table1", "split = ", "split = [] #", id="preset 300100: none for three"),
    ],
)
def test_entries_of_presets(tmp_path, name, old, new):
    text = (resources.files("fishergcn.studies") / "presets" / f"{name}.toml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "own.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataFileError, match="preset 'own'"):
        studies.load_preset(tmp_path / "own.toml")


def test_reading_reserves_no_more_than_the_file_has(tmp_path):
    """Model 0: every model folder asked for 8 GB at once."""
    path = tmp_path / "weights"
    path.write_bytes(bytes(1000))
    tracemalloc.start()
    try:
        assert read_bytes(path, limit=8 << 30) == bytes(1000)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    with pytest.raises(DataFileError, match="must have at most 999 bytes, and has more"):
        read_bytes(path, limit=999)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda folder: open_runs(folder / LONG_NAME), id="command 307: runs"),
        pytest.param(lambda folder: load_model(folder / LONG_NAME), id="command 109: model"),
        pytest.param(lambda folder: Graph.from_edges([(0, 1)]).save(folder / LONG_NAME), id="command 773: save"),
        pytest.param(lambda folder: Graph.from_edges([(0, 1)]).save("\0"), id="save to a name with NUL"),
        pytest.param(lambda folder: open_runs("\0"), id="runs of a name with NUL"),
        pytest.param(lambda folder: load_model("\0"), id="model of a name with NUL"),
        pytest.param(lambda folder: studies.load_preset("\0.toml"), id="preset of a name with NUL"),
    ],
)
def test_names_that_no_file_can_have(tmp_path, use):
    with pytest.raises(DataFileError):
        use(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [{"name": "\udcff"}, {"node_ids": ["a", "\udcff"]}, {"class_names": ["\ud800"]}])
def test_names_that_no_file_can_hold(names):
    with pytest.raises(InputError, match="must be text, got"):
        Graph.from_edges([(0, 1)], **names)


@pytest.fixture(scope="module")
def plan():
    return make_plan(studies.load_preset("quick"), splits=1, seeds=2, epochs=2)


def record(cell, split, seed, **changes):
    scores = {f"{part}_{name}": 0.5 for part in ("test", "val") for name in ("accuracy", "loss", "cross_entropy")}
    curves = {name: [0.5, 0.4] for name in ("train_loss", "train_accuracy", "val_loss", "val_accuracy")}
    values = {"dataset": cell.dataset, "method": cell.method, "split": split, "seed": seed, "status": "ok", "epochs": 2}
    values |= {"scores": scores} | {
        "curves": curves,
        "shape": [0.1],
        "seconds": 1.0,
        "device": "cpu",
        "versions": {"torch": "2"},
    }
    return RunRecord(**(values | {"config": cell.config.to_dict(), "graph_digest": "0"} | changes))


@pytest.fixture
def folder(tmp_path, plan):
    with RunStore(tmp_path, writable=True) as database:
        database.begin(plan)
        for cell in plan.cells:
            database.add(cell, [record(cell, *run) for run in plan.runs()])
    return tmp_path


def read_all(folder):
    runs = open_runs(folder)
    try:
        return list(runs.entries())
    finally:
        runs.close()


def change(folder, statement, *values):
    connection = sqlite3.connect(folder / "runs.sqlite")
    with connection:
        connection.execute(statement, values)
    connection.close()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        pytest.param("record", "text", id="database 23: text for a record"),
        pytest.param("record", 3, id="database 59: a number for a record"),
        pytest.param("method", b"\xff", id="database: bytes for a name"),
        pytest.param("checksum", 0, id="database: a number for a checksum"),
    ],
)
def test_rows_of_a_database(folder, column, value):
    change(folder, f"UPDATE runs SET {column} = ? WHERE rowid = 2", value)
    with pytest.raises(DataFileError, match=r"runs\.sqlite is damaged"):
        read_all(folder)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[" * 100_000, id="database 52: a deep nest"),
        pytest.param(b"3", id="a number"),
        pytest.param(b"", id="nothing"),
        pytest.param({"test_accuracy": {}}, id="database 18: an object for a score"),
        pytest.param({"test_loss": [1]}, id="database 26: a list for a score"),
        pytest.param({"curves": "x"}, id="database 33: text for curves"),
        pytest.param({"shape": [10**30]}, id="a number that float64 arrays cannot hold"),
        pytest.param({"device": "\ud800"}, id="database 200878: half a surrogate pair"),
        pytest.param({"seed": 2**63}, id="a seed that int64 cannot hold"),
        pytest.param({"versions": {"torch": 2.0}}, id="database 78: a number for a version"),
    ],
)
def test_records_with_a_right_checksum(folder, plan, text):
    cell = plan.cells[0]
    if isinstance(text, dict):
        text = json.dumps(record(cell, "public", 1).to_dict() | text).encode()
    key = (cell.dataset, cell.name, cell.method, "public", 1, "ok")
    blob = zlib.compress(text)
    change(folder, "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *key, blob, checksum(key, blob))
    with pytest.raises(DataFileError, match="the record of gcn on cora, split public, seed 1"):
        read_all(folder)


def test_curves_that_are_not_all_there_are_left_out_of_bands(folder, plan):
    """Database 33."""
    cell = plan.cells[0]
    with RunStore(folder, writable=True) as database:
        database.add(cell, [record(cell, *run, curves={"val_loss": [1.0]}) for run in plan.runs()])
        assert database.bands(cell.dataset, cell.name) == {}


def test_a_name_in_a_database_that_is_not_text(folder):
    """Database 202216."""
    path = folder / "runs.sqlite"
    data = path.read_bytes()
    assert b"CREATE TABLE facts" in data
    path.write_bytes(data.replace(b"CREATE TABLE facts (name", b"CREATE TABLE facts (n\xddme"))
    with pytest.raises(DataFileError, match=r"runs\.sqlite"):
        read_all(folder)


@pytest.mark.parametrize("value", [3, b"\xff", "x", "", None])
def test_facts_of_a_database(folder, value):
    if value is not None:
        change(folder, "UPDATE facts SET value = ? WHERE name = 'plan'", value)
    else:
        change(folder, "UPDATE facts SET value = ? WHERE name = 'plan'", sealed([1]))
    with pytest.raises(DataFileError, match="plan"):
        read_all(folder)


@pytest.mark.parametrize("name", ["cells", "seeds", "published", "source", "title", "digests", "config"])
@pytest.mark.parametrize("value", [None, 3, [[3]], {"a": 1}, "x"])
def test_plans(folder, plan, name, value):
    """Database 102, archive 24, 61, 62, 152, 199: entries of the plan that are missing or something else."""
    values = plan.to_dict() | {name: value}
    if value is None:
        del values[name]
    change(folder, "UPDATE facts SET value = ? WHERE name = 'plan'", sealed(values))
    if isinstance(value, str) and name in ("source", "title"):
        assert len(read_all(folder)) == 6
        return
    with pytest.raises(DataFileError, match=f"'{name}' of (the plan|a cell) (is missing|must be)|unknown setting 'a'"):
        read_all(folder)


@pytest.fixture
def archive(folder):
    runs = open_runs(folder)
    write_archive(folder / "archive", runs)
    runs.close()
    return folder / "archive"


def test_archives(archive):
    assert len(list(open_runs(archive).entries())) == 6
    text = (archive / "runs.csv").read_text()
    (archive / "runs.csv").write_text(text.replace("cora,gcn", 'cora,"gcn', 1))
    with pytest.raises(DataFileError, match="is not a readable archive"):  # archive 13
        open_runs(archive)
    (archive / "runs.csv").write_text(text)
    curves = (archive / "curves.csv").read_text()
    (archive / "curves.csv").write_text(curves.replace(",0.5,", ",nan,", 1))
    with pytest.raises(DataFileError, match="finite values"):
        open_runs(archive)
    (archive / "curves.csv").write_text(curves.replace("val_loss", "other"))
    with pytest.raises(DataFileError, match="must have the curves"):
        open_runs(archive)
    (archive / "plan.json").write_text("[" * 100_000)
    with pytest.raises(DataFileError, match="is not a readable archive"):
        open_runs(archive)
