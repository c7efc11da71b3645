"""A run in mini-batches from its first epoch to its record."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fishergcn.training._engine import Progress
from fishergcn.training._records import RunRecord
from fishergcn.training._stopping import should_stop

if TYPE_CHECKING:
    from fishergcn.training._minibatch import MiniBatchTrainer

__all__ = ["train_epochs"]


def train_epochs(
    trainer: MiniBatchTrainer, *, keep_weights: bool, on_epoch: Callable[[Progress], None] | None
) -> RunRecord:
    """Train until the stopping rule says so, and return what came out."""
    config, start = trainer.problem.config, time.perf_counter()
    history: list[tuple[float, ...]] = []
    best, kept = math.inf, _state(trainer)
    diverged = False
    for epoch in range(config.max_epochs):
        trained = trainer.epoch(epoch)
        val_loss, _, val_accuracy = trainer.scores(trainer.stack.weights, "val")
        history.append((*trained, val_loss, val_accuracy))
        diverged = not np.isfinite(history[-1]).all()
        curve = np.array(history).T
        stop = diverged or bool(should_stop(config.stopping, curve[2], curve[3], config.patience))
        stop = stop or epoch + 1 == config.max_epochs
        if config.test_at == "last" or val_loss < best:
            best, kept = min(best, val_loss), _state(trainer)
        if on_epoch is not None:
            on_epoch(Progress(epoch + 1, int(not stop), int(stop), val_accuracy))
        if stop:
            break
    return _record(trainer, history, kept, diverged, time.perf_counter() - start, keep_weights)


def _state(trainer: MiniBatchTrainer) -> tuple[list[Tensor], list[float]]:
    """Return copies of the weights and of the shape ϕ of the neighborhood."""
    stack, config = trainer.stack, trainer.problem.config
    shape: list[float] = []
    if trainer.problem.neighborhood is not None:
        rank = trainer.problem.neighborhood.rank
        shape = [config.radius] * rank
        if stack.xi is not None:
            shape = (config.radius * torch.sigmoid(stack.xi.detach()[0])).tolist()
    return [each.detach().clone() for each in stack.weights], shape


def _record(
    trainer: MiniBatchTrainer,
    history: list[tuple[float, ...]],
    kept: tuple[list[Tensor], list[float]],
    diverged: bool,
    seconds: float,
    keep_weights: bool,
) -> RunRecord:
    from fishergcn._base.provenance import device_name, versions

    problem, run = trainer.problem, trainer.run
    weights, shape = kept
    names = ("loss", "cross_entropy", "accuracy")
    scores: dict[str, Any] = {
        f"{part}_{name}": math.nan if diverged else value
        for part in ("val", "test")
        for name, value in zip(names, trainer.scores(weights, part), strict=True)
    }
    curves = ("train_loss", "train_accuracy", "val_loss", "val_accuracy")
    return RunRecord(
        dataset=problem.graph.name or problem.graph.digest,
        method=problem.method.name,
        split=run.split.name,
        seed=run.seed,
        status="diverged" if diverged else "ok",
        epochs=len(history),
        **scores,
        curves={name: list(values) for name, values in zip(curves, zip(*history, strict=True), strict=True)},
        shape=shape,
        seconds=seconds,
        device=device_name(trainer.device),
        versions=versions(),
        config=problem.config.to_dict(),
        graph_digest=problem.graph.digest,
        weights=tuple(each[0].cpu().numpy() for each in weights) if keep_weights else None,
    )
