"""``fishergcn explain`` prints and writes what the library finds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import Graph, TrainConfig, splits, train
from fishergcn.cli import app
from fishergcn.errors import InputError
from fishergcn.models import load_model, save_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng, labels = np.random.default_rng(0), np.arange(20) % 2
    links = [(node, (node + step) % 20) for node in range(20) for step in (2, 3)]
    graph = Graph.from_edges(links, features=rng.random((20, 3)) + labels[:, None], labels=labels, name="ring",
                             node_ids=[f"n{node}" for node in range(20)], class_names=["even", "odd"],
                             feature_names=["a", "b", "c"])  # fmt: skip
    split = splits.Split("own", np.arange(8), np.arange(8, 12), np.arange(12, 20))
    records = train(graph, "gcn", split, config=TrainConfig(max_epochs=5), device="cpu", keep_weights=True)
    place = tmp_path_factory.mktemp("explain")
    save_models(place / "model", graph, records, split)
    graph.save(place / "ring.npz")
    return place


def run(*arguments):
    outcome = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    return outcome


def test_text_json_and_file_agree_with_the_library(folder):
    found = load_model(folder / "model").explain("n15")
    text = run(folder / "model", "--node", "n15").stdout
    assert found.sentences[0] in text
    assert f"{-100 * found.evidence[0].change:+.2f}" in text
    assert json.loads(run(folder / "model", "--node", "n15", "--json").stdout) == json.loads(
        json.dumps(found.to_dict())
    )
    run(folder / "model", "--node", "n15", "--graph", folder / "ring.npz", "--out", folder / "why.txt")
    assert (folder / "why.txt").read_text().splitlines()[0] == found.sentences[0]
    other = json.loads(run(folder / "model", "--node", "n15", "--class", "even", "--limit", 1, "--json").stdout)
    assert other["label"] == "even"
    assert len(other["evidence"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--node", "x"), "node 'x' is unknown"),
        (("--node", "n1", "--class", "x"), "class 'x' is unknown"),
        (("--node", "n1", "--limit", 0), "--limit must be at least 1, got 0"),
        (("--node", "n1", "--graph", "a", "--edges", "b"), "--graph and --edges cannot be used together"),
        (("--node", "n1", "--features", "b"), "--features needs --edges"),
    ],
)
def test_what_is_refused(folder, arguments, message):
    with pytest.raises(InputError, match=message):
        run(folder / "model", *arguments)
