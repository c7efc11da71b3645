"""The Fisher information of a network with respect to the coordinates of its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic._model import check_nodes, in_neighborhood, logits, targets
from fishergcn.models import TrainedModel
from fishergcn.perturbation import Neighborhood

Kind: TypeAlias = Literal["exact", "empirical", "monte-carlo"]


def fisher_information(
    model: TrainedModel,
    neighborhood: Neighborhood,
    phi: float | Sequence[float] | AnyArray | Tensor = 0.0,
    kind: Kind = "exact",
    nodes: Sequence[int] | AnyArray | None = None,
    *,
    samples: int = 100,
    seed: int = 0,
) -> FloatArray:
    """G^E(φ) = (1/N) Σ_i J_iᵀ F_i J_i with J_i = ∂logits_i/∂φ, by k forward-mode products; (k, k), symmetric and p.s.d.

    F_i = diag p_i - p_i p_iᵀ for the exact information, the expectation over labels drawn from the network itself; (p_i
    - e_y)(p_i - e_y)ᵀ at the observed label y for the empirical one, so that G^E is the mean of g_i g_iᵀ, g_i = ∂(-log
    p(y_i))/∂φ; the mean of the same over ``samples`` labels drawn from p_i for the Monte Carlo estimate. No factor 1/2:
    KL(p(φ) : p(φ + dφ)), averaged over nodes, is ½ dφᵀ G^E dφ. G^E·1 = 0, as φ and φ + c·1 are the same graph. J is
    held for the chosen nodes, N x C x k; no n x n derivative is made.

    Parameters
    ----------
    model : TrainedModel
        One network of any depth, which predicts without dropout, in float64; its graph has labels for the empirical
        kind. :meth:`fishergcn.TrainedModel.from_network` takes networks that were trained elsewhere.
    neighborhood : Neighborhood
        Ã(φ), of rank k.
    phi : float or array of shape (k,)
        Where; 0 is the graph itself.
    kind : {"exact", "empirical", "monte-carlo"}
        Which labels the outer product is averaged over.
    nodes : sequence of int, optional
        The N nodes; all by default, or all labeled ones for the empirical kind.
    samples, seed : int
        Of the Monte Carlo estimate: labels per node.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], features=np.eye(4))
    >>> model = fishergcn.TrainedModel.from_network(fishergcn.GCN(4, (3,), 2), graph)
    >>> G = fisher_information(model, Neighborhood(model.propagation, rank=2))
    >>> G.shape, bool(np.abs(G.sum(axis=1)).max() < 1e-12)
    ((2, 2), True)
    """
    return information(model, neighborhood, phi, kind, nodes, samples, seed).mean()


def _point(neighborhood: Neighborhood, phi: float | Sequence[float] | AnyArray | Tensor) -> Tensor:
    """Return φ as a float64 vector of k entries; a number stands for all of them."""
    values = phi.detach().cpu().numpy() if isinstance(phi, Tensor) else np.asarray(phi, dtype=np.float64)
    if values.shape not in ((), (neighborhood.rank,)) or not np.isfinite(values).all():
        raise InputError(
            f"phi must be a number or {neighborhood.rank} finite numbers, got shape {values.shape}"
            f"{'' if np.isfinite(values).all() else ' with NaN or infinity'}."
        )
    full = np.broadcast_to(values.astype(np.float64), (neighborhood.rank,)).copy()
    return torch.from_numpy(full).to(neighborhood.device)


def information(
    model: TrainedModel,
    neighborhood: Neighborhood,
    phi: float | Sequence[float] | AnyArray | Tensor,
    kind: Kind,
    nodes: Sequence[int] | AnyArray | None,
    samples: int,
    seed: int,
) -> Information:
    """Check the arguments of :func:`fisher_information` and differentiate the network."""
    labeled = check_kind(kind)
    network, around = in_neighborhood(model, neighborhood)
    chosen = check_nodes(network, nodes, labeled=labeled)
    outputs, tangents = _jacobian(network, around, _point(around, phi), chosen)
    metric = output_metric(outputs, kind, lambda: targets(network, outputs, chosen), samples, seed)
    return Information(chosen, metric, tangents)


def _jacobian(model: TrainedModel, neighborhood: Neighborhood, phi: Tensor, nodes: IntArray) -> tuple[Tensor, Tensor]:
    """Return the logits (N, C) of the nodes and their derivatives ∂logits/∂φ, shape (N, C, k)."""
    rows = torch.as_tensor(nodes, device=neighborhood.device)
    columns = []
    for direction in torch.eye(neighborhood.rank, dtype=torch.float64, device=neighborhood.device):
        value, tangent = push_forward(lambda dual: logits(model, neighborhood.operator(dual)), phi, direction)
        columns.append(tangent[rows])
    return value[rows], torch.stack(columns, dim=-1)


def push_forward(function: Callable[[Tensor], Tensor], x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Return f(x) and its derivative along a direction, by dual numbers."""
    with torch.no_grad(), forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)  # type: ignore[no-untyped-call]
        value, tangent = forward_ad.unpack_dual(function(dual))  # type: ignore[no-untyped-call]
        return value, torch.zeros_like(value) if tangent is None else tangent


@dataclass(frozen=True)
class OutputMetric:
    """F = Σ_y f_y (p - e_y)(p - e_y)ᵀ = diag f - f pᵀ - p fᵀ + p pᵀ of each node, as what it does; p and f are (N, C).

    The kinds of Fisher information differ in the frequencies f of labels alone: the network's own p (exact), the
    observed label (empirical), shares among labels drawn from p (Monte Carlo).
    """

    probabilities: Tensor
    frequencies: Tensor

    def apply(self, tangents: Tensor) -> Tensor:
        """Return F_i V_i for V of shape (N, C, k), at O(NCk)."""
        p, f = self.probabilities.unsqueeze(-1), self.frequencies.unsqueeze(-1)
        mean = (p * tangents).sum(1, keepdim=True)
        return f * (tangents - mean) - p * ((f * tangents).sum(1, keepdim=True) - mean)


def check_kind(kind: Kind) -> bool:
    """Return whether a kind of Fisher information needs labels, or raise if there is no such kind."""
    return check_choice("kind", kind, get_args(Kind)) == "empirical"


def output_metric(
    logits: Tensor, kind: Kind, observed: Callable[[], Tensor], samples: int = 100, seed: int = 0
) -> OutputMetric:
    """Return the metric of one kind at the logits (N, C); ``observed`` gives the labels, where they are needed."""
    p = torch.softmax(logits.detach(), dim=1)
    if kind == "exact":
        return OutputMetric(p, p)
    if kind == "empirical":
        return OutputMetric(p, functional.one_hot(observed(), p.shape[1]).to(p))
    draws = check_integer("samples", samples, minimum=1)
    generator = torch.Generator().manual_seed(check_integer("seed", seed, minimum=0))
    labels = torch.multinomial(p.cpu(), draws, replacement=True, generator=generator)
    counts = torch.zeros(p.shape, dtype=torch.float64).scatter_add_(
        1, labels, torch.ones(labels.shape, dtype=torch.float64)
    )
    return OutputMetric(p, (counts / draws).to(p))


@dataclass(frozen=True)
class Information:
    """J_iᵀ F_i J_i of N nodes by its factors: the metric F and the tangents J = ∂logits/∂φ, shape (N, C, k)."""

    nodes: IntArray
    metric: OutputMetric
    tangents: Tensor

    def of_nodes(self) -> FloatArray:
        """Return J_iᵀ F_i J_i of each node, shape (N, k, k)."""
        return np.asarray((self.tangents.mT @ self.metric.apply(self.tangents)).double().cpu().numpy())

    def mean(self) -> FloatArray:
        """Return (1/N) Σ_i J_iᵀ F_i J_i, exactly symmetric."""
        rank = self.tangents.shape[-1]
        parts = (self.tangents, self.metric.apply(self.tangents))
        flat, image = (each.double().reshape(-1, rank) for each in parts)
        matrix = (flat.T @ image / len(self.tangents)).cpu().numpy()
        return np.asarray((matrix + matrix.T) / 2)
