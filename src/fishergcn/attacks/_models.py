"""Trained networks, side by side, and how they do on a graph that is not the one they were trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fishergcn.errors import InputError
from fishergcn.execution import Job, LocalExecutor, chunk_size
from fishergcn.nn import Features, full_view, logits, make_features
from fishergcn.operators import Operator
from fishergcn.training import Method, Problem, Run, RunRecord, Targets, check_runs, scores

__all__ = ["Stack", "train_runs"]


def train_runs(problem: Problem, runs: Sequence[Run], device: torch.device) -> list[RunRecord]:
    """Train runs of one problem and return records that hold the weights, in the same order.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> from fishergcn.training import Run
    >>> from fishergcn.training import parse_method
    >>> from fishergcn.training import prepare
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> problem = prepare(graph, parse_method("gcn"), fishergcn.TrainConfig(max_epochs=50))
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> runs = [Run(split, seed) for seed in (1, 2)]
    >>> records = train_runs(problem, runs, torch.device("cpu"))
    >>> [(record.seed, [layer.shape for layer in record.weights]) for record in records]
    [(1, [(4, 64), (64, 2)]), (2, [(4, 64), (64, 2)])]
    """
    check_runs(problem, runs)
    size = chunk_size(problem, device)
    jobs = [Job(problem, tuple(runs[start : start + size]), keep_weights=True) for start in range(0, len(runs), size)]
    executor = LocalExecutor(device)
    try:
        done = {id(job): records for job, records in executor.run(jobs)}
    finally:
        executor.close()
    return [record for job in jobs for record in done[id(job)]]


@dataclass(frozen=True)
class Stack:
    """R trained networks of one method, ready to be tested on any graph with the same nodes.

    Attributes
    ----------
    method
        What they are.
    runs
        Split and seed of each.
    weights
        W^l of each layer, shape (R, d_l, d_{l+1}).
    features
        X as they were trained with.
    targets
        The test nodes of each run.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> from fishergcn.attacks import toggle_links
    >>> from fishergcn.attacks._operators import operator_of
    >>> from fishergcn.training import Run
    >>> from fishergcn.training import parse_method
    >>> from fishergcn.training import prepare
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> problem = prepare(graph, parse_method("gcn"), fishergcn.TrainConfig(max_epochs=50))
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> runs = [Run(split, seed) for seed in (1, 2)]
    >>> cpu = torch.device("cpu")
    >>> stack = Stack.of(problem, runs, train_runs(problem, runs, cpu), cpu)
    >>> for changed in (graph.adjacency, toggle_links(graph.adjacency, np.array([[2], [3]]))):
    ...     loss, accuracy = stack.test(operator_of(changed, False, problem.config, cpu))
    ...     accuracy.tolist()  # as trained; then without the link of the test node to a node of its class
    [1.0, 1.0]
    [0.0, 0.0]
    """

    method: Method
    runs: tuple[Run, ...]
    weights: tuple[Tensor, ...]
    features: Features
    targets: Targets

    @classmethod
    def of(cls, problem: Problem, runs: Sequence[Run], records: Sequence[RunRecord], device: torch.device) -> Stack:
        """Gather what was trained; a run that diverged is an error, since it has nothing to test."""
        bad = [record for record in records if record.status != "ok" or record.weights is None]
        if bad:
            raise InputError(f"{bad[0].method} on {bad[0].dataset}, split {bad[0].split}: {bad[0].status}.")
        dtype: torch.dtype = getattr(torch, problem.config.dtype)
        graph = problem.graph
        layers = zip(*(record.weights or () for record in records), strict=True)
        weights = tuple(torch.as_tensor(np.stack(layer), dtype=dtype, device=device) for layer in layers)
        features = make_features(
            graph.features, normalize=problem.config.normalize_features, device=device, dtype=dtype
        )
        if graph.labels is None:
            raise InputError("the graph has no labels to test with.")
        # The view only says where nodes stand in the output: here all stand in order.
        targets = Targets.of([run.split.test for run in runs], graph.labels, _everything(features), device, dtype)
        return cls(problem.method, tuple(runs), weights, features, targets)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the networks."""
        return self.weights[0].dtype

    @property
    def device(self) -> torch.device:
        """Where the networks run."""
        return self.weights[0].device

    @torch.no_grad()
    def test(self, operator: Operator, features: Features | None = None) -> tuple[Tensor, Tensor]:
        """Return cross entropy and accuracy of each run on its test nodes, on another graph or other features."""
        view = full_view(self.features if features is None else features, operator, len(self.weights))
        return scores(logits(self.weights, view), self.targets)

    def only(self, run: int) -> Stack:
        """Return one of the networks as a stack of its own."""
        row = torch.tensor([run], device=self.device)
        weights = tuple(each[run : run + 1] for each in self.weights)
        return Stack(self.method, (self.runs[run],), weights, self.features, self.targets.keep(row))


def _everything(features: Features) -> Any:
    return full_view(features, None, 1)  # type: ignore[arg-type]
