"""The stacked engine: many runs of one method on one graph, trained side by side.

All runs of a chunk go through every kernel together, as batch entries run * M + sample; each has its own
weights, random streams, labeled nodes and moment to stop. Runs that have stopped leave the stack.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fishergcn._base.memory import keep_freed_memory
from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.nn import Dropout, Operator, View, full_view, layer_sizes, local_view, logits, make_features
from fishergcn.operators import SparseMatrix, SparsePlusLowRank
from fishergcn.perturbation import LinkNoise
from fishergcn.streams import initial_weights, initial_xi, keys_of, noise_block
from fishergcn.training._objective import Targets, consistency, penalty, scores
from fishergcn.training._problem import Problem, Run
from fishergcn.training._records import RunRecord
from fishergcn.training._stopping import should_stop

__all__ = ["Progress", "train_chunk"]

_NOISE_EPOCHS = 50  # noise is drawn for so many epochs at once
_LEAVE_SHARE = 0.1  # the stack is rebuilt when this share of it has stopped


@dataclass(frozen=True)
class Progress:
    """Where a chunk stands after an epoch."""

    epoch: int
    active: int
    finished: int
    val_accuracy: float


class Stack:
    """Weights, adversaries and optimizer of the runs that are still training."""

    def __init__(self, problem: Problem, keys: Tensor, device: torch.device) -> None:
        config = problem.config
        self.dtype = getattr(torch, config.dtype)
        sizes = layer_sizes(problem.graph.num_features, config.hidden, problem.graph.num_classes)
        self.keys = keys.to(device)
        self.weights = [
            nn.Parameter(initial_weights(self.keys, layer, fan_in, fan_out, self.dtype))
            for layer, (fan_in, fan_out) in enumerate(pairwise(sizes))
        ]
        self.xi: nn.Parameter | None = None
        if problem.neighborhood is not None and config.adversarial:
            self.xi = nn.Parameter(initial_xi(keys, problem.neighborhood.rank).to(device))
        self.learning_rate = config.learning_rate
        self.optimizer = self._optimizer()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """All that is learned: what minimizes the loss, then what maximizes it."""
        return [*self.weights, *([] if self.xi is None else [self.xi])]

    def _optimizer(self) -> torch.optim.Adam:
        groups: list[dict[str, object]] = [{"params": self.weights}]
        if self.xi is not None:
            groups.append({"params": [self.xi], "maximize": True})
        return torch.optim.Adam(groups, lr=self.learning_rate, fused=True)

    def keep(self, runs: Tensor) -> None:
        """Let the other runs leave; the optimizer goes on where it was."""
        old = self.optimizer
        states = [old.state[parameter] for parameter in self.parameters]
        self.keys = self.keys[runs]
        self.weights = [nn.Parameter(each.detach()[runs]) for each in self.weights]
        self.xi = None if self.xi is None else nn.Parameter(self.xi.detach()[runs])
        self.optimizer = self._optimizer()
        for parameter, state in zip(self.parameters, states, strict=True):
            if state:
                moments = {name: state[name][runs] for name in ("exp_avg", "exp_avg_sq")}
                self.optimizer.state[parameter] = {"step": state["step"], **moments}


class Trainer:
    """One optimization step of all runs, and their scores on validation and test nodes."""

    def __init__(self, problem: Problem, runs: Sequence[Run], device: torch.device) -> None:
        config, graph = problem.config, problem.graph
        self.problem, self.runs, self.device = problem, list(runs), device
        self.dtype: torch.dtype = getattr(torch, config.dtype)
        self.depth = len(config.hidden) + 1
        self.features = make_features(
            graph.features, normalize=config.normalize_features, device=device, dtype=self.dtype
        )
        dataset = graph.name or graph.digest
        self.stack = Stack(problem, keys_of(dataset, [(run.split.name, run.seed) for run in runs]), device)
        self.links = self._link_noise()
        self.train_view = self._training_view()
        self.train_targets = self._targets("train", self.train_view)
        self.val_view = self._view("val")
        self.val_targets = self._targets("val", self.val_view)
        self._noise: tuple[range, FloatArray] = (range(0), np.empty(0))
        if problem.neighborhood is not None:
            self.neighborhood = problem.neighborhood.to(device, self.dtype)

    def _link_noise(self) -> LinkNoise | None:
        config = self.problem.config
        if not self.problem.method.perturbed or config.perturbation == "spectral" or config.link_rate == 0:
            return None
        flip = config.perturbation == "link-flip"
        return LinkNoise(self.problem.graph.adjacency, config.link_rate, flip, self.device, self.dtype)

    def _nodes(self, part: str) -> list[IntArray]:
        return [getattr(run.split, part) for run in self.runs]

    def _view(self, part: str) -> View:
        nodes = np.unique(np.concatenate(self._nodes(part)))
        return local_view(
            self.features, self.problem.propagation, nodes, self.depth, device=self.device, dtype=self.dtype
        )

    def _training_view(self) -> View:
        """Show all nodes where a perturbation or consistency involves them, else the labeled ones' reach."""
        whole = self.problem.neighborhood is not None or self.links is not None or self.problem.method.consistent
        if not whole:
            return self._view("train")
        plain = SparseMatrix.from_scipy(self.problem.propagation, device=self.device, dtype=self.dtype)
        return full_view(self.features, plain, self.depth)

    def _targets(self, part: str, view: View) -> Targets:
        labels = self.problem.graph.labels
        if labels is None:
            raise AssertionError("prepare() refuses graphs without labels")
        return Targets.of(self._nodes(part), labels, view, self.device, self.dtype)

    def shape(self) -> Tensor | None:
        """ϕ of each run, shape (R, k); None without a neighborhood."""
        if self.problem.neighborhood is None:
            return None
        radius = self.problem.config.radius
        if self.stack.xi is None:
            return torch.full(
                (len(self.stack), self.neighborhood.rank), radius, dtype=torch.float64, device=self.device
            )
        return radius * torch.sigmoid(self.stack.xi)

    def noise(self, epoch: int) -> Tensor:
        """Return e of this step, shape (R, M, k)."""
        block, drawn = self._noise
        if epoch not in block or drawn.shape[1] != len(self.stack):
            block = range(epoch, epoch + _NOISE_EPOCHS)
            config = self.problem.config
            drawn = noise_block(self.stack.keys, block, self.problem.samples, self.neighborhood.rank, config.noise)
            self._noise = (block, drawn)
        return torch.from_numpy(drawn[epoch - block.start]).to(self.device)

    def operator(self, epoch: int) -> Operator | None:
        """Return the perturbed graphs of this step, or None for the graph itself."""
        if self.links is not None:
            return self.links.draw(self.stack.keys, self.problem.samples, epoch)
        shape = self.shape()
        if shape is None:
            return None
        phi = self.neighborhood.phi(self.noise(epoch) * shape.unsqueeze(1), 1.0)
        coefficients = self.neighborhood.coefficients(phi).flatten(0, 1)
        base = self.train_view.operators[0]
        if not isinstance(base, SparseMatrix):
            raise AssertionError("the training view of a perturbed method holds the plain matrix")
        return SparsePlusLowRank(base, self.neighborhood.basis, coefficients)

    def objective(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Return the loss and the training accuracy of each run in this step, two tensors of shape (R,)."""
        config, method = self.problem.config, self.problem.method
        dropout = Dropout(self.stack.keys, self.problem.samples, epoch, config.dropout)
        operator = self.operator(epoch)
        view = self.train_view if operator is None else full_view(self.features, operator, self.depth)
        out = logits(self.stack.weights, view, dropout)
        cross_entropy, accuracy = scores(out, self.train_targets)
        loss = cross_entropy + penalty(self.stack.weights, config.weight_decay)
        if method.consistent and config.consistency > 0:
            loss = loss + config.consistency * consistency(out, len(self.stack), config.temperature)
        return loss, accuracy

    def step(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Take one step of Adam for the weights (down) and ξ (up); return loss and accuracy before it."""
        self.stack.optimizer.zero_grad(set_to_none=True)
        loss, accuracy = self.objective(epoch)
        loss.sum().backward()  # type: ignore[no-untyped-call]
        self.stack.optimizer.step()
        return loss.detach(), accuracy

    @torch.inference_mode()
    def validate(self) -> tuple[Tensor, Tensor]:
        """Return validation loss (with weight decay) and accuracy of each run, without noise or dropout."""
        cross_entropy, accuracy = scores(logits(self.stack.weights, self.val_view), self.val_targets)
        return cross_entropy + penalty(self.stack.weights, self.problem.config.weight_decay), accuracy

    def keep(self, runs: Tensor) -> None:
        """Let the other runs leave the stack."""
        self.stack.keep(runs)
        self.train_targets, self.val_targets = self.train_targets.keep(runs), self.val_targets.keep(runs)
        block, drawn = self._noise
        self._noise = (block, drawn[:, runs.cpu().numpy()] if len(block) else drawn)

    @torch.inference_mode()
    def final_scores(self, weights: Sequence[Tensor], part: str) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return loss, cross entropy and accuracy of all runs on val or test nodes, NaN without any."""
        tested = np.array([len(nodes) > 0 for nodes in self._nodes(part)])
        if not tested.any():
            nothing = np.full(len(tested), np.nan)
            return nothing, nothing, nothing
        view = self._view(part)
        cross_entropy, accuracy = scores(logits(weights, view), self._targets(part, view))
        loss = cross_entropy + penalty(weights, self.problem.config.weight_decay)
        measured = torch.stack([loss.double(), cross_entropy.double(), accuracy]).cpu().numpy()
        return tuple(np.where(tested, each, np.nan) for each in measured)  # type: ignore[return-value]


def train_chunk(
    problem: Problem,
    runs: Sequence[Run],
    device: torch.device,
    *,
    keep_weights: bool = False,
    on_epoch: Callable[[Progress], None] | None = None,
) -> list[RunRecord]:
    """Train runs side by side.

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

    Returns
    -------
    list of RunRecord
        In the order of ``runs``.
    """
    start = time.perf_counter()
    if device.type == "cpu":
        keep_freed_memory()
    history = _History(len(runs), problem.config.max_epochs)
    finals = _train(problem, runs, device, history, on_epoch)
    return finals.records(history, time.perf_counter() - start, keep_weights)


class _History:
    """Curves of all runs, one column per epoch."""

    NAMES = ("train_loss", "train_accuracy", "val_loss", "val_accuracy")

    def __init__(self, runs: int, epochs: int) -> None:
        self.values = np.full((len(self.NAMES), runs, epochs), np.nan)
        self.epochs = np.zeros(runs, dtype=np.int64)
        self.diverged = np.zeros(runs, dtype=np.bool_)

    def curves(self, run: int) -> dict[str, list[float]]:
        length = self.epochs[run]
        return {name: self.values[row, run, :length].tolist() for row, name in enumerate(self.NAMES)}


class _Finals:
    """The weights with which each run is tested, and the learned shapes."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.weights = [each.detach().clone() for each in trainer.stack.weights]
        shape = trainer.shape()
        self.shape = None if shape is None else shape.detach().clone()
        self.best = np.full(len(trainer.runs), math.inf)

    def store(self, runs: IntArray, rows: IntArray) -> None:
        """Copy the state of stack rows ``rows`` as that of ``runs``."""
        target = torch.as_tensor(runs, device=self.trainer.device)
        source = torch.as_tensor(rows, device=self.trainer.device)
        for kept, current in zip(self.weights, self.trainer.stack.weights, strict=True):
            kept[target] = current.detach()[source]
        shape = self.trainer.shape()
        if self.shape is not None and shape is not None:
            self.shape[target] = shape.detach()[source]

    def records(self, history: _History, seconds: float, keep_weights: bool) -> list[RunRecord]:
        from fishergcn._base.provenance import device_name, versions

        trainer = self.trainer
        problem, graph = trainer.problem, trainer.problem.graph
        val, test = (trainer.final_scores(self.weights, part) for part in ("val", "test"))
        shapes = None if self.shape is None else self.shape.cpu().numpy()
        arrays = [each.cpu().numpy() for each in self.weights] if keep_weights else []
        return [
            RunRecord(
                dataset=graph.name or graph.digest,
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
                graph_digest=graph.digest,
                weights=_slices(arrays, index),
            )
            for index, run in enumerate(trainer.runs)
        ]


def _named(part: str, values: tuple[FloatArray, ...], index: int, diverged: bool) -> dict[str, Any]:
    names = (f"{part}_loss", f"{part}_cross_entropy", f"{part}_accuracy")
    return {name: math.nan if diverged else float(value[index]) for name, value in zip(names, values, strict=True)}


def _slices(arrays: list[AnyArray], index: int) -> tuple[AnyArray, ...] | None:
    return tuple(each[index].copy() for each in arrays) or None


def _train(
    problem: Problem,
    runs: Sequence[Run],
    device: torch.device,
    history: _History,
    on_epoch: Callable[[Progress], None] | None,
) -> _Finals:
    config = problem.config
    trainer = Trainer(problem, runs, device)
    finals = _Finals(trainer)
    stacked = np.arange(len(runs))  # which run stands in which row of the stack
    done = np.zeros(len(runs), dtype=np.bool_)  # of the rows of the stack
    for epoch in range(config.max_epochs):
        measured = torch.stack([*trainer.step(epoch), *trainer.validate()]).double().cpu().numpy()
        active = np.flatnonzero(~done)
        names = stacked[active]
        history.values[:, names, epoch] = measured[:, active]
        history.epochs[names] = epoch + 1
        broken = ~np.isfinite(measured[:, active]).all(axis=0)
        history.diverged[names[broken]] = True
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
            on_epoch(
                Progress(
                    epoch + 1,
                    int((~done).sum()),
                    len(runs) - int((~done).sum()),
                    float(np.nanmean(accuracies[:, -1])),
                )
            )
        if done.all():
            break
        if done.mean() >= _LEAVE_SHARE:
            remaining = np.flatnonzero(~done)
            trainer.keep(torch.as_tensor(remaining, device=device))
            stacked, done = stacked[remaining], done[remaining]
    return finals
