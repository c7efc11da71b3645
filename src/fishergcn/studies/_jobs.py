"""What is missing of a plan, as jobs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np

from fishergcn import datasets, splits
from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.errors import FisherGCNError, InputError
from fishergcn.execution import Executor, Job, Listener, Measure, cut
from fishergcn.geometry.embedding import moved_graphs, spectral_embedding
from fishergcn.graph import Graph
from fishergcn.perturbation import pool_weights
from fishergcn.spectrum import Spectrum, top_spectrum
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._runs import SHOWN
from fishergcn.studies._store import RunStore
from fishergcn.training import (
    Problem,
    Run,
    RunRecord,
    check_runs,
    find_task,
    parse_method,
    prepare,
    registered_scores,
    samples_of,
    score_of,
)

Form = Literal["chunk", "run", "method"]
_POOL = 16  # moved graphs to draw from


@dataclass(eq=False)
class Jobs:
    """The jobs that are missing, made one by one as they are asked for.

    A job has, by ``form``, some runs of a cell (``"chunk"``), one of them (``"run"``), or all open cells of a method
    with all runs of the plan (``"method"``).
    """

    plan: Plan
    store: RunStore
    measure: Measure
    executor: Executor
    listener: Listener
    form: Form
    keep_weights: bool = False
    _cells: WeakKeyDictionary[Job, list[Cell]] = field(default_factory=WeakKeyDictionary, init=False)

    def __iter__(self) -> Iterator[Job]:
        groups, shared = self._groups(), dict[str, _Shared]()
        for place, cells in enumerate(groups):
            dataset = cells[0].dataset
            if dataset not in shared:
                shared[dataset] = _Shared(self.plan, self.store, dataset)
            yield from self._of(cells, shared[dataset])
            if all(each[0].dataset != dataset for each in groups[place + 1 :]):
                done = shared.pop(dataset)
                for first, *_ in groups:  # after the jobs, which need not wait for it
                    if first.dataset == dataset:
                        done.note_spectrum(first)

    def _groups(self) -> list[list[Cell]]:
        """Return the cells by data set and by what one job can have, in the order of the plan or of a shared GPU.

        Where jobs share a GPU, long ones begin first: short ones fill what they leave of it, and no long one is left
        alone at the end. Before all come jobs on the smallest graph that need no preparation, to have it work at once.
        """
        found: dict[object, list[Cell]] = {}
        for dataset in self.plan.datasets:
            for cell in self.plan.cells:
                if cell.dataset == dataset:
                    key = (cell.method, cell.variant) if self.form == "method" else cell.name
                    found.setdefault((dataset, key), []).append(cell)
        groups = list(found.values())
        if not self.executor.shares_gpu:
            return groups
        nodes = {dataset: graph_of(self.plan, dataset).num_nodes for dataset in self.plan.datasets}
        smallest = min(nodes, key=lambda dataset: nodes[dataset])

        def work(cells: Sequence[Cell]) -> tuple[bool, int, bool, int]:
            cell, method = cells[0], parse_method(cells[0].method)
            at_once = cell.dataset == smallest and not method.high_order and not method.perturbed
            return at_once, nodes[cell.dataset], method.high_order, samples_of(method, cell.config)

        return sorted(groups, key=work, reverse=True)  # of equals, the first one of the plan stays the first

    def _of(self, cells: Sequence[Cell], shared: _Shared) -> Iterator[Job]:
        every = self.plan.runs()
        missing = {cell: self._missing(cell) for cell in cells}
        if not any(missing.values()):
            return
        problem, first = shared.problem(cells[0]), cells[0]
        size = self._chunk(problem, first)
        runs = [Run(shared.splits[split], seed) for split, seed in every]
        if self.form == "method":
            open_ = [
                {"options": dict(cell.options), "runs": sorted(map(every.index, keys))}
                for cell, keys in missing.items()
                if keys
            ]
            task = {"cells": open_, "side_by_side": size}
            yield self._noted(Job(problem, tuple(runs), self.keep_weights, self.measure, task), missing)
            return
        options = {"keep_weights": self.keep_weights, "measure": self.measure, "task": {"options": dict(first.options)}}
        for job in cut(problem, runs, size, lambda run: (run.split.name, run.seed) in missing[first], **options):
            yield self._noted(job, {first: {(run.split.name, run.seed) for run in job.runs}})

    def _noted(self, job: Job, missing: Missing) -> Job:
        self._cells[job] = [cell for cell, keys in missing.items() if keys]
        for cell, keys in missing.items():
            if keys:
                self.listener.started((cell.dataset, cell.name), len(keys))
        return job

    def _missing(self, cell: Cell) -> set[tuple[str, int]]:
        return set(self.plan.runs(cell)) - self.store.finished(cell)

    def _chunk(self, problem: Problem, cell: Cell) -> int:
        """As many runs as fit, and the same number when the work is taken up again: rounding depends on it."""
        if self.form == "run":
            return 1
        size = self.executor.chunk_size(problem)
        if not self.executor.gpu:
            return size
        return int(self.store.remember(f"runs side by side on cuda, {cell.name} on {cell.dataset}", lambda: size))

    def sort(self, job: Job, records: list[RunRecord]) -> Iterator[tuple[Cell, list[RunRecord]]]:
        """Yield records of a job with their cells, which they name in ``extra`` where a job has several."""
        cells = self._cells[job]
        for cell in cells:
            runs, options = set(self.plan.runs(cell)), cell.options.items()
            mine = [each for each in records if (each.split, each.seed) in runs]
            if len(cells) > 1:
                left = set() if all(each.extra for each in mine) else self._missing(cell)
                # A job that failed names no cell: all that is missing of it has failed.
                mine = [
                    each
                    for each in mine
                    if options <= each.extra.items() or (not each.extra and (each.split, each.seed) in left)
                ]
            if mine:
                yield cell, [dataclasses.replace(each, extra={**cell.options, **each.extra}) for each in mine]


Missing = dict[Cell, set[tuple[str, int]]]


class _Shared:
    """What cells on one data set share: the graph, its splits, propagation matrices and spectra."""

    def __init__(self, plan: Plan, store: RunStore, dataset: str) -> None:
        self.plan, self.store, self.graph = plan, store, graph_of(plan, dataset)
        self.splits = splits_of(plan, dataset, self.graph)
        self._matrices: dict[object, CSRArray] = {}
        self._spectra: dict[object, Spectrum] = {}
        self._moved: dict[float, FloatArray] = {}
        self._checked = False
        sizes = ("nodes", "links", "features", "classes")  # reports have nothing but the database
        store.remember(f"data {dataset}", lambda: {name: getattr(self.graph, f"num_{name}") for name in sizes})
        store.remember(f"constant {dataset}", self._constant)

    def problem(self, cell: Cell) -> Problem:
        """Return the problem of a cell, computing only what no cell before it had."""
        method, config = parse_method(cell.method), cell.config
        matrix = method.matrix.key(config)
        spectrum = (matrix, config.rank, config.directions)
        problem = prepare(
            self.graph,
            method,
            config,
            propagation=self._matrices.get(matrix),
            spectrum=self._spectra.get(spectrum),
            moved=self._moved_graphs(config.radius) if config.perturbation == "spatial" and method.perturbed else None,
        )
        self._matrices[matrix] = problem.propagation
        if problem.neighborhood is not None and problem.neighborhood.spectrum is not None:
            self._spectra[spectrum] = problem.neighborhood.spectrum
        if not self._checked:
            check_runs(problem, [Run(split, 0) for split in self.splits.values()])
            self._checked = True
        return problem

    def _constant(self) -> dict[str, float]:
        """Return the mean test scores of the answer that is the same for all nodes, with which others are compared."""
        task = find_task(self.graph.task)
        known, parts = task.known(self.graph), [each for each in self.splits.values() if len(each.test)]
        found: dict[str, float] = {}
        for score in registered_scores(task.name) if parts else ():
            answers = [task.always_moved(score.name, known[each.train], self.graph.num_classes) for each in parts]
            values = [
                score_of(score, task.scored(np.tile(answer, (len(each.test), 1))), known[each.test], task)
                for answer, each in zip(answers, parts, strict=True)
            ]
            if np.isfinite(mean := float(np.mean(values))):
                found[score.name] = mean
        return found

    @cached_property
    def _positions(self) -> FloatArray:
        """The spectral embedding of the graph in two dimensions, which takes minutes on PubMed."""
        return spectral_embedding(self.graph.adjacency)

    def _moved_graphs(self, radius: float) -> FloatArray:
        """Return the link weights of graphs whose nodes were moved in the embedding, shape (16, m).

        A motion has the Fisher length radius · √n, so that the distribution of each node over the others moves by a
        divergence of radius²/2 in the mean.
        """
        if radius not in self._moved:
            links, distance = self.graph.adjacency, radius * math.sqrt(self.graph.num_nodes)
            self._moved[radius] = pool_weights(links, moved_graphs(links, self._positions, distance, samples=_POOL))
        return self._moved[radius]

    def note_spectrum(self, cell: Cell) -> None:
        """Note the largest eigenvalues of L = I - Ã, three times as many as any cell on this matrix perturbs."""
        plan, matrix = self.plan, self.plan.matrix(cell)

        def eigenvalues() -> list[float] | None:
            alike = [each for each in plan.cells if each.dataset == cell.dataset and plan.matrix(each) == matrix]
            rank = SHOWN * max(each.config.rank for each in alike if each.perturbs_the_top)
            try:
                return list(map(float, top_spectrum(self.problem(cell).propagation, rank=rank).eigenvalues))
            except FisherGCNError:  # a graph so small that it has fewer
                return None

        if cell.perturbs_the_top:
            self.store.remember(f"spectrum {cell.dataset} {matrix}", eigenvalues)


def graph_of(plan: Plan, dataset: str) -> Graph:
    """Return the graph of a data set, which must be the one that was planned with."""
    if dataset not in plan.graphs and dataset not in datasets.available():
        advice = "pass it to the plan: make_plan(..., datasets=[graph])"
        raise InputError(f"data set {dataset!r} is not built in; {advice}.")
    graph = plan.graphs.get(dataset) or datasets.load(dataset)
    if graph.digest != plan.digests.get(dataset):
        raise InputError(f"the graph {dataset!r} is not the one in the plan (its digest differs).")
    return graph


def splits_of(plan: Plan, dataset: str, graph: Graph) -> dict[str, splits.Split]:
    """Return the splits of a data set by name."""
    own = {split.name: split for split in plan.own_splits.get(dataset, ())}
    if f"{dataset}, splits" in plan.digests and not own:
        advice = "pass them to the plan: make_plan(..., splits=...)"
        raise InputError(f"the study uses custom splits on {dataset!r}; {advice}.")
    return {name: own.get(name) or splits.parse(graph, name) for name in plan.splits}
