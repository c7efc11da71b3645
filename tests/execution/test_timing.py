"""A few real epochs are timed, after one that is not; by a clock of the test, for tests measure no time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fishergcn import Graph, TrainConfig
from fishergcn.execution import time_epochs
from fishergcn.splits import Split
from fishergcn.training import BatchSettings, Run, parse_method, prepare, prepare_batches

CPU = torch.device("cpu")
SPLIT = Split("mine", train=[0, 1, 2, 3], val=[4, 5], test=[6, 7])


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    links = [(node, (node + 1) % 8) for node in range(8)]
    return Graph.from_edges(links, features=rng.random((8, 3)), labels=[0, 1] * 4, name="ring")


class Clock:
    """Says times that were written down before; the last step goes on for ever."""

    def __init__(self, *steps: float) -> None:
        self.steps, self.now, self.asked = list(steps), 0.0, -1

    def __call__(self) -> float:
        self.asked += 1
        if self.asked:
            self.now += self.steps[min(self.asked, len(self.steps)) - 1]
        return self.now


def timed(graph, clock, method="gcn", limit=1.0, **settings):
    problem = prepare(graph, parse_method(method), TrainConfig(rank=2, **settings))
    return time_epochs(problem, [Run(SPLIT, 1)], CPU, limit=limit, clock=clock)


def test_the_first_epoch_is_not_timed(graph):
    assert timed(graph, Clock(100.0, 0.25)) == (0.25, 4)


def test_it_ends_when_the_time_is_over(graph):
    assert timed(graph, Clock(0.0, 3.0)) == (3.0, 1)
    assert timed(graph, Clock(0.0, 0.25), limit=0.5) == (0.25, 2)
    assert timed(graph, Clock(0.0, 1e-3))[1] == 20


def test_an_epoch_that_waited_for_others_does_not_count_much(graph):
    seconds, epochs = timed(graph, Clock(0.0, 0.125, 0.125, 0.625, 0.125))
    assert (seconds, epochs) == (0.125, 4)


@pytest.mark.parametrize("settings", [{"max_epochs": 1}, {"stopping": "patience", "patience": 1}])
def test_neither_the_last_epoch_nor_a_stopping_rule_ends_it(graph, settings):
    assert timed(graph, Clock(0.0, 0.25), **settings) == (0.25, 4)


@pytest.mark.filterwarnings("ignore")
def test_runs_that_diverge_at_once_are_timed_too(graph):
    huge = graph.replace(features=np.full((8, 3), 1e38))
    seconds, epochs = timed(huge, Clock(0.5, 0.25), scaling="none", learning_rate=1e30, dtype="float32")
    assert epochs >= 1
    assert math.isfinite(seconds)


def test_a_method_without_epochs(graph):
    assert timed(graph, Clock(0.125), method="lp") == (0.125, 0)


def test_mini_batches(graph):
    problem, basis = prepare_batches(graph, parse_method("fishergcn"), TrainConfig(rank=2))
    found = time_epochs(
        problem, [Run(SPLIT, 1)], CPU, batches=BatchSettings(2, (2, 2)), basis=basis, clock=Clock(9.0, 0.25)
    )
    assert found == (0.25, 4)
