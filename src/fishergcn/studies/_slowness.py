"""How long an epoch of a candidate takes here: what a usual machine takes, times how slow this one is on this graph."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from fishergcn.execution import find_device
from fishergcn.graph import Graph
from fishergcn.splits import Split
from fishergcn.training import Pace, Run, Sizes, TrainConfig, parse_method, prepare, train_chunk

_TIMED = 9  # epochs


def measured_slowness(graph: Graph, split: Split, config: TrainConfig, device: str) -> float:
    """Measure a few epochs of the plain network; return how many times longer they take than on a usual machine."""
    place, method = find_device(device), parse_method("gcn")
    problem = prepare(graph, method, dataclasses.replace(config, stopping="none", max_epochs=_TIMED))
    ends: list[float] = []
    train_chunk(problem, [Run(split, 0)], place, on_epoch=lambda _: ends.append(time.perf_counter()))
    # The least time: the first epochs compile kernels, and others may have waited for other programs.
    usual = Pace.usual(place).epoch(Sizes.of(graph, method, config, [split]), method, config)
    return float(np.diff(ends).min()) / usual
