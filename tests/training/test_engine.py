"""Many runs side by side: each as if it were alone, from its first step to its record."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import Graph, datasets, renormalized, splits
from fishergcn.errors import InputError
from fishergcn.operators import IdentityOperator
from fishergcn.splits import Split
from fishergcn.training import Run, RunRecord, TrainConfig, Trainer, parse_method, prepare, should_stop, train_chunk

NODES, CLASSES = 60, 3
CPU = torch.device("cpu")
SCORES = [f"{part}_{score}" for part in ("test", "val") for score in ("loss", "cross_entropy", "accuracy")]
SMALL = TrainConfig(hidden=(7,), rank=4, radius=0.5, max_epochs=12, dtype="float64")


def make_graph(dense=False):
    """A graph whose links and features say something about the labels."""
    rng = np.random.default_rng(5)
    labels = np.arange(NODES) % CLASSES
    same = labels[:, None] == labels[None, :]
    links = np.triu(rng.random((NODES, NODES)) < np.where(same, 0.15, 0.03), 1) * 1.0
    links[:, 57:] = 0  # three nodes without links
    features = (rng.random((NODES, 12)) < 0.15) * 1.0
    features[np.arange(NODES), labels + 3 * (rng.random(NODES) < 0.4)] = 1.0
    given = features.astype(np.float32) if dense else sparse.csr_array(features)
    return Graph(links + links.T, given, labels, name="small")


@pytest.fixture(scope="module")
def graph():
    return make_graph()


def deal(name, train, seed):
    order = np.random.default_rng(seed).permutation(NODES)
    return Split(name, train=order[:train], val=order[train : train + 20], test=order[train + 20 :])


RUNS = [Run(deal("a", 9, 0), 2019), Run(deal("b", 12, 1), 2019), Run(deal("a", 9, 0), 2020)]


def changed(**settings):
    return TrainConfig.from_dict(SMALL.to_dict() | settings)


def train(graph, method, runs=RUNS, config=SMALL, **options):
    return train_chunk(prepare(graph, parse_method(method), config), runs, CPU, **options)


def assert_same_run(left: RunRecord, right: RunRecord, atol):
    assert (left.split, left.seed, left.status, left.epochs) == (
        right.split,
        right.seed,
        right.status,
        right.epochs,
    )
    for name in SCORES:
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=0, atol=atol)
    np.testing.assert_allclose(left.shape, right.shape, rtol=0, atol=atol)
    assert left.curves.keys() == right.curves.keys()
    for name in left.curves:
        np.testing.assert_allclose(left.curves[name], right.curves[name], rtol=0, atol=atol)


@pytest.mark.parametrize("method", ["gcn", "fishergcn", "gcn-t-x5-c"])
def test_a_run_does_not_depend_on_its_company_or_place(graph, method):
    together = train(graph, method)
    assert [(record.split, record.seed) for record in together] == [("a", 2019), ("b", 2019), ("a", 2020)]
    for run, record in zip(RUNS, together, strict=True):
        assert_same_run(train(graph, method, [run])[0], record, 1e-10)
    for record, again in zip(together[::-1], train(graph, method, RUNS[::-1]), strict=True):
        assert_same_run(record, again, 1e-10)
    assert together[0].curves["train_loss"] != together[2].curves["train_loss"]


@pytest.mark.parametrize("method", ["gcn-x5", "fishergcn"])
def test_the_same_chunk_twice_is_the_same_to_the_bit(graph, method):
    for dtype in ("float32", "float64"):
        config = changed(dtype=dtype)
        first, second = (train(graph, method, config=config, keep_weights=True) for _ in range(2))
        for left, right in zip(first, second, strict=True):
            assert_same_run(left, right, 0)
            assert all(
                np.array_equal(*pair) for pair in zip(left.weights.values(), right.weights.values(), strict=True)
            )


def test_finished_runs_leave_and_the_others_go_on(graph, monkeypatch):
    """Impatient stopping at different epochs; each run as if alone, optimizer and noise included."""
    sizes = []
    keep = Trainer.keep
    monkeypatch.setattr(Trainer, "keep", lambda self, runs: (keep(self, runs), sizes.append(len(self.stack)))[0])
    config = changed(max_epochs=120, stopping="patience", patience=2, learning_rate=0.05, weight_decay=0.0)
    runs = [Run(run.split, seed) for run in RUNS[:2] for seed in range(4)]
    seen = []
    for method in ("fishergcn", "gcn-x5"):
        sizes.clear()
        together = train(graph, method, runs, config, on_epoch=seen.append)
        epochs = [record.epochs for record in together]
        assert len(set(epochs)) > 2
        assert max(epochs) < 120
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] == sum(each == max(epochs) for each in epochs)
        for run, record in zip(runs, together, strict=True):
            assert_same_run(train(graph, method, [run], config)[0], record, 1e-9)
            losses = np.array(record.curves["val_loss"])
            stops = [bool(should_stop("patience", losses[: t + 1], losses[: t + 1], 2)) for t in range(len(losses))]
            assert stops == [False] * (record.epochs - 1) + [True]
        last = [state for state in seen if state.epoch == max(epochs)][-1]
        assert (last.active, last.finished) == (0, 8)


def test_radius_zero_is_the_control(graph):
    for method, control in (("fishergcn", "gcn-x5"), ("fishergcn-t-c", "gcn-t-x5-c")):
        ours = train(graph, method, config=changed(radius=0.0), keep_weights=True)
        theirs = train(graph, control, keep_weights=True)
        for left, right in zip(ours, theirs, strict=True):
            assert_same_run(left, right, 0)
            assert left.shape == []
            assert all(
                np.array_equal(*pair) for pair in zip(left.weights.values(), right.weights.values(), strict=True)
            )


def test_a_small_radius_is_close_to_the_control(graph):
    control = train(graph, "gcn-x5")
    for left, right in zip(train(graph, "fishergcn", config=changed(radius=1e-9)), control, strict=True):
        np.testing.assert_allclose(left.curves["train_loss"], right.curves["train_loss"], rtol=0, atol=1e-7)
    far = train(graph, "fishergcn", config=changed(radius=2.0))
    assert abs(far[0].curves["train_loss"][0] - control[0].curves["train_loss"][0]) > 1e-5


@pytest.mark.parametrize(("method", "value"), [("gcn", math.nan), ("fishergcn", math.inf), ("gcn-t-x5-c", math.nan)])
def test_a_run_that_diverges_harms_no_other(graph, monkeypatch, method, value):
    """The weights of the middle run are spoiled in the fifth step."""
    expected = train(graph, method)
    problem = prepare(graph, parse_method(method), SMALL)
    spoiled = Trainer(problem, RUNS, CPU).stack.keys[1]
    step = Trainer.step

    def spoil(self, epoch, noise=None):
        if epoch == 4:
            with torch.no_grad():
                self.stack.weights["weights.0"][self.stack.keys == spoiled] = value
        return step(self, epoch, noise)

    monkeypatch.setattr(Trainer, "step", spoil)
    monkeypatch.setattr("fishergcn.training._chunk._LEAVE_SHARE", 2.0)  # the broken run stays in the stack to the end
    records = train_chunk(problem, RUNS, CPU)
    monkeypatch.setattr("fishergcn.training._chunk._LEAVE_SHARE", 0.1)
    leaving = train_chunk(problem, RUNS, CPU)
    for found in (records, leaving):
        assert [record.status for record in found] == ["ok", "diverged", "ok"]
        assert found[1].epochs == 5
        assert all(math.isnan(getattr(found[1], name)) for name in SCORES)
        assert found[1].curves["val_loss"][:4] == pytest.approx(expected[1].curves["val_loss"][:4], abs=1e-10)
        for index in (0, 2):
            assert_same_run(found[index], expected[index], 1e-10)


@pytest.mark.parametrize("test_at", ["last", "best-val"])
def test_divergence_by_itself(graph, test_at):
    config = changed(learning_rate=1e30, dtype="float32", test_at=test_at)
    for record in train(graph, "gcn", config=config):
        assert record.status == "diverged"
        assert record.epochs == 1
        assert math.isnan(record.test_accuracy)


@pytest.mark.parametrize("test_at", ["last", "best-val"])
@pytest.mark.parametrize("stopping", ["patience", "none"])
def test_epochs_that_begin_before_the_last_one_is_read_change_nothing(graph, monkeypatch, stopping, test_at):
    """As on a GPU: runs that stop have begun another epoch, which counts for nothing; the stack shrinks later."""
    config = changed(
        max_epochs=40, stopping=stopping, patience=2, learning_rate=0.05, weight_decay=0.0, test_at=test_at
    )
    runs = [Run(run.split, seed) for run in RUNS[:2] for seed in range(4)]
    for method in ("fishergcn", "gcn-x5"):
        seen, other = [], []
        plain = train(graph, method, runs, config, keep_weights=True, on_epoch=seen.append)
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "ahead", True)
            ahead = train(graph, method, runs, config, keep_weights=True, on_epoch=other.append)
        assert [(each.epoch, each.active, each.finished) for each in seen] == [
            (each.epoch, each.active, each.finished) for each in other
        ]
        for left, right in zip(plain, ahead, strict=True):
            assert_same_run(left, right, 1e-10)
            for pair in zip(left.weights.values(), right.weights.values(), strict=True):
                np.testing.assert_allclose(*pair, rtol=0, atol=1e-9)


def test_the_weights_that_are_tested(graph):
    """The last ones, or those of the lowest validation loss; scores by a dense network with those weights."""
    x = graph.features.toarray().astype(float)
    x /= x.sum(1, keepdims=True)
    operator = renormalized(graph.adjacency).toarray()
    config = changed(max_epochs=80, stopping="none", learning_rate=0.3, weight_decay=1e-4)
    last = train(graph, "gcn", config=config, keep_weights=True)
    best = train(graph, "gcn", config=changed(**config.to_dict() | {"test_at": "best-val"}), keep_weights=True)
    for run, final, lowest in zip(RUNS, last, best, strict=True):
        assert final.curves == lowest.curves
        curve = final.curves["val_loss"]
        assert np.argmin(curve) < 79  # or there would be nothing to tell them apart
        assert final.val_loss == pytest.approx(curve[-1], abs=1e-12)
        assert final.val_accuracy == pytest.approx(final.curves["val_accuracy"][-1], abs=1e-12)
        assert lowest.val_loss == pytest.approx(min(curve), abs=1e-12)
        assert lowest.val_accuracy == pytest.approx(lowest.curves["val_accuracy"][np.argmin(curve)], abs=1e-12)
        for record in (final, lowest):
            first, second = record.weights.values()
            out = operator @ np.maximum(operator @ x @ first, 0) @ second
            decay = 0.5e-4 * ((first**2).sum() + (second**2).sum())
            for part in ("val", "test"):
                nodes = getattr(run.split, part)
                likelihood = out[nodes] - np.log(np.exp(out[nodes]).sum(1, keepdims=True))
                entropy = -likelihood[np.arange(len(nodes)), graph.labels[nodes]].mean()
                accuracy = (out[nodes].argmax(1) == graph.labels[nodes]).mean()
                assert getattr(record, f"{part}_cross_entropy") == pytest.approx(entropy, abs=1e-11)
                assert getattr(record, f"{part}_loss") == pytest.approx(entropy + decay, abs=1e-11)
                assert getattr(record, f"{part}_accuracy") == pytest.approx(accuracy, abs=1e-14)


def test_the_papers_stopping_rule(graph):
    config = changed(max_epochs=400, stopping="paper", learning_rate=0.1, weight_decay=0.0)
    records = train(graph, "gcn", config=config)
    assert any(record.epochs < 400 for record in records)
    for record in records:
        losses, accuracies = (np.array(record.curves[name]) for name in ("val_loss", "val_accuracy"))
        stops = [bool(should_stop("paper", losses[:t], accuracies[:t], 1)) for t in range(1, record.epochs + 1)]
        assert not any(stops[:-1])
        assert stops[-1] or record.epochs == 400
        assert record.epochs >= 102


def test_records(graph):
    [record] = train(graph, "fishergcn", RUNS[1:2])
    assert record.identity == ("small", "fishergcn", "b", 2019)
    assert record.status == "ok"
    assert record.epochs == 12
    assert set(record.curves) == {"train_loss", "train_accuracy", "val_loss", "val_accuracy"}
    assert all(len(curve) == 12 for curve in record.curves.values())
    assert record.test_loss > record.test_cross_entropy
    assert record.config == SMALL.to_dict()
    assert record.graph_digest == graph.digest
    assert record.device.startswith("cpu")
    assert {"fishergcn", "numpy", "scipy", "torch"} <= record.versions.keys()
    assert record.seconds > 0
    assert record.weights is None
    accuracy = record.test_accuracy * len(RUNS[1].split.test)
    assert accuracy == pytest.approx(round(accuracy), abs=1e-12)


def test_the_shape_is_learned_within_the_radius(graph):
    config = changed(max_epochs=60, learning_rate=0.1, radius=2.0)
    for record in train(graph, "fishergcn", config=config):
        assert len(record.shape) == 4
        assert all(0 < each < 2.0 for each in record.shape)
    start = train(graph, "fishergcn", config=changed(max_epochs=1, radius=2.0))
    assert np.abs(np.subtract(record.shape, start[2].shape)).max() > 0.1
    for record in train(graph, "fishergcn", config=changed(adversarial=False, radius=2.0)):
        assert record.shape == [2.0] * 4
    for record in train(graph, "gcn-x5"):
        assert record.shape == []


def test_isotropic_noise_is_not_learned(graph):
    trainer = Trainer(prepare(graph, parse_method("fishergcn"), changed(adversarial=False)), RUNS, CPU)
    assert trainer.stack.xi is None
    assert len(trainer.stack.parameters) == 2
    e = trainer.stack.adversary.noise(3)
    w = torch.tensor(trainer.problem.neighborhood.spectrum.eigenvalues)
    phi = SMALL.radius * e / (w / w.sum()).sqrt()
    q = torch.softmax((w / w.sum()).log() + phi, -1)
    c = w.sum() * (q - w / w.sum())
    torch.testing.assert_close(trainer.operator(3, None).coefficients, c, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {"noise": "gaussian"},
        {"directions": "low"},
        {"directions": "random"},
        {"scale": "trace", "radius": 0.01},
        {"hidden": ()},
        {"hidden": (5, 4, 3)},
        {"samples": 1},
        {"dropout": 0.0},
        {"scaling": "none"},
        {"scaling": "columns"},
        {"bias": True},
        {"class_weight": "balanced"},
        {"perturbation": "link-flip", "link_rate": 0.2},
        {"perturbation": "link-drop", "link_rate": 0.2},
    ],
)
def test_every_setting_trains_and_matters(graph, settings):
    plain = train(graph, "fishergcn", RUNS[:1])[0]
    [record] = train(graph, "fishergcn", RUNS[:1], changed(**settings))
    assert record.status == "ok"
    assert all(math.isfinite(each) for each in record.curves["train_loss"])
    assert record.curves["train_loss"] != plain.curves["train_loss"]


@pytest.mark.parametrize("suffix", ["", "-x3", "-x3-c"])
@pytest.mark.parametrize("settings", [{}, {"bias": True, "scaling": "columns", "hidden": (7, 5)}])
def test_an_mlp_is_the_network_on_a_graph_without_links(graph, suffix, settings):
    config = changed(**settings)
    bare = graph.replace(adjacency=sparse.csr_array((NODES, NODES)))
    alone = train(graph, f"mlp{suffix}", config=config, keep_weights=True)
    for left, right in zip(alone, train(bare, f"gcn{suffix}", config=config, keep_weights=True), strict=True):
        assert_same_run(left, right, 0)
        assert all(np.array_equal(*pair) for pair in zip(left.weights.values(), right.weights.values(), strict=True))
    trainer = Trainer(prepare(graph, parse_method(f"mlp{suffix}"), config), RUNS, CPU)
    for view in (trainer.train_view, trainer.val_view):
        assert {type(each) for each in view.operators} == {IdentityOperator}  # no product with the links


@pytest.mark.parametrize("method", ["gcn-x3", "fishergcn", "mlp-x3-c"])
def test_biases_train_without_weight_decay(graph, method):
    config = changed(bias=True, weight_decay=1e3, learning_rate=0.05)
    record = train(graph, method, config=config, keep_weights=True)[0]
    assert [each.shape for each in record.weights.values()] == [(12, 7), (7, CLASSES), (7,), (CLASSES,)]
    trainer = Trainer(prepare(graph, parse_method(method), config), RUNS, CPU)
    biases = [trainer.stack.weights[f"biases.{layer}"] for layer in range(2)]
    assert all((each == 0).all() for each in biases)
    for each in biases:
        torch.nn.init.ones_(each)
    trainer.step(0)
    gradient = biases[-1].grad
    # The gradient of an output bias is a mean of p - y: it sums to 0 over the classes, which decay would not.
    torch.testing.assert_close(gradient.sum(-1), torch.zeros(len(RUNS), dtype=torch.float64), rtol=0, atol=1e-12)


def test_balanced_classes_are_found_where_they_are_rare(graph):
    """Nine nodes of one class and one of each other: the weights make up for it in training, not in the scores."""
    order = np.argsort(graph.labels, kind="stable")
    rare = Split("rare", train=np.append(order[:9], [order[20], order[40]]), val=order[9:20], test=order[21:40])
    plain, balanced = (
        train(graph, "gcn", [Run(rare, 1)], changed(max_epochs=60, class_weight=each))[0]
        for each in ("none", "balanced")
    )
    assert balanced.test_accuracy > plain.test_accuracy
    assert balanced.curves["train_loss"][0] != plain.curves["train_loss"][0]
    assert balanced.curves["train_accuracy"][0] == plain.curves["train_accuracy"][0]
    assert balanced.val_cross_entropy == pytest.approx(balanced.val_loss, abs=0.2)


def test_links_at_rate_zero_are_the_control(graph):
    control = train(graph, "gcn-x5")
    for kind in ("link-flip", "link-drop"):
        found = train(graph, "fishergcn", config=changed(perturbation=kind, link_rate=0.0))
        for left, right in zip(found, control, strict=True):
            assert_same_run(left, right, 0)
            assert left.shape == []


def test_link_noise_does_not_depend_on_company(graph):
    config = changed(perturbation="link-flip", link_rate=0.2)
    for run, record in zip(RUNS, train(graph, "fishergcn", config=config), strict=True):
        assert_same_run(train(graph, "fishergcn", [run], config)[0], record, 1e-10)


def test_dense_features(graph):
    """Without dropout dense and sparse features are the same; with it their masks differ, but both train."""
    dense = make_graph(dense=True)
    config = changed(dropout=0.0)
    for left, right in zip(train(dense, "gcn", config=config), train(graph, "gcn", config=config), strict=True):
        assert_same_run(left, right, 1e-6)
    for record in train(dense, "fishergcn"):
        assert record.curves["val_loss"][-1] < record.curves["val_loss"][0]


def test_the_number_of_samples(graph):
    """For fishergcn the configuration says it, for the others the name."""
    config = changed(samples=3)
    for method, samples in (("fishergcn", 3), ("gcn-x7", 7), ("gcn", 1)):
        assert prepare(graph, parse_method(method), config).samples == samples


def test_a_given_spectrum_decides_the_rank(graph):
    from fishergcn import top_spectrum

    spectrum = top_spectrum(renormalized(graph.adjacency), rank=6)
    problem = prepare(graph, parse_method("fishergcn"), SMALL, spectrum=spectrum)
    [record] = train_chunk(problem, RUNS[:1], CPU)
    assert len(record.shape) == 6


def test_what_cannot_be_trained(graph):
    with pytest.raises(InputError, match="graph 'given' has no labels"):
        prepare(Graph(graph.adjacency, graph.features), parse_method("gcn"), SMALL)
    with pytest.raises(InputError, match="needs samples to be at least 2, got 1"):
        prepare(graph, parse_method("fishergcn-c"), changed(samples=1))
    with pytest.raises(InputError, match="perturbation='link-flip' works on the renormalized graph"):
        prepare(graph, parse_method("fishergcn-t"), changed(perturbation="link-flip"))


def test_cora():
    """Both precisions walk the same path for a while, and the path leads to a good network."""
    cora = datasets.load("cora")
    runs = [Run(splits.public(cora), 2019)]
    wide, narrow = (
        train(cora, "fishergcn", runs, TrainConfig(max_epochs=4, dtype=dtype))[0] for dtype in ("float64", "float32")
    )
    for name in ("train_loss", "val_loss"):
        np.testing.assert_allclose(narrow.curves[name], wide.curves[name], rtol=1e-5)
    [record] = train(cora, "gcn", runs, TrainConfig(max_epochs=100))
    assert record.test_accuracy > 0.78
    assert record.curves["val_loss"][-1] < record.curves["val_loss"][50] < record.curves["val_loss"][0]
