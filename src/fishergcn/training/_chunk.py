"""A chunk of runs from its first epoch to its records, whatever an epoch is."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fishergcn._base.memory import keep_freed_memory, return_freed_memory
from fishergcn._base.provenance import device_name, versions
from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn._kernels.threads import many_rows
from fishergcn._settings.config import TrainConfig
from fishergcn.operators import as_operator
from fishergcn.training._engine import Trainer
from fishergcn.training._metrics import CALIBRATED, THRESHOLD, measure, run_outputs, watched_values
from fishergcn.training._objective import targets_on
from fishergcn.training._problem import Problem, Run
from fishergcn.training._records import RunRecord
from fishergcn.training._solve import solve
from fishergcn.training._stack import Stack
from fishergcn.training._stopping import should_stop

_LEAVE_SHARE = 0.2  # the stack is rebuilt when this share of it has stopped; on a GPU its epoch is then recorded anew
_LARGEST_LOSS = 1e6  # what is predicted is standardized: beyond this the numbers are no answer to anything


@dataclass(frozen=True)
class Progress:
    """Where a chunk stands after an epoch: how many of its runs go on, and how many have stopped.

    ``val_accuracy`` is the mean over the runs that were active; ``max_epochs`` is 0 if unknown.
    """

    epoch: int
    active: int
    finished: int
    val_accuracy: float
    max_epochs: int = 0
    score: str = "accuracy"  # what val_accuracy is, in other tasks than classification


class Epochs(Protocol):
    """What trains a stack of runs, an epoch at a time."""

    problem: Problem
    runs: list[Run]
    device: torch.device
    stack: Stack

    @property
    def ahead(self) -> bool:
        """Whether an epoch may begin before the results of the one before it are read."""

    def make_ready(self) -> None:
        """Do what is to be done once before the first epoch."""

    def epoch(self, number: int) -> tuple[Tensor, ...]:
        """Train for an epoch, and validate after it.

        Returns loss and accuracy of each run in it, then those on its validation nodes, four tensors of shape (R,). If
        another score than the loss picks the best epoch, what it is computed from follows: tensors of shape (…, R).
        """

    def keep(self, runs: Tensor) -> None:
        """Let the other runs leave the stack."""

    def final_scores(
        self,
        weights: Mapping[str, Tensor],
        part: str,
        outputs: list[dict[str, AnyArray]] | None = None,
        thresholds: FloatArray | None = None,
    ) -> dict[str, FloatArray]:
        """Return the scores of all runs on val or test nodes by name, each of shape (R,); none without any nodes.

        The logits of these nodes are added to the ``outputs`` of each run, as ``outputs.val`` or ``outputs.test``. Of
        several labels a node those above ``thresholds`` (R,) are predicted, which validation nodes tell.
        """


def train_chunk(
    problem: Problem,
    runs: Sequence[Run],
    device: torch.device,
    *,
    keep_weights: bool = False,
    on_epoch: Callable[[Progress], None] | None = None,
) -> list[RunRecord]:
    """Train runs side by side, each as if it were alone; where a method trains nothing, say how it does on them."""
    start = time.perf_counter()
    if not problem.method.trained:
        return untrained(problem, runs, device, keep_weights=keep_weights)
    if problem.method.solved:
        records = _solved(problem, runs, device, start, keep_weights=keep_weights)
    else:
        records = train_epochs(Trainer(problem, runs, device), start, keep_weights=keep_weights, on_epoch=on_epoch)
    if device.type == "cpu" and many_rows(problem.graph.num_nodes):
        return_freed_memory()
    return records


def train_epochs(
    trainer: Epochs, start: float, *, keep_weights: bool, on_epoch: Callable[[Progress], None] | None
) -> list[RunRecord]:
    """Train until every run has stopped; return what came out, timed from ``start`` on."""
    if trainer.device.type == "cpu":
        keep_freed_memory()
    config, runs = trainer.problem.config, trainer.runs
    trainer.make_ready()
    history, finals = _History(trainer.problem, len(runs)), _Finals(trainer)
    stacked = np.arange(len(runs))  # which run stands in which row of the stack
    done = np.zeros(len(runs), dtype=np.bool_)
    begun = deque[tuple[int, IntArray, Callable[[], FloatArray]]]()
    # Stopped runs have already started one more epoch; it is discarded.
    ahead = int(trainer.ahead)
    for number in range(config.max_epochs + ahead):
        if number < config.max_epochs:
            if ahead:
                finals.remember()
            begun.append((number, stacked, read_later(trainer.epoch(number))))
        if number < ahead:
            continue
        epoch, standing, read = begun.popleft()
        active = np.flatnonzero(~done[standing])
        names = standing[active]
        broken = history.add(names, epoch, read()[:, active])
        stop = history.stop(config, names, epoch) | (epoch + 1 == config.max_epochs)
        store = history.best[names] == epoch if config.test_at == "best-val" else stop
        finals.store(names[store], np.searchsorted(stacked, names[store]), before=bool(begun))
        done[names[stop | broken]] = True
        if on_epoch is not None:
            left = int((~done).sum())
            accuracy = float(np.nanmean(history.values[3, names, epoch]))
            score = trainer.problem.task.score
            on_epoch(Progress(epoch + 1, left, len(runs) - left, accuracy, config.max_epochs, score))
        if done.all():
            break
        if done[stacked].mean() >= _LEAVE_SHARE:
            remaining = np.flatnonzero(~done[stacked])
            trainer.keep(torch.as_tensor(remaining, device=trainer.device))
            stacked = stacked[remaining]
    return finals.records(history, time.perf_counter() - start, keep_weights)


def read_later(results: Sequence[Tensor]) -> Callable[[], FloatArray]:
    """Return how to read tensors (R,) or (…, R) as rows of one array: what a GPU still computes is waited for then."""
    together = torch.cat([each.double().view(-1, each.shape[-1]) for each in results])
    if together.device.type != "cuda":
        return together.cpu().numpy
    here = torch.empty(together.shape, dtype=together.dtype, pin_memory=True)
    here.copy_(together, non_blocking=True)
    there = torch.cuda.current_stream(together.device).record_event()

    def read() -> FloatArray:
        there.synchronize()
        return here.numpy()

    return read


class _History:
    """Curves of all runs, one column per epoch, and which epoch is the best of each."""

    def __init__(self, problem: Problem, runs: int) -> None:
        self.names = [f"{part}_{name}" for part in ("train", "val") for name in ("loss", problem.task.score)]
        self.watched, self.classes = problem.watched, problem.graph.num_classes
        if self.watched is not None and self.watched.name != "accuracy":
            self.names.append(f"val_{self.watched.name}")
        self.values = np.full((len(self.names), runs, problem.config.max_epochs), np.nan)
        self.epochs = np.zeros(runs, dtype=np.int64)
        self.diverged = np.zeros(runs, dtype=np.bool_)
        self.best = np.full(runs, -1)  # the epoch
        self._least = np.full((2, runs), math.inf)  # what picks it, and what decides between equal ones

    def add(self, runs: IntArray, epoch: int, measured: FloatArray) -> npt.NDArray[np.bool_]:
        """Note an epoch of some runs, shape (4 or more, runs); return which of them diverged in it."""
        known, loss = measured[:4], measured[2]
        self.values[:4, runs, epoch] = known
        self.epochs[runs] = epoch + 1
        broken = np.asarray(~np.isfinite(known).all(axis=0))
        self.diverged[runs[broken]] = True
        first, second = loss, loss
        if self.watched is not None:
            value = watched_values(self.watched, self.classes, loss, measured[4:])
            self.values[4:, runs, epoch] = value
            # Where the score is not defined the cross entropy alone decides.
            first, second = np.where(np.isnan(value), math.inf, self.watched.gain(-1.0) * value), measured[4]
        least = self._least[:, runs]
        better = (first < least[0]) | ((first == least[0]) & (second < least[1]))
        self._least[:, runs[better]] = np.stack([first, second])[:, better]
        self.best[runs[better]] = epoch
        return broken

    def stop(self, config: TrainConfig, runs: IntArray, epoch: int) -> npt.NDArray[np.bool_]:
        """Say which runs are to stop after an epoch."""
        if config.stopping == "patience" and self.watched is not None:
            return np.asarray(epoch - self.best[runs] >= config.patience)
        losses, accuracies = self.values[2:4, runs, : epoch + 1]
        return should_stop(config.stopping, losses, accuracies, config.patience)

    def curves(self, run: int) -> dict[str, list[float]]:
        length = self.epochs[run]
        return {name: self.values[row, run, :length].tolist() for row, name in enumerate(self.names) if length}


class _Finals:
    """The weights with which each run is tested, and the learned shapes."""

    def __init__(self, trainer: Epochs) -> None:
        self.trainer = trainer
        self.weights = _copy(trainer.stack.weights)
        self.shape = trainer.stack.shape
        self._before: tuple[Mapping[str, Tensor], Tensor | None] = {}, None

    def remember(self) -> None:
        """Copy the state of the whole stack, before the next epoch changes it."""
        stack = self.trainer.stack
        self._before = _copy(stack.weights), stack.shape

    def store(self, runs: IntArray, rows: IntArray, *, before: bool) -> None:
        """Copy the state of stack rows ``rows`` as that of ``runs``: now, or before the last epoch that has begun."""
        if not len(runs):
            return
        stack = self.trainer.stack
        weights, shape = self._before if before else (stack.weights, stack.shape)
        target = torch.as_tensor(runs, device=self.trainer.device)
        source = torch.as_tensor(rows, device=self.trainer.device)
        for name, kept in self.weights.items():
            kept[target] = weights[name].detach()[source]
        if self.shape is not None and shape is not None:
            self.shape[target] = shape[source]

    def records(self, history: _History, seconds: float, keep_weights: bool) -> list[RunRecord]:
        """Score the weights and return a record of each run."""
        trainer = self.trainer
        kept: list[dict[str, AnyArray]] = [{} for _ in trainer.runs]
        found: dict[str, FloatArray] = {}
        for part in ("val", "test"):
            tuned = found.get(f"val_{THRESHOLD}")
            scores = trainer.final_scores(self.weights, part, kept if keep_weights else None, tuned)
            found |= {f"{part}_{name}": values for name, values in scores.items()}
        shapes = None if self.shape is None else self.shape.cpu().numpy()
        if keep_weights:
            for name, each in self.weights.items():
                for own, array in zip(kept, each.cpu().numpy(), strict=True):
                    own[name] = array.copy()
        return [
            make_record(
                trainer.problem,
                run,
                {} if broken else {name: float(each[at]) for name, each in found.items()},
                device_name(trainer.device),
                seconds / len(trainer.runs),
                status="diverged" if broken else "ok",
                epochs=int(history.epochs[at]),
                curves=history.curves(at),
                shape=[] if shapes is None else shapes[at].tolist(),
                arrays=kept[at],
            )
            for at, (run, broken) in enumerate(
                zip(trainer.runs, history.diverged | (found["val_loss"] > _LARGEST_LOSS), strict=True)
            )
        ]


def _copy(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: each.detach().clone() for name, each in weights.items()}


def _solved(
    problem: Problem, runs: Sequence[Run], device: torch.device, start: float, *, keep_weights: bool
) -> list[RunRecord]:
    """Return the records of a linear network, after no epoch; all seeds of a split give the same."""
    splits = {id(run.split): run.split for run in runs}
    found = {key: solve(problem, split, device) for key, split in splits.items()}
    trainer = Trainer(problem, runs, device)
    history, finals = _History(problem, len(runs)), _Finals(trainer)
    for at, run in enumerate(runs):
        for name, values in found[id(run.split)].items():
            finals.weights[name][at] = values
            history.diverged[at] |= not bool(values.isfinite().all())
    return finals.records(history, time.perf_counter() - start, keep_weights)


@torch.no_grad()
def untrained(
    problem: Problem, runs: Sequence[Run], device: torch.device, *, keep_weights: bool = False
) -> list[RunRecord]:
    """Return the records of a method that trains nothing; all seeds give the same."""
    start, task, splits = time.perf_counter(), problem.task, [run.split for run in runs]
    operator = as_operator(problem.propagation, device=device, dtype=torch.float64)
    nodes = {part: [getattr(run.split, part) for run in runs] for part in ("train", "val", "test")}
    known = task.known(problem.graph)
    out = task.by_rule(problem.method.rule, operator, known, nodes["train"], problem.graph.num_classes)
    found: dict[str, FloatArray] = {}
    kept: list[dict[str, AnyArray]] = [{"train": run.split.train} for run in runs]
    for part in ("val", "test"):
        targets = targets_on(problem.graph, splits, part, None, device, torch.float64)
        for own, each in zip(kept, run_outputs(out, targets, nodes[part]), strict=True):
            own[f"outputs.{part}"] = each
        scores = measure(out, targets, part=part, thresholds=found.get(f"val_{THRESHOLD}"))
        found |= {f"{part}_{name}": values for name, values in scores.items()}
    seconds = (time.perf_counter() - start) / len(runs)
    return [
        make_record(
            problem,
            run,
            {name: float(values[at]) for name, values in found.items()},
            device_name(device),
            seconds,
            arrays=kept[at] if keep_weights else {},
        )
        for at, run in enumerate(runs)
    ]


def make_record(
    problem: Problem,
    run: Run,
    scores: dict[str, float],
    device: str = "",
    seconds: float = 0.0,
    *,
    arrays: Mapping[str, AnyArray] | None = None,
    **more: Any,
) -> RunRecord:
    """Return the record of a run with its weights and outputs, and with what ``more`` says of it."""
    beside = {f"val_{CALIBRATED}", f"val_{THRESHOLD}"}
    extra = {name: value for name, value in scores.items() if name in beside and math.isfinite(value)}
    known = {name: value for name, value in scores.items() if name not in beside}
    values = {"status": "ok", "epochs": 0, "curves": {}, "shape": [], "extra": extra, "scores": known, **more}
    found = RunRecord(
        dataset=problem.dataset,
        method=problem.method.name,
        split=run.split.name,
        seed=run.seed,
        seconds=seconds,
        device=device,
        versions=versions(),
        config=problem.config.to_dict(),
        graph_digest=problem.graph.digest,
        **values,
    )
    return found.with_arrays(arrays)
