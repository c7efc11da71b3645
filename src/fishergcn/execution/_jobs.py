"""A piece of work that can be handed to any executor, and its form on disk.

A job is a chunk of runs of one problem and what is to be measured of them. Executors in other processes get the problem
as a folder of plain arrays (memory-mapped, so that workers share one copy), runs and task as JSON, and the measure by
name. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from scipy import sparse

from fishergcn._base.mapped import read_mapped, write_files
from fishergcn._base.npz import pack_json, unpack_json
from fishergcn._base.reprs import one_line
from fishergcn._base.types import AnyArray
from fishergcn.errors import InputError
from fishergcn.execution._training import train_job
from fishergcn.graph import Graph
from fishergcn.operators import SparseMatrix
from fishergcn.perturbation import Neighborhood
from fishergcn.spectrum import Spectrum
from fishergcn.splits import Split
from fishergcn.training import Problem, Progress, Run, RunRecord, TrainConfig, parse_method, prepare


class Measure(Protocol):
    """What is measured of the runs of a job: a function on the top level of a module, which other processes import.

    It yields records, in one list or in several as they come; a job that is repeated yields the same lists again.

    Examples
    --------
    >>> def halves(job, device, on_epoch=None):  # trains the runs of a job in two parts
    ...     middle = len(job.runs) // 2
    ...     for runs in (job.runs[:middle], job.runs[middle:]):
    ...         yield train_chunk(job.problem, runs, device, on_epoch=on_epoch)
    """

    def __call__(
        self, job: Job, device: torch.device, on_epoch: Callable[[Progress], None] | None = None, /
    ) -> Iterator[list[RunRecord]]:
        """Yield the records of a job."""


@dataclass(frozen=True, eq=False)
class Job:
    """Runs of one problem, and what is to be measured of them.

    Attributes
    ----------
    problem, runs
        What is trained; the runs side by side, as far as the measure does so.
    keep_weights
        Whether the records shall hold the weights.
    measure
        What makes the records; training by default.
    task
        What the measure has to know besides, as plain values.

    Examples
    --------
    >>> from fishergcn import TrainConfig, datasets, splits
    >>> cora = datasets.load("cora")
    >>> runs = tuple(Run(splits.public(cora), seed) for seed in (1, 2))
    >>> len(Job(prepare(cora, parse_method("gcn"), TrainConfig()), runs).runs)
    2
    """

    problem: Problem
    runs: tuple[Run, ...]
    keep_weights: bool = False
    measure: Measure = field(default_factory=lambda: train_job)
    task: Mapping[str, Any] = field(default_factory=dict)

    __repr__ = one_line


def measure_name(measure: Measure) -> str:
    """Return ``module:function``, by which another process finds a measure.

    Examples
    --------
    >>> measure_name(train_job)
    'fishergcn.execution._training:train_job'
    """
    module, name = (getattr(measure, key, "") for key in ("__module__", "__qualname__"))
    if module == "__main__" or not name.isidentifier():
        raise InputError(f"a measure must be a function on the top level of a module, got {name or measure!r}.")
    return f"{module}:{name}"


def find_measure(name: str) -> Measure:
    """Undo :func:`measure_name`."""
    module, _, function = name.partition(":")
    return cast(Measure, getattr(importlib.import_module(module), function))


class Executor(Protocol):
    """Where jobs run: this process, several, or several machines.

    Examples
    --------
    >>> from fishergcn.execution import choose_executor
    >>> executor = choose_executor("cpu", workers=1)
    >>> list(executor.run([]))  # pairs of a job and its records, here of no jobs
    []
    >>> executor.close()
    """

    gpu: bool
    shares_gpu: bool  # whether several jobs run on one at a time

    def chunk_size(self, problem: Problem) -> int:
        """Return how many runs of a problem make a job there."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, list[RunRecord]]]:
        """Yield jobs with records as they come, jobs in any order, the parts of one job in its measure's."""

    def close(self) -> None:
        """Stop and free what was started."""


def problem_key(problem: Problem) -> str:
    """Return a name for what all runs of a problem share: graph, method and settings."""
    text = json.dumps([problem.graph.digest, problem.graph.name, problem.method.name, problem.config.to_dict()])
    drawn_from = b"" if problem.moved is None else np.ascontiguousarray(problem.moved).tobytes()
    return hashlib.sha256(text.encode() + drawn_from).hexdigest()[:32]


def problem_arrays(problem: Problem) -> dict[str, AnyArray]:
    """Return a problem as arrays by name; those of the graph and of what was made of it share its memory."""
    matrix = problem.propagation
    facts: dict[str, Any] = {"method": problem.method.name, "config": problem.config.to_dict()}
    found = {f"graph_{name}": array for name, array in problem.graph.to_arrays().items()}
    found |= {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data}
    found |= _ready_arrays(problem)
    if isinstance(problem.neighborhood, Neighborhood):
        spectrum = problem.neighborhood.spectrum
        found |= {"eigenvalues": spectrum.eigenvalues, "eigenvectors": spectrum.eigenvectors}
        facts["spectrum"] = {"trace": spectrum.trace, "residual": spectrum.residual, "solver": spectrum.solver}
    if problem.moved is not None:
        found["moved"] = problem.moved
    return found | {"facts": pack_json(facts)}


def problem_from_arrays(arrays: Mapping[str, AnyArray]) -> Problem:
    """Undo :func:`problem_arrays`, on the memory of these arrays."""
    facts = unpack_json(arrays["facts"])
    nodes = len(arrays["indptr"]) - 1
    spectrum = None
    if "spectrum" in facts:
        vectors = arrays["eigenvalues"], arrays["eigenvectors"]
        spectrum = Spectrum(eigenvalues=vectors[0], eigenvectors=vectors[1], **facts["spectrum"])
    parts = {name.removeprefix("graph_"): array for name, array in arrays.items() if name.startswith("graph_")}
    matrix = sparse.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(nodes, nodes))
    matrix.has_sorted_indices = matrix.has_canonical_format = True  # as it was
    graph = Graph.from_arrays(parts)
    single = arrays.get("single")
    return prepare(
        graph,
        parse_method(facts["method"]),
        TrainConfig.from_dict(facts["config"]),
        propagation=matrix,
        spectrum=spectrum,
        moved=arrays.get("moved"),
        operator=None if single is None else SparseMatrix.from_symmetric(matrix, single),
        scaled=_scaled(graph, arrays),
    )


def _ready_arrays(problem: Problem) -> dict[str, AnyArray]:
    """Return what each process would make for itself: X as it is scaled, and the values of Ã in float32."""
    given, found, method = problem.graph.features, dict[str, AnyArray](), problem.method
    number = np.float32 if problem.config.dtype == "float32" else np.float64
    if method.trained and given is not None:
        scaled: Any = problem.scaling.apply(given)
        values: Any = scaled.data if isinstance(scaled, sparse.csr_array) else scaled
        own: Any = given.data if isinstance(given, sparse.csr_array) else given
        values = values.astype(number)
        found["scaled"] = own if values.dtype == own.dtype and np.array_equal(values, own) else values
    if method.uses_graph and method.trained and number == np.float32:
        found["single"] = problem.propagation.data.astype(np.float32)
    return found


def _scaled(graph: Graph, arrays: Mapping[str, AnyArray]) -> Any:
    """Return X as it is scaled, on the indices of the graph."""
    given = graph.features
    if "scaled" not in arrays or not isinstance(given, sparse.csr_array):
        return arrays.get("scaled")
    found = sparse.csr_array((arrays["scaled"], given.indices, given.indptr), shape=given.shape)
    found.has_sorted_indices = found.has_canonical_format = True
    return found


def save_problem(problem: Problem, folder: Path) -> None:
    """Write a problem as plain arrays into a new folder."""
    folder.mkdir(parents=True)
    write_files(folder, problem_arrays(problem))


def load_problem(folder: Path) -> Problem:
    """Read what :func:`save_problem` wrote; the arrays stay on disk and are mapped."""
    return problem_from_arrays(read_mapped(folder))


def run_to_dict(run: Run) -> dict[str, Any]:
    """Return a run as plain values."""
    parts = {part: getattr(run.split, part).tolist() for part in ("train", "val", "test")}
    weight = {} if run.split.node_weight is None else {"node_weight": run.split.node_weight.tolist()}
    return {"split": run.split.name, "seed": run.seed, **parts, **weight}


def run_from_dict(values: Mapping[str, Any]) -> Run:
    """Undo :func:`run_to_dict`."""
    parts = {part: np.array(values[part], dtype=np.int64) for part in ("train", "val", "test")}
    return Run(Split(name=values["split"], **parts, node_weight=values.get("node_weight")), values["seed"])
