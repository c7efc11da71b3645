"""The peers of benchmarks/gpu.py train, and the recorded loop takes the steps of the plain one."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

import fishergcn
from fishergcn.splits import Split

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    pairs = np.argwhere(np.triu(rng.random((120, 120)) < np.where(labels[:, None] == labels, 0.15, 0.02), 1))
    features = np.abs(rng.standard_normal((120, 8))) + np.eye(8)[labels]
    graph = fishergcn.Graph.from_edges(pairs, num_nodes=120, features=features, labels=labels)
    order = rng.permutation(120)
    return graph, Split("small", order[:40], order[40:80], order[80:])


def test_compiled_and_recorded_loops_take_the_same_steps(small):
    peers = importlib.import_module("_peers")

    def trained(change):
        torch.manual_seed(3)
        loop = change(peers.message_passing(*small, 16, "cpu", use_pyg=False))
        return np.array([loop.epoch() for _ in range(30)])

    plain = trained(lambda loop: loop)
    assert plain[-1, 1] > plain[0, 1]
    np.testing.assert_allclose(trained(peers.Recorded), plain, rtol=1e-5)
    np.testing.assert_allclose(trained(peers.compiled), plain, rtol=1e-5)


@pytest.mark.parametrize("dense", [False, True])
def test_stacked_runs_in_jax_learn(small, dense):
    pytest.importorskip("jax")
    graph, split = small
    stack = importlib.import_module("_peers_jax").Stacked(graph, [split], 3, 16, dense=dense)
    scores = [stack.epoch(index) for index in range(60)]
    assert scores[-1][0] < scores[0][0]
    assert scores[-1][1] > 0.5
    assert stack.runs == 3


def test_all_are_measured_in_one_run(small, monkeypatch):
    gpu = importlib.import_module("gpu")
    graph, split = small
    monkeypatch.setattr(gpu.fishergcn.datasets, "load", lambda _: graph)
    monkeypatch.setattr(gpu, "shuffled_splits", lambda _, count: [split] * count)
    found, again = gpu.side_by_side("small", 1, 2, 2, "cpu", repetitions=2)
    assert {"plain", "compiled", "recorded"} <= set(found["peers"]) == set(again["peers"])
    best = max(found["peers"].values(), key=lambda each: each["run_epochs_per_second"])
    assert found["best_peer"] == best["what"]
    for row in found["ours"].values():
        assert row["ratio_of_best"] == row["run_epochs_per_second"] / best["run_epochs_per_second"]
        assert row["ratio_of_best"] <= row["ratio"]
    record = {"data": "small", "repetitions": [found, again]}
    table = importlib.import_module("_tables_training").gpu(record)
    assert "times the fastest peer" in table
    assert "one CUDA graph an epoch" in table
