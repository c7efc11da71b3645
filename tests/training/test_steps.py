"""Which step runs is decided once, beforehand, and can be chosen; what runs is what was decided."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import sparse

import fishergcn
from fishergcn import Graph, TrainConfig
from fishergcn.errors import InputError
from fishergcn.nn import CompiledNetwork
from fishergcn.splits import Split
from fishergcn.training import BatchSettings, Run, parse_method, plan_step, prepare, train_chunk

NODES = 90
SPLIT = Split("mine", train=list(range(60, 80)), val=list(range(20, 50)), test=list(range(80, 90)))
QUICK = {"rank": 3, "hidden": (8,), "max_epochs": 2}


def made_graph(*, dense: bool = False, lonely: bool = False) -> Graph:
    """Return a graph; in a lonely one the validation nodes have no links."""
    rng = np.random.default_rng(0)
    links = [(node, node + 1) for node in range(NODES - 1)] + rng.integers(NODES, size=(NODES, 2)).tolist()
    kept = [pair for pair in links if pair[0] != pair[1] and not (lonely and min(pair) < 60)]
    features = (rng.random((NODES, 20)) < 0.3) * 1.0
    given = features if dense else sparse.csr_array(features)
    return Graph.from_edges(kept, num_nodes=NODES, features=given, labels=np.arange(NODES) % 3, name="small")


@pytest.fixture
def steps(monkeypatch):
    """Return the steps that were taken by compiled kernels."""
    taken, real = [], CompiledNetwork.gradients

    def note(self, *arguments, **options):
        taken.append(self)
        return real(self, *arguments, **options)

    monkeypatch.setattr(CompiledNetwork, "gradients", note)
    return taken


METHODS = ["sage", "gcn", "gcn-x5", "gcn-t", "fishergcn", "fishergcn-t", "fishergcn-c", "mlp", "mlp-x3-c", "gcn-x5-c"]
CHANGES = [
    {},
    {"bias": True},
    {"own_weights": True},
    {"norm": "layer"},
    {"norm": "batch"},
    {"dropout": 0.0},
    {"dtype": "float64"},
    {"hidden": ()},
    {"radius": 0.0},
    {"consistency": 0.0},
    {"noise": "mean"},
    *({"directions": each} for each in ("nodes", "links", "polynomial")),
    *({"directions": each, "noise": "mean"} for each in ("nodes", "links", "polynomial")),
    {"perturbation": "link-drop"},
    {"perturbation": "link-drop", "link_rate": 0.0},
    {"perturbation": "link-flip", "radius": 0.0},
]  # fmt: skip


@pytest.mark.parametrize("changes", CHANGES, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_what_was_planned_is_what_runs(steps, method, changes):
    parsed, config = parse_method(method), TrainConfig(**QUICK | changes)
    if parsed.perturbed and parsed.high_order and config.perturbation != "spectral":
        pytest.skip("refused")
    for dense in (False, True):
        steps.clear()
        plan = plan_step(parsed, config, gpu=False, dense=dense)
        train_chunk(prepare(made_graph(dense=dense), parsed, config), [Run(SPLIT, 1)], torch.device("cpu"))
        assert (plan.kind == "compiled") == (len(steps) == 2)
        assert (plan.kind == "autograd") == (len(steps) == 0)
        assert plan.reason
        assert not plan.fused


def test_nodes_without_links_are_trained_by_compiled_kernels_too(steps):
    config = TrainConfig(**QUICK)
    problem, runs = prepare(made_graph(lonely=True), parse_method("gcn"), config), [Run(SPLIT, 1)]
    [compiled] = train_chunk(problem, runs, torch.device("cpu"))
    assert len(steps) == 2
    with fishergcn.backend("autograd"):
        [plain] = train_chunk(problem, runs, torch.device("cpu"))
    np.testing.assert_allclose(compiled.curves["val_loss"], plain.curves["val_loss"], rtol=1e-5)


def test_a_graph_without_links_is_trained_by_autograd(steps):
    alone = made_graph().replace(adjacency=sparse.csr_array((NODES, NODES)))
    for name in ("gcn", "gcn-t"):
        problem = prepare(alone, parse_method(name), TrainConfig(**QUICK))
        train_chunk(problem, [Run(SPLIT, 1)], torch.device("cpu"))
        assert plan_step(problem.method, problem.config, gpu=False, linked=False).reason == "there are no links"
    assert not steps


@pytest.mark.parametrize(
    ("method", "changes", "kind", "fused"),
    [
        ("gcn", {}, "recorded", True),
        ("gcn-x5-c", {"bias": True, "dropout": 0.0}, "recorded", True),
        ("mlp", {}, "recorded", False),
        ("fishergcn", {"directions": "nodes"}, "recorded", False),
        ("fishergcn", {"directions": "links"}, "autograd", False),
        ("fishergcn", {"perturbation": "link-drop"}, "autograd", False),
        ("fishergcn", {"dtype": "float64"}, "autograd", False),
    ],
)
def test_on_a_gpu(monkeypatch, method, changes, kind, fused):
    monkeypatch.setattr("fishergcn._base.backend.usable", lambda _: True)
    plan = plan_step(parse_method(method), TrainConfig(**changes), gpu=True)
    assert (plan.kind, plan.fused) == (kind, fused)
    monkeypatch.setattr("fishergcn._base.backend.usable", lambda _: False)
    plan = plan_step(parse_method("gcn"), TrainConfig(), gpu=True)
    assert (plan.kind, plan.fused) == ("autograd", False)
    assert plan.reason == "triton cannot be imported"


def test_without_numba_a_step_is_one_of_autograd(monkeypatch, steps):
    monkeypatch.setattr("fishergcn._base.backend.usable", lambda _: False)
    assert plan_step(parse_method("gcn"), TrainConfig(), gpu=False).reason == "numba cannot be imported"
    config = TrainConfig(**QUICK)
    train_chunk(prepare(made_graph(), parse_method("gcn"), config), [Run(SPLIT, 1)], torch.device("cpu"))
    assert not steps


def test_a_backend_can_be_chosen(steps):
    graph, config = made_graph(), TrainConfig(**QUICK)
    found = {}
    for name in ("auto", "compiled", "autograd", "reference"):
        steps.clear()
        with fishergcn.backend(name):
            [found[name]] = fishergcn.train(graph, "fishergcn", SPLIT, config=config, device="cpu")
        assert len(steps) == (2 if name in ("auto", "compiled") else 0)
    assert found["auto"].curves == found["compiled"].curves
    for name in ("autograd", "reference"):
        np.testing.assert_allclose(found[name].curves["val_loss"], found["auto"].curves["val_loss"], rtol=1e-5)


def test_processes_follow_the_choice():
    graph, config = made_graph(), TrainConfig(**QUICK)
    with fishergcn.backend("reference"):
        alone, together = (
            fishergcn.train(graph, "gcn", SPLIT, 2, config, "cpu", workers) for workers in (1, 2)
        )  # fmt: skip
    assert [each.curves for each in alone] == [each.curves for each in together]
    compiled = fishergcn.train(graph, "gcn", SPLIT, 2, config, "cpu")
    assert [each.curves for each in alone] != [each.curves for each in compiled]


@pytest.mark.parametrize(
    ("backend", "changes", "why"),
    [
        ("compiled", {"bias": True}, "the network has a bias"),
        ("compiled", {"dropout": 0.0}, "there is no dropout"),
        ("recorded", {}, "no GPU trains"),
    ],
)
def test_a_backend_that_cannot_run_is_refused(backend, changes, why):
    config = TrainConfig(**QUICK | changes)
    with (
        fishergcn.backend(backend),
        pytest.raises(InputError, match=f"^backend '{backend}' cannot train 'gcn' here: {why}"),
    ):
        fishergcn.train(made_graph(), "gcn", SPLIT, config=config, device="cpu")
    [record] = fishergcn.train(made_graph(), "gcn", SPLIT, config=config, device="cpu")
    assert record.status == "ok"


def test_mini_batches_have_no_compiled_step():
    options = {"config": TrainConfig(**QUICK), "device": "cpu", "batches": BatchSettings(10, (5, 5))}
    with fishergcn.backend("compiled"), pytest.raises(InputError, match="the steps of mini-batches differ in size"):
        fishergcn.train(made_graph(), "gcn", SPLIT, **options)


def test_names_are_checked_wherever_they_come_from():
    with pytest.raises(InputError, match=r"^backend must be one of .*, got 'fast'"), fishergcn.backend("fast"):
        pass
    command = [sys.executable, "-m", "fishergcn", "train", "--dataset", "cora", "--method", "gcn", "--epochs", "1"]
    done = subprocess.run(
        command, env={**os.environ, "FISHERGCN_BACKEND": "fast"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("fishergcn: error: FISHERGCN_BACKEND must be one of")
