"""The time that the choice of a model may take, and what candidates take of it."""

from __future__ import annotations

import math
import time

from fishergcn._base.tensors import one_thread
from fishergcn._kernels.threads import many_rows
from fishergcn.execution import count_cores, find_device
from fishergcn.graph import Graph
from fishergcn.splits import Split
from fishergcn.studies._decisions import Decisions
from fishergcn.training import Run, Sizes, TrainConfig, parse_method, prepare, time_epochs

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
        together = runs if self.gpu else 1
        epoch = self.decisions.made(f"epoch of {name}, {together} runs", lambda: self._epoch(name, together))
        epochs = _USUAL_EPOCHS * self.config.max_epochs * self.slower
        return epochs * (epoch if self.gpu else runs * epoch / self.cores)

    def _epoch(self, name: str, runs: int) -> float:
        """Time a few epochs of a method; they are those of its training, and the matrix that they need is kept."""
        problem = prepare(self.graph, parse_method(name), self.config)
        with one_thread(not self.gpu and not (self.cores == 1 and many_rows(self.graph.num_nodes))):
            chosen = [Run(self.split, seed) for seed in range(runs)]
            return time_epochs(problem, chosen, self.place, limit=min(_MEASURING * self.limit, 1.0))[0]
