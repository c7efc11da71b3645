"""``fishergcn leaderboard``: the candidates of a saved model, or of the folder of its search."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import Graph, TrainConfig, load_model, splits, train
from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.models import save_models

FEW = ["--set", "max_epochs=4", "--set", "hidden=4", "--workers", "1", "--device", "cpu", "--quiet"]


def run(*words):
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    """Return the folder of a model that was chosen, and what the terminal said."""
    rng = np.random.default_rng(0)
    place, labels = tmp_path_factory.mktemp("chosen"), np.arange(60) % 2
    links = [(node, (node + 2) % 60) for node in range(60)]
    graph = Graph.from_edges(links, features=rng.random((60, 3)) + labels[:, None], labels=labels, name="ring")
    graph.save(place / "ring.npz")
    return place / "model", run("train", "--graph", place / "ring.npz", *FEW, "--out", place / "model").stdout


def test_the_table_of_a_model_is_that_of_its_search_and_of_training(chosen):
    folder, said = chosen
    tables = [run("leaderboard", each).stdout for each in (folder, folder.with_name("model-search"))]
    selection = load_model(folder).selection
    heads, rows = selection.table()
    for text in (*tables, said):
        lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
        assert " ".join(heads) in lines
        found = [next(place for place, line in enumerate(lines) if line.startswith(f"{row[0]} {row[1][:20]}"))
                 for row in rows]  # fmt: skip
        assert found == sorted(found)
        assert lines.index(selection.sentences[0]) > found[-1]
        assert lines.index(selection.sentences[1]) > lines.index(selection.sentences[0])
    assert tables[0].splitlines()[1:] == tables[1].splitlines()[1:]


def test_json_has_the_best_first(chosen):
    folder, _ = chosen
    found = json.loads(run("leaderboard", folder, "--json").stdout)
    selection = load_model(folder).selection
    assert [each["name"] for each in found["candidates"]] == [each.name for each in selection.ranked()]
    assert found["value"] == selection.value
    assert found["chosen"] == selection.chosen


def test_a_model_that_was_not_chosen_has_none(tmp_path):
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    split = splits.Split("mine", [0, 3], [1], [2])
    save_models(tmp_path / "m", graph, train(graph, "gcn", split, config=TrainConfig(max_epochs=2), keep_weights=True),
                split)  # fmt: skip
    with pytest.raises(InputError, match="was trained with --method gcn, not chosen from candidates"):
        run("leaderboard", tmp_path / "m")


def test_a_search_that_is_not_finished_has_none(chosen, tmp_path):
    folder, _ = chosen
    values = json.loads((folder.with_name("model-search") / "choice.json").read_text())
    del values["decisions"]["selection"]
    (tmp_path / "choice.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match="is a search that is not finished"):
        run("leaderboard", tmp_path)
    with pytest.raises(DataFileError, match="is not a model folder"):
        run("leaderboard", tmp_path / "nothing")
