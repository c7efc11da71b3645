"""One step of every method against dense autograd, written out from the definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import Graph
from fishergcn.splits import Split
from fishergcn.streams import draw_words, unpack
from fishergcn.training import METHODS, Run, TrainConfig, Trainer, parse_method, prepare

NODES, FEATURES, CLASSES, RANK = 60, 21, 3, 4
CPU = torch.device("cpu")
FAR = {"rtol": 0, "atol": 1e-10}


@pytest.fixture(scope="module")
def graph():
    """Two components (45 + 15 nodes), weights so that no eigenvalue is double, a node without features."""
    rng = np.random.default_rng(3)
    links = np.zeros((NODES, NODES))
    for first, last, density in ((0, 45, 0.1), (45, NODES, 0.3)):
        size = last - first
        links[first:last, first:last] = (rng.random((size, size)) < density) * rng.uniform(0.5, 1.5, (size, size))
        links[np.arange(first, last - 1), np.arange(first + 1, last)] = 1.0
    links = np.triu(links, 1)
    adjacency = links + links.T + np.diag((rng.random(NODES) < 0.1) * 1.0)
    features = (rng.random((NODES, FEATURES)) < 0.2) * rng.integers(1, 4, (NODES, FEATURES))
    features[7] = 0
    labels = np.concatenate([np.arange(CLASSES), rng.integers(0, CLASSES, NODES - CLASSES)])
    return Graph(adjacency, sparse.csr_array(features), labels, name="dense-check")


SPLITS = (
    Split("a", train=[0, 1, 2, 50, 31], val=[10, 11, 12], test=[20, 21]),
    Split("b", train=[44, 3, 59, 8, 9, 7, 52], val=[30, 13], test=[22]),
)
RUNS = [Run(SPLITS[0], 2019), Run(SPLITS[1], 2020)]


def renormalized(a):
    with_self = a + np.eye(len(a))
    degree = with_self.sum(1)
    return with_self / np.sqrt(np.outer(degree, degree))


def high_order(a, order=5, threshold=1e-4):
    walk = a / a.sum(1, keepdims=True)
    total = sum(np.linalg.matrix_power(walk, power) for power in range(1, order + 1)) / order
    np.fill_diagonal(total, 0.0)
    total = np.where(total > threshold, total, 0.0)
    linked = total + total.T + 2 * np.eye(len(a))
    degree = linked.sum(1)
    return linked / np.sqrt(np.outer(degree, degree))


def perturbed(operator, shape, noise):
    """Ã(φ) as a dense matrix, by the formulas of the method in the order in which they are stated."""
    laplacian = np.eye(NODES) - operator
    component = np.arange(NODES) < 45
    restricted = np.where(np.outer(component, component), laplacian, 0.0)
    values, vectors = np.linalg.eigh(restricted)
    w, u = torch.tensor(values[::-1][:RANK].copy()), torch.tensor(vectors[:, ::-1][:, :RANK].copy())
    mean = w / w.sum()
    theta = mean.log()
    phi = torch.exp(-theta / 2) * shape * noise
    q = torch.softmax(theta + phi, 0)
    return torch.tensor(operator) - w.sum() * (u @ torch.diag(q - mean) @ u.T)


def feature_masks(graph, keys, samples, epoch, dropout):
    """Masks of X as dense matrices, (R, M, n, D): a bit for each non-zero, row by row, column by column."""
    where = np.argwhere(graph.features.toarray() != 0)
    words = draw_words(keys, samples, 0, epoch, (len(where) + 31) // 32, dropout)
    masks = torch.zeros(len(words), NODES, FEATURES, dtype=torch.float64)
    masks[:, where[:, 0], where[:, 1]] = unpack(words, len(where)).double()
    return masks.view(len(keys), samples, NODES, FEATURES) / (1 - dropout)


def hidden_masks(keys, samples, layer, epoch, width, dropout):
    """Masks of a hidden layer, (R, M, n, H): each node has its own words, a whole number of them."""
    stride = -(-width // 32)
    words = draw_words(keys, samples, layer, epoch, NODES * stride, dropout)[:, : NODES * stride]
    bits = unpack(words.reshape(-1, stride), width).double()
    return bits.view(len(keys), samples, NODES, width) / (1 - dropout)


class Dense:
    """All runs of a method, one after the other, with dense matrices and torch's plain Adam."""

    def __init__(self, graph, method, config, trainer):
        self.graph, self.method, self.config, self.trainer = graph, method, config, trainer
        self.weights = [each.detach().clone().requires_grad_() for each in trainer.stack.weights.values()]
        self.xi = None if trainer.stack.xi is None else trainer.stack.xi.detach().clone().requires_grad_()
        groups = [{"params": self.weights}] + ([] if self.xi is None else [{"params": [self.xi], "maximize": True}])
        self.optimizer = torch.optim.Adam(groups, lr=config.learning_rate, foreach=False, fused=False)
        raw = graph.features.toarray().astype(float)
        self.x = torch.tensor(raw / np.maximum(raw.sum(1, keepdims=True), 1))
        a = graph.adjacency.toarray()
        self.operator = high_order(a) if method.high_order else renormalized(a)

    def loss(self, epoch):
        samples, config, keys = self.trainer.problem.samples, self.config, self.trainer.stack.keys
        first = feature_masks(self.graph, keys, samples, epoch, config.dropout)
        later = [
            hidden_masks(keys, samples, layer + 1, epoch, width, config.dropout)
            for layer, width in enumerate(config.hidden)
        ]
        losses = []
        for r, run in enumerate(RUNS):
            out = []
            for m in range(samples):
                operator = torch.tensor(self.operator)
                if self.xi is not None:
                    shape = config.radius * torch.sigmoid(self.xi[r])
                    operator = perturbed(self.operator, shape, self.trainer.stack.adversary.noise(epoch)[r, m])
                hidden = operator @ ((self.x * first[r, m]) @ self.weights[0][r])
                for layer, weight in enumerate(self.weights[1:]):
                    hidden = operator @ ((torch.relu(hidden) * later[layer][r, m]) @ weight[r])
                out.append(torch.log_softmax(hidden, 1))
            nodes = torch.tensor(run.split.train.copy())
            labels = torch.tensor(self.graph.labels.copy())[nodes]
            loss = -sum(each[nodes, labels].sum() for each in out) / (len(nodes) * samples)
            loss = loss + config.weight_decay / 2 * sum((weight[r] ** 2).sum() for weight in self.weights)
            losses.append(loss + (self.together(out) if self.method.consistent else 0.0))
        return torch.stack(losses)

    def together(self, out):
        predictions = torch.stack(out).exp()
        mean = predictions.mean(0).detach()
        sharp = mean ** (1 / self.config.temperature)
        sharp = sharp / sharp.sum(1, keepdim=True)
        distances = ((predictions - sharp) ** 2).sum(-1)
        return self.config.consistency * distances.mean()


CASES = [
    *[(name, (7,)) for name in METHODS],
    ("gcn-x5-c", (7,)),
    ("fishergcn-c", (7,)),
    ("gcn-t-x5-c", (7,)),
    ("fishergcn-t-c", (7,)),
    ("fishergcn", (16, 33)),
    ("gcn-t-x5", (7, 5)),
    ("fishergcn", ()),
    ("gcn", ()),
]


@pytest.mark.parametrize(("name", "hidden"), CASES)
def test_a_step_equals_dense_autograd(graph, name, hidden):
    method = parse_method(name)
    # A large radius and a large weight decay, so that an error in either shows.
    config = TrainConfig(hidden=hidden, rank=RANK, radius=2.0, weight_decay=0.05, dtype="float64")
    trainer = Trainer(prepare(graph, method, config), RUNS, CPU)
    dense = Dense(graph, method, config, trainer)
    assert (trainer.stack.xi is not None) == name.startswith("fishergcn")
    for epoch in (0, 1):
        expected = dense.loss(epoch)
        dense.optimizer.zero_grad()
        expected.sum().backward()
        loss, _ = trainer.step(epoch)
        torch.testing.assert_close(loss, expected.detach(), **FAR)
        for ours, theirs in zip(trainer.stack.weights.values(), dense.weights, strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, **FAR)
            assert theirs.grad.abs().max() > 1e-4
        if dense.xi is not None:
            torch.testing.assert_close(trainer.stack.xi.grad, dense.xi.grad, **FAR)
            assert dense.xi.grad.abs().max() > 1e-7
        dense.optimizer.step()
        for ours, theirs in zip(trainer.stack.weights.values(), dense.weights, strict=True):
            torch.testing.assert_close(ours.detach(), theirs.detach(), **FAR)
        if dense.xi is not None:
            torch.testing.assert_close(trainer.stack.xi.detach(), dense.xi.detach(), **FAR)


def test_weights_descend_and_the_adversary_ascends(graph):
    """The first step of Adam is lr times the sign of the gradient: down for the weights, up for ξ."""
    config = TrainConfig(hidden=(7,), rank=RANK, radius=2.0, dtype="float64")
    trainer = Trainer(prepare(graph, parse_method("fishergcn"), config), RUNS, CPU)
    weight, xi = (each.detach().clone() for each in (trainer.stack.weights["weights.0"], trainer.stack.xi))
    trainer.step(0)
    moved = trainer.stack.weights["weights.0"]
    down, up = moved.detach() - weight, trainer.stack.xi.detach() - xi
    strong = moved.grad.abs() > 1e-3
    assert strong.any()
    torch.testing.assert_close(down[strong], -0.01 * moved.grad[strong].sign(), rtol=0, atol=1e-6)
    strong = trainer.stack.xi.grad.abs() > 1e-5
    assert strong.any()
    torch.testing.assert_close(up[strong], 0.01 * trainer.stack.xi.grad[strong].sign(), rtol=0, atol=1e-4)


def test_accuracy_counts_all_samples(graph):
    """The training accuracy is the share of (node, sample) pairs whose largest logit is the label's."""
    config = TrainConfig(hidden=(7,), dropout=0.0, dtype="float64")
    trainer = Trainer(prepare(graph, parse_method("gcn-x5"), config), RUNS, CPU)
    operator = renormalized(graph.adjacency.toarray())
    raw = graph.features.toarray().astype(float)
    x = raw / np.maximum(raw.sum(1, keepdims=True), 1)
    first, second = (each.detach().numpy() for each in trainer.stack.weights.values())
    expected = []
    for r, run in enumerate(RUNS):
        out = operator @ np.maximum(operator @ x @ first[r], 0) @ second[r]
        expected.append(np.mean(out[run.split.train].argmax(1) == graph.labels[run.split.train]))
    _, accuracy = trainer.objective(0)
    np.testing.assert_allclose(accuracy.numpy(), expected, rtol=0, atol=1e-15)


def test_validation_is_plain_and_dense(graph):
    """Validation has no dropout and no perturbation, whatever the method."""
    config = TrainConfig(hidden=(7,), rank=RANK, radius=2.0, weight_decay=0.05, dtype="float64")
    trainer = Trainer(prepare(graph, parse_method("fishergcn-t"), config), RUNS, CPU)
    operator = torch.tensor(high_order(graph.adjacency.toarray()))
    x = Dense(graph, parse_method("fishergcn-t"), config, trainer).x
    loss, accuracy = trainer.validate()
    for r, run in enumerate(RUNS):
        first, second = (each.detach()[r] for each in trainer.stack.weights.values())
        out = operator @ torch.relu(operator @ x @ first) @ second
        nodes = run.split.val.copy()
        labels = torch.tensor(graph.labels[nodes])
        expected = torch.nn.functional.cross_entropy(out[nodes], labels) + 0.025 * (
            first.square().sum() + second.square().sum()
        )
        torch.testing.assert_close(loss[r], expected, **FAR)
        assert accuracy[r] == (out[nodes].argmax(1) == labels).double().mean()
