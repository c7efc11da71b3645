"""A small graph with planted classes, and networks trained on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import Graph, TrainConfig
from fishergcn.models import TrainedModel
from fishergcn.splits import Split
from fishergcn.training import Run, parse_method, prepare, train_chunk

CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def graph():
    rng = np.random.default_rng(3)
    nodes, classes = 60, 3
    labels = np.arange(nodes) % classes
    alike = labels[:, None] == labels
    links = np.triu(rng.random((nodes, nodes)) < np.where(alike, 0.15, 0.02), 1)
    links[0, 0] = True  # a link from a node to itself
    words = rng.random((nodes, 24)) < np.where(np.arange(24)[None] % classes == labels[:, None], 0.3, 0.1)
    adjacency = (links | links.T).astype(np.float64)
    return Graph(adjacency, sparse.csr_array(words.astype(np.float32)), labels, name="planted")


@pytest.fixture(scope="session")
def config():
    return TrainConfig(max_epochs=120, hidden=8, rank=4, dtype="float64")


@pytest.fixture(scope="session")
def runs(graph):
    order = [np.random.default_rng(seed).permutation(graph.num_nodes) for seed in (0, 1)]
    # Test sets of different sizes, so that lists of nodes are padded.
    return (
        Run(Split("a", order[0][:9], order[0][9:20], order[0][20:]), 2019),
        Run(Split("b", order[1][:9], order[1][9:20], order[1][20:50]), 2019),
    )


@pytest.fixture(scope="session")
def trained(graph, config, runs):
    """A function from a method's name to (problem, records, model)."""
    made = {}

    def get(name):
        if name not in made:
            problem = prepare(graph, parse_method(name), config)
            records = [record for run in runs for record in train_chunk(problem, [run], CPU, keep_weights=True)]
            made[name] = problem, records, TrainedModel.of(problem, runs, records)
        return made[name]

    return get
