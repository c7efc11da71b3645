"""The Fisher information of a network with respect to the coordinates of its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic._network import Model, NetworkOnGraph, network_on
from fishergcn.geometry.extrinsic._outputs import OutputMetric, check_kind, output_metric
from fishergcn.graph import Graph
from fishergcn.perturbation import Neighborhood

__all__ = [
    "fisher_information",
    "jacobian",
    "mean_information",
    "metric_and_jacobian",
    "network_and_neighborhood",
    "node_information",
    "point",
    "push_forward",
]


def fisher_information(
    model: Model,
    graph: Graph,
    neighborhood: Neighborhood,
    phi: float | Sequence[float] | AnyArray | Tensor = 0.0,
    kind: str = "exact",
    nodes: Sequence[int] | AnyArray | None = None,
    *,
    samples: int = 100,
    seed: int = 0,
    normalize_features: bool = True,
) -> FloatArray:
    """G^E(φ) = (1/N) Σ_i J_iᵀ F_i J_i with J_i = ∂logits_i/∂φ, by k forward-mode products.

    F_i = diag p_i - p_i p_iᵀ for the exact information, the expectation over labels drawn from the network
    itself; (p_i - e_y)(p_i - e_y)ᵀ at the observed label y for the empirical one, so that G^E is the mean of
    g_i g_iᵀ, g_i = ∂(-log p(y_i))/∂φ; the mean of the same over ``samples`` labels drawn from p_i for the
    Monte Carlo estimate. No factor 1/2: KL(p(φ) : p(φ + dφ)), averaged over nodes, is ½ dφᵀ G^E dφ.

    Parameters
    ----------
    model : GCN or callable
        A trained :class:`fishergcn.nn._gcn.GCN` of any depth, or any function that maps an operator (with
        ``@`` and ``propagate``) to logits (n, C). A GCN predicts without dropout, in float64.
    graph : Graph
        Its features (for a GCN) and labels (for the empirical kind).
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
    normalize_features : bool
        Divide each row of the features by its sum, as in training.

    Returns
    -------
    ndarray, shape (k, k)
        Symmetric, p.s.d., with G^E·1 = 0: φ and φ + c·1 are the same graph.

    Notes
    -----
    J is held for the chosen nodes, N x C x k; no n x n derivative is ever made.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> from fishergcn.nn import GCN
    >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], features=np.eye(4))
    >>> model = GCN(4, (3,), 2, generator=torch.Generator().manual_seed(0))
    >>> around = Neighborhood(fishergcn.renormalized(graph.adjacency), rank=2)
    >>> G = fisher_information(model, graph, around)
    >>> G.shape, bool(np.abs(G.sum(axis=1)).max() < 1e-15)
    ((2, 2), True)
    """
    labeled = check_kind(kind) == "empirical"
    network, neighborhood = network_and_neighborhood(model, graph, neighborhood, normalize_features)
    chosen = network.check_nodes(nodes, labeled=labeled)
    metric, tangents = metric_and_jacobian(network, neighborhood, phi, chosen, kind, samples, seed)
    return mean_information(metric, tangents)


def network_and_neighborhood(
    model: Model, graph: Graph, neighborhood: Neighborhood, normalize_features: bool
) -> tuple[NetworkOnGraph, Neighborhood]:
    """Put a network in a neighborhood; a GCN works in float64 on the CPU, a callable as it is."""
    if not isinstance(neighborhood, Neighborhood):
        raise InputError(f"neighborhood must be a Neighborhood, got {type(neighborhood).__name__}.")
    network = network_on(model, graph, neighborhood.propagation, normalize_features)
    if network.features is not None:
        neighborhood = neighborhood.to("cpu", torch.float64)
    return network, neighborhood


def point(neighborhood: Neighborhood, phi: float | Sequence[float] | AnyArray | Tensor) -> Tensor:
    """Return φ as a float64 vector of k entries; a number stands for all of them."""
    values = phi.detach().cpu().numpy() if isinstance(phi, Tensor) else np.asarray(phi, dtype=np.float64)
    if values.shape not in ((), (neighborhood.rank,)) or not np.isfinite(values).all():
        raise InputError(
            f"phi must be a number or {neighborhood.rank} finite numbers, got shape {values.shape}"
            f"{'' if np.isfinite(values).all() else ' with NaN or infinity'}."
        )
    full = np.broadcast_to(values.astype(np.float64), (neighborhood.rank,)).copy()
    return torch.from_numpy(full).to(neighborhood.device)


def metric_and_jacobian(
    network: NetworkOnGraph,
    neighborhood: Neighborhood,
    phi: float | Sequence[float] | AnyArray | Tensor,
    nodes: IntArray,
    kind: str,
    samples: int,
    seed: int,
) -> tuple[OutputMetric, Tensor]:
    """Return the metric of the predictions at the nodes, and ∂logits/∂φ, shape (N, C, k)."""
    logits, tangents = jacobian(network, neighborhood, point(neighborhood, phi), nodes)
    targets = network.targets(logits, nodes) if kind == "empirical" else None
    return output_metric(logits, kind, targets, samples=samples, seed=seed), tangents


def jacobian(
    network: NetworkOnGraph, neighborhood: Neighborhood, phi: Tensor, nodes: IntArray
) -> tuple[Tensor, Tensor]:
    """Return the logits (N, C) of the nodes and their derivatives ∂logits/∂φ, shape (N, C, k)."""
    rows = torch.as_tensor(nodes, device=neighborhood.device)
    columns = []
    for direction in torch.eye(neighborhood.rank, dtype=torch.float64, device=neighborhood.device):
        value, tangent = push_forward(lambda dual: network.logits(neighborhood.operator(dual)), phi, direction)
        columns.append(tangent[rows])
    return value[rows], torch.stack(columns, dim=-1)


def push_forward(function: Callable[[Tensor], Tensor], x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Return f(x) and its derivative along a direction, by dual numbers."""
    with torch.no_grad(), forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)  # type: ignore[no-untyped-call]
        value, tangent = forward_ad.unpack_dual(function(dual))  # type: ignore[no-untyped-call]
        return value, torch.zeros_like(value) if tangent is None else tangent


def node_information(metric: OutputMetric, tangents: Tensor) -> FloatArray:
    """Return J_iᵀ F_i J_i of each node, shape (N, k, k), for J of shape (N, C, k)."""
    return np.asarray((tangents.mT @ metric.apply(tangents)).double().cpu().numpy())


def mean_information(metric: OutputMetric, tangents: Tensor) -> FloatArray:
    """Return (1/N) Σ_i J_iᵀ F_i J_i, exactly symmetric."""
    rank = tangents.shape[-1]
    flat, image = (each.double().reshape(-1, rank) for each in (tangents, metric.apply(tangents)))
    matrix = (flat.T @ image / len(tangents)).cpu().numpy()
    return np.asarray((matrix + matrix.T) / 2)
