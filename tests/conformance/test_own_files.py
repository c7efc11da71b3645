"""A network, a score and a matrix of one's own: one file each, known everywhere once it is imported or installed."""

from __future__ import annotations

import contextlib
import csv
import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import fishergcn
from fishergcn import Graph, TrainConfig, TrainedModel, fit, studies, train
from fishergcn.errors import InputError
from fishergcn.models import load_model
from fishergcn.nn import unregister
from fishergcn.report import write_report
from fishergcn.splits import Split
from fishergcn.training import unregister_score

NETWORK = '''
"""Two hops without an activation, of the neighbors alone, and what the node itself says: P (P X W + X V)."""

import torch

from fishergcn.nn import Network, Parameter, register


class TwoHops(Network):
    name = "twohops"
    title = "a linear network of two hops"
    summary = "a linear network of two hops"
    suffixes = "xc"
    matrix = "mean"
    without_links = "mlp"

    def parameters(self, inputs, classes, config):
        return {
            "weights.0": Parameter((inputs, classes), stream=0),
            "own.0": Parameter((inputs, classes), stream=1),
        }

    def widths(self, classes, config):
        return classes, classes

    def sees_itself(self, config):
        return True

    def logits(self, weights, view, config, dropout=None, *, once=False):
        hidden = view.enter(torch.cat([weights["weights.0"], weights["own.0"]], dim=2), dropout)
        return view.propagate(1, view.propagate(0, hidden, own=True))


register(TwoHops())
'''
SCORE = '''
"""The share of nodes of the first class that are found."""

import numpy as np

from fishergcn.training import Score, register_score


def found(tally):
    return tally.confusion[:, 0, 0] / np.maximum(tally.confusion[:, 0].sum(axis=1), 1)


register_score(Score("first_found", "found of the first class", of=found))
'''


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two modules in a folder that Python searches."""
    place = tmp_path / "modules"
    place.mkdir()
    for name, text in (("my_network", NETWORK), ("my_score", SCORE)):
        (place / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(place))
    yield place
    unregister("twohops")
    with contextlib.suppress(InputError):
        unregister_score("first_found")
    for name in ("my_network", "my_score"):
        sys.modules.pop(name, None)


@pytest.fixture
def graph():
    rng = np.random.default_rng(3)
    labels = np.arange(60) % 3
    upper = np.triu(rng.random((60, 60)) < np.where(labels[:, None] == labels, 0.25, 0.03), 1)
    features = sparse.csr_array(np.eye(3)[labels] + rng.normal(0, 0.8, (60, 3)))
    return Graph(sparse.csr_array(upper | upper.T).astype(float), features, labels, name="mine")


SPLIT = Split("half", range(18), range(18, 36), range(36, 60))
CONFIG = TrainConfig(max_epochs=25, scaling="none", learning_rate=0.1)


def dense(model: TrainedModel) -> np.ndarray:
    a = model.graph.adjacency.toarray()
    mean = a / np.maximum(a.sum(axis=1, keepdims=True), 1e-300)
    w, v = (model.weights[name][0].double().numpy() for name in ("weights.0", "own.0"))
    x = model.graph.features.toarray()
    return mean @ (mean @ x @ w + x @ v)


def test_from_python(files, graph, tmp_path):
    for name in ("my_network", "my_score"):
        importlib.import_module(name)
    methods = ["twohops", "twohops-x3-c", "mlp"]
    here, there = (
        train(graph, methods, SPLIT, 2, CONFIG, device="cpu", workers=workers, keep_weights=True) for workers in (1, 2)
    )
    for one, other in zip(here, there, strict=True):
        assert one.status == "ok"
        assert one.scores == other.scores  # two processes know network and score
        assert 0.0 <= one.test_first_found <= 1.0
        for name, weight in one.weights.items():
            np.testing.assert_array_equal(weight, other.weights[name])
    model = TrainedModel.from_records(graph, here[0], SPLIT)
    np.testing.assert_allclose(model.logits()[:, 0], dense(model), atol=1e-5)
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.probabilities(), model.probabilities())
    assert loaded.logits_of_new(graph.adjacency[[4]], graph.features[[4]].toarray()).shape == (1, 1, 3)
    assert "A linear network of two hops that predicts" in loaded.card()
    assert "found of the first class" in loaded.card()
    assert "twohops" in write_report(tmp_path / "m").read_text(encoding="utf-8")
    best = fishergcn.models.best_run(here, score="first_found")
    assert best.val_first_found == max(record.val_first_found for record in here)


def test_in_fit_and_compare(files, graph, tmp_path):
    for name in ("my_network", "my_score"):
        importlib.import_module(name)
    chosen = fit(graph, SPLIT, "cpu", methods=["majority", "twohops", "mlp"], workers=2, folder=tmp_path / "fit",
                 ensemble=False)  # fmt: skip
    assert {each.name for each in chosen.selection.candidates} == {"majority", "twohops", "mlp"}
    assert chosen.selection.chosen == "twohops"  # links join like nodes, and features are noisy
    plan = studies.make_comparison([graph], ["twohops-x3"], splits=[SPLIT], seeds=2, config=CONFIG)
    with studies.run(plan, tmp_path / "s", device="cpu", workers=2) as runs:
        assert runs.counts() == {"ok": len(plan)}
        found = dict(runs.entries())
    assert {"gcn", "mlp-x3", "twohops-x3"} <= set(found)
    assert all(0.0 <= record.test_first_found <= 1.0 for record in found.values())
    [alone] = train(graph, "twohops-x3", SPLIT, [2020], CONFIG, device="cpu")
    assert found["twohops-x3"].scores == pytest.approx(alone.scores)  # beside others it has its own matrix
    assert "twohops" in write_report(tmp_path / "s").read_text(encoding="utf-8")


@pytest.mark.slow
def test_installed_for_the_command_line(files, graph, tmp_path):
    """An entry point of an installed package is enough for every command, workers included."""
    facts = files / "my_package-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n", encoding="utf-8")
    points = "[fishergcn.plugins]\nnetwork = my_network\nscore = my_score\n"
    (facts / "entry_points.txt").write_text(points, encoding="utf-8")
    graph.save(tmp_path / "mine.npz")

    def command(*several):
        """Give commands, one after the other, in a process."""
        program = "import sys; from fishergcn.cli import app\nfor words in {}: app(words, standalone_mode=False)"
        given = [sys.executable, "-c", program.format(several)]
        environment = {**os.environ, "PYTHONPATH": str(files)}
        return subprocess.run(given, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)

    options = ["--device", "cpu", "--workers", "2", "--epochs", "5", "--seeds", "2", "--splits", "per-class:5+5:1"]
    done = command(["train", "--graph", "mine.npz", "--method", "twohops", "--out", "m", "--json", *options])
    assert done.returncode == 0, done.stderr
    assert all("test_first_found" in each for each in json.loads(done.stdout)["runs"])
    done = command(["predict", "m", "--out", "p.csv"], ["report", "m"])
    assert done.returncode == 0, done.stderr
    with (tmp_path / "p.csv").open(encoding="utf-8") as stream:
        assert len(list(csv.reader(stream))) == 61
    assert (tmp_path / "m" / "report.html").is_file()


def test_a_model_of_a_network_that_is_not_there_is_refused(files, graph, tmp_path):
    importlib.import_module("my_network")
    [record] = train(graph, "twohops", SPLIT, config=CONFIG, device="cpu", keep_weights=True)
    TrainedModel.from_records(graph, record, SPLIT).save(tmp_path / "m")
    unregister("twohops")
    with pytest.raises(fishergcn.errors.DataFileError, match=r"method must be one of .*, got 'twohops'"):
        load_model(tmp_path / "m")


def test_the_main_program_cannot_lend_its_network_to_others(files, graph, monkeypatch):
    module = importlib.import_module("my_network")
    monkeypatch.setattr(module.TwoHops, "__module__", "__main__")
    with pytest.raises(InputError, match="put it in a module of its own, or use workers=1"):
        train(graph, "twohops", SPLIT, 2, CONFIG, device="cpu", workers=2)
