"""A study: train every method, change the graph in every way, measure, write down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.provenance import device_name, versions
from fishergcn._base.types import CSRArray
from fishergcn.attacks import (
    Stack,
    add_links,
    count_links,
    count_replaced,
    farthest,
    operator_of,
    prbcd_flips,
    remove_links,
    replace_entries,
    toggle_links,
    train_runs,
    worst_in_ball,
)
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.nn import Features, make_features
from fishergcn.operators import Operator
from fishergcn.perturbation import Neighborhood
from fishergcn.spectrum import Spectrum, top_spectrum
from fishergcn.streams import run_key
from fishergcn.studies._lock import folder_lock
from fishergcn.studies._robustness_feasible import check_study
from fishergcn.studies._robustness_points import Point, PointFile
from fishergcn.studies._robustness_settings import Settings
from fishergcn.training import Method, Problem, Run, parse_method, prepare, propagation_of

__all__ = ["run_study"]

Say = Callable[[str], None]


def run_study(settings: Settings, graph: Graph, folder: Path, device: torch.device, say: Say = print) -> None:
    """Measure what is not yet measured of methods that share a propagation matrix, on one data set.

    Parameters
    ----------
    settings
        What to measure; one of :meth:`Settings.families`.
    graph
        With features, labels and a name.
    folder
        For ``study.json`` and ``points.jsonl``. Points that are there already are not measured again; networks are
        trained again where points are missing.
    device
        Where networks are trained and attacked.
    say
        Gets lines about the progress.

    Examples
    --------
    >>> import tempfile, numpy as np, torch, fishergcn
    >>> from fishergcn.studies import load_settings
    >>> from fishergcn.studies import read_points
    >>> links = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]
    >>> ring = fishergcn.Graph.from_edges(links, features=np.eye(6), labels=[0, 0, 0, 1, 1, 1], name="ring")
    >>> small = {"methods": ("gcn",), "splits": "per-class:1+1:2019", "levels": {"links-added": (0.5,)}}
    >>> settings = load_settings("quick", **small, config=fishergcn.TrainConfig(max_epochs=5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run_study(settings, ring, Path(folder), torch.device("cpu"), say=lambda line: None)
    ...     points = list(read_points(Path(folder) / "points.jsonl"))
    >>> [(point.method, point.attack, point.level, point.size) for point in points]
    [('gcn', 'links-added', 0.0, 0.0), ('gcn', 'links-added', 0.5, 3.0)]
    """
    if len(list(settings.families())) != 1:
        raise InputError("the methods of a study must share a propagation matrix: all with -t, or none.")
    runs = check_study(settings, graph)
    described = settings.to_dict() | {"datasets": [graph.name], "graph_digest": graph.digest, "device": device.type}
    file = PointFile(folder, described, {"device": device_name(device), "versions": versions()})
    with folder_lock(folder):
        _Study(settings, graph, runs, device, file, say).run()


@dataclass
class _Family:
    """Trained methods and the propagation matrix that they share."""

    high: bool
    propagation: CSRArray
    stacks: list[Stack]
    ball: Neighborhood | None = None
    plain: Operator | None = None


class _Study:
    def __init__(
        self, settings: Settings, graph: Graph, runs: tuple[Run, ...], device: torch.device, file: PointFile, say: Say
    ) -> None:
        self.settings, self.graph, self.runs = settings, graph, runs
        self.device, self.file, self._say = device, file, say
        self.dataset = graph.name or graph.digest
        self.links = count_links(graph.adjacency)
        self.started = time.monotonic()

    def say(self, text: str) -> None:
        self._say(f"{self.dataset} [{time.monotonic() - self.started:.0f} s] {text}")

    def run(self) -> None:
        methods = [parse_method(name) for name in self.settings.methods]
        missing = [method for method in methods if self._missing(method)]
        if missing:
            family = self._trained(missing)
            for attack in (*_LINKS, "features", "bures-ball", "prbcd"):
                for level in self._levels(attack):
                    self._measure(family, attack, level)
        for level in self._levels("training-links"):
            self._train_under_noise(methods, level)
        self.say(f"done, {len(self.file.done)} points.")

    def _levels(self, attack: str) -> tuple[float, ...]:
        return (0.0, *self.settings.levels[attack]) if attack in self.settings.levels else ()

    def _attacked(self, attack: str) -> tuple[Run, ...]:
        return self.runs[: self.settings.prbcd_runs] if attack == "prbcd" else self.runs

    def _is_done(self, method: str, attack: str, level: float, run: Run) -> bool:
        return (self.dataset, method, attack, level, run.split.name, run.seed) in self.file.done

    def _open(self, method: str, attack: str, level: float) -> bool:
        return not all(self._is_done(method, attack, level, run) for run in self._attacked(attack))

    def _missing(self, method: Method) -> bool:
        """Whether networks trained on the graph itself are needed."""
        cells = [(attack, level) for attack in self.settings.levels for level in self._levels(attack)]
        needed = [cell for cell in cells if cell[0] != "training-links" or cell[1] == 0]
        return any(self._open(method.name, *cell) for cell in needed)

    def _trained(self, methods: Sequence[Method]) -> _Family:
        problems = list(self._problems(self.graph, methods))
        stacks = []
        for problem in problems:
            records = train_runs(problem, self.runs, self.device)
            stacks.append(Stack.of(problem, self.runs, records, self.device))
            accuracy = np.mean([record.test_accuracy for record in records])
            self.say(f"{problem.method.name}: {len(records)} runs trained, mean test accuracy {accuracy:.2%}")
            if self._levels("training-links") and self._open(problem.method.name, "training-links", 0.0):
                measured = [(record.test_accuracy, record.test_cross_entropy) for record in records]
                self._append(problem.method.name, "training-links", 0.0, 0.0, self.runs, measured)
        return _Family(methods[0].high_order, problems[0].propagation, stacks)

    def _problems(self, graph: Graph, methods: Sequence[Method]) -> Iterator[Problem]:
        """Prepare methods that share a propagation matrix, which is computed once, as is its spectrum."""
        config = self.settings.config
        propagation = propagation_of(graph, methods[0], config)
        spectrum: Spectrum | None = None
        for method in methods:
            if method.perturbed and spectrum is None and config.directions == "high":
                spectrum = top_spectrum(propagation, rank=config.rank)
            given = spectrum if method.perturbed else None
            yield prepare(graph, method, config, propagation=propagation, spectrum=given)

    def _measure(self, family: _Family, attack: str, level: float) -> None:
        stacks = [stack for stack in family.stacks if self._open(stack.method.name, attack, level)]
        if not stacks:
            return
        if attack == "bures-ball":
            self._ball(family, stacks, level)
        elif attack == "prbcd":
            self._prbcd(stacks, level)
        else:
            self._random(family, stacks, attack, level)

    def _random(self, family: _Family, stacks: Sequence[Stack], attack: str, level: float) -> None:
        """Test on graphs or features with random changes; a run's scores are means over the draws."""
        if family.plain is None:
            family.plain = operator_of(self.graph.adjacency, family.high, self.settings.config, self.device)
        total: dict[str, Tensor] = {}
        draws = self.settings.draws if level else 1
        size = 0
        for draw in range(draws):
            operator, features = family.plain, None
            if attack == "features":
                features, size = self._noisy_features(level, draw)
            else:
                adjacency, size = self._changed_links(attack, level, draw)
                if size:
                    operator = operator_of(adjacency, family.high, self.settings.config, self.device)
            for stack in stacks:
                loss, accuracy = stack.test(operator, features)
                found = torch.stack([accuracy, loss.double()], dim=1) / draws
                total[stack.method.name] = total.get(stack.method.name, torch.zeros_like(found)) + found
        for name, measured in total.items():
            self._append(name, attack, level, size, self.runs, measured.tolist())

    def _changed_links(self, attack: str, level: float, draw: int) -> tuple[CSRArray, int]:
        count = round(level * self.links)
        change = add_links if attack in ("links-added", "training-links") else remove_links
        return change(self.graph.adjacency, count, self._seed(attack, draw)), count

    def _noisy_features(self, level: float, draw: int) -> tuple[Features, int]:
        noisy = replace_entries(self.graph.features, level, self._seed("features", draw))
        config = self.settings.config
        made = make_features(
            noisy, normalize=config.normalize_features, device=self.device, dtype=getattr(torch, config.dtype)
        )
        return made, count_replaced(self.graph.features, level)

    def _ball(self, family: _Family, stacks: Sequence[Stack], level: float) -> None:
        settings = self.settings
        if family.ball is None:
            family.ball = Neighborhood(family.propagation, rank=settings.ball_rank)
        radius = level * farthest(family.ball)
        for stack in stacks:
            found = worst_in_ball(
                stack,
                family.ball,
                radius,
                restarts=settings.ball_restarts,
                steps=settings.ball_steps,
                seed=self._seed("bures-ball", 0) % 2**63,
            )
            measured = torch.stack([found.accuracy, found.loss.double()], dim=1).tolist()
            self._append(stack.method.name, "bures-ball", level, radius, self.runs, measured)

    def _prbcd(self, stacks: Sequence[Stack], level: float) -> None:
        """Attack one network after the other; each is written down when it is measured."""
        settings, budget = self.settings, round(level * self.links)
        for stack in stacks:
            name = stack.method.name
            for index, run in enumerate(self._attacked("prbcd")):
                if self._is_done(name, "prbcd", level, run):
                    continue
                one = stack.only(index)
                flips = prbcd_flips(
                    one,
                    self.graph.adjacency,
                    budget,
                    order=settings.config.order,
                    block_size=settings.prbcd_block,
                    steps=settings.prbcd_steps,
                    seed=run_key(self.dataset, run.split.name, run.seed) % 2**63,
                )
                operator = self._attacked_operator(flips, stack.method.high_order)
                loss, accuracy = one.test(operator)
                self._append(name, "prbcd", level, flips.shape[1], [run], [(float(accuracy[0]), float(loss[0]))])

    def _attacked_operator(self, flips: np.ndarray[tuple[int, int], np.dtype[np.int64]], high: bool) -> Operator:
        return operator_of(toggle_links(self.graph.adjacency, flips), high, self.settings.config, self.device)

    def _train_under_noise(self, methods: Sequence[Method], level: float) -> None:
        """Train and test on a graph with random links; all runs share the graph, so methods stay paired."""
        chosen = [method for method in methods if self._open(method.name, "training-links", level)]
        if not chosen:
            return
        adjacency, count = self._changed_links("training-links", level, 0)
        graph = self.graph
        # The name stays: initial weights and dropout are those of the runs on the plain graph.
        noisy = Graph(adjacency, graph.features, graph.labels, name=graph.name, standard_split=graph.standard_split)
        for problem in self._problems(noisy, chosen):
            records = train_runs(problem, self.runs, self.device)
            measured = [(record.test_accuracy, record.test_cross_entropy) for record in records]
            self._append(problem.method.name, "training-links", level, count, self.runs, measured)

    def _append(
        self,
        method: str,
        attack: str,
        level: float,
        size: float,
        runs: Sequence[Run],
        measured: Iterable[Sequence[float]],
    ) -> None:
        points = [
            Point(self.dataset, method, attack, level, run.split.name, run.seed, size, accuracy, cross_entropy)
            for run, (accuracy, cross_entropy) in zip(runs, measured, strict=True)
        ]
        self.file.append(points)
        mean = np.mean([point.accuracy for point in points])
        self.say(f"{method}, {attack} {level:g} ({size:.4g}): {mean:.2%}")

    def _seed(self, attack: str, draw: int) -> int:
        """Return a seed that depends on what is drawn and on nothing else."""
        return int(run_key(self.dataset, attack, draw))


_LINKS = ("links-added", "links-removed")
