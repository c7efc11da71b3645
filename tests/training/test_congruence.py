"""Training in congruence neighborhoods: what a step sees, and the mean operator without noise."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import GCN, Graph, TrainConfig, train
from fishergcn.errors import InputError
from fishergcn.nn import make_features
from fishergcn.operators import DenseOperator
from fishergcn.splits import Split
from fishergcn.training import Run, Trainer, parse_method, prepare

CONFIG = TrainConfig(max_epochs=4, hidden=(8,), dtype="float64", samples=3, stopping="none", dropout=0.0, radius=0.3)
DIRECTIONS = ("nodes", "polynomial", "links")


def make_graph(nodes=60, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(nodes) % 3
    chance = np.where(labels[:, None] == labels, 0.3, 0.05)
    links = np.triu(rng.random((nodes, nodes)) < chance, 1).astype(float)
    features = (rng.random((nodes, 20)) < 0.2 + 0.2 * (np.arange(20) % 3 == labels[:, None])).astype(np.float32)
    return Graph(links + links.T, sparse.csr_array(features), labels, name="planted")


GRAPH, SPLIT = make_graph(), Split("some", np.arange(0, 30), np.arange(30, 40), np.arange(40, 60))


def by_hand(trainer, matrices):
    """The mean cross entropy over samples with weight decay, from dense matrices and a plain GCN."""
    [weights] = [[each[0].detach() for each in trainer.stack.weights.values()]]
    model = GCN(20, (8,), 3, dropout=0.0, dtype=torch.float64)
    model.load_state_dict({f"weights.{at}": each for at, each in enumerate(weights)})
    features, labels = make_features(GRAPH.features, dtype=torch.float64), torch.tensor(GRAPH.labels)
    losses = [
        torch.nn.functional.cross_entropy(model(features, DenseOperator(each))[:30], labels[:30]) for each in matrices
    ]
    return sum(losses) / len(losses) + 0.5 * 5e-4 * sum(each.square().sum() for each in weights)


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("adversarial", [True, False])
def test_a_step_is_that_of_dense_matrices(directions, adversarial):
    config = dataclasses.replace(CONFIG, directions=directions, adversarial=adversarial)
    trainer = Trainer(prepare(GRAPH, parse_method("fishergcn"), config), [Run(SPLIT, 7)], torch.device("cpu"))
    matrices = trainer.stack.adversary(0).to_dense()[0]
    loss, _ = trainer.objective(0)
    torch.testing.assert_close(loss[0], by_hand(trainer, matrices), rtol=1e-10, atol=0)
    assert (trainer.stack.xi is not None) == adversarial
    before = [each.detach().clone() for each in trainer.stack.parameters]
    trainer.step(0)
    assert all(not torch.equal(old, new) for old, new in zip(before, trainer.stack.parameters, strict=True))


@pytest.mark.parametrize("settings", [{"directions": each} for each in (*DIRECTIONS, "high", "low")])
def test_the_mean_takes_the_place_of_the_noise(settings):
    config = dataclasses.replace(CONFIG, noise="mean", rank=3, **settings)
    problem = prepare(GRAPH, parse_method("fishergcn"), config)
    trainer = Trainer(problem, [Run(SPLIT, 7), Run(SPLIT, 8)], torch.device("cpu"))
    eye = torch.eye(60, dtype=torch.float64).unsqueeze(1)
    mean = problem.neighborhood.mean_operator().propagate(eye).squeeze(1)
    assert (mean - torch.tensor(problem.propagation.toarray())).abs().max() > 1e-6
    torch.testing.assert_close(trainer.objective(0)[0][0], by_hand(trainer, [mean]), rtol=1e-10, atol=0)
    assert trainer.stack.adversary is None


def test_the_mean_of_links_that_are_dropped():
    config = dataclasses.replace(CONFIG, noise="mean", perturbation="link-drop", link_rate=0.25)
    trainer = Trainer(prepare(GRAPH, parse_method("fishergcn"), config), [Run(SPLIT, 7)], torch.device("cpu"))
    adjacency = 0.75 * GRAPH.adjacency.toarray() + np.eye(60)
    root = adjacency.sum(1) ** -0.5
    mean = torch.tensor(root[:, None] * adjacency * root)
    torch.testing.assert_close(trainer.objective(0)[0][0], by_hand(trainer, [mean]), rtol=1e-10, atol=0)


@pytest.mark.parametrize("directions", DIRECTIONS)
def test_records(directions, tmp_path):
    config = dataclasses.replace(CONFIG, directions=directions)
    [record] = train(GRAPH, "fishergcn", SPLIT, config=config)
    [again] = train(GRAPH, "fishergcn", SPLIT, config=config)
    assert record.status == "ok"
    assert record.curves == again.curves
    assert len(record.shape) == (2 if directions == "polynomial" else 0)
    [plain] = train(GRAPH, "gcn-x3", SPLIT, config=config)
    [none] = train(GRAPH, "fishergcn", SPLIT, config=dataclasses.replace(config, radius=0.0))
    assert plain.curves == none.curves != record.curves


def test_worker_processes_train_the_same():
    config = dataclasses.replace(CONFIG, directions="nodes")
    here = train(GRAPH, "fishergcn", SPLIT, seeds=2, config=config)
    there = train(GRAPH, "fishergcn", SPLIT, seeds=2, config=config, workers=2)
    assert [each.curves for each in here] == [each.curves for each in there]


def test_scale_trace_has_no_meaning_here():
    with pytest.raises(InputError, match="scale must be 'projected' with directions='nodes', got 'trace'"):
        TrainConfig(directions="nodes", scale="trace")
