"""The loss of a batch of runs, and how well they do.

    loss_r = Σ_i share_i (1/M) Σ_m -log p(y_i | sample m) + (wd/2) Σ_l ‖W_r^l‖² [+ λ · consistency]

for run r with its N_r labeled nodes i, of share 1 / N_r each or balanced by class, and M samples m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fishergcn._base.backend import backend_of
from fishergcn._base.reprs import one_line
from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn._settings.choices import ClassWeight
from fishergcn.errors import InputError
from fishergcn.nn import View
from fishergcn.splits import Split
from fishergcn.training.tasks import Standard, Task, find_task

if TYPE_CHECKING:
    from fishergcn.graph import Graph


@dataclass(frozen=True)
class Targets:
    """The labeled nodes of each run, padded to a common length: three tensors of shape (R, N).

    ``rows`` says where the nodes stand in the output of a view, ``labels`` their classes; ``shares`` are 1 / N_r for a
    node, 0 for padding, or what :func:`training_shares` says. In other tasks ``labels`` is what they predict, (R, N) or
    (R, N, L), and ``standards`` has center and scale of each run, shape (R, 2).
    """

    rows: Tensor
    labels: Tensor
    shares: Tensor
    task: Task = find_task("classification")  # noqa: RUF009 (a task has no state)
    standards: Tensor | None = None

    __repr__ = one_line

    @classmethod
    def of(
        cls,
        nodes: Sequence[IntArray],
        labels: AnyArray,
        view: View | None,
        device: torch.device,
        dtype: torch.dtype,
        *,
        shares: Sequence[FloatArray] | None = None,
        task: Task | None = None,
        standards: Sequence[Standard] | None = None,
    ) -> Targets:
        """Place each run's nodes in the output of ``view``, or of all nodes in order without one.

        Without ``shares`` all nodes of a run have the same. ``labels`` are the classes, or what another task knows of
        all nodes, with the ``standards`` of each run.
        """
        longest, others = max(len(each) for each in nodes), standards is not None
        rows = np.zeros((len(nodes), longest), dtype=np.int64)
        classes, padded = (
            np.zeros((*rows.shape, *labels.shape[1:]), float if others else np.int64),
            np.zeros(rows.shape),
        )
        for run, each in enumerate(nodes):
            rows[run, : len(each)] = each if view is None else view.position(each)
            center, scale = standards[run] if standards is not None else (0, 1)
            classes[run, : len(each)] = (labels[each] - center) / scale if others else labels[each]
            padded[run, : len(each)] = 1.0 / max(len(each), 1) if shares is None else shares[run]
        return cls(
            torch.as_tensor(rows, device=device),
            torch.as_tensor(classes, dtype=dtype if others else None, device=device),
            torch.as_tensor(padded, dtype=dtype, device=device),
            find_task("classification") if task is None else task,
            None if standards is None else torch.tensor(standards, dtype=torch.float64, device=device),
        )

    @cached_property
    def _extent(self) -> tuple[int, int, int, int]:
        """The least and largest row and class."""
        return tuple(int(end) for each in (self.rows, self.labels) for end in (each.min(), each.max()))  # type: ignore[return-value]

    def check(self, rows: int, batch: int, classes: int) -> None:
        """Raise unless logits of shape (rows, batch, classes) have these nodes: compiled code follows the numbers."""
        if batch % len(self.rows):
            raise InputError(f"logits must have a multiple of {len(self.rows)} columns of samples, got {batch}.")
        if self.rows.shape != self.labels.shape or self.rows.shape != self.shares.shape:
            raise InputError("rows, labels and shares of targets must have one shape.")
        least, most, first, last = self._extent if self.rows.numel() else (0, -1, 0, -1)
        if least < 0 or most >= rows or first < 0 or last >= classes:
            raise InputError(
                f"targets must be rows below {rows} of classes below {classes}, got up to {most} and {last}."
            )

    def keep(self, runs: Tensor) -> Targets:
        """Return the targets of some runs."""
        standards = None if self.standards is None else self.standards[runs]
        return Targets(self.rows[runs], self.labels[runs], self.shares[runs], self.task, standards)

    @property
    def classes(self) -> bool:
        """Whether they are classes, for which there are compiled kernels."""
        return self.standards is None


def targets_on(
    graph: Graph,
    splits: Sequence[Split],
    part: str,
    view: View | None,
    device: torch.device,
    dtype: torch.dtype,
    *,
    shares: Sequence[FloatArray] | None = None,
) -> Targets:
    """Return what is known of a part of each split, whatever the task of the graph."""
    task, nodes = find_task(graph.task), [getattr(split, part) for split in splits]
    known, own = task.known(graph), None
    if graph.targets is not None:
        own = [task.standard(known, split.train) for split in splits]
    return Targets.of(nodes, known, view, device, dtype, shares=shares, task=task, standards=own)


def training_shares(split: Split, labels: AnyArray, class_weight: ClassWeight) -> FloatArray:
    """Return the share of each training node in the loss, in their order: w_i c_i / Σ_j w_j c_j.

    w is the weight of a node, 1 unless the split says otherwise; c is 1 or, balanced, 1 / (C N_c) where N_c of the
    training nodes have its class and C classes have any.
    """
    nodes = split.train
    weight = np.ones(len(nodes)) if split.node_weight is None else split.node_weight[nodes]
    if class_weight == "balanced":
        _, place, counts = np.unique(labels[nodes], return_inverse=True, return_counts=True)
        weight = weight / (len(counts) * counts[place])
    # Divided by the largest first: a sum of numbers near the largest of float64 would be infinite.
    weight = weight / weight.max()
    return np.asarray(weight / weight.sum())


def scores(logits: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
    """Return mean cross entropy and accuracy of each run over its nodes and samples, or what a task has instead: (R,).

    The logits have shape (p, R * M, C). The accuracy is in float64. It is counted, not summed in floating point: a
    stopping rule must see equal accuracies as equal.
    """
    if not targets.classes:
        grouped, where = _by_run(logits, targets)
        chosen, known = grouped[where], targets.shares > 0
        losses = targets.task.losses(chosen, targets.labels.unsqueeze(2))
        found = targets.task.watched(chosen.detach(), targets.labels, known)
        return (losses.mean(-1) * targets.shares).sum(1), found
    if backend_of(logits) == "numba":
        if torch.is_inference_mode_enabled():
            return measured_scores(logits, targets)[:2]
        return cast("tuple[Tensor, Tensor]", _Scores.apply(logits, targets))  # type: ignore[no-untyped-call]
    return scores_reference(logits, targets)


def scores_reference(logits: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
    """The same in plain differentiable torch."""
    grouped, where = _by_run(logits, targets)
    chosen = grouped[where]
    labels = targets.labels.unsqueeze(-1).expand(chosen.shape[:-1])
    losses = functional.cross_entropy(chosen.flatten(0, 2), labels.flatten(), reduction="none").view(labels.shape)
    hits = (chosen.detach().argmax(-1) == labels) & (targets.shares > 0).unsqueeze(-1)
    accuracy = hits.sum((1, 2)).double() / ((targets.shares > 0).sum(1) * chosen.shape[2])
    return (losses.mean(-1) * targets.shares).sum(1), accuracy


def exact_cross_entropy(logits: Tensor, targets: Targets) -> Tensor:
    """Return the mean cross entropy of each run in float64, shape (R,)."""
    chosen = logits[targets.rows, torch.arange(logits.shape[1], device=logits.device).unsqueeze(1)].double()
    found = torch.log_softmax(chosen, -1).gather(-1, targets.labels.unsqueeze(-1))[..., 0]
    return -(found * targets.shares).sum(1)


def _by_run(logits: Tensor, targets: Targets) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return the logits as (p, R, M, C), and the index of the labeled rows, whose logits are (R, N, M, C)."""
    runs = len(targets.rows)
    run = torch.arange(runs, device=logits.device).unsqueeze(1)
    return logits.view(len(logits), runs, -1, logits.shape[2]), (targets.rows, run)


def measured_scores(logits: Tensor, targets: Targets) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss and accuracy (R,), and the slope of the loss at the labeled rows, (R, N, M, C), by compiled code."""
    from fishergcn._kernels import cpu

    (runs, nodes), (rows, batch, classes) = targets.rows.shape, logits.shape
    targets.check(rows, batch, classes)
    loss, accuracy = torch.empty(runs, dtype=torch.float64), torch.empty(runs, dtype=torch.float64)
    slope = torch.empty((runs, nodes, batch // runs, classes), dtype=logits.dtype)
    arrays = [part.numpy() for part in (logits.contiguous(), targets.rows, targets.labels, targets.shares)]
    cpu.cross_entropy(loss.numpy(), accuracy.numpy(), slope.numpy(), *arrays)
    return loss.to(logits.dtype), accuracy, slope


def scores_slope(out: Tensor, slope: Tensor, targets: Targets, grad: Tensor | None = None) -> Tensor:
    """Return ``out``, overwritten by Σ_r grad_r d loss_r / d logits (all grad_r 1 if not given), for a known slope."""
    from fishergcn._kernels import cpu

    grad = slope.new_ones(len(slope)) if grad is None else grad.contiguous()
    cpu.cross_entropy_backward(out.zero_().numpy(), slope.numpy(), grad.numpy(), targets.rows.numpy())
    return out


class _Scores(torch.autograd.Function):
    """One pass over the labeled rows: some twenty small torch operations took longer than the network's products."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
        loss, accuracy, slope = measured_scores(logits.detach(), targets)
        ctx.targets = targets
        ctx.save_for_backward(logits, slope)
        ctx.mark_non_differentiable(accuracy)
        return loss, accuracy

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
        logits, slope = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative may be asked for: the slope as a function of the logits
            return _gradient(logits, ctx.targets, grad), None
        return scores_slope(torch.empty_like(logits), slope, ctx.targets, grad), None


def _gradient(logits: Tensor, targets: Targets, grad: Tensor) -> Tensor:
    """Return Σ_r grad_r d loss_r / d logits in plain differentiable torch."""
    grouped, where = _by_run(logits, targets)
    errors = torch.softmax(grouped[where], -1) - functional.one_hot(targets.labels, logits.shape[2]).unsqueeze(2)
    shares = targets.shares * grad.unsqueeze(1) / grouped.shape[2]
    result = torch.zeros_like(grouped).index_put(where, errors * shares[:, :, None, None], accumulate=True)
    return result.view_as(logits)


def penalty(weights: Sequence[Tensor], weight_decay: float) -> Tensor:
    """Return (wd/2) Σ ‖W_r‖² of each run over the tensors that decay, shape (R,)."""
    if not weights:
        return torch.zeros(())
    return cast("Tensor", _Penalty.apply(weight_decay, *weights))  # type: ignore[no-untyped-call]


class _Penalty(torch.autograd.Function):
    """A squared norm whose gradient is one pass over the weights."""

    @staticmethod
    def forward(ctx: Any, weight_decay: float, *weights: Tensor) -> Tensor:
        ctx.weight_decay = weight_decay
        ctx.save_for_backward(*weights)
        norms = [torch.linalg.vector_norm(each, dim=tuple(range(1, each.ndim))).square() for each in weights]
        return 0.5 * weight_decay * torch.stack(norms).sum(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        factor = ctx.weight_decay * grad
        return None, *(factor.view(-1, *[1] * (each.ndim - 1)) * each for each in ctx.saved_tensors)


def consistency(logits: Tensor, runs: int, temperature: float, task: Task | None = None) -> Tensor:
    """Return the mean over nodes and samples of ‖p_m - sharpen(p̄, τ)‖² of each run, shape (R,).

    p̄ is the mean of the M predictions, sharpen(p̄, τ) ∝ p̄^{1/τ}; no gradient flows through it. This is the consistency
    term of GRAND (Feng et al., NeurIPS 2020). Another task than classification says what it is there.
    """
    task = find_task("classification") if task is None else task
    return task.consistency(logits.view(len(logits), runs, -1, logits.shape[2]), temperature)
