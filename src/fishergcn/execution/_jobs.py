"""A piece of work that can be handed to any executor, and its form on disk.

A job is a chunk of runs of one problem and what is to be measured of them. Executors in other processes get the problem
as a folder of plain arrays (memory-mapped, so that workers share one copy), runs and task as JSON, and the measure by
name. Nothing is pickled.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch

from fishergcn._base.mapped import read_mapped, write_files
from fishergcn._base.reprs import one_line
from fishergcn.errors import InputError
from fishergcn.execution._training import train_job
from fishergcn.splits import Split
from fishergcn.training import Problem, Progress, Run, RunRecord, problem_arrays, problem_from_arrays


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
    >>> from fishergcn.training import parse_method, prepare
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
    """Return ``module:function``, by which another process finds a measure."""
    module, name = (getattr(measure, key, "") for key in ("__module__", "__qualname__"))
    if module == "__main__" or not name.isidentifier():
        raise InputError(f"a measure must be a function on the top level of a module, got {name or measure!r}.")
    return f"{module}:{name}"


def find_measure(name: str) -> Measure:
    """Undo :func:`measure_name`."""
    module, _, function = name.partition(":")
    return cast(Measure, getattr(importlib.import_module(module), function))


class Executor(Protocol):
    """Where jobs run: this process, several, or several machines."""

    gpu: bool
    shares_gpu: bool  # whether several jobs run on one at a time

    def chunk_size(self, problem: Problem) -> int:
        """Return how many runs of a problem make a job there."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, list[RunRecord]]]:
        """Yield jobs with records as they come, jobs in any order, the parts of one job in its measure's."""

    def close(self) -> None:
        """Stop and free what was started."""


def cut(
    problem: Problem, runs: Sequence[Run], size: int, keep: Callable[[Run], bool] | None = None, **options: Any
) -> Iterator[Job]:
    """Yield runs of a problem as jobs of at most ``size`` runs; ``options`` are those of :class:`Job`.

    The cuts do not depend on which runs are kept: taken up again, work has the same chunks, on which rounding depends.
    """
    for start in range(0, len(runs), size):
        part = tuple(run for run in runs[start : start + size] if keep is None or keep(run))
        if part:
            yield Job(problem, part, **options)


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
