"""The move of a graph that changes a network's predictions most for the distance it travels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from fishergcn._base.reprs import one_line
from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic._fisher import Kind, information
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

    Parameters
    ----------
    model, neighborhood, kind, nodes, samples, seed
        As in :func:`fisher_information`, at φ = 0. The neighborhood has rank at least 2, directions that are
        eigenvectors, and scale "projected".

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
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], features=np.eye(4))
    >>> model = fishergcn.TrainedModel.from_network(fishergcn.GCN(4, (3,), 2), graph)
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
