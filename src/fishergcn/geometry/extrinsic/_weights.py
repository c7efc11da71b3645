"""The Fisher information of a network with respect to the weights of a layer, and a step along it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import linalg as sparse_linalg
from torch import Tensor

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.reprs import one_line
from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import ConvergenceError, InputError
from fishergcn.geometry.extrinsic._fisher import Kind, check_kind, output_metric, push_forward
from fishergcn.geometry.extrinsic._model import check_nodes, layer_name, logits, one_network, parameters, targets
from fishergcn.models import TrainedModel

# A dense matrix costs two passes of the network a column: 134 MB and a minute on Cora at this size.
DENSE_PARAMETERS = 4096


class WeightFisher(sparse_linalg.LinearOperator):
    """G = (1/N) Σ_i J_iᵀ F_i J_i with J_i = ∂logits_i/∂vec W^l, as Gauss-Newton products; see :func:`weight_fisher`.

    ``G @ v`` is one forward-mode pass (J v), the metric of the outputs (F), and one backward pass (Jᵀ).
    """

    def __init__(self, model: TrainedModel, layer: str, nodes: IntArray, kind: Kind, samples: int, seed: int) -> None:
        self._model, self._layer, self._rows = model, layer, torch.as_tensor(nodes)
        self._weight = parameters(model)[layer].clone().requires_grad_()
        self._logits = self._function(self._weight)  # its graph serves all backward passes
        self._metric = output_metric(self._logits, kind, self._labels, samples, seed)
        self.weight_shape: tuple[int, int] = (self._weight.shape[0], self._weight.shape[1])
        size = self._weight.numel()
        super().__init__(np.dtype(np.float64), (size, size))  # type: ignore[call-arg]

    def _function(self, weight: Tensor) -> Tensor:
        return logits(self._model, changed={self._layer: weight})[self._rows]

    def _labels(self) -> Tensor:
        return targets(self._model, self._logits, self._rows.numpy())

    def _matvec(self, x: AnyArray) -> FloatArray:
        direction = torch.as_tensor(np.array(x, dtype=np.float64)).view(self.weight_shape)
        _, tangent = push_forward(self._function, self._weight.detach(), direction)
        return self.pull_back(self._metric.apply(tangent.unsqueeze(-1)).squeeze(-1))

    def _adjoint(self) -> WeightFisher:
        return self

    def pull_back(self, errors: Tensor) -> FloatArray:
        """Return (1/N) Σ_i J_iᵀ r_i, shape (P,), for r of shape (N, C)."""
        (found,) = torch.autograd.grad(self._logits, self._weight, errors / len(errors), retain_graph=True)
        return np.asarray(found.numpy().ravel())

    def loss_gradient(self) -> FloatArray:
        """Return ∇ℓ = (1/N) Σ_i J_iᵀ (p_i - e_y), shape (P,), ℓ the mean of -log p(y_i) over the nodes."""
        errors = torch.softmax(self._logits.detach(), dim=1)
        errors[torch.arange(len(errors)), self._labels()] -= 1
        return self.pull_back(errors)

    def todense(self) -> FloatArray:
        """Return the matrix, shape (P, P), for layers of at most 4096 weights."""
        size = self.shape[0]
        if size > DENSE_PARAMETERS:
            raise InputError(
                f"A dense Fisher information needs a layer of at most {DENSE_PARAMETERS} weights, "
                f"got {size}: use products, G @ v."
            )
        matrix = np.asarray(self @ np.eye(size))
        return np.asarray((matrix + matrix.T) / 2)


def weight_fisher(
    model: TrainedModel,
    layer: int,
    kind: Kind = "exact",
    nodes: Sequence[int] | AnyArray | None = None,
    *,
    samples: int = 100,
    seed: int = 0,
) -> WeightFisher:
    """G^E(W^l) = (1/N) Σ_i E_y[g_i g_iᵀ], g_i = ∂(-log p(y | node i))/∂vec W^l, as an operator with ``@``.

    ``model`` is one network with weights, ``layer`` is l, from 0, and the other arguments are those of
    :func:`fisher_information`.

    Returns
    -------
    WeightFisher
        A SciPy ``LinearOperator`` of shape (P, P), P the number of weights; vec runs through W^l, of shape
        ``weight_shape``, row by row as ``numpy.ravel`` does. Its rank is at most N (C - 1), and N for the empirical
        kind. ``todense()`` is the matrix of a layer of at most 4096 weights, ``loss_gradient()`` is ∇ℓ, of shape (P,),
        with ℓ the mean of -log p(y_i) over the nodes.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4))
    >>> G = weight_fisher(fishergcn.TrainedModel.from_network(fishergcn.GCN(4, (3,), 2), graph), layer=1)
    >>> G.shape, G.weight_shape, bool(np.allclose(G @ np.arange(6), G.todense() @ np.arange(6)))
    ((6, 6), (3, 2), True)
    >>> bool(np.abs(G @ np.ones(6)).max() < 1e-12)  # both columns of W grow alike: all predictions stay
    True
    """
    labeled, network = check_kind(kind), one_network(model, links=False)
    chosen = check_nodes(network, nodes, labeled=labeled)
    return WeightFisher(network, layer_name(network, layer), chosen, kind, samples, seed)


@dataclass(frozen=True)
class NaturalGradientStep:
    """A step of the weights of one layer; see :func:`natural_gradient_step`."""

    step: FloatArray
    gradient: FloatArray
    decrease: float
    iterations: int
    residual: float

    __repr__ = one_line


def natural_gradient_step(
    model: TrainedModel,
    layer: int,
    nodes: Sequence[int] | AnyArray | None = None,
    *,
    damping: float = 1e-3,
    learning_rate: float = 1.0,
    kind: Kind = "exact",
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    samples: int = 100,
    seed: int = 0,
) -> NaturalGradientStep:
    """δ = -η (G^E(W^l) + γI)^-1 ∇ℓ by conjugate gradients; the model is left as it is.

    Parameters
    ----------
    model, layer, kind, samples, seed
        As in :func:`weight_fisher`.
    nodes : sequence of int, optional
        Labeled nodes, over which both the loss ℓ (the mean of -log p(y), without weight decay) and G are
        averaged; all that are labeled by default.
    damping, learning_rate : float
        γ > 0, which there must be since G has a null space, and η > 0.
    tolerance, max_iterations
        Of the relative residual, and products with G before a ConvergenceError; more damping makes it easier.

    Returns
    -------
    NaturalGradientStep
        ``step`` δ, of the shape of W^l, to be added to it; ``gradient`` ∇ℓ; ``decrease``, by how much the quadratic
        model ℓ + ∇ℓᵀδ + ½ δᵀ(G + γI)δ falls, (η - η²/2) ∇ℓᵀ(G + γI)^-1∇ℓ, never negative for 0 ≤ η ≤ 2; ``iterations``,
        the products with G; ``residual``, ‖(G + γI)δ + η∇ℓ‖ / ‖η∇ℓ‖.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> network = fishergcn.GCN(4, (3,), 2, generator=torch.Generator().manual_seed(0))
    >>> before = natural_gradient_step(fishergcn.TrainedModel.from_network(network, graph), layer=1, damping=0.1)
    >>> with torch.no_grad():
    ...     network.weights[1] += torch.as_tensor(before.step, dtype=torch.float32)
    >>> after = natural_gradient_step(fishergcn.TrainedModel.from_network(network, graph), layer=1, damping=0.1)
    >>> before.decrease > after.decrease > 0  # less is left to gain
    True
    """
    damping = check_real("damping", damping, above=0)
    rate = check_real("learning_rate", learning_rate, above=0)
    tolerance = check_real("tolerance", tolerance, above=0, below=1)
    limit = check_integer("max_iterations", max_iterations, minimum=1)
    network = one_network(model, links=False)
    chosen = check_nodes(network, nodes, labeled=True)
    fisher = weight_fisher(network, layer, kind, chosen, samples=samples, seed=seed)
    gradient = fisher.loss_gradient()
    direction, iterations, residual = _solve(fisher, gradient, damping, tolerance, limit)
    if residual > tolerance:
        raise ConvergenceError(
            f"The natural gradient must be within {tolerance:g}, got a residual of {residual:.2g} after "
            f"{iterations} products; raise damping or max_iterations."
        )
    curvature = direction @ (fisher @ direction + damping * direction)
    return NaturalGradientStep(
        step=-rate * direction.reshape(fisher.weight_shape),
        gradient=gradient.reshape(fisher.weight_shape),
        decrease=float(rate * (gradient @ direction) - rate**2 / 2 * curvature),
        iterations=iterations,
        residual=residual,
    )


def _solve(
    fisher: WeightFisher, gradient: FloatArray, damping: float, tolerance: float, limit: int
) -> tuple[FloatArray, int, float]:
    """Solve (G + γI) x = ∇ℓ; return x, the products taken and the relative residual."""
    products = 0

    def damped(x: FloatArray) -> FloatArray:
        nonlocal products
        products += 1
        return np.asarray(fisher @ x + damping * x)

    norm = float(np.linalg.norm(gradient))
    if norm == 0:
        return np.zeros_like(gradient), 0, 0.0
    system = sparse_linalg.LinearOperator(shape=fisher.shape, dtype=np.float64, matvec=damped)
    # The recursive residual of the method drifts from the true one: ask for a little more.
    x, _ = sparse_linalg.cg(system, gradient, rtol=tolerance / 2, atol=0.0, maxiter=limit)
    residual = float(np.linalg.norm(fisher @ x + damping * x - gradient)) / norm
    return np.asarray(x), products, residual
