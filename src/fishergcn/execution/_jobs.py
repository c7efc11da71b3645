"""A piece of work that can be handed to any executor, and its form on disk.

A job is a chunk of runs of one problem. Executors in other processes get the problem as a folder of plain arrays
(memory-mapped, so that workers share one copy) and the runs as JSON. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from fishergcn._base.files import write_text
from fishergcn.graph import Graph
from fishergcn.spectrum import Spectrum
from fishergcn.splits import Split
from fishergcn.training import Problem, Run, RunRecord, TrainConfig, parse_method, prepare

__all__ = ["Executor", "Job", "load_problem", "problem_key", "run_from_dict", "run_to_dict", "save_problem"]


@dataclass(frozen=True)
class Job:
    """Runs of one problem that are trained side by side."""

    problem: Problem
    runs: tuple[Run, ...]
    keep_weights: bool = False


class Executor(Protocol):
    """Where jobs run: this process, several, or several machines."""

    gpu: bool

    def chunk_size(self, problem: Problem) -> int:
        """Return how many runs of a problem make a job there."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, list[RunRecord]]]:
        """Yield each job with its records as it finishes, in any order."""

    def close(self) -> None:
        """Stop and free what was started."""


def problem_key(problem: Problem) -> str:
    """Return a name for what all runs of a problem share: graph, method and settings."""
    text = json.dumps([problem.graph.digest, problem.graph.name, problem.method.name, problem.config.to_dict()])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def save_problem(problem: Problem, folder: Path) -> None:
    """Write a problem as plain arrays into a new folder."""
    folder.mkdir(parents=True)
    problem.graph.save(folder / "graph.npz")
    matrix = problem.propagation
    for name, array in (("indptr", matrix.indptr), ("indices", matrix.indices), ("data", matrix.data)):
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    facts: dict[str, Any] = {"method": problem.method.name, "config": problem.config.to_dict()}
    if problem.neighborhood is not None:
        spectrum = problem.neighborhood.spectrum
        np.save(folder / "eigenvalues.npy", spectrum.eigenvalues, allow_pickle=False)
        np.save(folder / "eigenvectors.npy", spectrum.eigenvectors, allow_pickle=False)
        facts["spectrum"] = {"trace": spectrum.trace, "residual": spectrum.residual, "solver": spectrum.solver}
    write_text(folder / "problem.json", json.dumps(facts))


def load_problem(folder: Path) -> Problem:
    """Read what :func:`save_problem` wrote; the arrays stay on disk and are mapped."""
    facts = json.loads((folder / "problem.json").read_text(encoding="utf-8"))
    indptr, indices, data = (_mapped(folder / f"{name}.npy") for name in ("indptr", "indices", "data"))
    nodes = len(indptr) - 1
    spectrum = None
    if "spectrum" in facts:
        spectrum = Spectrum(
            eigenvalues=np.array(_mapped(folder / "eigenvalues.npy")),
            eigenvectors=np.array(_mapped(folder / "eigenvectors.npy")),
            **facts["spectrum"],
        )
    return prepare(
        Graph.load(folder / "graph.npz"),
        parse_method(facts["method"]),
        TrainConfig.from_dict(facts["config"]),
        propagation=sparse.csr_array((data, indices, indptr), shape=(nodes, nodes)),
        spectrum=spectrum,
    )


def _mapped(path: Path) -> Any:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def run_to_dict(run: Run) -> dict[str, Any]:
    """Return a run as plain values."""
    parts = {part: getattr(run.split, part).tolist() for part in ("train", "val", "test")}
    return {"split": run.split.name, "seed": run.seed, **parts}


def run_from_dict(values: Mapping[str, Any]) -> Run:
    """Undo :func:`run_to_dict`."""
    parts = {part: np.array(values[part], dtype=np.int64) for part in ("train", "val", "test")}
    return Run(Split(name=values["split"], **parts), values["seed"])
