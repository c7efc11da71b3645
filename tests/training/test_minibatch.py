"""Mini-batches equal full batches where they cover the graph; the perturbation reuses rows of the global basis."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import Graph, TrainConfig, renormalized, train
from fishergcn.errors import InputError
from fishergcn.splits import Split
from fishergcn.training import (
    BatchSettings,
    MiniBatchTrainer,
    Run,
    _batch_problem,
    parse_method,
    prepare_batches,
    score_fields,
    train_prepared,
)

NODES = 90
CONFIG = TrainConfig(max_epochs=4, hidden=(8,), dtype="float64", rank=3, samples=3, stopping="none")


def train_batches(graph, method, split, seed=2019, config=CONFIG, *, batch_size, fanout, keep_weights=False):
    settings = BatchSettings(batch_size, tuple(fanout))
    problem, basis = prepare_batches(graph, parse_method(method), config)
    return train_prepared(problem, basis, Run(split, seed), settings, torch.device("cpu"), keep_weights=keep_weights)


def make_graph(*, dense=False, seed=0):
    """Three classes, links mostly within them, features that tell them apart a little."""
    rng = np.random.default_rng(seed)
    labels = np.arange(NODES) % 3
    chance = np.where(labels[:, None] == labels, 0.35, 0.05)
    links = np.triu(rng.random((NODES, NODES)) < chance, 1).astype(float)
    features = (rng.random((NODES, 40)) < 0.12 + 0.2 * (np.arange(40) % 3 == labels[:, None])).astype(np.float32)
    stored = features if dense else sparse.csr_array(features)
    return Graph(links + links.T, stored, labels, name=f"planted-{dense}")


@pytest.fixture(scope="module", params=[False, True], ids=["sparse", "dense"])
def graph(request):
    return make_graph(dense=request.param)


@pytest.fixture(scope="module")
def split():
    return Split("some", np.arange(0, 45), np.arange(45, 60), np.arange(60, 90))


def covers(graph, split):
    """Whether every node is a neighbor of a training node, so that a full batch's blocks read all nodes."""
    return len(np.unique(renormalized(graph.adjacency)[split.train].indices)) == graph.num_nodes


class TestEqualsFullBatch:
    @pytest.mark.parametrize("method", ["gcn", "gcn-x3", "fishergcn", "gcn-t", "fishergcn-t", "mlp-x3"])
    @pytest.mark.parametrize("fanout", [(-1, -1), (NODES, NODES)])
    def test_curves_and_scores(self, graph, split, method, fanout):
        assert covers(graph, split)
        [expected] = train(graph, method, split, config=CONFIG, keep_weights=True)
        found = train_batches(graph, method, split, config=CONFIG, batch_size=45, fanout=fanout, keep_weights=True)
        for name, values in expected.curves.items():
            np.testing.assert_allclose(found.curves[name], values, rtol=1e-11, err_msg=name)
        for name in score_fields():
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-11)
        for one, other in zip(found.weights.values(), expected.weights.values(), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-11)
        np.testing.assert_allclose(found.shape, expected.shape, rtol=1e-11)
        assert (found.identity, found.config) == (expected.identity, expected.config)

    @pytest.mark.parametrize("settings", [{}, {"adversarial": False}, {"noise": "gaussian"}])
    @pytest.mark.parametrize("method", ["fishergcn", "fishergcn-t"])
    def test_node_weights(self, graph, split, method, settings, monkeypatch):
        """Local, so that no spectrum is needed: none is computed."""
        monkeypatch.setattr(_batch_problem, "choose_directions", None)
        monkeypatch.setattr("fishergcn.perturbation._perturbation._WIDE", 50)
        config = TrainConfig.from_dict(CONFIG.to_dict() | {"directions": "nodes", "radius": 0.4} | settings)
        [expected] = train(graph, method, split, config=config, keep_weights=True)
        found = train_batches(graph, method, split, config=config, batch_size=45, fanout=(-1, -1), keep_weights=True)
        for name, values in expected.curves.items():
            np.testing.assert_allclose(found.curves[name], values, rtol=1e-10, err_msg=name)
        for one, other in zip(found.weights.values(), expected.weights.values(), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)
        [plain] = train(graph, method, split, config=TrainConfig.from_dict(config.to_dict() | {"radius": 0.0}))
        assert plain.curves["train_loss"] != expected.curves["train_loss"]

    @pytest.mark.parametrize("directions", ["polynomial", "links"])
    def test_other_congruences_are_refused(self, graph, directions):
        config = TrainConfig(directions=directions)
        with pytest.raises(InputError, match="directions must be 'high', 'low', 'random' or 'nodes' in mini-batches"):
            prepare_batches(graph, parse_method("fishergcn"), config)

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("settings", [{"bias": True}, {"scaling": "columns"}, {"class_weight": "balanced"}])
    def test_settings_of_other_graphs(self, graph, settings, weighted):
        """Also with classes of different sizes; the scales of columns are those of all nodes."""
        uneven = np.concatenate([np.arange(0, 45, 3), np.arange(1, 20, 3), np.arange(2, 9, 3)])
        weight = np.linspace(0.0, 3.0, graph.num_nodes) if weighted else None
        split = Split("uneven", uneven, np.arange(45, 60), np.arange(60, 90), weight)
        config = TrainConfig.from_dict(CONFIG.to_dict() | settings)
        [expected] = train(graph, "gcn-x3", split, config=config, keep_weights=True)
        found = train_batches(graph, "gcn-x3", split, config=config, batch_size=45, fanout=(-1, -1), keep_weights=True)
        np.testing.assert_allclose(found.curves["train_loss"], expected.curves["train_loss"], rtol=1e-10)
        for one, other in zip(found.weights.values(), expected.weights.values(), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)
        for name in score_fields():
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9)

    def test_single_precision(self, graph, split):
        config = TrainConfig(**{**CONFIG.to_dict(), "dtype": "float32"})
        [expected] = train(graph, "fishergcn", split, config=config)
        found = train_batches(graph, "fishergcn", split, config=config, batch_size=45, fanout=(-1, -1))
        np.testing.assert_allclose(found.curves["train_loss"], expected.curves["train_loss"], rtol=1e-6)

    @pytest.mark.parametrize("hidden", [(), (8, 40)])
    def test_other_depths(self, split, hidden):
        graph = make_graph()
        config = TrainConfig(**{**CONFIG.to_dict(), "hidden": hidden})
        [expected] = train(graph, "gcn-x2", split, config=config)
        fanout = (-1,) * (len(hidden) + 1)
        found = train_batches(graph, "gcn-x2", split, config=config, batch_size=100, fanout=fanout)
        np.testing.assert_allclose(found.curves["train_loss"], expected.curves["train_loss"], rtol=1e-11)

    def test_other_noise_and_no_adversary(self, split):
        graph = make_graph()
        config = TrainConfig(**{**CONFIG.to_dict(), "noise": "gaussian", "adversarial": False, "directions": "low"})
        [expected] = train(graph, "fishergcn", split, config=config)
        found = train_batches(graph, "fishergcn", split, config=config, batch_size=45, fanout=(-1, -1))
        np.testing.assert_allclose(found.curves["train_loss"], expected.curves["train_loss"], rtol=1e-11)
        assert found.shape == expected.shape

    def test_without_compiled_kernels(self, graph, split, monkeypatch):
        first = train_batches(graph, "fishergcn", split, config=CONFIG, batch_size=20, fanout=(3, 2))
        monkeypatch.setattr("fishergcn._base.backend.usable", lambda _: False)
        again = train_batches(graph, "fishergcn", split, config=CONFIG, batch_size=20, fanout=(3, 2))
        np.testing.assert_allclose(again.curves["train_loss"], first.curves["train_loss"], rtol=1e-11)


class TestTraining:
    def test_repeats_to_the_bit(self, graph, split):
        one, again = (
            train_batches(graph, "fishergcn", split, 7, CONFIG, batch_size=20, fanout=(3, 2)) for _ in range(2)
        )
        assert one.curves == again.curves
        other = train_batches(graph, "fishergcn", split, 8, CONFIG, batch_size=20, fanout=(3, 2))
        assert one.curves != other.curves

    def test_learns(self):
        graph = make_graph()
        split = Split("some", np.arange(0, 45), np.arange(45, 60), np.arange(60, 90))
        config = TrainConfig(max_epochs=40, hidden=(16,), stopping="none", samples=2, rank=3)
        for method in ("gcn", "fishergcn"):
            record = train_batches(graph, method, split, config=config, batch_size=16, fanout=(4, 4))
            assert record.test_accuracy > 0.85
            assert record.status == "ok"

    def test_full_rows_of_sampled_steps_have_unbiased_first_layer(self):
        """Of a linear network the sampled logits are right in the mean."""
        graph = make_graph()
        split = Split("some", np.arange(30), np.arange(30, 60), np.arange(60, 90))
        config = TrainConfig(hidden=(), dropout=0.0, dtype="float64")
        problem, basis = prepare_batches(graph, parse_method("gcn"), config)
        trainer = MiniBatchTrainer(problem, basis, Run(split, 0), BatchSettings(30, (2,)), torch.device("cpu"))
        exact = trainer.problem.logits(trainer.stack.weights, trainer._view_of("train", split.train)).detach()[:, 0]
        drawn = []
        for step in range(600):
            blocks = trainer.sampler.blocks(split.train, step)
            drawn.append(
                trainer.problem.logits(trainer.stack.weights, trainer.view(blocks, None)).detach()[:, 0].numpy()
            )
        error = np.std(drawn, axis=0) / math.sqrt(len(drawn))
        assert np.all(np.abs(np.mean(drawn, axis=0) - exact.numpy()) < 4.5 * error + 1e-12)

    def test_radius_zero_is_the_control(self, graph, split):
        config = TrainConfig(**{**CONFIG.to_dict(), "radius": 0.0})
        one = train_batches(graph, "fishergcn", split, config=config, batch_size=20, fanout=(3, 2))
        other = train_batches(graph, "gcn-x3", split, config=config, batch_size=20, fanout=(3, 2))
        assert one.curves == other.curves
        assert one.shape == []

    def test_best_epoch_and_stopping(self, graph, split):
        config = TrainConfig(
            **{**CONFIG.to_dict(), "max_epochs": 60, "stopping": "patience", "patience": 2, "test_at": "best-val"}
        )
        record = train_batches(graph, "gcn", split, config=config, batch_size=9, fanout=(3, 2))
        losses = record.curves["val_loss"]
        assert record.val_loss == pytest.approx(min(losses), rel=1e-12)
        if record.epochs < 60:
            assert int(np.argmin(losses)) == record.epochs - 3

    def test_without_test_nodes(self, graph):
        split = Split("no test", np.arange(45), np.arange(45, 90), np.array([], dtype=np.int64))
        record = train_batches(graph, "gcn", split, config=CONFIG, batch_size=20, fanout=(3, 2))
        assert math.isnan(record.test_accuracy)
        assert math.isfinite(record.val_accuracy)

    def test_negative_features_are_not_divided_by_their_sum(self, split):
        graph = make_graph(dense=True)
        signed = graph.replace(features=graph.features - 0.5)
        with pytest.warns(UserWarning, match="some features are negative"):
            [expected] = train(signed, "gcn", split, config=CONFIG)
        with pytest.warns(UserWarning, match="some features are negative"):
            found = train_batches(signed, "gcn", split, batch_size=45, fanout=(-1, -1))
        np.testing.assert_allclose(found.curves["train_loss"], expected.curves["train_loss"], rtol=1e-11)
        assert found.config == expected.config

    def test_divergence_is_told(self, graph, split):
        config = TrainConfig(**{**CONFIG.to_dict(), "learning_rate": 1e200, "max_epochs": 6})
        record = train_batches(graph, "gcn", split, config=config, batch_size=20, fanout=(3, 2))
        assert record.status == "diverged"
        assert math.isnan(record.val_loss)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"batch_size": 0}, "batch size must be at least 1, got 0"),
            ({"batch_size": 2.5}, "batch size must be a whole number"),
            ({"fanout": (10,)}, "fanout must hold 2 numbers, one for each layer, got 1"),
            ({"fanout": (10, 0)}, "fanout must be at least 1"),
            ({"method": "gcn-x2-c"}, "compares samples on all nodes"),
            ({"perturbation": "link-drop"}, "perturbation must be 'spectral' in mini-batches"),
        ],
    )
    def test_settings(self, split, options, message):
        given = {"batch_size": 10, "fanout": (2, 2), "method": "fishergcn", **options}
        method, changed = given.pop("method"), {}
        if "perturbation" in given:
            changed["perturbation"] = given.pop("perturbation")
        config = TrainConfig(**{**CONFIG.to_dict(), **changed})
        with pytest.raises(InputError, match=message):
            train_batches(make_graph(), method, split, config=config, **given)

    def test_high_order_of_a_large_graph(self, split, monkeypatch):
        monkeypatch.setattr(_batch_problem, "_MOST_HIGH_ORDER", 50)
        with pytest.raises(InputError, match=r"'fishergcn-t' needs a graph of at most 50 nodes, got 90.*'fishergcn'"):
            train_batches(make_graph(), "fishergcn-t", split, config=CONFIG, batch_size=9, fanout=(2, 2))

    def test_nodes_without_labels(self):
        graph = make_graph()
        labels = graph.labels.copy()
        labels[3] = -1
        split = Split("bad", [3], [4], [5])
        with pytest.raises(InputError, match="train node 3 has no label"):
            train_batches(graph.replace(labels=labels), "gcn", split, config=CONFIG, batch_size=9, fanout=(2, 2))
