"""What a study will take before it is started: seconds and memory, from sizes and the pace of the machine."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from fishergcn._base.memory import free_memory, lacks_memory
from fishergcn._base.text import duration
from fishergcn.errors import InputError
from fishergcn.execution._devices import count_cores, find_device, runs_side_by_side
from fishergcn.graph import Graph
from fishergcn.training import (
    BatchSettings,
    Method,
    Pace,
    Sizes,
    TrainConfig,
    pace_of,
    samples_of,
    usual_epochs,
)

ERROR = 1.5  # the factor by which a prediction may err
_SMALLEST = 4  # hidden units that are proposed


@dataclass(frozen=True)
class Part:
    """Runs of one method with one configuration on one graph.

    Attributes
    ----------
    dataset, name
        What they are called.
    sizes, method, config, runs
        What is trained, and how often.

    Examples
    --------
    >>> from fishergcn.training import parse_method
    >>> million = Sizes(10**6, 10**7, 1.1e7, 100, 10**7, 10, train=10**4, val=5000, test=5000)
    >>> Part("web", "gcn", million, parse_method("gcn"), TrainConfig(), runs=10).runs
    10
    """

    dataset: str
    name: str
    sizes: Sizes
    method: Method
    config: TrainConfig
    runs: int


@dataclass(frozen=True)
class PartCost:
    """What one part takes.

    Attributes
    ----------
    part
        Which.
    preparation, epoch, run
        Seconds of what its runs share, of an epoch, and of a whole run with the usual number of epochs; ``epoch`` is
        that of ``side_by_side`` runs, and ``run`` a share of theirs.
    longest
        Seconds of a run that is not stopped before its last epoch.
    side_by_side
        Runs that are trained together: 1 on the CPU.
    bytes
        Memory of the process that trains, or of the GPU, at its peak.

    Examples
    --------
    >>> from fishergcn.training import Pace, parse_method
    >>> million = Sizes(10**6, 10**7, 1.1e7, 100, 10**7, 10, train=10**4, val=5000, test=5000)
    >>> part = Part("web", "gcn", million, parse_method("gcn"), TrainConfig(), runs=10)
    >>> [found] = cost_of([part], "cpu", pace=Pace.usual(torch.device("cpu"))).parts
    >>> found.epoch < found.run < found.longest
    True
    """

    part: Part
    preparation: float
    epoch: float
    run: float
    longest: float
    side_by_side: int
    bytes: float


@dataclass(frozen=True)
class Cost:
    """What a study takes on a machine.

    Attributes
    ----------
    parts
        What each method takes on each graph.
    device, workers
        Where, and in how many processes.
    start
        Seconds until processes can work.
    free
        Bytes that are free there; None where the system does not say.
    batches
        Mini-batches, if any.
    searched
        Whether it is a search for settings, which cannot be told to take fewer hidden units or mini-batches.

    Examples
    --------
    >>> from fishergcn.studies import make_plan
    >>> cost = make_plan("quick", splits=2, seeds=1).cost("cpu", workers=1)
    >>> cost.seconds <= cost.most_seconds, cost.bytes > 10**8, len(cost.parts)
    (True, True, 3)
    """

    parts: tuple[PartCost, ...]
    device: str
    workers: int
    start: float
    free: int | None
    batches: BatchSettings | None = None
    searched: bool = False

    @property
    def seconds(self) -> float:
        """How long all runs usually take."""
        return self._total("run")

    @property
    def most_seconds(self) -> float:
        """How long they take if none is stopped before its last epoch."""
        return self._total("longest")

    def _total(self, kind: str) -> float:
        alone: float = sum(each.part.runs * getattr(each, kind) for each in self.parts)
        return self.start + sum(each.preparation for each in self.parts) + alone / self.workers

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
        usual, most = duration(self.seconds), duration(self.most_seconds)
        time = f"about {usual}" if usual == most else f"about {usual}, at most {most} if no run stops early"
        many = f" in {self.workers} processes" if self.workers > 1 else ""
        free = "" if self.free is None else f" of {self.free / 1e9:.1f} GB that are free"
        return f"{time}{many} on {self.device}; about {self.bytes / 1e9:.2f} GB of memory{free}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        parts = [
            {
                "dataset": each.part.dataset,
                "name": each.part.name,
                "runs": each.part.runs,
                "preparation_seconds": each.preparation,
                "epoch_seconds": each.epoch,
                "run_seconds": each.run,
                "longest_run_seconds": each.longest,
                "runs_side_by_side": each.side_by_side,
                "memory_bytes": round(each.bytes),
            }
            for each in self.parts
        ]
        return {
            "device": self.device,
            "workers": self.workers,
            "seconds": self.seconds,
            "most_seconds": self.most_seconds,
            "memory_bytes": round(self.bytes),
            "free_bytes": self.free,
            "parts": parts,
        }


def cost_of(
    parts: Sequence[Part],
    device: str = "auto",
    workers: int | None = None,
    *,
    batches: BatchSettings | None = None,
    pace: Pace | None = None,
) -> Cost:
    """Return what parts of a study take here.

    Parameters
    ----------
    parts
        All that is to be trained.
    device, workers
        As in :func:`fishergcn.train`.
    batches
        Mini-batches, if any; then one process trains.
    pace
        Of a machine that was measured before; by default of this one, which is measured if it has not been yet.

    Examples
    --------
    >>> from fishergcn.training import parse_method
    >>> million = Sizes(10**6, 10**7, 1.1e7, 100, 10**7, 10, train=10**4, val=5000, test=5000)
    >>> part = Part("web", "gcn", million, parse_method("gcn"), TrainConfig(), runs=10)
    >>> 1e9 < cost_of([part], "cpu", workers=1).bytes < 4e9
    True
    """
    place = find_device(device)
    pace = pace_of(place) if pace is None else pace
    runs = sum(each.runs for each in parts)
    most = max(each.runs for each in parts)
    gpu = place.type == "cuda"
    count = 1 if gpu or batches is not None else min(count_cores() if workers is None else workers, most)
    free = _free(place)
    threads = torch.get_num_threads() if count == 1 and not gpu and batches is None else 1
    found = tuple(_cost(each, pace, free, batches, threads) for each in parts)
    start = pace.kernels + (pace.process if count > 1 else 0.0) if runs else 0.0
    return Cost(found, str(place), count, start, free, batches)


def _cost(part: Part, pace: Pace, free: int | None, batches: BatchSettings | None, threads: int) -> PartCost:
    sizes, method, config = part.sizes, part.method, part.config
    preparation = pace.preparation(sizes, method, config)
    if not method.trained:  # one product or a few with the graph
        return PartCost(part, preparation, 0.0, 0.0, 0.0, part.runs, pace.base + 60.0 * sizes.entries)
    together = 1
    if pace.gpu and batches is None and free is not None:
        together = min(part.runs, runs_side_by_side(sizes, method, config, free))
    epoch = pace.epoch(sizes, method, config, together, batches, threads)
    chunk = pace.chunk(sizes, method, config)
    usual, longest = (
        (chunk + epochs * epoch) / together for epochs in (usual_epochs(config), float(config.max_epochs))
    )
    used = pace.bytes(sizes, method, config, together, batches)
    return PartCost(part, preparation, epoch, usual, longest, together, used)


def remedies(
    part: Part, device: torch.device, free: float, batches: BatchSettings | None = None, *, searched: bool = False
) -> list[str]:
    """Return settings with which a part would fit into so many bytes; see :class:`Cost` for ``searched``."""
    pace, found = Pace.usual(device), list[str]()

    def fits(settings: BatchSettings | None = batches, **changes: Any) -> bool:
        config = dataclasses.replace(part.config, **changes)
        return pace.bytes(part.sizes, part.method, config, 1, settings) <= free

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
    if batches is None and not part.method.consistent and not part.method.high_order:
        settings = BatchSettings(512, (10,) * part.method.network.depth(part.config))
        if fits(settings):
            found.append(f"mini-batches (--batch-size 512 --fanout {','.join(map(str, settings.fanout))})")
    return found


@contextlib.contextmanager
def memory_told(
    graph: Graph, method: Method, config: TrainConfig, device: torch.device, batches: BatchSettings | None = None
) -> Iterator[None]:
    """End a lack of memory inside in one sentence, with the settings that would fit."""
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
    # What was asked for in vain is more than there is, whatever the system says is free.
    needed = Pace.usual(device).bytes(part.sizes, method, config, 1, batches)
    fits = _would_fit(remedies(part, device, min(_free(device) or needed, 0.8 * needed), batches))
    return f"there is not enough memory to train {method.name} on {name}{fits}."


def _free(device: torch.device) -> int | None:
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else free_memory()


def _would_fit(fits: Sequence[str]) -> str:
    return f"; {' or '.join(fits)} would fit" if fits else ""
