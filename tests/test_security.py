"""The package runs nothing that a file says, and takes nothing that a file says as a path or a size."""

from __future__ import annotations

import ast
import io
import json
import struct
import zipfile
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fishergcn
from fishergcn import Graph
from fishergcn.errors import DataFileError

ROOT = Path(fishergcn.__file__).parent
UNPICKLER = "graph/_formats/_unpickle.py"
FORBIDDEN_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "yaml",
    "code",
}
RUNS_TEXT = {"eval", "exec", "compile", "__import__", "breakpoint", "execfile"}
RUNS_A_SHELL = {"os.system", "os.popen", "os.spawnl", "os.spawnv", "os.execv", "os.execvp", "subprocess.getoutput"}
STARTS_A_PROGRAM = {"run", "Popen", "call", "check_call", "check_output"}


@cache
def trees():
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")
    }


def calls():
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield name, node, ast.unparse(node.func)


def keywords(call):
    return {keyword.arg: keyword.value for keyword in call.keywords}


def test_the_whole_package_is_read():
    assert len(trees()) > 80
    assert {UNPICKLER, "graph/_graph.py", "cli/__init__.py", "execution/_worker.py"} <= set(trees())


def test_no_module_that_runs_what_it_reads():
    found = set()
    for name, tree in trees().items():
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            found |= {(name, each) for each in names if each.split(".")[0] in FORBIDDEN_MODULES}
    assert found == {(UNPICKLER, "pickle")}


def test_the_one_unpickler_resolves_stand_ins_only():
    tree = trees()[UNPICKLER]
    uses = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert [use for use in uses if use.startswith("pickle.")] == ["pickle.Unpickler"]
    [reader] = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == "_StandInUnpickler"]
    assert [ast.unparse(base) for base in reader.bases] == ["pickle.Unpickler"]
    methods = {each.name: each for each in reader.body if isinstance(each, ast.FunctionDef)}
    assert set(methods) == {"__init__", "find_class"}  # no persistent_load, no reducer_override
    assert ast.unparse(methods["find_class"].body[-1]) == "return _stand_in(self._path, module, name)"
    loads = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".load")]
    assert [ast.unparse(node.func) for node in loads] == ["_StandInUnpickler(data, path).load"]
    [known] = [
        each for each in tree.body if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == "_STAND_INS"
    ]
    own = {each.name for each in tree.body if isinstance(each, ast.ClassDef)}
    assert {ast.unparse(kind) for kind in known.value.values} <= own  # each stands for a class of the module itself


def test_no_text_is_run():
    found = [(name, called) for name, _, called in calls() if called in RUNS_TEXT or called.startswith("builtins.")]
    assert found == []


def test_no_shell():
    assert [(name, called) for name, _, called in calls() if called in RUNS_A_SHELL] == []
    for name, call, called in calls():
        assert "shell" not in keywords(call), f"{name}: {called}"
        if called.startswith("subprocess.") and called.split(".")[1] in STARTS_A_PROGRAM:
            assert isinstance(call.args[0], (ast.List, ast.Name)), f"{name}: a command must be a list"


def test_torch_and_numpy_load_no_objects():
    for name, call, called in calls():
        given = keywords(call)
        if called == "torch.load":
            assert ast.unparse(given.get("weights_only", ast.Constant(False))) == "True", name
        if called in ("np.load", "numpy.load"):
            assert ast.unparse(given.get("allow_pickle", ast.Constant(False))) == "False", name
        if "allow_pickle" in given:
            assert ast.unparse(given["allow_pickle"]) == "False", name


def npy(shape, data=b"", descr="<f8"):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


@pytest.mark.parametrize("shape", [(2**40,), (2**31, 2**31), (2**63,), (-1,), (-(2**40), -(2**40))])
def test_an_array_with_an_absurd_shape_is_refused_before_it_is_made(tmp_path, shape):
    with pytest.raises(DataFileError, match="does not match its header"):
        Graph.load(zipped(tmp_path / "g.npz", labels=npy(shape, bytes(16))))


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch):
    path = zipped(tmp_path / "bomb.npz", labels=npy((1 << 25,), bytes(1 << 25), "|u1"))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("the archive was unpacked"))
    with pytest.raises(DataFileError, match="more than 200 times its own size"):
        Graph.load(path)


def test_a_graph_of_zeros_can_still_be_saved_and_loaded(tmp_path):
    graph = Graph.from_edges([(0, 1)], features=np.zeros((2, 3_000_000)))
    graph.save(tmp_path / "g.npz")
    assert Graph.load(tmp_path / "g.npz").digest == graph.digest


def test_a_record_that_unpacks_to_far_more_than_a_run_is_refused(tmp_path):
    from fishergcn.studies import _store as store

    key = ("cora", "gcn", "gcn", "public", 1, "ok")
    blob = zlib.compress(bytes(65 << 20), 9)
    with pytest.raises(DataFileError, match="is larger than"):
        store._record(tmp_path / "runs.sqlite", (*key, blob, store._checksum(key, blob)))


def test_a_weights_file_cannot_declare_more_than_it_has(tmp_path):
    from fishergcn.models._weights import read_tensors

    header = json.dumps({"weights.0": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 2**50]}}).encode()
    path = tmp_path / "weights.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(24))
    with pytest.raises(DataFileError, match="damaged or truncated"):
        read_tensors(path, {"weights.0": ("float32", (2, 3))})
    path.write_bytes(struct.pack("<Q", 2**62) + bytes(24))
    with pytest.raises(DataFileError, match="header does not fit"):
        read_tensors(path, {"weights.0": ("float32", (2, 3))})


def test_names_of_members_are_not_paths(tmp_path):
    """An archive is read member by member and never unpacked to disk."""
    unpacks = [
        (name, called) for name, _, called in calls() if called.endswith((".extract", ".extractall", "unpack_archive"))
    ]
    assert unpacks == []
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.arange(3))
    path = tmp_path / "sub" / "g.npz"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../escaped.npy", stream.getvalue())
    with pytest.raises(DataFileError):
        Graph.load(path)
    assert sorted(tmp_path.rglob("*")) == [path.parent, path]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from fishergcn.execution import train
    from fishergcn.models import save_models
    from fishergcn.splits import Split
    from fishergcn.training import TrainConfig

    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)], features=np.eye(4), labels=[0, 1, 0, 1], name="square")
    split = Split("s", np.array([0, 1]), np.array([2]), np.array([3]))
    [record] = train(graph, "gcn", split, config=TrainConfig(max_epochs=1, hidden=2), keep_weights=True)
    folder = tmp_path_factory.mktemp("safe") / "model"
    save_models(folder, graph, [record], split)
    return folder


@pytest.mark.parametrize("path", ["../outside.npz", "/etc/passwd", "graph.npz/../../outside.npz", "GRAPH.NPZ"])
def test_a_model_names_no_path(model, tmp_path, path):
    from fishergcn.models import load_model

    facts = json.loads((model / "model.json").read_text())
    for name in ("weights.safetensors", "graph.npz"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    for change in ({"graph": path}, {"sha256": {path: "0" * 64}}):
        (tmp_path / "model.json").write_text(json.dumps(facts | change))
        with pytest.raises(DataFileError):
            load_model(tmp_path)
    facts["run"]["dataset"] = path
    (tmp_path / "model.json").write_text(json.dumps(facts | {"graph": "embedded"}))
    with pytest.raises(DataFileError, match="is not an embedded data set"):
        load_model(tmp_path)


def test_a_report_writes_into_its_own_folder_whatever_the_runs_are_called(tmp_path):
    """Names of data sets and cells become names of pictures; they must not become paths."""
    from fishergcn.report import write_report
    from fishergcn.studies import RunStore, load_preset, make_plan
    from fishergcn.training import RunRecord

    plan = make_plan(load_preset("quick"), splits=2, seeds=1, epochs=2)
    values = plan.to_dict()
    text = json.dumps(values).replace('"cora"', '"../../escaped"')
    evil = type(plan).from_dict(json.loads(text))
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    scores = {f"{part}_{name}": 0.5 for part in ("test", "val") for name in ("accuracy", "loss", "cross_entropy")}
    curves = {name: [0.5, 0.4] for name in ("train_loss", "train_accuracy", "val_loss", "val_accuracy")}
    with RunStore(folder, writable=True) as store:
        store.begin(evil)
        for cell in evil.cells:
            records = [
                RunRecord(
                    cell.dataset,
                    cell.method,
                    split,
                    seed,
                    "ok",
                    2,
                    scores=scores,
                    curves=curves,
                    shape=[0.1, 0.2],
                    seconds=1.0,
                    device="cpu",
                    versions={},
                    config=cell.config.to_dict(),
                    graph_digest="0",
                )
                for split, seed in evil.runs()
            ]
            store.add(cell, records)
    write_report(folder)
    assert (folder / "report.html").exists()
    outside = [path for path in tmp_path.rglob("*") if path.is_file() and folder not in path.parents]
    assert outside == []
    assert "escaped" in (folder / "report.html").read_text(encoding="utf-8")
