"""``fishergcn predict``: from a model folder to a table."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import Graph, TrainConfig, splits, train
from fishergcn.cli import app
from fishergcn.errors import DataFileError
from fishergcn.models import load_model, save_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    ring = [(node, (node + step) % 12) for node in range(12) for step in (1, 2)]
    labels = [0] * 4 + [-1] * 2 + [1] * 4 + [-1] * 2
    features = np.random.default_rng(0).random((12, 3))
    names = {"node_ids": [f"n {node}" for node in range(12)], "class_names": ["naß", "trocken"]}
    graph = Graph.from_edges(ring, features=features, labels=labels, name="ring", **names)
    split = splits.held_out(graph)
    config = TrainConfig(max_epochs=3, hidden=4, rank=2)
    [record] = train(graph, "fishergcn", split, config=config, keep_weights=True)
    place = tmp_path_factory.mktemp("saved") / "model"
    save_models(place, graph, [record], split)
    return place


def run(*arguments):
    return CliRunner().invoke(app, ["predict", *map(str, arguments)], catch_exceptions=False)


def test_to_standard_output(folder):
    result = run(folder)
    assert result.exit_code == 0
    assert result.stdout == (folder / "predictions.csv").read_text(encoding="utf-8")
    head, *rows = csv.reader(result.stdout.splitlines())
    assert head == ["node", "class", "p:naß", "p:trocken"]
    assert [row[0] for row in rows] == [f"n {node}" for node in range(12)]
    for row in rows:
        probabilities = [float(cell) for cell in row[2:]]
        assert sum(probabilities) == pytest.approx(1, abs=1e-8)
        assert row[1] == ("naß" if probabilities[0] > probabilities[1] else "trocken")


def test_to_a_file(folder, tmp_path):
    result = run(folder, "--out", tmp_path / "p.csv")
    assert result.stdout == ""
    assert "12 nodes, 2 classes" in result.stderr
    assert (tmp_path / "p.csv").read_bytes() == (folder / "predictions.csv").read_bytes()


def test_another_graph(folder, tmp_path):
    model = load_model(folder)
    links = [*((node, (node + 1) % 12) for node in range(12)), (11, 12)]
    names = [*model.node_names, "new"]
    features = np.vstack([model.graph.features, np.ones(3)])
    larger = Graph.from_edges(links, features=features, node_ids=names)
    larger.save(tmp_path / "larger.npz")
    result = run(folder, "--graph", tmp_path / "larger.npz")
    assert result.exit_code == 0, result.output
    assert result.stdout == model.predictions_csv(larger)
    assert len(result.stdout.splitlines()) == 14


def test_an_existing_file_is_replaced_only_on_demand(folder, tmp_path):
    (tmp_path / "p.csv").write_text("mine")
    with pytest.raises(DataFileError, match=r"p\.csv exists already; --overwrite replaces it\."):
        run(folder, "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == "mine"
    run(folder, "--out", tmp_path / "p.csv", "--overwrite")
    assert (tmp_path / "p.csv").read_bytes() == (folder / "predictions.csv").read_bytes()


@pytest.mark.parametrize("name", ["nowhere", "file.txt", "."])
def test_not_a_model_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(DataFileError, match=r"is not a model folder: it has no model\.json"):
        run(name, "--out", "p.csv")
    assert not (tmp_path / "p.csv").exists()


def test_nowhere_to_write(folder, tmp_path):
    with pytest.raises(DataFileError, match="Cannot write"):
        run(folder, "--out", tmp_path / "no" / "p.csv")
