"""``train``: many runs of one method, or of several, on one graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from scipy import sparse

from fishergcn._base.process import end_with_launcher
from fishergcn._base.temporary import temporary_folder
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, MatrixLike
from fishergcn._settings.choices import Settings
from fishergcn._settings.seeds import FIRST_SEED, check_seeds
from fishergcn.errors import InputError
from fishergcn.execution._arguments import check_graph, chosen_config
from fishergcn.execution._choice import choose_executor
from fishergcn.execution._cost import ERROR, Part, cost_of, explain_out_of_memory
from fishergcn.execution._devices import find_device
from fishergcn.execution._jobs import Executor, Job, cut
from fishergcn.execution._progress import Display, Listener
from fishergcn.execution._sharing import forget_shared, shared_arrays
from fishergcn.graph import Graph
from fishergcn.perturbation import pool_weights
from fishergcn.splits import Split, choose
from fishergcn.training import (
    BatchSettings,
    Method,
    Problem,
    Run,
    RunRecord,
    TrainConfig,
    check_fanout,
    check_runs,
    learnable,
    parse_method,
    prepare,
    prepare_batches,
    process_count,
    process_group,
    train_prepared,
)

Splits = Split | int | str | Iterable[Split | int | str] | None


def train(
    graph: Graph,
    method: str | Iterable[str],
    splits: Splits = None,
    seeds: int | Iterable[int] = (FIRST_SEED,),
    config: TrainConfig | None = None,
    device: str = "auto",
    workers: int | None = 1,
    progress: bool | Listener = False,
    *,
    settings: Settings | Mapping[str, Any] | None = None,
    keep_weights: bool = False,
    batches: BatchSettings | None = None,
    moved: Sequence[MatrixLike] | None = None,
) -> list[RunRecord]:
    """Train a method, or several, on every combination of splits and seeds.

    Parameters
    ----------
    graph
        A graph with labels; without features it gets the identity matrix and a warning, unless no method reads any.
    method
        One of :data:`METHODS`, any other name that :func:`fishergcn.training.parse_method` reads, or several.
    splits
        Splits, their names (``"public"``, ``"shuffled:2019"``, …), or a number of them, as
        :func:`fishergcn.splits.choose` reads them; by default the public split, or one with held-out validation nodes.
    seeds
        The seeds of initialization, dropout and perturbation; a number n means 2019, …, 2018 + n.
    config
        All settings.
    device
        ``"cpu"``, ``"cuda"``, ``"cuda:N"``, or ``"auto"`` for a GPU if there is one, on which runs go side by side.
    workers
        Processes on the CPU, one thread each; None for one on each core.
    progress
        Show runs, epochs and accuracy so far on standard error, or tell them to a listener.
    settings
        Instead of a configuration, what :meth:`fishergcn.TrainConfig.named` takes: a name, ``"general"`` by default,
        or a mapping of those that differ from the general ones.
    keep_weights
        Attach the tested weights to the records.
    batches
        Train in mini-batches; under ``torchrun`` all processes share each batch, and all return the same records.
    moved
        The graphs that ``perturbation="spatial"`` draws from: see :func:`fishergcn.geometry.embedding.moved_graphs`.

    Returns
    -------
    list of RunRecord
        By method, then split, then seed. A run does not depend on the others or on ``workers``, up to rounding.

    Examples
    --------
    >>> import fishergcn
    >>> graph, config = fishergcn.datasets.load("cora"), fishergcn.TrainConfig(max_epochs=3)
    >>> [record] = fishergcn.train(graph, "fishergcn", "public", config=config)
    >>> record.epochs, record.status
    (3, 'ok')
    """
    graph = check_graph(graph)
    config = chosen_config(config, settings)
    methods, numbers, place = _parsed(method), check_seeds(seeds), find_device(device)
    _check_batches(batches, methods, config, workers)
    graph = learnable(graph, methods)
    weights = None if moved is None else pool_weights(graph.adjacency, moved)
    runs = [Run(split, seed) for split in choose(graph, splits) for seed in numbers]
    _refuse_what_cannot_fit(graph, methods, runs, config, place, workers, batches)
    listener = progress if isinstance(progress, Listener) else Display() if progress else Listener()
    if batches is not None:
        return _in_batches(graph, methods, runs, config, batches, place, listener, keep_weights)
    executor = choose_executor(device, workers, most=max(len(runs), 1), on_epoch=listener.epoch)
    problems = (_prepared(graph, each, config, place, weights) for each in methods)
    with contextlib.closing(executor), listener:
        _begin(listener, graph, methods, runs)
        return _records(methods, problems, runs, executor, listener, keep_weights)


def _prepared(
    graph: Graph, method: Method, config: TrainConfig, device: torch.device, moved: FloatArray | None
) -> Problem:
    with explain_out_of_memory(graph, method, config, device):
        return prepare(graph, method, config, moved=moved)


def _records(
    methods: Sequence[Method],
    problems: Iterable[Problem],
    runs: Sequence[Run],
    executor: Executor,
    listener: Listener,
    keep_weights: bool,
) -> list[RunRecord]:
    """Return the records of all runs in their order; one call serves all methods, so processes start once."""
    found: dict[tuple[str, str, int], RunRecord] = {}

    def jobs() -> Iterator[Job]:
        for problem in problems:
            check_runs(problem, runs)
            for job in cut(problem, runs, executor.chunk_size(problem), keep_weights=keep_weights):
                listener.started(_name(problem.graph, problem.method), len(job.runs))
                yield job

    for job, done in executor.run(jobs()):
        found |= {(record.method, record.split, record.seed): record for record in done}
        listener.finished(_name(job.problem.graph, job.problem.method), done)
    return [found[each.name, run.split.name, run.seed] for each in methods for run in runs]


def _parsed(method: str | Iterable[str]) -> list[Method]:
    names = [method] if isinstance(method, str) or not isinstance(method, Iterable) else list(method)
    methods = [parse_method(name) for name in names]
    if len({each.name for each in methods}) != len(methods):
        raise InputError(f"methods must be distinct, got {', '.join(names)}.")
    return methods


def _check_batches(
    batches: BatchSettings | None, methods: Sequence[Method], config: TrainConfig, workers: int | None
) -> None:
    if batches is not None:
        for each in methods:
            check_fanout(batches.fanout, each.network.depth(config) if each.trained else None)
        if workers != 1:
            raise InputError("workers is for full-batch training; use torchrun for mini-batches.")
    elif process_count() > 1:
        raise InputError("torchrun needs a batch size: its processes share mini-batches.")


def _in_batches(
    graph: Graph,
    methods: Sequence[Method],
    runs: Sequence[Run],
    config: TrainConfig,
    settings: BatchSettings,
    device: torch.device,
    listener: Listener,
    keep_weights: bool,
) -> list[RunRecord]:
    """Train all runs one after the other, in this process or in those that ``torchrun`` started."""
    found: list[RunRecord] = []
    end_with_launcher()
    with process_group(device) as (group, place), listener if group.first else Listener() as audience:
        if group.size > 1 and place.type == "cpu":
            torch.set_num_threads(1)  # the processes are the threads
        group.agree(None)  # all are here, and have mapped the graph
        forget_shared()
        _begin(audience, graph, methods, runs)
        for method in methods:
            with explain_out_of_memory(graph, method, config, place, settings):
                matrix = _shared(graph, method, config)
                problem, basis = prepare_batches(graph, method, config, propagation=matrix, group=group)
                group.agree(None)
                forget_shared()
            for run in runs:
                audience.started(_name(graph, method), 1)
                with explain_out_of_memory(graph, method, config, place, settings):
                    record = train_prepared(
                        problem, basis, run, settings, place, group, keep_weights=keep_weights, on_epoch=audience.epoch
                    )
                found.append(record)
                audience.finished(_name(graph, method), [record])
    return found


def _shared(graph: Graph, method: Method, config: TrainConfig) -> CSRArray | None:
    """Return Ã in files that are mapped, if it is shared with other processes or the graph is mapped too; else None."""
    matrix = method.matrix
    if (process_count() == 1 and not graph.mapped) or not method.trained or not matrix.linked:
        return None
    # The files have no name any more once they are mapped, and no trace of them is left when this process ends.
    with temporary_folder() as place:

        def make() -> dict[str, AnyArray]:
            into = matrix.into if graph.mapped else None
            made = matrix.of(graph, config) if into is None else into(graph.adjacency, place)
            return {"data": made.data, "indices": made.indices, "indptr": made.indptr}

        key = "-".join(map(str, (*matrix.key(config), graph.digest[:16])))
        found = shared_arrays(key, make)
    shared = sparse.csr_array((found["data"], found["indices"], found["indptr"]), shape=(graph.num_nodes,) * 2)
    shared.has_sorted_indices = shared.has_canonical_format = True
    return shared


def _refuse_what_cannot_fit(
    graph: Graph,
    methods: Sequence[Method],
    runs: Sequence[Run],
    config: TrainConfig,
    device: torch.device,
    workers: int | None,
    batches: BatchSettings | None,
) -> None:
    """Raise before the work begins if it needs more memory than there is, by more than the prediction may err."""
    splits = list({id(run.split): run.split for run in runs}.values())
    if splits:
        parts = [Part.of(graph, each, config, splits, len(runs)) for each in methods]
        cost_of(parts, str(device), workers, batches=batches, timed=False).check(ERROR)


def _begin(listener: Listener, graph: Graph, methods: Sequence[Method], runs: Sequence[Run]) -> None:
    listener.begin(", ".join(each.name for each in methods), {_name(graph, each): len(runs) for each in methods})


def _name(graph: Graph, method: Method) -> tuple[str, str]:
    return graph.name or "the graph", method.name
