"""What every registered network must do; a new one is tested by being registered, with all settings that it takes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools

import numpy as np
import pytest
import torch
from scipy import sparse

import fishergcn
from fishergcn import Graph, TrainConfig, TrainedModel, train
from fishergcn.drawing import looks
from fishergcn.errors import InputError
from fishergcn.execution import choose_executor, cut
from fishergcn.models import load_model
from fishergcn.nn import Network, Parameter, Rule, bases, find_network, register
from fishergcn.report import write_report
from fishergcn.splits import Split
from fishergcn.training import BatchSettings, Run, parse_method, prepare

NETWORKS = [each.name for each in bases() if isinstance(each, Network)]
IN_EPOCHS = [name for name in NETWORKS if not find_network(name).linear]
RULES = [each.name for each in bases() if isinstance(each, Rule)]
EXACT = TrainConfig(
    hidden=(6, 5), max_epochs=4, stopping="none", dtype="float64", scaling="none", order=3, threshold=1e-3, rank=3
)
SETTINGS = {
    "plain": {},
    "bias": {"bias": True},
    "own weights": {"own_weights": True},
    "layer norm": {"norm": "layer"},
    "batch norm": {"norm": "batch", "own_weights": True, "bias": True},
    "all": {"bias": True, "own_weights": True, "norm": "layer"},
}


def planted(nodes: int = 40, seed: int = 1) -> Graph:
    rng = np.random.default_rng(seed)
    labels = np.arange(nodes) % 3
    odds = np.where(labels[:, None] == labels, 0.3, 0.06)
    upper = np.triu((rng.random((nodes, nodes)) < odds) * rng.uniform(0.5, 2.0, (nodes, nodes)), 1)
    upper[:, -1] = 0.0  # a node without links
    features = sparse.csr_array((rng.random((nodes, 8)) < 0.4) * rng.random((nodes, 8)) + np.eye(3, 8)[labels])
    names = [f"node {number}" for number in range(nodes)]
    return Graph(sparse.csr_array(upper + upper.T), features, labels, name="planted", node_ids=names)


GRAPH = planted()
SPLITS = [Split("one", range(15), range(15, 27), range(27, 40)), Split("two", range(10, 25), range(25, 40), range(10))]


def methods_of(name: str) -> list[str]:
    """A method for each suffix that the network takes."""
    letters = find_network(name).suffixes
    each = {"f": f"fisher{name}", "t": f"{name}-t", "x": f"{name}-x3", "c": f"{name}-x3-c"}
    return [name, *(each[letter] for letter in letters)]


METHODS = list(itertools.chain.from_iterable(map(methods_of, NETWORKS)))


def changed(**settings) -> TrainConfig:
    return dataclasses.replace(EXACT, **settings)


@functools.cache  # nothing below changes a model
def trained(method: str, **settings) -> TrainedModel:
    records = train(GRAPH, method, SPLITS, 2, changed(**settings), device="cpu", keep_weights=True)
    return TrainedModel.from_records(GRAPH, records, SPLITS)


def same_runs(found, expected, rtol: float = 1e-11) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one.identity, one.status, one.epochs) == (other.identity, "ok", other.epochs)
        assert one.curves.keys() == other.curves.keys()
        for name in {"train_loss", "val_loss"} if parse_method(other.method).has_epochs else ():
            np.testing.assert_allclose(one.curves[name], other.curves[name], rtol=rtol)
        assert one.test_accuracy == other.test_accuracy
        assert one.weights.keys() == other.weights.keys()
        for name, weight in other.weights.items():
            np.testing.assert_allclose(one.weights[name], weight, rtol=0, atol=1e-10)


def dense_logits(
    name: str, config: TrainConfig, weights: dict[str, torch.Tensor], *, training: bool = False
) -> torch.Tensor:
    """The oracles in dense torch: z = P h W + h V + b, h' = relu(norm(z)) of the family, and powers of P if linear."""
    matrix = torch.tensor(parse_method(name).matrix.of(GRAPH, config).toarray())
    hidden = torch.tensor(GRAPH.features.toarray(), dtype=torch.float64)
    if parse_method(name).solved:
        each = [torch.linalg.matrix_power(matrix, steps) @ hidden @ weights[f"weights.{steps}"] for steps in range(3)]
        return sum(each) + weights.get("biases.0", torch.zeros(1))
    for layer in range(len(config.hidden) + 1):
        out = matrix @ (hidden @ weights[f"weights.{layer}"])
        out = out + hidden @ weights[f"own.{layer}"] if f"own.{layer}" in weights else out
        out = out + weights.get(f"biases.{layer}", torch.zeros(1))
        if f"scales.{layer}" in weights:
            over = 0 if config.norm == "batch" else 1
            center, spread = out.mean(over, keepdim=True), out.var(over, keepdim=True, unbiased=False)
            if over == 0 and not training:
                center, spread = weights[f"means.{layer}"], weights[f"variances.{layer}"]
            out = (out - center) / (spread + 1e-5).sqrt() * weights[f"scales.{layer}"] + weights[f"shifts.{layer}"]
        hidden = torch.relu(out)
    return out


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("method", METHODS)
def test_it_predicts_as_its_formula_says_and_comes_back_from_disk(method, settings, tmp_path):
    models = trained(method, **settings)
    found = models.logits()
    assert found.shape == (40, 4, 3)
    for run in range(4):
        weights = {name: each[run] for name, each in models.weights.items()}
        np.testing.assert_allclose(found[:, run], dense_logits(method, models.config, weights), atol=1e-11)
    described = models.method.network.tensors(8, 3, models.config)
    assert {name: tuple(each.shape[1:]) for name, each in models.weights.items()} == {
        name: each.shape for name, each in described.items()
    }
    model = models.only(1)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").probabilities(), model.probabilities())


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", NETWORKS)
def test_its_gradient_is_that_of_dense_autograd(name, settings):
    """The loss of a step without dropout, differentiated through a dense forward pass in plain torch."""
    from fishergcn.training._engine import Trainer

    config = changed(dropout=0.0, weight_decay=0.1, **settings)
    trainer = Trainer(prepare(GRAPH, parse_method(name), config), [Run(SPLITS[0], 7)], torch.device("cpu"))
    weights = {
        key: each.detach()[0].clone().requires_grad_(each.requires_grad) for key, each in trainer.stack.weights.items()
    }
    out, nodes = dense_logits(name, config, weights, training=True), torch.arange(15)
    labels = torch.tensor(GRAPH.labels)[nodes]
    decayed = [each for key, each in weights.items() if key.partition(".")[0] in ("weights", "own")]
    loss = torch.nn.functional.cross_entropy(out[nodes], labels) + 0.05 * sum(each.square().sum() for each in decayed)
    loss.backward()
    ours, _ = trainer.objective(0)
    assert float(ours.detach()) == pytest.approx(float(loss.detach()), rel=1e-12)
    ours.sum().backward()
    learned = [key for key, each in trainer.problem.tensors.items() if each.learned]
    assert learned == [key for key, each in weights.items() if each.requires_grad]
    for key in learned:
        found = trainer.stack.weights[key].grad[0]
        torch.testing.assert_close(found, weights[key].grad, rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def in_two_processes():
    """All networks in the same two processes, whose start costs more than all of the training."""
    config = changed(own_weights=True, bias=True)
    runs = [Run(split, seed) for split in SPLITS for seed in (2019, 2020)]
    with contextlib.closing(choose_executor("cpu", workers=2)) as executor:
        problems = [prepare(GRAPH, parse_method(name), config) for name in NETWORKS]
        jobs = [job for each in problems for job in cut(each, runs, executor.chunk_size(each), keep_weights=True)]
        found = {id(job): records for job, records in executor.run(jobs)}
    records = [record for job in jobs for record in found[id(job)]]
    return {name: [each for each in records if each.method == name] for name in NETWORKS}


@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_the_same_alone_beside_others_and_in_two_processes(method, in_two_processes):
    config = changed(own_weights=True, bias=True)
    beside = train(GRAPH, [method, "lp"], SPLITS, 2, config, device="cpu", keep_weights=True)[:4]
    alone = [
        train(GRAPH, method, split, [seed], config, device="cpu", keep_weights=True)[0]
        for split in SPLITS
        for seed in (2019, 2020)
    ]
    same_runs(beside, alone, rtol=0.0)
    if method in NETWORKS:
        same_runs(in_two_processes[method], alone, rtol=0.0)


@pytest.mark.parametrize("name", IN_EPOCHS)
@pytest.mark.parametrize("settings", [{}, {"own_weights": True, "norm": "layer", "bias": True}], ids=["plain", "all"])
def test_mini_batches_of_all_neighbors_are_the_full_batch(name, settings):
    config, batches = changed(**settings), BatchSettings(100, (-1, -1, -1))
    runs = {"splits": SPLITS[0], "config": config, "device": "cpu", "keep_weights": True}
    same_runs(train(GRAPH, name, **runs, batches=batches), train(GRAPH, name, **runs), rtol=1e-10)


def test_mini_batches_have_no_means_over_all_nodes():
    with pytest.raises(
        InputError, match=r"^mini-batches cannot train 'gcn' with norm='batch', .*; norm='layer' can\.$"
    ):
        train(GRAPH, "gcn", SPLITS[0], config=changed(norm="batch"), device="cpu", batches=BatchSettings(5, (3, 3, 3)))


@pytest.mark.parametrize("name", IN_EPOCHS)
def test_sampled_mini_batches_train(name):
    runs = {"splits": SPLITS[0], "config": changed(own_weights=True, max_epochs=30), "device": "cpu"}
    [record] = train(GRAPH, name, **runs, batches=BatchSettings(5, (3, 3, 3)))
    assert record.status == "ok"
    assert record.curves["train_loss"][-1] < record.curves["train_loss"][0]


@pytest.mark.parametrize("name", [*NETWORKS, *RULES])
def test_new_nodes_join_one_by_one(name):
    model = trained(name).only(0)
    links = sparse.csr_array(GRAPH.adjacency[[3, 8]])
    features = GRAPH.features[[3, 8]].toarray()
    found = model.logits_of_new(links, features)
    assert found.shape == (2, 1, 3)
    torch.testing.assert_close(found[1:], model.logits_of_new(links[[1]], features[[1]]), rtol=0, atol=1e-12)
    larger = planted(43, seed=5).replace(labels=None)
    assert model.probabilities(larger).shape == (43, 3)


@pytest.mark.parametrize("name", [*NETWORKS, *RULES])
def test_it_has_words_a_look_a_card_and_a_page(name, tmp_path):
    model = trained(name).only(0)
    described = model.method.described
    title = described.title
    assert f"{title[0].upper()}{title[1:]} that predicts" in model.card()
    assert described.summary
    assert len(set(looks([each.name for each in bases()]).values())) == len(bases())
    model.save(tmp_path / "m")
    assert name in write_report(tmp_path / "m").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - set(IN_EPOCHS)))
def test_what_is_solved_has_no_epochs_and_no_mini_batches(name):
    model = trained(name)
    assert [(each.epochs, each.curves, each.status) for each in model.records] == [(0, {}, "ok")] * 4
    with pytest.raises(InputError, match=f"'{name}' is solved on the whole graph, so there are no mini-batches of it"):
        train(GRAPH, name, SPLITS[0], device="cpu", batches=BatchSettings(5, (3, 3)))


@pytest.mark.parametrize("name", IN_EPOCHS)
def test_a_step_goes_down_the_gradient_of_every_parameter(name):
    config = changed(own_weights=True, norm="layer", bias=True, max_epochs=40, learning_rate=0.05, dropout=0.2)
    [record] = train(GRAPH, name, SPLITS[0], config=config, device="cpu", keep_weights=True)
    start = {key: each.start(torch.tensor([7]), torch.float64)[0] for key, each in _tensors(name, config).items()}
    for key, each in start.items():
        assert not np.allclose(record.weights[key], each), f"{key} was not trained"
    assert record.curves["train_loss"][-1] < 0.7 * record.curves["train_loss"][0]


def _tensors(name: str, config: TrainConfig) -> dict[str, Parameter]:
    return find_network(name).tensors(8, 3, config)


def test_own_weights_let_a_node_disagree_with_its_neighbors():
    """On a bipartite graph all neighbors have the other class: a mean over them alone says the opposite."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    links = np.triu((labels[:, None] != labels) & (rng.random((60, 60)) < 0.3), 1)
    features = np.eye(2)[labels] + rng.normal(0, 1.5, (60, 2))
    graph = Graph(sparse.csr_array(links | links.T).astype(float), features, labels, name="bipartite")
    split = Split("half", range(20), range(20, 30), range(30, 60))
    config = TrainConfig.named("general", dropout=0.0, max_epochs=60)
    scores = {
        method: np.mean([each.test_accuracy for each in train(graph, method, split, 3, config, device="cpu")])
        for method in ("gcn", "sage")
    }
    assert scores["sage"] > scores["gcn"]


@pytest.mark.parametrize(
    "name", [each.name for each in bases() if not fishergcn.propagation.find_matrix(each.matrix).symmetric]
)
def test_what_needs_a_symmetric_matrix_is_refused(name):
    from fishergcn import attacks
    from fishergcn.geometry import extrinsic
    from fishergcn.perturbation import Neighborhood

    model, around = trained(name).only(0), Neighborhood(fishergcn.renormalized(GRAPH.adjacency), rank=3)
    with pytest.raises(InputError, match=f"'{name}' multiplies with .*, but a symmetric matrix is needed here"):
        attacks.worst_in_ball(model, around, 0.1)
    with pytest.raises(InputError, match="a symmetric matrix is needed here"):
        extrinsic.fisher_information(model, around)
    with pytest.raises(InputError, match="must be"):
        parse_method(f"fisher{name}")


class Broken(Network):
    """A network whose parameters and logits are given."""

    name, title, summary = "broken", "a broken network", "broken"

    def __init__(self, tensors, out=None):
        self.given, self.out = tensors, out

    def parameters(self, inputs, classes, config):
        return self.given

    def logits(self, weights, view, config, dropout=None, *, once=False):
        return self.out


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "the network 'broken' must name at least one parameter to train"),
        ({"w": Parameter((2, 3))}, "parameter 'w' of the network 'broken' must be a Parameter with a name like"),
        ({"weights.0": "text"}, "must be a Parameter"),
        ({"weights.0": Parameter((3,))}, "must have two dimensions and a stream below 1000"),
        (
            {"weights.0": Parameter((2, 3)), "weights.1": Parameter((3, 3))},
            "must have a stream of its own, got that of",
        ),
    ],
)
def test_parameters_that_break_the_contract_are_refused(tensors, message):
    with pytest.raises(InputError, match=message):
        Broken(tensors).tensors(2, 3, EXACT)


def test_a_class_of_the_same_name_elsewhere_is_another_network():
    double = type("GraphConvolution", (Broken,), {"name": "gcn"})
    with pytest.raises(InputError, match="there is a network 'gcn' already"):
        register(double({"weights.0": Parameter((8, 3))}))


def test_logits_of_the_wrong_shape_are_refused():
    network = Broken({"weights.0": Parameter((8, 3))}, torch.zeros(40, 1, 2))
    with pytest.raises(InputError, match=r"'broken' must return logits of shape \(40, 1, 3\), got \(40, 1, 2\)"):
        network.check_logits(network.out, 40, 1, 3)
    with pytest.raises(InputError, match="got NoneType"):
        network.check_logits(None, 40, 1, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Big"}, "lower-case letters and digits, got 'Big'"),
        ({"name": "fisherman"}, "lower-case letters and digits, got 'fisherman'"),
        ({"name": "gcn"}, "there is a network 'gcn' already"),
        ({"suffixes": "q"}, "suffixes of the network 'broken' must be letters of ftxc, got 'q'"),
        ({"matrix": "nonsense"}, "matrix must be one of"),
        ({"matrix": "mean", "suffixes": "f"}, "cannot be perturbed: its matrix 'mean' is not symmetric"),
        ({"summary": None}, "must have a summary, as a text"),
    ],
)
def test_a_description_that_breaks_the_contract_is_refused(changes, message):
    other = type("Other", (Broken,), changes)
    with pytest.raises(InputError, match=message):
        register(other({"weights.0": Parameter((8, 3))}))
    with pytest.raises(InputError, match="must be an instance of a subclass of Network, got ABCMeta"):
        register(other)
