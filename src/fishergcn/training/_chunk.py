"""A chunk of runs from its first epoch to its records, whatever an epoch is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fishergcn._base.memory import keep_freed_memory
from fishergcn._base.provenance import device_name, versions
from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.training._engine import Trainer
from fishergcn.training._problem import Problem, Run
from fishergcn.training._records import RunRecord
from fishergcn.training._stack import Stack
from fishergcn.training._stopping import should_stop

_LEAVE_SHARE = 0.1  # the stack is rebuilt when this share of it has stopped


@dataclass(frozen=True)
class Progress:
    """Where a chunk stands after an epoch.

    Attributes
    ----------
    epoch
        How many epochs are done.
    active, finished
        How many of its runs go on, and how many have stopped.
    val_accuracy
        The mean over the runs that were active.

    Examples
    --------
    >>> Progress(epoch=10, active=3, finished=1, val_accuracy=0.8).finished
    1
    """

    epoch: int
    active: int
    finished: int
    val_accuracy: float


class Epochs(Protocol):
    """What trains a stack of runs, an epoch at a time."""

    problem: Problem
    runs: list[Run]
    device: torch.device
    stack: Stack

    def epoch(self, number: int) -> tuple[Tensor, Tensor]:
        """Train for an epoch; return loss and accuracy of each run in it, two tensors of shape (R,)."""

    def validate(self) -> tuple[Tensor, Tensor]:
        """Return loss and accuracy of each run on its validation nodes."""

    def keep(self, runs: Tensor) -> None:
        """Let the other runs leave the stack."""

    def final_scores(self, weights: Sequence[Tensor], part: str) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return loss, cross entropy and accuracy of all runs on val or test nodes, NaN without any."""


def train_chunk(
    problem: Problem,
    runs: Sequence[Run],
    device: torch.device,
    *,
    keep_weights: bool = False,
    on_epoch: Callable[[Progress], None] | None = None,
) -> list[RunRecord]:
    """Train runs side by side; their records come in the same order.

    Parameters
    ----------
    problem
        The graph, made ready for a method.
    runs
        What to train; each result depends on its own run alone, up to floating-point rounding.
    device
        Where.
    keep_weights
        Attach the tested weights to the records.
    on_epoch
        Called after every epoch.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> from fishergcn.training import Run, parse_method, prepare
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> problem = prepare(graph, parse_method("gcn"), fishergcn.TrainConfig(max_epochs=5))
    >>> [record.seed for record in train_chunk(problem, [Run(split, 1), Run(split, 2)], torch.device("cpu"))]
    [1, 2]
    """
    start = time.perf_counter()
    return train_epochs(Trainer(problem, runs, device), start, keep_weights=keep_weights, on_epoch=on_epoch)


def train_epochs(
    trainer: Epochs, start: float, *, keep_weights: bool, on_epoch: Callable[[Progress], None] | None
) -> list[RunRecord]:
    """Train until every run has stopped; return what came out, timed from ``start`` on."""
    if trainer.device.type == "cpu":
        keep_freed_memory()
    config, runs = trainer.problem.config, trainer.runs
    history, finals = _History(len(runs), config.max_epochs), _Finals(trainer)
    stacked = np.arange(len(runs))  # which run stands in which row of the stack
    done = np.zeros(len(runs), dtype=np.bool_)  # of the rows of the stack
    for epoch in range(config.max_epochs):
        measured = torch.stack([*trainer.epoch(epoch), *trainer.validate()]).double().cpu().numpy()
        active = np.flatnonzero(~done)
        names = stacked[active]
        broken = history.add(names, epoch, measured[:, active])
        _, _, losses, accuracies = history.values[:, names, : epoch + 1]
        stop = should_stop(config.stopping, losses, accuracies, config.patience) | (epoch + 1 == config.max_epochs)
        if config.test_at == "best-val":
            better = losses[:, -1] < finals.best[names]
            finals.best[names[better]] = losses[better, -1]
            finals.store(names[better], active[better])
        else:
            finals.store(names[stop], active[stop])
        done[active[stop | broken]] = True
        if on_epoch is not None:
            left = int((~done).sum())
            on_epoch(Progress(epoch + 1, left, len(runs) - left, float(np.nanmean(accuracies[:, -1]))))
        if done.all():
            break
        if done.mean() >= _LEAVE_SHARE:
            remaining = np.flatnonzero(~done)
            trainer.keep(torch.as_tensor(remaining, device=trainer.device))
            stacked, done = stacked[remaining], done[remaining]
    return finals.records(history, time.perf_counter() - start, keep_weights)


class _History:
    """Curves of all runs, one column per epoch."""

    NAMES = ("train_loss", "train_accuracy", "val_loss", "val_accuracy")

    def __init__(self, runs: int, epochs: int) -> None:
        self.values = np.full((len(self.NAMES), runs, epochs), np.nan)
        self.epochs = np.zeros(runs, dtype=np.int64)
        self.diverged = np.zeros(runs, dtype=np.bool_)

    def add(self, runs: IntArray, epoch: int, measured: FloatArray) -> npt.NDArray[np.bool_]:
        """Note an epoch of some runs, shape (4, runs); return which of them diverged in it."""
        self.values[:, runs, epoch] = measured
        self.epochs[runs] = epoch + 1
        broken = np.asarray(~np.isfinite(measured).all(axis=0))
        self.diverged[runs[broken]] = True
        return broken

    def curves(self, run: int) -> dict[str, list[float]]:
        length = self.epochs[run]
        return {name: self.values[row, run, :length].tolist() for row, name in enumerate(self.NAMES)}


class _Finals:
    """The weights with which each run is tested, and the learned shapes."""

    def __init__(self, trainer: Epochs) -> None:
        self.trainer = trainer
        self.weights = [each.detach().clone() for each in trainer.stack.weights]
        self.shape = trainer.stack.shape
        self.best = np.full(len(trainer.runs), math.inf)

    def store(self, runs: IntArray, rows: IntArray) -> None:
        """Copy the state of stack rows ``rows`` as that of ``runs``."""
        target = torch.as_tensor(runs, device=self.trainer.device)
        source = torch.as_tensor(rows, device=self.trainer.device)
        for kept, current in zip(self.weights, self.trainer.stack.weights, strict=True):
            kept[target] = current.detach()[source]
        shape = self.trainer.stack.shape
        if self.shape is not None and shape is not None:
            self.shape[target] = shape[source]

    def records(self, history: _History, seconds: float, keep_weights: bool) -> list[RunRecord]:
        """Score the weights and return a record of each run."""
        trainer, problem = self.trainer, self.trainer.problem
        val, test = (trainer.final_scores(self.weights, part) for part in ("val", "test"))
        shapes = None if self.shape is None else self.shape.cpu().numpy()
        arrays = [each.cpu().numpy() for each in self.weights] if keep_weights else []
        return [
            RunRecord(
                dataset=problem.dataset,
                method=problem.method.name,
                split=run.split.name,
                seed=run.seed,
                status="diverged" if history.diverged[index] else "ok",
                epochs=int(history.epochs[index]),
                **_named("test", test, index, history.diverged[index]),
                **_named("val", val, index, history.diverged[index]),
                curves=history.curves(index),
                shape=[] if shapes is None else shapes[index].tolist(),
                seconds=seconds / len(trainer.runs),
                device=device_name(trainer.device),
                versions=versions(),
                config=problem.config.to_dict(),
                graph_digest=problem.graph.digest,
                weights=_slices(arrays, index),
            )
            for index, run in enumerate(trainer.runs)
        ]


def _named(part: str, values: tuple[FloatArray, ...], index: int, diverged: bool) -> dict[str, Any]:
    names = (f"{part}_loss", f"{part}_cross_entropy", f"{part}_accuracy")
    return {name: math.nan if diverged else float(value[index]) for name, value in zip(names, values, strict=True)}


def _slices(arrays: list[AnyArray], index: int) -> tuple[AnyArray, ...] | None:
    return tuple(each[index].copy() for each in arrays) or None
