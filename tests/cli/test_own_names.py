"""Graph files without a name in them are called by their file name in every command, never by a digest."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import Graph, load_model
from fishergcn.cli import app
from fishergcn.errors import InputError

FEW = ["--splits", "held-out:25%:0", "--quiet", "--json"]


@pytest.fixture
def files(tmp_path):
    for name in ("friends", "colleagues"):
        ring = [(node, (node + step) % 12) for node in range(12) for step in (1, 2 + len(name) % 3)]
        graph = Graph.from_edges(ring, features=np.eye(12), labels=[0, 1] * 6)
        assert graph.name is None
        graph.save(tmp_path / f"{name}.npz")
    return tmp_path


def run(*words):
    result = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_train(files):
    run("train", "--graph", files / "friends.npz", "--method", "gcn", "--epochs", 2, "--out", files / "model", *FEW)
    assert load_model(files / "model").record.dataset == "friends"


def test_tune(files):
    pytest.importorskip("optuna")
    words = ["--method", "gcn", "--epochs", 2, "--trials", 1, "--out", files / "study"]
    run("tune", "--graph", files / "friends.npz", *words, *FEW)
    assert json.loads((files / "study" / "tuning.json").read_text(encoding="utf-8"))["dataset"] == "friends"


def test_compare_on_several(files):
    graphs = ["--graph", files / "friends.npz", "--graph", files / "colleagues.npz"]
    found = run(
        "compare", *graphs, "--method", "gcn", "--set", "max_epochs=2", "--workers", "1", "--out", files / "study", *FEW
    )
    assert {each["dataset"] for each in found["cells"]} == {"friends", "colleagues"}


def test_the_same_file_name_twice_is_refused(files):
    (files / "old").mkdir()
    (files / "friends.npz").rename(files / "old" / "colleagues.npz")
    graphs = ["--graph", str(files / "old" / "colleagues.npz"), "--graph", str(files / "colleagues.npz")]
    with pytest.raises(InputError, match=r"distinct names, got colleagues, colleagues; fishergcn data import --name"):
        CliRunner().invoke(app, ["compare", *graphs, "--out", str(files / "out")], catch_exceptions=False)


def test_a_mapped_folder_is_named_without_being_read(files):
    mapped = files / "mapped"
    Graph.load(files / "friends.npz").save(mapped, mapped=True)
    facts = json.loads(CliRunner().invoke(app, ["data", "info", str(mapped), "--json"]).stdout)
    assert facts["name"] == "mapped"
    plain = Graph.load(mapped)
    assert plain.name is None
    assert np.shares_memory(plain.replace(name="x").adjacency.data, plain.adjacency.data)
    assert facts["sha256"] == plain.digest
    with pytest.raises(InputError, match="name must be text, got 3"):
        plain.replace(name=3)
    with pytest.raises(AttributeError, match="immutable"):
        plain.name = "other"
