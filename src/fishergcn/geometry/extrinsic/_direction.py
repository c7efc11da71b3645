"""Moves of a graph that change a network's predictions most for their distance, and how its loss grows along them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import linalg
from torch import Tensor

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.reprs import one_line
from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic._fisher import Kind, information
from fishergcn.geometry.extrinsic._model import check_nodes, in_neighborhood, logits, loss
from fishergcn.models import TrainedModel
from fishergcn.perturbation import Neighborhood


@dataclass(frozen=True)
class AdversarialDirection:
    """Solutions of G^E v = μ M v, M the Bures metric in the same coordinates; see :func:`adversarial_direction`."""

    eigenvalues: FloatArray
    directions: FloatArray
    fisher: FloatArray
    nodes: IntArray
    node_shares: FloatArray

    __repr__ = one_line

    @property
    def direction(self) -> FloatArray:
        """The first direction, shape (k,)."""
        return self.directions[:, 0]

    @property
    def anisotropy(self) -> float:
        """μ_1 over the mean of all μ."""
        mean = float(self.eigenvalues.mean())
        return float(self.eigenvalues[0]) / mean if mean > 0 else 1.0


def intrinsic_metric(neighborhood: Neighborhood) -> FloatArray:
    """M = (s/4)(diag λ̄ - λ̄ λ̄ᵀ), the Bures metric of ρ(φ) at φ = 0, shape (k, k): D_B² ≈ φᵀ M φ and M·1 = 0."""
    check_metric(neighborhood)
    spectrum = neighborhood.projected_spectrum.cpu().numpy()
    return np.asarray(neighborhood.captured_mass / 4 * (np.diag(spectrum) - np.outer(spectrum, spectrum)))


def check_metric(neighborhood: Neighborhood) -> None:
    """Raise where the neighborhood has no closed form of its distance, or no direction at all."""
    if not isinstance(neighborhood, Neighborhood):
        raise InputError(f"neighborhood must be a Neighborhood, got {type(neighborhood).__name__}.")
    if neighborhood.directions == "random" or neighborhood.scale != "projected":
        raise InputError(
            "The Bures metric of a neighborhood is known along eigenvectors and with scale 'projected', got "
            f"directions {neighborhood.directions!r} and scale {neighborhood.scale!r}."
        )
    if neighborhood.rank < 2:
        raise InputError("rank must be at least 2: all of a neighborhood of rank 1 is the graph itself.")


def tangent_basis(neighborhood: Neighborhood) -> FloatArray:
    """Return T, shape (k, k-1), with Tᵀ M T = I and Σ_i λ̄_i T_ia = 0: an orthonormal frame of the metric."""
    # With φ = diag(λ̄)^-½ ψ the metric is (s/4)(I - √λ̄ √λ̄ᵀ): any orthonormal basis of the complement of √λ̄ will do.
    root = np.sqrt(neighborhood.projected_spectrum.cpu().numpy())
    complement = linalg.null_space(root[None, :])
    return np.asarray(complement / root[:, None] * (2 / np.sqrt(neighborhood.captured_mass)))


def adversarial_direction(
    model: TrainedModel,
    neighborhood: Neighborhood,
    kind: Kind = "exact",
    nodes: Sequence[int] | AnyArray | None = None,
    *,
    samples: int = 100,
    seed: int = 0,
) -> AdversarialDirection:
    """Maximize vᵀ G^E v / vᵀ M v over the k - 1 directions that move the graph; the most adversarial one comes first.

    Both G^E and the Bures metric M = (s/4)(diag λ̄ - λ̄ λ̄ᵀ), s the captured mass and λ̄ the projected spectrum, have
    the null vector 1; on a frame T with TᵀMT = I the generalized eigenproblem is the ordinary one of Tᵀ G^E T.
    Arguments are those of :func:`fisher_information`, at φ = 0; the neighborhood has rank at least 2, directions that
    are eigenvectors, and scale "projected".

    Returns
    -------
    AdversarialDirection
        ``eigenvalues`` μ, (k-1,), descending: 2 KL of the predictions per squared Bures distance, to second order.
        ``directions`` v, (k, k-1), in columns with vᵀMv = 1 and Σ_i λ̄_i v_i = 0; the sign, which G^E does not fix,
        makes the largest entry positive. ``direction`` is the first of them, ``fisher`` G^E(0), ``nodes`` those that it
        averages over, ``node_shares`` how much of μ_1 each of them holds, with sum 1 (zeros if μ_1 = 0), and
        ``anisotropy`` μ_1 over the mean of all μ: 1 where every direction counts the same, at most k - 1.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], features=np.eye(4))
    >>> network = fishergcn.GCN(4, (3,), 2, generator=torch.Generator().manual_seed(0))
    >>> model = fishergcn.TrainedModel.from_network(network, graph)
    >>> found = adversarial_direction(model, Neighborhood(model.propagation, rank=3))
    >>> v = found.direction
    >>> bool(np.isclose(v @ found.fisher @ v, found.eigenvalues[0])), round(float(found.node_shares.sum()), 9)
    (True, 1.0)
    """
    check_metric(neighborhood)
    found = information(model, neighborhood, 0.0, kind, nodes, samples, seed)
    fisher = found.mean()
    frame = tangent_basis(neighborhood)
    values, vectors = np.linalg.eigh(frame.T @ fisher @ frame)
    directions = frame @ vectors[:, ::-1]
    largest = np.abs(directions).argmax(axis=0)
    directions *= np.sign(directions[largest, np.arange(directions.shape[1])])
    # A Fisher information is p.s.d.: only rounding makes an eigenvalue negative.
    return AdversarialDirection(
        eigenvalues=np.maximum(values[::-1], 0.0),
        directions=directions,
        fisher=fisher,
        nodes=found.nodes,
        node_shares=_shares(found.of_nodes(), directions[:, 0]),
    )


def _shares(parts: FloatArray, direction: FloatArray) -> FloatArray:
    held = np.maximum(np.einsum("a,nab,b->n", direction, parts, direction), 0.0)
    total = held.sum()
    return np.asarray(held / total if total > 0 else held)


@dataclass(frozen=True)
class Sharpness:
    """What happens to a network at one Bures distance from its graph; see :func:`sharpness`."""

    distance: float
    loss: float
    adversarial: FloatArray
    random: FloatArray
    adversarial_change: FloatArray
    random_change: FloatArray
    foretold: FloatArray

    __repr__ = one_line

    @property
    def rank_of_loss(self) -> float:
        """Share of random directions whose worse end hurts less than that of the first direction."""
        return float((self.random.max(axis=1) < self.adversarial[0].max()).mean())

    @property
    def rank_of_change(self) -> float:
        """Share of random directions that change the predictions less (mean of both ends)."""
        return float((self.random_change.mean(axis=1) < self.adversarial_change[0].mean()).mean())


def typical_distance(neighborhood: Neighborhood) -> float:
    """Root mean square Bures distance of draws of a neighborhood, ε sqrt(s (k-1) / 48), to leading order."""
    check_metric(neighborhood)
    rank, mass = neighborhood.rank, neighborhood.captured_mass
    return float(neighborhood.radius * np.sqrt(mass * (rank - 1) / 48))


def sharpness(
    model: TrainedModel,
    neighborhood: Neighborhood,
    distance: float | None = None,
    nodes: Sequence[int] | AnyArray | None = None,
    *,
    directions: AnyArray | None = None,
    random: int = 100,
    seed: int = 0,
) -> Sharpness:
    """Compare how the loss grows along adversarial directions and along random ones, at equal Bures distance.

    Every graph tried is Ã(tv) with t such that D_B(ρ, ρ(tv)) is the distance; D_B grows with t along any v.
    Random directions are uniform on the unit sphere of the Bures metric.

    Parameters
    ----------
    model, neighborhood
        As in :func:`fisher_information`; the graph has labels.
    distance : float, optional
        D_B, not squared; by default the root mean square of draws of the neighborhood, ε sqrt(s (k-1)/48).
    nodes : sequence of int, optional
        The nodes whose loss and predictions are averaged; all labeled ones by default.
    directions : array of shape (k, d), optional
        What to compare, a direction a column; by default all of :func:`adversarial_direction`, exact, on the same
        nodes.
    random, seed : int
        How many random directions, and their seed.

    Returns
    -------
    Sharpness
        ``distance``, D_B of every graph that was tried, and ``loss``, the mean -log p(y) on the graph itself.
        ``adversarial``, (d, 2), and ``random``, (r, 2), are the growth of that loss at the distance, forward and
        backward along each direction; ``adversarial_change`` and ``random_change`` the mean KL(p : p(φ)) of the
        predictions there, and ``foretold``, (d,), what G^E predicts of it, ½ μ D_B². ``rank_of_loss`` and
        ``rank_of_change`` compare the first direction with the random ones.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3), (0, 2)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> network = fishergcn.GCN(4, (3,), 2, generator=torch.Generator().manual_seed(0))
    >>> model = fishergcn.TrainedModel.from_network(network, graph)
    >>> found = sharpness(model, Neighborhood(model.propagation, rank=3), distance=1e-3, random=20)
    >>> round(float(found.adversarial_change[0].mean() / found.foretold[0]), 2), found.rank_of_change
    (1.0, 1.0)
    """
    count = check_integer("random", random, minimum=0)
    network, neighborhood = in_neighborhood(model, neighborhood)
    length = typical_distance(neighborhood) if distance is None else check_real("distance", distance, above=0)
    chosen = check_nodes(network, nodes, labeled=True)
    found = adversarial_direction(network, neighborhood, nodes=chosen)
    columns = found.directions if directions is None else _check_directions(directions, neighborhood)
    frame = tangent_basis(neighborhood)
    drawn = frame @ np.random.default_rng(seed).standard_normal((frame.shape[1], count))
    rows = torch.as_tensor(chosen, device=neighborhood.device)
    before = _logits(network, neighborhood, np.zeros(neighborhood.rank))
    unmoved = float(loss(network, before, chosen))
    growth, changes = [], []
    for direction in np.concatenate([columns, drawn], axis=1).T:
        for end in at_distance(neighborhood, np.stack([direction, -direction]), length):
            after = _logits(network, neighborhood, end)
            growth.append(float(loss(network, after, chosen)) - unmoved)
            changes.append(_divergence(before[rows], after[rows]))
    grown, changed = (np.reshape(each, (-1, 2)) for each in (growth, changes))
    tried = columns.shape[1]
    information, squared_speed = (
        np.einsum("ad,ab,bd->d", columns, each, columns) for each in (found.fisher, intrinsic_metric(neighborhood))
    )
    return Sharpness(
        distance=length,
        loss=unmoved,
        adversarial=grown[:tried],
        random=grown[tried:],
        adversarial_change=changed[:tried],
        random_change=changed[tried:],
        foretold=information / squared_speed * length**2 / 2,
    )


def at_distance(neighborhood: Neighborhood, directions: FloatArray, distance: float) -> FloatArray:
    """Return t v for each row v, t > 0 such that the Bures distance of Ã(tv) from Ã is ``distance``."""
    check_metric(neighborhood)
    # Along a line Σ_i sqrt(λ̄_i q_i) = Z(t/2)/sqrt(Z(t)) with log Z convex: D_B grows with t, and bisection finds it.
    scale = np.ptp(directions, axis=1, keepdims=True)
    if (scale <= 1e-12 * np.abs(directions).max(axis=1, keepdims=True)).any():
        raise InputError("directions must move the graph, got one whose entries are all equal.")
    unit = torch.as_tensor(directions / scale, dtype=torch.float64, device=neighborhood.device)
    low = torch.zeros(len(unit), 1, dtype=torch.float64, device=neighborhood.device)
    high = torch.full_like(low, 700.0)  # beyond exp(700) there is no double, and nothing left to move
    farthest = float(neighborhood.distance(high * unit).min())
    if distance >= farthest:
        raise InputError(
            f"distance must be less than {farthest:.6g}, the farthest a direction leads, got {distance:g}."
        )
    for _ in range(100):
        middle = (low + high) / 2
        beyond = (neighborhood.distance(middle * unit) > distance).unsqueeze(-1)
        low, high = torch.where(beyond, low, middle), torch.where(beyond, middle, high)
    return np.asarray((high * unit).cpu().numpy())


def _check_directions(directions: AnyArray, neighborhood: Neighborhood) -> FloatArray:
    columns = np.asarray(directions, dtype=np.float64)
    if columns.ndim != 2 or columns.shape[0] != neighborhood.rank or not np.isfinite(columns).all():
        raise InputError(f"directions must be finite, of shape ({neighborhood.rank}, d), got {columns.shape}.")
    return columns


@torch.no_grad()
def _logits(model: TrainedModel, neighborhood: Neighborhood, phi: FloatArray) -> Tensor:
    return logits(model, neighborhood.operator(phi))


def _divergence(before: Tensor, after: Tensor) -> float:
    """Return the mean KL(p : q) of two sets of logits."""
    p, q = (torch.log_softmax(each.double(), dim=1) for each in (before, after))
    return float((p.exp() * (p - q)).sum(1).mean())
