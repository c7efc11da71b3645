"""Steps and validations of a trainer on the CPU by compiled kernels: what autograd makes of ``Trainer.objective``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.types import AnyArray
from fishergcn.nn import CompiledNetwork, Dropout, View
from fishergcn.operators import IdentityOperator, SparseMatrix, SparsePlusLowRank
from fishergcn.training._objective import Targets

if TYPE_CHECKING:
    from fishergcn.training._engine import Trainer


class CompiledStep:
    """The steps of a trainer whose plan (``plan_step``) is the compiled one."""

    def __init__(self, trainer: Trainer) -> None:
        # The trainer is given in each call: kept here, it would outlive its last use by a cycle of references.
        view, nodes = _labeled_view(_sparse_view(trainer.train_view), trainer)
        self.train, self.val = CompiledNetwork(view), CompiledNetwork(_sparse_view(trainer.val_view))
        if not all(CompiledNetwork.fits(each.view, trainer.stack.layers) for each in (self.train, self.val)):
            raise AssertionError("plan_step() chose compiled kernels for arrays that they do not know")
        # Where rows of the trainer's view stand in that of the labeled nodes.
        self._places = None if nodes is None else np.zeros(trainer.problem.graph.num_nodes, dtype=np.int64)
        if nodes is not None and self._places is not None:
            self._places[nodes] = np.arange(len(nodes))

    def validate(self, trainer: Trainer) -> tuple[Tensor, Tensor]:
        """Return the logits of the validation nodes, and what the loss of each run has beside its cross entropy."""
        return self.val.forward(trainer.stack.layers), _penalty(trainer)

    @torch.no_grad()
    def gradients(self, trainer: Trainer, epoch: int, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Leave the gradients of the loss in the parameters; return loss and accuracy of each run."""
        adversary, operator, phi = trainer.stack.adversary, None, None
        if adversary is not None:
            noise = adversary.noise(epoch) if noise is None else noise
            phi = adversary.draw(noise=noise)
            operator = cast("SparsePlusLowRank", adversary.neighborhood.operator(phi))  # as plan_step() has made sure
        stack, config = trainer.stack, trainer.problem.config
        dropout = Dropout(stack.keys, trainer.problem.samples, epoch, config.dropout)
        loss = _Loss(trainer.train_targets, trainer.problem.samples, self._places)
        layers = stack.layers
        slopes = [each.detach() * config.weight_decay for each in layers]
        found = self.train.gradients(layers, slopes, dropout, loss.slope, operator)
        for parameter, each in zip(layers, slopes, strict=True):
            parameter.grad = each
        if adversary is not None and stack.xi is not None and noise is not None and phi is not None:
            stack.xi.grad = adversary.xi_gradient(found.view(phi.shape), noise, phi)
        return loss.total(layers[0].dtype) + _penalty(trainer), loss.accuracy()


class _Loss:
    """The cross entropy of a step, sample by sample."""

    def __init__(self, targets: Targets, samples: int, places: AnyArray | None) -> None:
        rows = targets.rows.numpy()
        self.rows = rows if places is None else places[rows]
        self.labels, self.shares, self.samples = targets.labels.numpy(), targets.shares.numpy(), samples
        self.losses, self.hits = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)

    def slope(self, b: int, logits: AnyArray) -> AnyArray:
        """Return the gradient of the loss in the logits (p, C) of batch entry b; note the loss and the hits."""
        from fishergcn._kernels.cpu_network import cross_entropy_of_sample

        run, out = b // self.samples, np.empty_like(logits)
        given = self.rows[run], self.labels[run], self.shares[run]
        loss, hits = cross_entropy_of_sample(out, logits, *given, self.samples)
        self.losses[run] += loss
        self.hits[run] += hits
        return out

    def total(self, dtype: torch.dtype) -> Tensor:
        """Return the mean over nodes and samples of each run, shape (R,)."""
        return torch.from_numpy(self.losses).to(dtype)

    def accuracy(self) -> Tensor:
        """Return the share of hits of each run, shape (R,), float64."""
        return torch.from_numpy(self.hits / np.maximum((self.shares > 0).sum(1) * self.samples, 1))


def _sparse_view(view: View) -> View:
    """Return a view whose identities, as nodes without links have them, are sparse matrices like the others."""
    operators = tuple(
        SparseMatrix.from_scipy(sparse.eye_array(each.shape[0], format="csr"), dtype=each.dtype)
        if isinstance(each, IdentityOperator)
        else each
        for each in view.operators
    )
    return View(view.features, operators, view.rows)


def _labeled_view(view: View, trainer: Trainer) -> tuple[View, AnyArray | None]:
    """Return a view without the outputs that no loss looks at, and which are left if some are not."""
    if view.rows[-1] is not None:
        return view, None
    matrix, nodes = view.operators[-1], np.unique(np.concatenate([run.split.train for run in trainer.runs]))
    if not isinstance(matrix, SparseMatrix):
        raise AssertionError("plan_step() chose compiled kernels for a matrix that they do not know")
    last = SparseMatrix.from_scipy(matrix.scipy[nodes], dtype=matrix.dtype)
    rows = (*view.rows[:-1], torch.as_tensor(nodes, dtype=torch.int32))
    return View(view.features, (*view.operators[:-1], last), rows), nodes


def _penalty(trainer: Trainer) -> Tensor:
    """Return what ``penalty`` does, as plain products: autograd's functions take longer than these."""
    layers = trainer.stack.layers
    arrays = [each.detach().numpy() for each in layers]
    norms = [float(sum(np.vdot(each[run], each[run]) for each in arrays)) for run in range(len(arrays[0]))]
    return torch.tensor(norms, dtype=layers[0].dtype) * (0.5 * trainer.problem.config.weight_decay)
