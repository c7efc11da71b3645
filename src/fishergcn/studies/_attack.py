"""The measure of a study of attacks: train the runs of a method once, then change the graph in every way.

Every changed graph comes from (data set, attack, draw) alone, so that methods are compared on the same ones. The runs
of a method are attacked together: a cell that is not complete is measured again as a whole, with the same numbers.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch

from fishergcn._base.types import CSRArray
from fishergcn.attacks import (
    add_links,
    count_links,
    count_replaced,
    farthest,
    operator_of,
    prbcd_flips,
    remove_links,
    replace_entries,
    toggle_links,
    worst_in_ball,
)
from fishergcn.execution import Job, LocalExecutor, cut
from fishergcn.graph import Graph
from fishergcn.models import TrainedModel
from fishergcn.operators import Operator
from fishergcn.perturbation import Neighborhood
from fishergcn.streams import run_key
from fishergcn.training import Problem, Progress, RunRecord, prepare

ATTACK_SCORES = ("accuracy", "cross_entropy")
Scores = tuple[float, Sequence[Sequence[float]]]  # size of the change; accuracy and cross entropy of each run
Options = Mapping[str, Any]


def measure_attacks(
    job: Job, device: torch.device, on_epoch: Callable[[Progress], None] | None = None
) -> Iterator[list[RunRecord]]:
    """Yield the records of every cell of a job as it is measured.

    ``job.task`` has ``cells``, each with its ``options`` and the ``runs`` that are missing, as indices of ``job.runs``;
    and ``side_by_side``, how many runs are trained at once.
    """
    attacked = _Attacked(job, device, on_epoch)
    for cell in job.task["cells"]:
        yield from attacked.records(cell["options"], cell["runs"])


class _Attacked:
    """The trained runs of a job, and what their attacks share."""

    def __init__(self, job: Job, device: torch.device, on_epoch: Callable[[Progress], None] | None) -> None:
        self.job, self.problem, self.device, self.on_epoch = job, job.problem, device, on_epoch
        self.graph = job.problem.graph
        self.dataset = self.graph.name or self.graph.digest
        self.links = count_links(self.graph.adjacency)
        self._balls: dict[int, Neighborhood] = {}

    @cached_property
    def trained(self) -> list[RunRecord]:
        """The records of all runs, with weights."""
        return self._train(self.problem)

    def _train(self, problem: Problem) -> list[RunRecord]:
        jobs = cut(problem, self.job.runs, self.job.task["side_by_side"], keep_weights=True)
        return [record for _, part in LocalExecutor(self.device, self.on_epoch).run(jobs) for record in part]

    @cached_property
    def fine(self) -> list[int]:
        """Which runs ended well: one that diverged has nothing to be attacked."""
        return [place for place, record in enumerate(self.trained) if record.status == "ok"]

    @cached_property
    def networks(self) -> TrainedModel:
        """The networks that ended well."""
        runs = [self.job.runs[place] for place in self.fine]
        return TrainedModel.of(self.problem, runs, [self.trained[place] for place in self.fine], self.device)

    @cached_property
    def plain(self) -> Operator:
        """The propagation matrix of the graph as it is."""
        return self._operator(self.graph.adjacency)

    def _operator(self, adjacency: CSRArray) -> Operator:
        return operator_of(self.networks, adjacency)

    def records(self, options: Options, missing: Sequence[int]) -> Iterator[list[RunRecord]]:
        """Yield the records of one attack at one level; of PRBCD, which attacks one network after the other, singly."""
        attack, started = options["attack"], time.perf_counter()
        if attack == "training-links":
            yield from self._trained_on_noise(options, missing)
            return
        lost = [place for place in missing if place not in self.fine]
        if lost:
            yield [self._record(self.trained[place], options) for place in lost]
        alive = [place for place in missing if place in self.fine]
        if attack == "prbcd":
            for place in alive:
                size, scores = self._prbcd(options, place)
                seconds, started = time.perf_counter() - started, time.perf_counter()
                yield [self._record(self.trained[place], options, size, *scores[0], seconds)]
        elif alive:
            size, scores = self._ball(options) if attack == "bures-ball" else self._random(options)
            seconds = (time.perf_counter() - started) / len(self.fine)
            found = dict(zip(self.fine, scores, strict=True))
            yield [self._record(self.trained[place], options, size, *found[place], seconds) for place in alive]

    def _record(self, record: RunRecord, options: Options, size: float | None = None, *scores: float) -> RunRecord:
        """Return the record of a network as an attack left it: tested and not validated, and without its curves."""
        accuracy, entropy, seconds = scores or (record.test_accuracy, record.test_cross_entropy, record.seconds)
        measured = {f"test_{name}": value for name, value in zip(ATTACK_SCORES, (accuracy, entropy), strict=True)}
        bare: dict[str, Any] = {"curves": {}, "shape": [], "weights": None, "graph_digest": self.graph.digest}
        extra = {**options} if size is None else {**options, "size": size}
        return dataclasses.replace(record, **bare, scores=measured, seconds=seconds, extra=extra)

    def _random(self, options: Options) -> Scores:
        """Test on graphs or features with random changes; a run's scores are means over the draws."""
        attack, level = options["attack"], options["level"]
        draws = options["draws"] if level else 1
        total, size = torch.zeros(()), 0
        for draw in range(draws):
            operator, features = self.plain, None
            if attack == "features":
                given: Any = self.graph.features
                features = self.networks.prepare_features(replace_entries(given, level, self._seed("features", draw)))
                size = count_replaced(given, level)
            else:
                adjacency, size = self._changed_links(attack, level, draw)
                operator = self._operator(adjacency) if size else operator
            loss, accuracy = self.networks.test(operator, features)
            total = total + torch.stack([accuracy, loss.double()], dim=1) / draws
        return size, total.tolist()

    def _changed_links(self, attack: str, level: float, draw: int) -> tuple[CSRArray, int]:
        count = round(level * self.links)
        change = remove_links if attack == "links-removed" else add_links
        return change(self.graph.adjacency, count, self._seed(attack, draw)), count

    def _ball(self, options: Options) -> Scores:
        rank = options["rank"]
        if rank not in self._balls:
            self._balls[rank] = Neighborhood(self.problem.propagation, rank=rank)
        ball = self._balls[rank]
        bound = options.get("bound", 0) or None
        radius = options["level"] * farthest(ball, bound)
        tries = {"restarts": options["restarts"], "steps": options["steps"], "bound": bound}
        found = worst_in_ball(self.networks, ball, radius, **tries, seed=self._seed("bures-ball", 0) % 2**63)
        return radius, torch.stack([found.accuracy, found.loss.double()], dim=1).tolist()

    def _prbcd(self, options: Options, place: int) -> Scores:
        run, one = self.job.runs[place], self.networks.only(self.fine.index(place))
        flips = prbcd_flips(
            one,
            round(options["level"] * self.links),
            block_size=options["block"],
            steps=options["steps"],
            seed=run_key(self.dataset, run.split.name, run.seed) % 2**63,
        )
        loss, accuracy = one.test(self._operator(toggle_links(self.graph.adjacency, flips)))
        return flips.shape[1], [(float(accuracy[0]), float(loss[0]))]

    def _trained_on_noise(self, options: Options, missing: Sequence[int]) -> Iterator[list[RunRecord]]:
        """Train and test on a graph with random links; all runs share the graph, so methods stay paired."""
        graph, level = self.graph, options["level"]
        if level == 0:
            records, size = self.trained, 0
        else:
            adjacency, size = self._changed_links("training-links", level, 0)
            # The name stays: initial weights and dropout are those of the runs on the plain graph.
            noisy = Graph(adjacency, graph.features, graph.labels, name=graph.name, standard_split=graph.standard_split)
            records = self._train(prepare(noisy, self.problem.method, self.problem.config))
        yield [self._record(records[place], options, size) for place in missing]

    def _seed(self, attack: str, draw: int) -> int:
        """Return a seed that depends on what is drawn and on nothing else."""
        return int(run_key(self.dataset, attack, draw))
