"""The time that the choice of a model may take, and what candidates take of it."""

from __future__ import annotations

import math
import time

from fishergcn.execution import Part, cost_of, count_cores, find_device
from fishergcn.graph import Graph
from fishergcn.splits import Split
from fishergcn.studies._decisions import Decisions
from fishergcn.training import Method, Sizes, TrainConfig, parse_method

_MOST_ENTRIES = 200_000_000  # of a high-order matrix: 2.4 GB
_USUAL_EPOCHS = 0.7  # the share of the epochs after which most runs have stopped
_MEASURING = 0.01  # the share of the time that the epochs of a candidate are timed for


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
        self.graph, self.split, self.config, self.place = graph, split, config, find_device(device)
        self.limit, self.decisions = limit, decisions
        self.gpu = self.place.type == "cuda"
        self.cores = 1 if self.gpu else count_cores() if workers is None else workers
        self.slower = 1.0  # than measured, as the first stage showed
        self.started = time.monotonic()

    def left(self) -> float:
        """Return how many seconds are left."""
        return self.limit - (time.monotonic() - self.started)

    @property
    def entries(self) -> float:
        """How many entries the high-order matrix has, about."""
        high = parse_method("gcn-t")
        return self.decisions.made("entries", lambda: Sizes.of(self.graph, high, self.config, [self.split]).entries)

    def seconds(self, name: str, runs: int = 1) -> float:
        """Return how long runs of a method take, side by side on a GPU or on several cores; inf if not at all."""
        method = parse_method(name)
        if not method.trained:
            return 0.0
        if method.high_order and self.entries > _MOST_ENTRIES:
            return math.inf
        together = runs if self.gpu else self.cores  # those beside which it is trained
        epoch = self.decisions.made(f"epoch of {name}, {together} runs", lambda: self._epoch(method, together))
        if epoch is None:
            return math.inf
        epochs = _USUAL_EPOCHS * self.config.max_epochs * self.slower
        return epochs * (epoch if self.gpu else runs * epoch / self.cores)

    def _epoch(self, method: Method, runs: int) -> float | None:
        """Time a few epochs of a method; None where they would not fit in memory."""
        part = Part.of(self.graph, method, self.config, [self.split], runs)
        limit = min(_MEASURING * self.limit, 1.0)
        [found] = cost_of([part], str(self.place), self.cores, limit=limit).parts
        return None if math.isnan(found.epoch) else found.epoch
