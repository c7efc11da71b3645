"""What a study will take before it is started: time by a few real epochs, memory by counting."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Any

import torch

from fishergcn._base.memory import free_memory, lacks_memory, return_freed_memory
from fishergcn._base.tensors import one_thread
from fishergcn._base.text import duration
from fishergcn._base.types import FloatArray
from fishergcn._kernels.threads import many_rows
from fishergcn._settings.seeds import FIRST_SEED
from fishergcn.errors import InputError
from fishergcn.execution._devices import count_cores, find_device, runs_side_by_side
from fishergcn.graph import Graph
from fishergcn.perturbation import pool_weights
from fishergcn.spectrum import Spectrum
from fishergcn.splits import Split
from fishergcn.training import (
    BatchSettings,
    Method,
    Problem,
    Progress,
    Run,
    Sizes,
    TrainConfig,
    held_bytes,
    prepare,
    prepare_batches,
    samples_of,
    train_chunk,
    train_prepared,
)

ERROR = 1.5  # the factor by which predicted memory may err
_SMALLEST = 4  # hidden units that are proposed
_MOST_EPOCHS = 20  # that are timed


@dataclass(frozen=True)
class Part:
    """Runs of one method with one configuration on one graph; without the graph they are not timed."""

    dataset: str
    name: str
    sizes: Sizes
    method: Method
    config: TrainConfig
    runs: int
    graph: Graph | None = None
    splits: Sequence[Split] = ()

    @classmethod
    def of(
        cls,
        graph: Graph,
        method: Method,
        config: TrainConfig,
        splits: Sequence[Split],
        runs: int,
        *,
        dataset: str = "",
        name: str = "",
    ) -> Part:
        """Return runs of a method on splits of a graph."""
        words = dataset or graph.name or "the graph", name or method.name
        return cls(*words, Sizes.of(graph, method, config, splits), method, config, runs, graph, splits)


@dataclass(frozen=True)
class PartCost:
    """What one part takes; what was not timed is NaN.

    ``preparation`` are seconds of what its runs share, unless a part before it had it: the propagation matrix and the
    spectrum; ``epoch`` those of an epoch of ``side_by_side`` runs (1 on the CPU), the median of ``timed`` real ones;
    ``longest`` those of a run that is not stopped before its last epoch. ``bytes`` is the memory of the process that
    trains, or of the GPU, at its peak, counted from sizes.
    """

    part: Part
    preparation: float
    epoch: float
    timed: int
    longest: float
    side_by_side: int
    bytes: float

    def __str__(self) -> str:
        if math.isnan(self.longest):
            return "not timed"
        if not self.part.method.has_epochs:
            return f"a run takes {_short(self.longest)}, measured once"
        many = f" of {self.side_by_side} runs side by side" if self.side_by_side > 1 else ""
        takes = f"an epoch{many} takes {_short(self.epoch)}, measured over {self.timed}"
        return f"{takes}; at most {self.part.config.max_epochs} epochs"


@dataclass(frozen=True)
class Cost:
    """What a study takes on a machine, in ``workers`` processes.

    ``free`` are the bytes that are free there; None where the system does not say. ``searched`` marks a search for
    settings, in which fewer hidden units or mini-batches cannot be proposed.
    """

    parts: tuple[PartCost, ...]
    device: str
    workers: int
    free: int | None
    batches: BatchSettings | None = None
    searched: bool = False

    @property
    def most_seconds(self) -> float:
        """How long all runs take if none is stopped before its last epoch; NaN if some part was not timed.

        Other processes take some seconds to start, and memory that they share makes them slower; neither is counted.
        """
        alone: float = sum(each.part.runs * each.longest for each in self.parts)
        return sum(each.preparation for each in self.parts) + alone / self.workers

    @cached_property
    def bytes(self) -> float:
        """Memory at the peak: of all processes of this machine, or of the GPU."""
        return self.workers * max(each.bytes for each in self.parts)

    def check(self, slack: float = 1.0) -> None:
        """Raise if the memory will not suffice, with the settings that would fit.

        ``slack`` is how many times as much as there is may be predicted.
        """
        if self.free is None or self.bytes <= slack * self.free:
            return
        worst = max(self.parts, key=lambda each: each.bytes)
        many = f" in {self.workers} processes" if self.workers > 1 else ""
        free = self.free * slack
        fits = [f"workers={int(free // worst.bytes)}"] if self.workers > 1 and worst.bytes <= free else []
        fits += remedies(worst.part, torch.device(self.device), free, self.batches, searched=self.searched)
        raise InputError(
            f"{worst.part.name} on {worst.part.dataset} needs about {self.bytes / 1e9:.1f} GB of memory{many}, and "
            f"{self.free / 1e9:.1f} GB are free{_would_fit(fits)}."
        )

    def __str__(self) -> str:
        most = self.most_seconds
        time = "not timed" if math.isnan(most) else f"at most {duration(most)} if no run stops early"
        many = f" in {self.workers} processes" if self.workers > 1 else ""
        free = "" if self.free is None else f" of {self.free / 1e9:.1f} GB that are free"
        return f"{time},{many} on {self.device}; about {self.bytes / 1e9:.2f} GB of memory{free}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; None for what was not timed."""
        parts = [
            {
                "dataset": each.part.dataset,
                "name": each.part.name,
                "runs": each.part.runs,
                "preparation_seconds": _known(each.preparation),
                "epoch_seconds": _known(each.epoch),
                "epochs_timed": each.timed,
                "longest_run_seconds": _known(each.longest),
                "runs_side_by_side": each.side_by_side,
                "memory_bytes": round(each.bytes),
                "measured": str(each),
            }
            for each in self.parts
        ]
        return {
            "device": self.device,
            "workers": self.workers,
            "most_seconds": _known(self.most_seconds),
            "memory_bytes": round(self.bytes),
            "free_bytes": self.free,
            "parts": parts,
        }


def _short(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1e3 * seconds:.1f} ms"


def _known(seconds: float) -> float | None:
    return None if math.isnan(seconds) else seconds


def cost_of(
    parts: Sequence[Part],
    device: str = "auto",
    workers: int | None = None,
    *,
    batches: BatchSettings | None = None,
    timed: bool = True,
    limit: float = 1.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Cost:
    """Return what parts of a study take here: memory is counted, and of what fits a few epochs are trained and timed.

    A graph and a method are timed once, whatever the settings that do not change the work of an epoch, with the threads
    that the training itself will have, for ``limit`` seconds each. In mini-batches one process trains.
    """
    place = find_device(device)
    gpu, free = place.type == "cuda", _free(place)
    runs = max(each.runs for each in parts)
    count = 1 if gpu or batches is not None else min(count_cores() if workers is None else workers, runs)
    watch, found = _Stopwatch(place, count, batches, limit, clock), list[PartCost]()
    for part in parts:
        together = part.runs if not part.method.trained else 1
        if gpu and batches is None and free is not None and part.method.trained:
            together = min(part.runs, runs_side_by_side(part.sizes, part.method, part.config, free))
        used = _peak(part, place, together, batches)
        fits = free is None or count * used <= free
        known = watch.measured(part, together) if timed and fits and part.graph is not None else None
        preparation, epoch, epochs = known or (math.nan, math.nan, 0)
        most = part.config.max_epochs if part.method.has_epochs else 1
        longest = epoch * (most / together if part.method.trained else 1.0)
        found.append(PartCost(part, preparation, epoch, epochs, longest, together, used))
    return Cost(tuple(found), str(place), count, free, batches)


def _peak(part: Part, place: torch.device, together: int, batches: BatchSettings | None) -> float:
    chosen = {"batches": batches is not None, "gpu": place.type == "cuda"}
    return held_bytes(part.sizes, part.method, part.config, together, **chosen)


class _Stopwatch:
    """Prepares and trains parts for a moment; what they share is done once, as in a study."""

    def __init__(
        self, place: torch.device, workers: int, batches: BatchSettings | None, limit: float, clock: Callable[[], float]
    ) -> None:
        self.place, self.workers, self.batches, self.limit, self.clock = place, workers, batches, limit, clock
        self._epochs: dict[object, tuple[float, int]] = {}
        self._spectra: dict[object, Spectrum] = {}

    def measured(self, part: Part, together: int) -> tuple[float, float, int]:
        """Return the seconds of the preparation that is new in a part and of an epoch, and how many were timed."""
        key = (id(part.graph), part.method, _same_work(part.config), together)
        if key in self._epochs:
            return 0.0, *self._epochs[key]
        began = self.clock()
        problem, basis = self._prepared(part)
        preparation = self.clock() - began
        splits = part.splits
        runs = [
            Run(splits[at % len(splits)], FIRST_SEED + at // len(splits))
            for at in range(together if part.method.trained else 1)
        ]
        small = not many_rows(problem.graph.num_nodes)
        alone = self.place.type == "cpu" and self.batches is None and (self.workers > 1 or small)
        with one_thread(alone):
            self._epochs[key] = time_epochs(
                problem, runs, self.place, batches=self.batches, basis=basis, limit=self.limit, clock=self.clock
            )
        return preparation, *self._epochs[key]

    def _prepared(self, part: Part) -> tuple[Problem, FloatArray | None]:
        graph, method, config = part.graph, part.method, part.config
        if graph is None:
            raise AssertionError("cost_of() times parts with a graph only")
        if self.batches is not None:
            return prepare_batches(graph, method, config)
        matrix = (id(graph), method.high_order, config.order, config.threshold, config.rank, config.directions)
        spatial = method.perturbed and config.perturbation == "spatial"
        moved = pool_weights(graph.adjacency, [graph.adjacency]) if spatial else None  # any graph takes as long
        problem = prepare(graph, method, config, spectrum=self._spectra.get(matrix), moved=moved)
        if problem.neighborhood is not None and problem.neighborhood.spectrum is not None:
            self._spectra[matrix] = problem.neighborhood.spectrum
        return problem, None


class _EnoughError(Exception):
    """Ends a training that was only timed."""


def time_epochs(
    problem: Problem,
    runs: Sequence[Run],
    device: torch.device,
    *,
    batches: BatchSettings | None = None,
    basis: FloatArray | None = None,
    limit: float = 1.0,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, int]:
    """Train until ``limit`` seconds are over; return the median seconds of the epochs, and how many were timed.

    The first epoch may have to compile or load kernels, and is not timed. Mini-batches train the first run alone. Of a
    method without epochs the seconds of a run are returned, and 0.
    """
    config = dataclasses.replace(problem.config, stopping="none", max_epochs=2 + _MOST_EPOCHS)
    timed, ends = dataclasses.replace(problem, config=config), [clock()]

    def on_epoch(_: Progress) -> None:
        ends.append(clock())
        if len(ends) > 2 and (ends[-1] - ends[1] >= limit or len(ends) == 2 + _MOST_EPOCHS):
            raise _EnoughError

    with contextlib.suppress(_EnoughError):
        if batches is None:
            train_chunk(timed, runs, device, on_epoch=on_epoch)
        else:
            train_prepared(timed, basis, runs[0], batches, device, on_epoch=on_epoch)
    return_freed_memory()
    if not problem.method.has_epochs:
        return clock() - ends[0], 0
    seconds = [after - before for before, after in pairwise(ends)]
    later = seconds[1:] or seconds  # a run that diverges at once has no second epoch
    return median(later), len(later)


def _same_work(config: TrainConfig) -> TrainConfig:
    """Return settings that are the same for all with the same work in an epoch."""
    usual = TrainConfig()
    same = ["learning_rate", "weight_decay", "max_epochs", "stopping", "patience", "temperature"]
    same += [name for name in ("dropout", "radius", "consistency") if getattr(config, name) > 0]
    return dataclasses.replace(config, **{name: getattr(usual, name) for name in same})


def remedies(
    part: Part, device: torch.device, free: float, batches: BatchSettings | None = None, *, searched: bool = False
) -> list[str]:
    """Return settings with which a part would fit into ``free`` bytes; see :class:`Cost` for ``searched``."""
    found = list[str]()

    def fits(settings: BatchSettings | None = batches, **changes: Any) -> bool:
        changed = dataclasses.replace(part, config=dataclasses.replace(part.config, **changes))
        return _peak(changed, device, 1, settings) <= free

    if part.method.samples is None and samples_of(part.method, part.config) > 1:
        fewer = [number for number in range(1, part.config.samples) if fits(samples=number)]
        found += [f"samples={fewer[-1]}"] if fewer else []
    if searched:
        return found
    widths = tuple(part.config.hidden)
    while max(widths, default=0) > _SMALLEST:
        widths = tuple(max(width // 2, 1) for width in widths)
        if fits(hidden=widths):
            found.append(f"hidden={','.join(map(str, widths))}")
            break
    # What mini-batches refuse: terms over all nodes, and matrices that they would have to hold.
    if batches is None and not (part.method.consistent or part.method.high_order or part.method.solved):
        settings = BatchSettings(512, (10,) * part.method.network.depth(part.config))
        if fits(settings):
            found.append(f"mini-batches (--batch-size 512 --fanout {','.join(map(str, settings.fanout))})")
    return found


@contextlib.contextmanager
def explain_out_of_memory(
    graph: Graph, method: Method, config: TrainConfig, device: torch.device, batches: BatchSettings | None = None
) -> Iterator[None]:
    """Turn out-of-memory errors into an InputError that names settings that would fit."""
    try:
        yield
        return
    except Exception as error:
        if not lacks_memory(error):
            raise
    # Outside the handler, where the error no longer keeps arrays alive.
    raise InputError(_lack(graph, method, config, device, batches))


def _lack(
    graph: Graph, method: Method, config: TrainConfig, device: torch.device, batches: BatchSettings | None
) -> str:
    name = graph.name or "the graph"
    entries = float(graph.adjacency.nnz + graph.num_nodes)  # a high-order matrix has more, and is not estimated now
    part = Part(name, method.name, Sizes.of(graph, method, config, entries=entries), method, config, 1)
    # The allocation that failed is more than there is, whatever the system says is free.
    needed = _peak(part, device, 1, batches)
    fits = _would_fit(remedies(part, device, min(_free(device) or needed, 0.8 * needed), batches))
    return f"there is not enough memory to train {method.name} on {name}{fits}."


def _free(device: torch.device) -> int | None:
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else free_memory()


def _would_fit(fits: Sequence[str]) -> str:
    return f"; {' or '.join(fits)} would fit" if fits else ""
