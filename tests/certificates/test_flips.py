"""Certificates against flipped links, by brute force over all admissible graphs."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from scipy import sparse

import fishergcn
from fishergcn.certificates import certify_flips, certify_pagerank
from fishergcn.certificates._policy import Choices
from fishergcn.errors import InputError
from fishergcn.splits import Split

CHANGES = ("both", "remove", "add")


def drawn(rng, nodes, density=0.5):
    links = np.triu(rng.random((nodes, nodes)) < density, 1).astype(float)
    return links + links.T


def options(links, node, budget, change):
    """Every row that a node may choose: no link to itself is flipped, and one stays."""
    places = [u for u in range(len(links)) if u != node and change in ("both", "remove" if links[node, u] else "add")]
    rows = []
    for count in range(budget + 1):
        for chosen in combinations(places, count):
            row = links[node].copy()
            row[list(chosen)] = 1 - row[list(chosen)]
            if row.any() or not count:
                rows.append(row)
    return np.array(rows)


def every_graph(links, budgets, change):
    """All graphs of outgoing links, shape (M, n, n)."""
    rows = [options(links, node, budgets[node], change) for node in range(len(links))]
    chosen = np.array(list(product(*(range(len(each)) for each in rows))))
    return np.stack([each[chosen[:, node]] for node, each in enumerate(rows)], axis=1)


def solved(graphs, reward, alpha):
    """α (I - (1 - α) D⁻¹A)⁻¹ r for all graphs."""
    sizes = np.maximum(graphs.sum(2), 1)
    walk = graphs / sizes[..., None]
    return np.linalg.solve(np.eye(walk.shape[1]) - (1 - alpha) * walk, alpha * reward(sizes)[..., None])[..., 0]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_policy_iteration_finds_the_worst_of_all_graphs(change, power):
    rng = np.random.default_rng(4)
    for trial in range(4):
        links = drawn(rng, 5)
        links[2, 2] = trial % 2
        budgets, margin = rng.integers(0, 3, 5), rng.normal(size=5)
        choices = Choices(sparse.csr_array(links), budgets, change != "add", change != "remove", 0.2, power)
        lower, found, worst = choices.worst(margin)
        values = solved(every_graph(links, budgets, change), lambda sizes, m=margin: m * sizes**-power, 0.2)
        assert found == pytest.approx(values.min(0), abs=1e-13)
        assert (lower <= values.min(0)).all()
        assert (found - lower).max() < 1e-12
        again = solved(worst.toarray()[None], lambda sizes, m=margin: m * sizes**-power, 0.2)[0]
        assert again == pytest.approx(found, abs=1e-13)


@pytest.mark.parametrize("change", CHANGES)
def test_pagerank_is_decided_exactly(change):
    rng = np.random.default_rng(7)
    seen = {"certified": 0, "broken": 0, "undecided": 0}
    for _ in range(4):
        links, scores = drawn(rng, 5), rng.normal(size=(5, 3))
        found = certify_pagerank(links, scores, 1, alpha=0.3, change=change)
        graphs = every_graph(links, np.ones(5, dtype=int), change)
        values = np.stack([solved(graphs, lambda sizes, c=c: c + 0 * sizes, 0.3) for c in scores.T], axis=2)
        changes = (values.argmax(2) != found.classes).any(0)
        assert (found.broken == changes).all()
        assert (found.certified == ~changes).all()
        for node in found.nodes[found.broken]:
            worst = found.adjacency(node).toarray()
            assert (np.abs(worst - links).sum(1) <= 1).all()
            own = np.stack([solved(worst[None], lambda sizes, c=c: c + 0 * sizes, 0.3)[0] for c in scores.T], axis=1)
            assert own[node].argmax() != found.classes[node]
        seen = {name: seen[name] + count for name, count in found.counts().items()}
    assert seen["undecided"] == 0
    assert seen["certified"]
    assert seen["broken"]


def labels_of(links, given, classes):
    """Label propagation in NumPy on a dense graph: 100 steps, then mixed with the shares of the classes."""
    sizes = np.maximum(links.sum(1), 1)
    matrix, start = links / np.sqrt(np.outer(sizes, sizes)), np.zeros((len(links), classes))
    for node, label in given.items():
        start[node, label] = 1.0
    found = start
    for _ in range(100):
        found = 0.9 * matrix @ found + 0.1 * start
    shares = (start.sum(0) + 1) / (start.sum(0) + 1).sum()
    sums = found.sum(1, keepdims=True)
    spread = np.where(sums > 0, found / np.where(sums > 0, sums, 1), shares)
    return (0.999 * spread + 0.001 * shares).argmax(1)


@cache
def propagated(seed, nodes=7):
    rng = np.random.default_rng(seed)
    links = drawn(rng, nodes, 0.45)
    links[0, 1:3] = links[1:3, 0] = 1.0
    graph = fishergcn.Graph(links, labels=np.r_[0, 1, rng.integers(0, 2, nodes - 2)])
    split = Split("mine", train=[0, 1], val=[2], test=list(range(3, nodes)))
    records = fishergcn.train(graph, "lp", split, keep_weights=True)
    return fishergcn.TrainedModel.from_records(graph, records, split)


def undirected(links, budgets, change):
    """Yield every undirected graph within the budgets in which nodes with links keep one."""
    pairs = [
        (i, j) for j in range(len(links)) for i in range(j) if change in ("both", "remove" if links[i, j] else "add")
    ]

    def further(at, left, now):
        if at == len(pairs):
            if (now.any(1) | ~links.any(1).astype(bool)).all():
                yield now
            return
        yield from further(at + 1, left, now)
        ends = list(pairs[at])
        if (left[ends] > 0).all():
            other, rest = now.copy(), left.copy()
            other[ends[0], ends[1]] = other[ends[1], ends[0]] = 1 - now[ends[0], ends[1]]
            rest[ends] -= 1
            yield from further(at + 1, rest, other)

    yield from further(0, np.asarray(budgets), links)


@pytest.mark.parametrize("change", CHANGES)
def test_label_propagation_against_all_undirected_graphs(change):
    seen = {"certified": 0, "broken": 0, "undecided": 0}
    for seed in range(4):
        model = propagated(seed)
        links = model.graph.adjacency.toarray()
        budgets = np.ones(7, dtype=int) if seed == 0 else np.random.default_rng(seed).integers(0, 2, 7)
        found = certify_flips(model, budgets, change=change)
        given = {node: int(model.graph.labels[node]) for node in (0, 1)}
        assert (found.classes == labels_of(links, given, 2)).all()
        changes = np.zeros(7, dtype=bool)
        for graph in undirected(links, budgets, change):
            changes |= labels_of(graph, given, 2) != found.classes
        assert not (found.certified & changes).any()
        assert not (found.broken & ~changes).any()
        for node in found.nodes[found.broken]:
            worst = found.adjacency(node).toarray()
            assert (worst == worst.T).all()
            assert (np.abs(worst - links).sum(1) <= budgets).all()
            assert labels_of(worst, given, 2)[node] != found.classes[node]
        seen = {name: seen[name] + count for name, count in found.counts().items()}
    assert seen["certified"]
    assert seen["broken"]


def test_no_flips_change_nothing():
    found = certify_flips(propagated(1), 0)
    assert found.certified.all()
    assert found.lower == pytest.approx(found.upper, abs=1e-12)


def test_what_does_not_fit_is_refused_in_a_sentence():
    links, scores = [[0, 1], [1, 0]], np.eye(2)
    for bad, words in (
        ({"flips": -1}, "flips must be"),
        ({"flips": [1, 2, 3]}, "flips must be"),
        ({"flips": 1, "alpha": 1.0}, "alpha"),
        ({"flips": 1, "change": "all"}, "change"),
        ({"flips": 1, "scores": np.ones((3, 2))}, "scores must be"),
        ({"flips": 1, "adjacency": [[0, 2], [2, 0]]}, "weights 1, got a weight of 2"),
    ):
        with pytest.raises(InputError, match=words):
            certify_pagerank(**({"adjacency": links, "scores": scores} | bad))
    graph = fishergcn.Graph.from_edges([(0, 1), (1, 2)], features=np.eye(3), labels=[0, 1, 1])
    split = Split("mine", train=[0, 1], val=[2], test=[])
    records = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=1), keep_weights=True)
    with pytest.raises(InputError, match=r"label propagation \(lp\), got gcn"):
        certify_flips(fishergcn.TrainedModel.from_records(graph, records, split), 1)
