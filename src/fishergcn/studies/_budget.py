"""The time that the choice of a model may take, and what candidates take of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from fishergcn.execution import count_cores, find_device
from fishergcn.graph import Graph
from fishergcn.splits import Split
from fishergcn.studies._decisions import Decisions
from fishergcn.studies._slowness import measured_slowness
from fishergcn.training import Pace, Sizes, TrainConfig, parse_method

_MOST_ENTRIES = 200_000_000  # of a high-order matrix: 2.4 GB
_USUAL_EPOCHS = 0.7  # the share of the epochs after which most runs have stopped


class Budget:
    """What is left of ``limit`` seconds, which begin now; what is measured is a decision that a later process keeps."""

    def __init__(
        self,
        graph: Graph,
        split: Split,
        config: TrainConfig,
        device: str,
        workers: int | None,
        limit: float,
        decisions: Decisions,
    ) -> None:
        self.graph, self.split, self.config, self.device = graph, split, config, device
        self.limit, self.decisions = limit, decisions
        self.pace = Pace.usual(find_device(device))
        self.gpu = self.pace.gpu
        self.cores = 1 if self.gpu else count_cores() if workers is None else workers
        self.slowness = 0.0
        self.slower = 1.0  # than measured, as the first stage showed
        self.started = time.monotonic()

    def left(self) -> float:
        """Return how many seconds are left."""
        return self.limit - (time.monotonic() - self.started)

    def measure(self, networks: Sequence[str]) -> None:
        """Measure how slow this machine is, if there are networks to train."""
        self.slowness = self.decisions.made(
            "slowness",
            lambda: measured_slowness(self.graph, self.split, self.config, self.device) if networks else 0.0,
        )

    @property
    def entries(self) -> float:
        """How many entries the high-order matrix has, about."""
        high = parse_method("gcn-t")
        return self.decisions.made("entries", lambda: Sizes.of(self.graph, high, self.config, [self.split]).entries)

    def seconds(self, name: str, runs: int = 1) -> float:
        """Estimate how long runs of a method take, side by side on a GPU or on several cores; inf if not at all."""
        method = parse_method(name)
        if not method.trained:
            return 0.0
        entries = self.entries if method.high_order else None
        if entries is not None and entries > _MOST_ENTRIES:
            return math.inf
        sizes = Sizes.of(self.graph, method, self.config, [self.split], entries=entries)
        epoch = self.slowness * self.pace.epoch(sizes, method, self.config, runs if self.gpu else 1)
        epochs = _USUAL_EPOCHS * self.config.max_epochs * self.slower
        return epochs * (epoch if self.gpu else runs * epoch / self.cores)
