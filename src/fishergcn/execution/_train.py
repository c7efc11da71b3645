"""``train``: many runs of one method on one graph."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from fishergcn._base.checks import check_integer
from fishergcn.errors import InputError
from fishergcn.execution._arguments import as_splits, check_config, check_graph
from fishergcn.execution._executors import LocalExecutor, ProcessExecutor
from fishergcn.execution._jobs import Executor, Job
from fishergcn.execution._progress import make_display
from fishergcn.graph import Graph
from fishergcn.splits import Split
from fishergcn.training import FIRST_SEED, Problem, Run, RunRecord, TrainConfig, check_runs, parse_method, prepare

__all__ = ["chunk_size", "find_device", "train"]


def train(
    graph: Graph,
    method: str,
    splits: Split | str | Iterable[Split | str],
    seeds: int | Iterable[int] = (FIRST_SEED,),
    config: TrainConfig | None = None,
    device: str = "cpu",
    workers: int = 1,
    progress: bool = False,
    *,
    keep_weights: bool = False,
) -> list[RunRecord]:
    """Train a method on every combination of splits and seeds.

    Parameters
    ----------
    graph
        A graph with features and labels.
    method
        ``gcn``, ``gcn-x5``, ``fishergcn``, ``gcn-t``, ``gcn-t-x5`` or ``fishergcn-t``; with suffix ``-c`` the
        predictions of the samples are drawn together on all nodes.
    splits
        Which nodes to learn from, to stop by and to test on: one split or several, or names as
        :func:`fishergcn.splits.parse` reads them (``"public"``, ``"shuffled:2019"``, …). Without test nodes the
        test scores are NaN.
    seeds
        The seeds of initialization, dropout and perturbation; a number n means 2019, …, 2018 + n.
    config
        All settings; the paper's by default.
    device
        ``"cpu"``, ``"cuda"`` or ``"auto"``. On a GPU, runs are trained side by side.
    workers
        Processes on the CPU, one thread each.
    progress
        Show runs, epochs and accuracy so far on standard error: a bar on a terminal, plain lines elsewhere.
    keep_weights
        Attach the tested weights to the records.

    Returns
    -------
    list of RunRecord
        In the order of splits, then seeds.

    Notes
    -----
    A run's random numbers come from (data set, split, seed) alone. Its result does not depend on which other runs are
    trained, on ``workers`` or on the order, up to floating-point rounding; for the same chunks on the same
    device it is the same bit for bit.

    Examples
    --------
    >>> import fishergcn
    >>> graph = fishergcn.datasets.load("cora")
    >>> config = fishergcn.TrainConfig(max_epochs=3)
    >>> [record] = fishergcn.train(graph, "fishergcn", "public", config=config)
    >>> record.epochs, record.status
    (3, 'ok')
    """
    graph = check_graph(graph)
    config = TrainConfig() if config is None else check_config(config)
    chosen = as_splits(graph, splits)
    numbers = _seeds(seeds)
    workers = check_integer("workers", workers, minimum=1)
    place = find_device(device)
    problem = prepare(graph, parse_method(method), config)
    runs = [Run(split, seed) for split in chosen for seed in numbers]
    check_runs(problem, runs)
    size = chunk_size(problem, place)
    jobs = [Job(problem, tuple(runs[start : start + size]), keep_weights) for start in range(0, len(runs), size)]
    with make_display(method, len(runs), shown=progress) as display:
        executor: Executor = (
            ProcessExecutor(min(workers, len(jobs)))
            if place.type == "cpu" and workers > 1
            else LocalExecutor(place, display.epoch if progress else None)
        )
        try:
            found: dict[int, list[RunRecord]] = {}
            position = {id(job): index for index, job in enumerate(jobs)}
            for job, records in executor.run(jobs):
                found[position[id(job)]] = records
                display.finished(records)
        finally:
            executor.close()
    return [record for index in range(len(jobs)) for record in found[index]]


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    if not isinstance(seeds, Iterable):
        return list(range(FIRST_SEED, FIRST_SEED + check_integer("seeds", seeds, minimum=1)))
    numbers = [check_integer("seeds", seed, minimum=0) for seed in seeds]
    if not numbers or len(set(numbers)) != len(numbers):
        raise InputError(f"seeds must be distinct numbers, at least one, got {numbers}.")
    return numbers


def find_device(device: str) -> torch.device:
    """Return the torch device of a name; ``"auto"`` is a GPU if there is one.

    Examples
    --------
    >>> find_device("cpu")
    device(type='cpu')
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device must be 'cpu', 'cuda', 'cuda:N' or 'auto', got {device!r}.") from error
    if found.type not in ("cpu", "cuda"):
        raise InputError(f"device must be 'cpu', 'cuda', 'cuda:N' or 'auto', got {device!r}.")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {device!r} is not there: torch sees {torch.cuda.device_count()} CUDA devices.")
    return found


def chunk_size(problem: Problem, device: torch.device) -> int:
    """Return how many runs are trained side by side: one on the CPU, as many as fit in memory on a GPU."""
    if device.type == "cpu":
        return 1
    free, _ = torch.cuda.mem_get_info(device)
    config, graph = problem.config, problem.graph
    bytes_each = 4 if config.dtype == "float32" else 8
    widths = sum(config.hidden) + graph.num_classes
    parameters = (graph.num_features + widths) * max(config.hidden, default=1)
    # About ten arrays of activations are alive in a step; weights, gradients, moments and copies make six.
    each = bytes_each * (10 * graph.num_nodes * widths * problem.samples + 6 * parameters)
    return int(np.clip(0.6 * free / each, 1, 1024))
