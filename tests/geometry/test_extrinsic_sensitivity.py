"""Sensitivity to links: against finite differences and brute force, with and without the normalization."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn import functional

from fishergcn import high_order, renormalized
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic import link_sensitivity
from fishergcn.graph import Graph
from fishergcn.models import TrainedModel
from fishergcn.nn import GCN

on = TrainedModel.from_network


def random_graph(n=9, classes=3, dim=4, seed=0, weighted=True, self_link=True):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((n, n)) < 0.3, 1) | (np.eye(n, k=1) > 0)
    weights = np.where(links, rng.uniform(0.5, 2, (n, n)) if weighted else 1.0, 0.0)
    weights = weights + weights.T
    if self_link:
        weights[2, 2] = 0.7
    return Graph(weights, features=rng.random((n, dim)).astype(np.float32), labels=rng.integers(classes, size=n))


def network(graph, hidden=(5,), seed=0, classes=3):
    generator = torch.Generator().manual_seed(seed)
    model = GCN(graph.num_features, hidden, classes, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        for weight in model.weights:
            weight *= 2
    return model


def dense_loss(model, graph, operator, nodes=None, score_of=None):
    """The network in plain dense torch, on any n x n operator."""
    hidden = torch.tensor(graph.features.astype(np.float64))
    hidden = hidden / hidden.sum(1, keepdim=True)
    for layer, weight in enumerate(model.weights):
        hidden = operator @ hidden @ weight.detach()
        if layer < len(model.weights) - 1:
            hidden = torch.relu(hidden)
    if score_of is not None:
        return torch.log_softmax(hidden, dim=1)[score_of]
    nodes = list(range(graph.num_nodes)) if nodes is None else nodes
    return functional.cross_entropy(hidden[nodes], torch.tensor(graph.labels)[nodes])


def normalized(A):
    B = A + torch.eye(len(A), dtype=torch.float64)
    root = B.sum(1).sqrt()
    return B / root[:, None] / root[None, :]


def raw_derivative(model, graph, i, j, **options):
    """Central differences of fourth order in the weight of a link."""
    A = torch.tensor(graph.adjacency.toarray())
    step = torch.zeros_like(A)
    step[i, j] = step[j, i] = 1e-3
    value = {t: float(dense_loss(model, graph, normalized(A + t * step), **options)) for t in (-2, -1, 1, 2)}
    return (8 * (value[1] - value[-1]) - (value[2] - value[-2])) / 12e-3


def entry_derivative(model, graph, propagation, i, j, **options):
    operator = torch.tensor(propagation.toarray(), requires_grad=True)
    dense_loss(model, graph, operator, **options).backward()
    return float(operator.grad[i, j] + operator.grad[j, i]) if i != j else float(operator.grad[i, i])


ALL = list(itertools.combinations_with_replacement(range(9), 2))


@pytest.mark.parametrize("hidden", [(), (5,), (5, 4)])
def test_raw_links_against_finite_differences(hidden):
    graph = random_graph()
    model = network(graph, hidden)
    found = link_sensitivity(on(model, graph), links=ALL)  # there and absent, to others and to itself
    expected = [raw_derivative(model, graph, i, j) for i, j in ALL]
    np.testing.assert_allclose(found.values, expected, atol=1e-9)
    dense = graph.adjacency.toarray()
    np.testing.assert_array_equal(found.present, [dense[i, j] > 0 for i, j in ALL])
    assert found.present.any()
    assert (~found.present).any()


@pytest.mark.parametrize("hidden", [(), (5,), (5, 4)])
@pytest.mark.parametrize("propagate", [renormalized, high_order])
def test_entries_of_the_propagation_matrix_against_autograd(hidden, propagate):
    graph = random_graph()
    model = network(graph, hidden)
    propagation = propagate(graph.adjacency)
    found = link_sensitivity(on(model, graph, propagation=propagation), None, False, links=ALL)
    expected = [entry_derivative(model, graph, propagation, i, j) for i, j in ALL]
    np.testing.assert_allclose(found.values, expected, atol=1e-14)


def test_some_nodes_and_one_score():
    graph = random_graph()
    model = network(graph)
    pairs = ALL[::3]
    some = link_sensitivity(on(model, graph), nodes=[7, 1], links=pairs)
    np.testing.assert_allclose(
        some.values, [raw_derivative(model, graph, i, j, nodes=[7, 1]) for i, j in pairs], atol=1e-9
    )
    given = link_sensitivity(on(model, graph), links=pairs, score_of=(4, 2))
    np.testing.assert_allclose(
        given.values, [raw_derivative(model, graph, i, j, score_of=(4, 2)) for i, j in pairs], atol=1e-9
    )
    logits = model.eval()(
        (graph.features.astype(np.float64).T / graph.features.astype(np.float64).sum(1)).T,
        renormalized(graph.adjacency),
    )
    best = int(logits[4].argmax())
    predicted = link_sensitivity(on(model, graph.replace(labels=None)), links=pairs, score_of=4)
    np.testing.assert_allclose(
        predicted.values, link_sensitivity(on(model, graph), links=pairs, score_of=(4, best)).values, atol=1e-15
    )


def test_links_that_are_there_are_the_default():
    graph = random_graph()
    found = link_sensitivity(on(network(graph), graph))
    expected = sorted((i, j) for i, j in zip(*graph.adjacency.nonzero(), strict=True) if i < j)
    assert [tuple(pair) for pair in found.links] == expected
    assert found.present.all()
    assert len(found) == graph.num_links


def test_links_of_a_high_order_network_are_those_of_the_graph():
    """Its matrix has entries for pairs that are no links; they are not taken for links."""
    graph = random_graph()
    model = on(network(graph), graph, high_order(graph.adjacency))
    options = {"through_normalization": False}
    there = {tuple(pair) for pair in link_sensitivity(on(network(graph), graph)).links.tolist()}
    present = link_sensitivity(model, **options)
    assert {tuple(pair) for pair in present.links.tolist()} == there
    every = link_sensitivity(model, links="all", top=10**4, **options)
    assert len(every) == graph.num_nodes * (graph.num_nodes - 1) // 2
    assert {tuple(pair) for pair in every.links[every.present].tolist()} == there
    absent = link_sensitivity(model, links="absent", top=10**4, **options)
    assert len(absent) + len(present) == len(every)
    assert not absent.present.any()


def test_a_callable_has_the_same_sensitivities_however_it_multiplies():
    graph = random_graph()
    model = network(graph)
    X = torch.tensor(graph.features.astype(np.float64))
    X = X / X.sum(1, keepdim=True)
    weights = [each.detach() for each in model.weights]
    expected = link_sensitivity(on(model, graph), links=ALL).values
    by_hand = link_sensitivity(
        on(lambda operator: operator @ (torch.relu(operator @ (X @ weights[0])) @ weights[1]), graph), links=ALL
    )
    np.testing.assert_allclose(by_hand.values, expected, atol=1e-14)
    moved = link_sensitivity(on(lambda operator: model.eval()(X, operator), graph), links=ALL)
    np.testing.assert_allclose(moved.values, expected, atol=1e-14)


def brute_force(found, order, count):
    key = {"magnitude": np.abs(found.values), "increase": found.values, "decrease": -found.values}[order]
    best = np.argsort(-key, kind="stable")[:count]
    return found.links[best], found.values[best]


@pytest.mark.parametrize("order", ["magnitude", "increase", "decrease"])
@pytest.mark.parametrize("links", ["all", "absent"])
@pytest.mark.parametrize("through", [True, False])
def test_top_links_equal_brute_force_on_200_nodes(order, links, through):
    graph = random_graph(200, dim=6, weighted=False)
    model = network(graph)
    pairs = np.array(list(itertools.combinations(range(200), 2)))
    everything = link_sensitivity(on(model, graph), None, through, links=pairs)
    if links == "absent":
        kept = ~everything.present
        everything = type(everything)(pairs[kept], everything.values[kept], everything.present[kept])
    expected, values = brute_force(everything, order, 150)
    for limit in (1, 40 * 200 * 7, 2**30):  # one row a block, seven rows, all at once
        found = link_sensitivity(on(model, graph), None, through, links=links, top=150, order=order, memory_limit=limit)
        np.testing.assert_array_equal(found.links, expected)
        np.testing.assert_allclose(found.values, values, rtol=1e-10)
    assert found.present.any() == (links == "all")


def test_ties_go_to_the_first_pairs_whatever_the_blocks():
    """On a complete graph whose nodes are all alike every pair has the same score."""
    alike = Graph(np.ones((6, 6)) - np.eye(6), labels=np.zeros(6, dtype=int))
    model = on(lambda operator: operator @ torch.tensor([[1.0, -1.0]] * 6, dtype=torch.float64), alike)
    expected = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 2), (1, 3)]
    for limit in (1, 40 * 6 * 2, 40 * 6 * 4, 2**20):
        found = link_sensitivity(model, None, False, links="all", top=7, order="increase", memory_limit=limit)
        assert [tuple(pair) for pair in found.links] == expected
        assert np.ptp(found.values) == 0 != found.values[0]


def test_fewer_pairs_than_asked_for():
    path = Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 1, 0, 2])
    model = on(network(path), path)
    found = link_sensitivity(model, links="absent", top=100)
    assert sorted(map(tuple, found.links)) == [(0, 2), (0, 3), (1, 3)]
    expected = link_sensitivity(model, links=[(0, 2), (0, 3), (1, 3)]).top(3)
    np.testing.assert_array_equal(found.links, expected.links)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)


def test_top_of_given_links():
    graph = random_graph()
    found = link_sensitivity(on(network(graph), graph))
    best = link_sensitivity(on(network(graph), graph), top=3, order="decrease")
    np.testing.assert_array_equal(best.values, np.sort(found.values)[:3])
    np.testing.assert_array_equal(best.links, found.top(3, "decrease").links)


def test_links_out_of_reach_do_not_matter():
    path = Graph.from_edges([(i, i + 1) for i in range(9)], features=np.eye(10), labels=np.arange(10) % 3)
    found = link_sensitivity(on(network(path), path), score_of=0)
    # Two layers see links (0,1), (1,2) and, through the degree of node 2, (2,3).
    np.testing.assert_array_equal(found.values[3:], 0.0)
    assert (np.abs(found.values[:3]) > 0).all()


def test_bad_input_is_one_sentence():
    graph = random_graph()
    model = network(graph)
    cases = {
        r"links='all' needs top": {"links": "all"},
        r"links must be one of 'present', 'absent', 'all'": {"links": "both"},
        r"links must be 'present'.*or pairs": {"links": [(0, 1, 2)]},
        r"links must be between 0 and 8, got 9": {"links": [(0, 9)]},
        r"top must be at least 1": {"top": 0},
        r"order must be one of": {"order": "size"},
        r"score_of must be between 0 and 8, got 9": {"score_of": 9},
        r"class of score_of must be between 0 and 2, got 3": {"score_of": (0, 3)},
        r"nodes must not be given with score_of": {"score_of": 1, "nodes": [1]},
        r"memory_limit must be at least 1": {"links": "all", "top": 1, "memory_limit": 0},
    }
    for message, options in cases.items():
        with pytest.raises(InputError, match=message):
            link_sensitivity(on(model, graph), **options)
    with pytest.raises(InputError, match=r"has no derivative in a raw link; use through_normalization=False"):
        link_sensitivity(on(model, graph, high_order(graph.adjacency)))
    with pytest.raises(InputError, match=r"node 3 has no label"):
        link_sensitivity(on(model, graph.replace(labels=[0, 1, 2, -1, 0, 1, 2, 0, 1])), nodes=[3])
    with pytest.raises(InputError, match=r"no labels"):
        link_sensitivity(on(model, graph.replace(labels=None)))
    with pytest.raises(InputError, match=r"never multiplies"):
        link_sensitivity(on(lambda operator: torch.eye(9, 3, dtype=torch.float64), graph))


def test_the_renormalized_matrix_may_be_given():
    graph = random_graph()
    model = network(graph)
    given = link_sensitivity(on(model, graph, propagation=renormalized(graph.adjacency)))
    np.testing.assert_array_equal(given.values, link_sensitivity(on(model, graph)).values)


PUBMED = """
import re, torch, fishergcn
from fishergcn.geometry.extrinsic import link_sensitivity
from fishergcn.nn import GCN

graph = fishergcn.datasets.load("pubmed")
model = GCN(500, (16,), 3, generator=torch.Generator().manual_seed(0))
found = link_sensitivity(fishergcn.TrainedModel.from_network(model, graph), links="all", top=100)
with open("/proc/self/status") as status:  # getrusage would count what the parent process had
    print(len(found), re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_best_of_194_million_pairs_need_less_than_two_gigabytes():
    done = subprocess.run([sys.executable, "-c", PUBMED], capture_output=True, text=True, check=True)
    count, kilobytes = map(int, done.stdout.split())
    assert count == 100
    assert kilobytes < 2e6
