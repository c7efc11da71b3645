"""``train``: the same runs however they are asked for, in full batches or small ones."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from fishergcn import Graph, TrainConfig, splits, train
from fishergcn.errors import InputError
from fishergcn.training import BatchSettings, Run, parse_method, prepare_batches, train_prepared

CONFIG = TrainConfig(max_epochs=2, hidden=4, rank=3)


@pytest.fixture(scope="module")
def graph() -> Graph:
    labels = np.arange(24) % 2
    links = [(i, (i + step) % 24) for i in range(24) for step in (2, 3)]
    return Graph.from_edges(links, features=np.eye(24), labels=labels, name="rings")


def bare(records):
    return [dataclasses.replace(record, seconds=0.0, weights=None) for record in records]


def test_several_methods_are_each_trained_as_alone(graph):
    methods = ["gcn", "fishergcn"]
    found = train(graph, methods, ["per-class:2+1:0", "per-class:2+1:1"], 2, CONFIG)
    alone = [
        record
        for method in methods
        for record in train(graph, method, ["per-class:2+1:0", "per-class:2+1:1"], 2, CONFIG)
    ]
    assert bare(found) == bare(alone)


def test_default_splits_are_those_of_choose(graph):
    with pytest.warns(UserWarning, match="held out for validation"):
        [record] = train(graph, "gcn", config=CONFIG)
    assert record.split == splits.held_out(graph).name


def test_mini_batches_are_those_of_one_run_after_the_other(graph):
    chosen = [splits.per_class(graph, 3, 2, seed=seed) for seed in (0, 1)]
    settings = BatchSettings(4, (3, -1))
    found = train(graph, "fishergcn", chosen, [7], CONFIG, batches=settings, keep_weights=True)
    problem, basis = prepare_batches(graph, parse_method("fishergcn"), CONFIG)
    for split, record in zip(chosen, found, strict=True):
        expected = train_prepared(problem, basis, Run(split, 7), settings, torch.device("cpu"))
        assert bare([record]) == bare([expected])
        assert len(record.weights) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batches": BatchSettings(4, (3,))}, "fanout must hold 2 numbers, one for each layer, got 1"),
        ({"batches": BatchSettings(4, (3, 3)), "workers": 2}, "use torchrun for mini-batches"),
        ({"method": ["gcn", "gcn"]}, "methods must be distinct, got gcn, gcn"),
    ],
)
def test_refusals(graph, changes, message):
    arguments = {"graph": graph, "method": "gcn", "splits": "per-class:2+1:0", "config": CONFIG}
    with pytest.raises(InputError, match=message):
        train(**(arguments | changes))


def test_several_processes_need_mini_batches(graph, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="torchrun needs a batch size"):
        train(graph, "gcn", "per-class:2+1:0", config=CONFIG)
