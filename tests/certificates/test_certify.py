"""Certificates against dense passes over sampled graphs, a grid, and exact cases."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

import fishergcn
from fishergcn.certificates import certified_radius, certify
from fishergcn.errors import DataFileError, InputError
from fishergcn.nn import GCN
from fishergcn.splits import Split

NODES, CLASSES = 30, 3


@cache
def graph():
    rng = np.random.default_rng(0)
    links = np.argwhere(np.triu(rng.random((NODES, NODES)) < 0.12, 1))
    chain = np.stack([np.arange(NODES - 1), np.arange(1, NODES)], axis=1)
    features = rng.normal(size=(NODES, 5))
    labels = np.arange(NODES) % CLASSES
    return fishergcn.Graph.from_edges(np.concatenate([links, chain]), features=features, labels=labels)


@cache
def around(rank=3):
    return fishergcn.Neighborhood(fishergcn.renormalized(graph().adjacency), rank=rank, radius=0.0)


@cache
def model_of(kind):
    """Networks of random or trained weights, in float64."""
    if kind in ("linear", "own"):
        settings = {"dtype": "float64", "scaling": "none", "max_epochs": 30, "bias": True, "weight_decay": 0.05}
        settings |= {"own_weights": True, "hidden": (6,)} if kind == "own" else {}
        split = Split("mine", train=np.arange(12), val=np.arange(12, 16), test=np.arange(16, NODES))
        method = "gcn" if kind == "own" else "linear"
        config = fishergcn.TrainConfig(**settings)
        records = fishergcn.train(graph(), method, split, config=config, keep_weights=True)
        return fishergcn.TrainedModel.from_records(graph(), records, split)
    hidden = {"one": (), "two": (8,), "three": (6, 5)}[kind]
    network = GCN(5, hidden, CLASSES, generator=torch.Generator().manual_seed(4), dtype=torch.float64, bias=True)
    with torch.no_grad():
        for each in network.biases:
            each.copy_(torch.linspace(-0.1, 0.1, len(each)))
    return fishergcn.TrainedModel.from_network(network, graph(), scaling="none")


def dense_logits(model, q):
    """Forward passes in NumPy over dense matrices Ã(q), for q of shape (M, k): (M, n, C)."""
    hood, x = around(q.shape[1]), np.asarray(graph().features, dtype=np.float64)
    w, basis = hood.spectrum.eigenvalues, hood.spectrum.eigenvectors
    c = w.sum() * q - w
    matrices = model.propagation.toarray() - np.einsum("nk,mk,lk->mnl", basis, c, basis)
    tensors = {name: each[0].numpy() for name, each in model.weights.items()}
    if model.method.base == "linear":
        inner = matrices @ x @ tensors["weights.2"] + x @ tensors["weights.1"]
        return matrices @ inner + x @ tensors["weights.0"] + tensors.get("biases.0", 0)
    values = x
    depth = model.depth
    for layer in range(depth):
        own = values @ tensors[f"own.{layer}"] if f"own.{layer}" in tensors else 0
        values = matrices @ values @ tensors[f"weights.{layer}"] + own + tensors.get(f"biases.{layer}", 0)
        values = np.maximum(values, 0) if layer < depth - 1 else values
    return values


def sampled(radius, bound, count, rank=3, seed=0):
    """Shares of graphs in the ball: most on its surface."""
    hood, rng = around(rank), np.random.default_rng(seed)
    shares, mass = hood.projected_spectrum.numpy(), hood.captured_mass
    steps = rng.normal(size=(count, rank)) / np.sqrt(shares)
    low, high = np.zeros(count), np.full(count, 50.0)
    for _ in range(60):
        middle = (low + high) / 2
        q = shares * np.exp(middle[:, None] * steps)
        q /= q.sum(1, keepdims=True)
        inside = mass * ((np.sqrt(q) - np.sqrt(shares)) ** 2).sum(1) <= radius**2
        if bound is not None:
            inside &= (hood.spectrum.eigenvalues.sum() * q).max(1) <= bound
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    low *= np.where(rng.random(count) < 0.2, rng.random(count), 1.0)
    q = shares * np.exp(low[:, None] * steps)
    return q / q.sum(1, keepdims=True)


def margins(model, found, q):
    """The margin of each node's class at each q, (M, N)."""
    out = dense_logits(model, q)[:, found.nodes]
    own = np.take_along_axis(out, found.classes[None, :, None], axis=2)[..., 0]
    np.put_along_axis(out, np.broadcast_to(found.classes[None, :, None], (*own.shape, 1)), -np.inf, axis=2)
    return own - out.max(2)


RADII = (0.02, 0.08, 0.16)


@pytest.mark.parametrize("kind", ["one", "two", "three", "linear", "own"])
@pytest.mark.parametrize("bound", [None, 2.0])
def test_no_graph_of_the_ball_is_below_the_bound(kind, bound):
    model = model_of(kind)
    for radius in RADII:
        found = certify(model, radius, neighborhood=around(), bound=bound, rounds=3)
        here = margins(model, found, sampled(radius, bound, 2000))
        assert (here.min(0) >= found.lower - 1e-12).all()
        assert (here[:, found.certified] > 0).all()
        assert sum(found.counts().values()) == NODES
        assert not (found.certified & found.broken).any()
        if found.broken.any():  # dense passes over the graphs that were found
            at = np.flatnonzero(found.broken)
            q = found.shares[at]
            assert np.abs(q.sum(1) - 1).max() < 1e-12
            hood = around()
            away = hood.captured_mass * ((np.sqrt(q) - np.sqrt(hood.projected_spectrum.numpy())) ** 2).sum(1)
            assert (away <= radius**2 * (1 + 1e-9)).all()
            assert bound is None or (hood.spectrum.eigenvalues.sum() * q).max() <= bound * (1 + 1e-9)
            worst = margins(model, found, q)[np.arange(len(at)), at]
            assert (worst < 0).all()
            assert np.allclose(worst, found.upper[at], atol=1e-10)
            out = model.logits(found.operator(int(found.nodes[at[0]])))[found.nodes[at[0]], 0]
            assert int(out.argmax()) == found.others[at[0]] != found.classes[at[0]]


@pytest.mark.parametrize("bound", [None, 2.0])
def test_one_layer_is_decided_exactly(bound):
    for radius in (*RADII, 0.18):
        found = certify(model_of("one"), radius, neighborhood=around(), bound=bound)
        assert (found.certified | found.broken).all()
        assert np.allclose(found.lower[found.broken], found.upper[found.broken], atol=1e-9)
    assert found.broken.any()
    assert found.certified.any()


@pytest.mark.parametrize("kind", ["two", "linear"])
def test_bounds_hold_the_minimum_of_a_grid(kind):
    radius, hood = 0.16, around()
    first, second = (each.ravel() for each in np.meshgrid(*[np.linspace(0, 1, 181)] * 2))
    every = np.stack([first, second, 1 - first - second], axis=1)
    every = every[(every > 0).all(1)]
    away = hood.captured_mass * ((np.sqrt(every) - np.sqrt(hood.projected_spectrum.numpy())) ** 2).sum(1)
    every = every[(away <= radius**2) & ((hood.spectrum.eigenvalues.sum() * every).max(1) <= 2.0)]
    found = certify(model_of(kind), radius, neighborhood=hood)
    least = margins(model_of(kind), found, every).min(0)
    assert len(every) > 500
    assert (found.lower <= least).all()
    assert found.broken[least < 0].all()  # the attack is as good as the grid


def test_branches_decide_more():
    few, more = (certify(model_of("two"), 0.03, neighborhood=around(), rounds=each) for each in (0, 6))
    assert more.certified.sum() >= few.certified.sum()
    assert more.undecided.sum() < few.undecided.sum()
    assert not (few.certified & ~more.certified).any()


def test_nodes_of_one_part_of_the_graph():
    every, some = (certify(model_of("two"), 0.1, nodes, neighborhood=around()) for nodes in (None, [7, 3]))
    assert some.nodes.tolist() == [7, 3]
    assert np.allclose(some.upper, every.upper[[7, 3]])
    assert [some.words[0], some.words[1]] == [every.words[7], every.words[3]]


def test_radius_of_every_node():
    model = model_of("two")
    radii = certified_radius(model, neighborhood=around(), steps=4)
    most = around().farthest()
    assert ((radii >= 0) & (radii <= most)).all()
    for at in (0, 5):
        if radii[at] > 0:
            assert certify(model, radii[at], [at], neighborhood=around(), rounds=0).certified.all()
        larger = most * (np.sqrt(radii[at] / most) + 1 / 16) ** 2
        if larger <= most:
            assert not certify(model, larger, [at], neighborhood=around(), rounds=0).certified.any()


def test_passes_in_float32_stay_within_the_rounding():
    model = model_of("two")
    found = certify(model, 0.16, neighborhood=around())
    single = model.to("cpu", torch.float32)
    for q in sampled(0.16, 2.0, 20, seed=5):
        phi = torch.as_tensor(np.log(q / around().projected_spectrum.numpy()))
        out = single.logits(around().to("cpu", torch.float32).operator(phi))[:, 0].double().numpy()
        exact = dense_logits(model, q[None])[0]
        assert (np.abs(out - exact).max(1) <= found.rounding / 2).all()
    assert found.rounding.max() < 2.0**-24 * 1e5


def test_a_tie_that_rounding_decides_is_not_certified():
    """Two of three classes differ by less than float32 resolves: in float64 the second is the larger everywhere."""

    def predicted(dtype):
        network = GCN(5, (), CLASSES, generator=torch.Generator(), dtype=dtype, bias=True)
        with torch.no_grad():
            network.weights[0].fill_(1.0)
            network.biases[0].copy_(torch.tensor([0.0, 3e-9, -9.0], dtype=torch.float64))
        return fishergcn.TrainedModel.from_network(network, graph(), scaling="none")

    fine, coarse = predicted(torch.float64), predicted(torch.float32)
    found = certify(fine, 0.05, neighborhood=around())
    assert found.certified.all()
    assert found.words_of(fine.predict()) == found.words
    assert (fine.predict() == 1).all()
    differs = coarse.predict() != found.classes
    assert differs.any()
    words = np.array(found.words_of(coarse.predict()))
    assert (words[differs] == "undecided").all()
    assert (words[~differs] == "certified").all()


def test_bad_input(tmp_path):
    model, hood = model_of("two"), around()
    with pytest.raises(InputError, match=r"radius must be at most .* farthest graph with eigenvalues of L up to 2"):
        certify(model, 5.0, neighborhood=hood)
    with pytest.raises(InputError, match="radius must be greater than 0"):
        certify(model, 0.0, neighborhood=hood)
    with pytest.raises(InputError, match="nodes must be from 0 to 29, got 3 to 99"):
        certify(model, 0.1, [3, 99], neighborhood=hood)
    with pytest.raises(InputError, match="bound must be at least"):
        certify(model, 0.1, neighborhood=hood, bound=0.5)
    function = fishergcn.TrainedModel.from_network(lambda operator: operator @ torch.eye(NODES).double(), graph())
    with pytest.raises(InputError, match=r"weights of the network.*certify_smoothed takes any network"):
        certify(function, 0.1, neighborhood=hood)
    with pytest.raises(DataFileError):
        fishergcn.load_model(tmp_path)


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        ("mlp", {}, "'mlp' does not read the links"),
        ("sage", {}, "a symmetric matrix is needed"),
        ("lp", {}, "trains no network"),
        ("gcn", {"norm": "layer"}, "do not cover normalized layers .* certify_smoothed takes any network"),
    ],
)
def test_networks_that_are_not_covered(method, settings, words):
    split = Split("mine", train=np.arange(12), val=np.arange(12, 16), test=np.arange(16, NODES))
    config = fishergcn.TrainConfig(max_epochs=1, scaling="none", **settings)
    records = fishergcn.train(graph(), method, split, config=config, keep_weights=True)
    with pytest.raises(InputError, match=words):
        certify(fishergcn.TrainedModel.from_records(graph(), records, split), 0.1)
