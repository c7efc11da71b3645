"""The worst graph within a Bures distance: projected gradient ascent on the loss of trained networks.

    maximize  (1/N) Σ_i -log p(y_i | X, Ã(φ), W)   over  D_B(ρ, ρ(φ)) ≤ r  and  λ_max(L(φ)) ≤ 2

where i are the test nodes: this adversary knows their labels. The distance has a closed form and grows along every ray
from φ = 0 (the Hellinger affinity in an exponential family falls along rays), so scaling φ by bisection projects onto
the ball. The second bound holds for every normalized graph. Without it the worst point is an operator that makes
signals grow, which says little about graphs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.reprs import one_line
from fishergcn.models import TrainedModel
from fishergcn.nn import View
from fishergcn.operators import SparsePlusLowRank
from fishergcn.perturbation import Neighborhood
from fishergcn.training import scores

_HALVINGS = 60
_ROUNDING = 1e-9
_TRIALS = 8  # random points among which each start is the worst: the loss has several local maxima


@dataclass(frozen=True)
class Worst:
    """What the ascent found for each of R networks; see :func:`worst_in_ball`."""

    phi: Tensor
    distance: Tensor
    loss: Tensor
    accuracy: Tensor

    __repr__ = one_line


def farthest(neighborhood: Neighborhood, bound: float | None = 2.0) -> float:
    """Return sup_φ D_B(ρ, ρ(φ)) over λ_max(L(φ)) ≤ bound, as :meth:`fishergcn.Neighborhood.farthest` does.

    Examples
    --------
    >>> import fishergcn
    >>> around = fishergcn.Neighborhood(fishergcn.renormalized([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), rank=2)
    >>> round(farthest(around), 4), round(farthest(around, bound=1.2), 4)
    (0.9511, 0.4302)
    """
    return neighborhood.farthest(bound)


def project(neighborhood: Neighborhood, phi: Tensor, radius: float, bound: float | None = None) -> Tensor:
    """Scale φ, shape (..., k), towards 0 until D_B(ρ, ρ(φ)) ≤ radius and, with a bound, λ_max(L(φ)) ≤ bound.

    What is inside stays as it is. Eigenvalues beyond the bound are set to it first, and the others scaled to the trace.
    """

    def inside(point: Tensor) -> Tensor:
        fits = neighborhood.distance(point) <= radius
        if bound is not None:
            # The eigenvalues that stay are those of a graph. Rounding must not put φ = 0 outside.
            fits &= neighborhood.perturbed_eigenvalues(point).amax(-1) <= bound * (1.0 + _ROUNDING)
        return fits.unsqueeze(-1)

    plain = phi
    if bound is not None:
        phi = _capped(neighborhood, phi, bound)
    low = torch.zeros_like(phi[..., :1])
    high = torch.ones_like(low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = inside(middle * phi)
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
    scaled = torch.where(inside(phi), phi, low * phi)
    return torch.where(inside(plain), plain, scaled)


def _capped(neighborhood: Neighborhood, phi: Tensor, bound: float) -> Tensor:
    """Return φ whose perturbed eigenvalues are min(c·e_i, bound), e_i those of the given one, c such that Σ stays."""
    given = neighborhood.perturbed_eigenvalues(phi)
    values, total = given, given.sum(-1, keepdim=True)
    for _ in range(neighborhood.rank):
        full = values >= bound
        rest = torch.where(full, 0.0, values).sum(-1, keepdim=True)
        room = (total - bound * full.sum(-1, keepdim=True)).clamp(min=0.0)
        grown = torch.where(full, bound, values * (room / rest.clamp(min=1e-300)))
        if torch.equal(grown >= bound, full):
            values = grown
            break
        values = grown
    ratio = values.clamp(min=1e-300) / given.clamp(min=1e-300)
    return torch.where((given > bound).any(-1, keepdim=True), phi + ratio.log(), phi)


def worst_in_ball(
    model: TrainedModel,
    neighborhood: Neighborhood,
    radius: float,
    *,
    restarts: int = 5,
    steps: int = 40,
    seed: int = 0,
    bound: float | None = 2.0,
) -> Worst:
    """Look for the φ within a Bures distance that harms each network most.

    Steps go along the natural gradient, of a length in Bures distance that shrinks from half the radius. The first
    restart begins at φ = 0, the others at the worst of a few random points on the sphere; the highest loss met anywhere
    is kept.

    Parameters
    ----------
    model
        R trained networks, with their test nodes.
    neighborhood
        Around the propagation matrix that the networks are tested with.
    radius
        r, not squared; 0 gives φ = 0.
    restarts, steps, seed
        Of the ascent, for each network, and of the random starts.
    bound
        Of λ_max(L(φ)): 2 is that of normalized graphs; None leaves it out, and lets the operator expand.

    Returns
    -------
    Worst
        ``phi``, (R, k), and, of each network at Ã(φ), ``distance`` D_B, ``loss`` and ``accuracy`` on the test nodes,
        (R,). Never outside of the ball, never better for the network than φ = 0.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> records = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=50), keep_weights=True)
    >>> model = fishergcn.TrainedModel.from_records(graph, records, split)
    >>> around = fishergcn.Neighborhood(model.propagation, rank=3)
    >>> plain, found = (worst_in_ball(model, around, radius, restarts=2, steps=5) for radius in (0.0, 0.1))
    >>> bool(found.distance <= 0.1), bool(found.loss > plain.loss)
    (True, True)
    """
    model.check_network(links=True, weights=True, symmetric=True)
    radius = check_real("radius", radius, minimum=0.0)
    restarts = check_integer("restarts", restarts, minimum=1)
    steps = check_integer("steps", steps, minimum=0)
    around = neighborhood.to(model.device, model.dtype)
    networks = _Networks(model, around, restarts, None if bound is None else check_real("bound", bound, above=0.0))
    best_phi = torch.zeros(len(model), restarts, around.rank, dtype=torch.float64, device=model.device)
    best_loss, best_accuracy, _ = networks.measure(best_phi)
    phi = _starts(networks, radius, seed) if radius > 0 else best_phi
    for step in range(steps + 1 if radius > 0 else 0):
        loss, accuracy, gradient = networks.measure(phi)
        higher = loss > best_loss
        best_loss, best_accuracy = torch.where(higher, loss, best_loss), torch.where(higher, accuracy, best_accuracy)
        best_phi = torch.where(higher.unsqueeze(-1), phi, best_phi)
        natural = gradient / around.projected_spectrum
        length = 0.5 * radius * (1.0 - step / (steps + 1))
        phi = project(around, phi + natural * (length / _first_order(around, natural)), radius, networks.bound)
    chosen = best_loss.argmax(dim=1, keepdim=True)
    found = best_phi.gather(1, chosen.unsqueeze(-1).expand(-1, -1, around.rank)).squeeze(1)
    return Worst(
        found, around.distance(found), best_loss.gather(1, chosen)[:, 0], best_accuracy.gather(1, chosen)[:, 0]
    )


def _starts(networks: _Networks, radius: float, seed: int) -> Tensor:
    """Return starting points of shape (R, K, k): 0 first, then for each the worst of some random points."""
    around, generator = networks.around, torch.Generator().manual_seed(seed)
    shape = (len(networks.model), networks.restarts, around.rank)
    chosen, highest = torch.zeros(shape, dtype=torch.float64, device=around.device), None
    for _ in range(_TRIALS if networks.restarts > 1 else 0):
        drawn = torch.randn(shape, dtype=torch.float64, generator=generator).to(around.device)
        phi = drawn / around.projected_spectrum.sqrt()
        # Beyond the sphere first, unless it is out of reach in that direction.
        phi = project(around, phi * (3.0 * radius / _first_order(around, phi)), radius, networks.bound)
        loss = networks.measure(phi)[0]
        highest = torch.full_like(loss, -math.inf) if highest is None else highest
        chosen = torch.where((loss > highest).unsqueeze(-1), phi, chosen)
        highest = torch.maximum(loss, highest)
    chosen[:, 0] = 0.0
    return chosen


def _first_order(around: Neighborhood, phi: Tensor) -> Tensor:
    """Return D_B to first order, sqrt(s Var_λ̄(φ)) / 2, shape (..., 1); 1 where φ is constant."""
    shares = around.projected_spectrum
    centered = phi - (shares * phi).sum(-1, keepdim=True)
    length = 0.5 * math.sqrt(around.captured_mass) * (shares * centered.square()).sum(-1, keepdim=True).sqrt()
    return torch.where(length > 0, length, 1.0)


class _Networks:
    """R networks with K graphs each."""

    def __init__(self, model: TrainedModel, around: Neighborhood, restarts: int, bound: float | None) -> None:
        self.model, self.around, self.restarts, self.bound = model, around, restarts, bound
        plain = around.operator()
        self.sparse, self.basis = plain.sparse, plain.basis

    def measure(self, phi: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return loss, accuracy, both (R, K), and the gradient of the loss, (R, K, k), at φ of shape (R, K, k)."""
        phi = phi.detach().requires_grad_()
        out = self._logits(self.around.coefficients(phi).to(self.model.dtype))
        graphs = out.view(len(out), len(self.model), self.restarts, -1).unbind(2)
        measured = [scores(each.contiguous(), self.model.targets) for each in graphs]
        loss = torch.stack([each for each, _ in measured], dim=1)
        (gradient,) = torch.autograd.grad(loss.sum(), phi)
        return loss.detach(), torch.stack([each for _, each in measured], dim=1), gradient

    def _logits(self, coefficients: Tensor) -> Tensor:
        """Return the logits (n, R * K, C) for coefficients of shape (R, K, k)."""
        deeper = SparsePlusLowRank(self.sparse, self.basis, coefficients.flatten(0, 1))
        first = _SharedInput(self.sparse, self.basis, coefficients)
        operators = (first, *[deeper] * (self.model.depth - 1))
        return self.model.over(View(self.model.features, operators, (None,) * self.model.depth))


class _SharedInput(SparsePlusLowRank):
    """Ã(φ) of K graphs a network, for activations that the K graphs share: the product with S is taken once."""

    def propagate(self, dense: Tensor) -> Tensor:
        """Return S Z_r - U diag(c_rm) Uᵀ Z_r, shape (n, R * K, d), for Z of shape (n, R, d) and c of (R, K, k)."""
        moments = torch.einsum("nk,nrd->krd", self.basis, dense)
        weighted = self.coefficients.permute(2, 0, 1).unsqueeze(-1) * moments.unsqueeze(2)  # (k, R, K, d)
        change = (self.basis @ weighted.flatten(1)).view(len(dense), *weighted.shape[1:])
        return (self.sparse.propagate(dense).unsqueeze(2) - change).flatten(1, 2)
