"""What a training does and holds, counted from sizes; and the paces that are fitted to trials."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fishergcn
from fishergcn import Graph, TrainConfig, datasets, splits
from fishergcn.nn._view import reach
from fishergcn.training import (
    BatchSettings,
    Pace,
    Run,
    Sizes,
    _pace,
    _work,
    held_bytes,
    pace_of,
    parse_method,
    prepare,
    usual_epochs,
)
from fishergcn.training._engine import Trainer
from fishergcn.training._pace import COMPILED, fitted
from fishergcn.training._work import WORK, batch_work, compiles, epoch_work, fuses, sees_all

CACHE = 16e6
MILLION = Sizes(10**6, 10**7, 1.1e7, 100, 10**7, 10, train=10**4, val=5000, test=5000)


@pytest.mark.parametrize("data", ["cora", "citeseer", "pubmed"])
def test_sizes_are_those_of_the_graph(data):
    graph = datasets.load(data)
    split = splits.public(graph)
    sizes = Sizes.of(graph, parse_method("gcn"), TrainConfig(), [split])
    propagation = fishergcn.renormalized(graph.adjacency)
    assert sizes.entries == propagation.nnz
    assert (sizes.stored, sizes.links) == (graph.features.nnz, graph.adjacency.nnz)
    for nodes in (split.train, split.val):
        exact = reach(propagation, nodes, 2)
        for found, layer in zip(sizes.reached(len(nodes), 2), exact, strict=True):
            assert 0.5 < found[0] / len(layer) < 2


@pytest.mark.parametrize("method", ["gcn", "gcn-x5", "fishergcn", "mlp", "gcn-x5-c"])
@pytest.mark.parametrize("bias", [False, True])
def test_which_step_is_taken_and_what_it_sees_is_known_beforehand(method, bias):
    graph = datasets.load("cora")
    split, config = splits.public(graph), TrainConfig(bias=bias, rank=2)
    problem = prepare(graph, parse_method(method), config)
    trainer = Trainer(problem, [Run(split, 1)], torch.device("cpu"))
    sizes = Sizes.of(graph, problem.method, config, [split])
    assert compiles(sizes, problem.method, config) == (trainer.compiled is not None)
    rows = trainer.train_view.operators[0].shape[1]
    assert sees_all(problem.method, config) == (rows == graph.num_nodes)


@given(factor=st.integers(2, 50), method=st.sampled_from(["gcn", "gcn-x3", "fishergcn", "gcn-t", "mlp"]))
def test_work_grows_with_the_graph_as_its_parts_do(factor, method):
    """Of a graph of several copies of another, each sum is as many times that of the one."""
    method, config = parse_method(method), TrainConfig()
    names = ("nodes", "links", "entries", "stored", "train", "val", "test")
    larger = dataclasses.replace(MILLION, **{name: factor * getattr(MILLION, name) for name in names})
    one, many = (epoch_work(sizes, method, config, 1, math.inf) for sizes in (MILLION, larger))
    for name in WORK:
        same = name in ("epoch", "perturbation", "parameters")
        assert many[name] == pytest.approx((1 if same else factor) * one[name], rel=1e-6)
    one, many = (epoch_work(sizes, method, config, 1, CACHE) for sizes in (MILLION, larger))
    for name in ("far links", "far activations"):  # what is larger than the cache comes from the further away
        assert many[name] >= factor * one[name] > 0


@settings(deadline=None)  # the first that asks of a GPU imports Triton
@given(st.integers(1, 40), st.sampled_from(["gcn", "fishergcn", "gcn-x5-c"]), st.booleans())
def test_more_runs_samples_or_units_hold_more(number, method, gpu):
    method, config = parse_method(method), TrainConfig(samples=number)
    more = dataclasses.replace(config, hidden=(128,))
    held = held_bytes(MILLION, method, config, number, gpu=gpu)
    assert held < held_bytes(MILLION, method, config, number + 1, gpu=gpu)
    assert held < held_bytes(MILLION, method, more, number, gpu=gpu)
    for chosen in (config, dataclasses.replace(config, bias=True)):
        assert held_bytes(MILLION, method, chosen, 1, batches=True) < held_bytes(MILLION, method, chosen, 1)


def test_the_tiles_of_a_high_order_matrix_are_not_all_filled():
    cora, config = datasets.load("cora"), TrainConfig()
    plain, high = (Sizes.of(cora, parse_method(name), config) for name in ("gcn", "gcn-t"))
    assert plain.tile_share == 1.0
    assert high.entries / high.nodes**2 < high.tile_share < 1.0
    full = dataclasses.replace(high, clustered=False)
    assert held_bytes(high, parse_method("gcn-t"), config, 1, gpu=True) < held_bytes(
        full, parse_method("gcn-t"), config, 1, gpu=True
    )


@pytest.mark.parametrize(
    ("triton", "changes"),
    [
        (False, {}),
        (True, {"dtype": "float64"}),
        (True, {"perturbation": "link-drop"}),
        (True, {"directions": "nodes"}),
    ],
)
def test_without_fused_kernels_a_gpu_holds_more(monkeypatch, triton, changes):
    method, config = parse_method("fishergcn"), TrainConfig()
    monkeypatch.setattr(_work, "usable", lambda _: True)
    assert fuses(MILLION, method, config)
    fused = held_bytes(MILLION, method, config, 1, gpu=True)
    monkeypatch.setattr(_work, "usable", lambda _: triton)
    other = dataclasses.replace(config, **changes)
    assert not fuses(MILLION, method, other)
    assert 2 * fused < held_bytes(MILLION, method, other, 1, gpu=True)


def test_an_epoch_of_mini_batches_reads_every_training_node_once():
    work, around = batch_work(MILLION, parse_method("gcn"), TrainConfig(), BatchSettings(512, (10, 10)), CACHE)
    assert around["step"] == 20  # of 10,000 nodes
    assert 20 * 512 * 11 < around["drawn"] < 20 * 512 * (11 + 121)
    assert all(value >= 0 for value in work.values())


@pytest.mark.parametrize("entries", [1e6, 1.1e7, 1e8])
def test_mini_batches_of_graphs_with_any_number_of_links(entries):
    sizes = dataclasses.replace(MILLION, entries=entries, val=0, test=0)
    work, _ = batch_work(sizes, parse_method("fishergcn"), TrainConfig(), BatchSettings(512, (10, -1)), CACHE)
    assert all(np.isfinite(value) and value >= 0 for value in work.values())


def test_usual_epochs():
    assert usual_epochs(TrainConfig(stopping="none", max_epochs=77)) == 77
    assert usual_epochs(TrainConfig(max_epochs=30)) == 30
    assert usual_epochs(TrainConfig(hidden=(64, 64))) < usual_epochs(TrainConfig()) < 500
    general = TrainConfig.named("general")
    assert general.patience < usual_epochs(general) < general.max_epochs


@given(st.floats(0.05, 20.0), st.integers(0, 10**6))
def test_a_machine_that_is_slower_throughout_is_recognized(factor, seed):
    rng = np.random.default_rng(seed)
    counts = [dict(zip(COMPILED, 10.0 ** rng.uniform(0, 9, len(COMPILED)), strict=True)) for _ in range(8)]
    times = [factor * sum(COMPILED[name] * each[name] for name in COMPILED) for each in counts]
    found = fitted(counts, times, COMPILED)
    for name, usual in COMPILED.items():
        assert found[name] == pytest.approx(factor * usual, rel=1e-6)


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A folder for the file, and how often a machine was measured."""
    calls = []

    def measure(device, machine):
        calls.append(device)
        return dataclasses.replace(Pace.usual(device), machine=machine)

    monkeypatch.setattr(_pace, "measured_pace", measure)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fishergcn", calls


def test_a_machine_is_measured_once(measured):
    folder, calls = measured
    first, second = pace_of(torch.device("cpu")), pace_of(torch.device("cpu"))
    assert first == second
    assert len(calls) == 1
    [path] = folder.iterdir()
    assert json.loads(path.read_text())["machine"]["device"] == first.machine["device"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"machine": {}}'])
def test_a_damaged_file_is_measured_again(measured, text):
    folder, calls = measured
    pace_of(torch.device("cpu"))
    [path] = folder.iterdir()
    path.write_text(text)
    pace_of(torch.device("cpu"))
    assert len(calls) == 2
    assert json.loads(path.read_text())["machine"]


def test_another_machine_measures_for_itself(measured, monkeypatch):
    _, calls = measured
    pace_of(torch.device("cpu"))
    monkeypatch.setattr(_pace, "device_name", lambda device: "cpu (another)")
    assert pace_of(torch.device("cpu")).machine["device"] == "cpu (another)"
    assert len(calls) == 2


def test_a_folder_that_cannot_be_written_is_no_error(measured, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert pace_of(torch.device("cpu")).base > 0


def test_this_machine_can_be_measured():
    pace = _pace.measured_pace(torch.device("cpu"), _pace._machine(torch.device("cpu")))
    config, gcn = TrainConfig(), parse_method("gcn")
    assert 1e-5 < pace.epoch(dataclasses.replace(MILLION, nodes=1000, entries=5e3, stored=10**4), gcn, config) < 1.0
    assert pace.epoch(MILLION, gcn, config) < pace.epoch(MILLION, parse_method("fishergcn"), config)
    assert 1e8 < pace.base < 2e9


def test_a_dense_graph_without_features_has_sizes_too():
    graph = Graph.from_edges([(0, 1), (1, 2)], labels=[0, 1, 0])
    sizes = Sizes.of(graph, parse_method("gcn"), TrainConfig())
    assert (sizes.features, sizes.stored, sizes.train) == (3, 3, 3)
