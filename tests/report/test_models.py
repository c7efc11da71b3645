"""Saved models beside the runs are drawn and enter the page."""

import json

import numpy as np
import pytest

import fishergcn
from fishergcn.models import save_models
from fishergcn.report._geometry import geometry_figures
from fishergcn.report._models import draw_models


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    links = np.triu(rng.random((40, 40)) < 0.15, 1)
    labels = np.arange(40) % 3
    graph = fishergcn.Graph(links + links.T, rng.random((40, 5)), labels, name="toy")
    split = fishergcn.splits.per_class(graph, train=4, val=4, seed=0)
    config = fishergcn.TrainConfig(max_epochs=5, rank=3, hidden=8)
    [record] = fishergcn.train(graph, "fishergcn", split, [0], config, keep_weights=True)
    save_models(tmp_path / "model", graph, [record], split)
    return tmp_path


def test_two_pictures_a_model_with_captions(folder):
    draw_models(folder, folder / "figures")
    names = sorted(path.name for path in (folder / "figures").glob("geometry-*.svg"))
    assert names == ["geometry-model-fisher.svg", "geometry-model-links.svg"]
    words = json.loads((folder / "figures" / "geometry-model-fisher.json").read_text())
    assert words["title"] == "What fishergcn on toy feels of its graph"
    assert all("<img" in str(figure) for figure in geometry_figures(folder / "figures"))


def test_equal_models_give_equal_pictures(folder):
    draw_models(folder, folder / "figures")
    before = {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    draw_models(folder, folder / "figures")
    assert {path.name: path.read_bytes() for path in (folder / "figures").iterdir()} == before


def test_no_model_no_pictures(tmp_path):
    draw_models(tmp_path, tmp_path / "figures")
    assert not (tmp_path / "figures").exists()
