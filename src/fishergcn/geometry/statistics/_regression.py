"""A line through graphs in time: the geodesic that is closest to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import torch
from scipy.optimize import minimize
from torch import Tensor

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.reprs import one_line
from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import support
from fishergcn.geometry.intrinsic._laplacian import Local
from fishergcn.geometry.statistics._collection import GraphCollection, Graphs, as_collection
from fishergcn.geometry.statistics._densities import Geometry, densities_of
from fishergcn.geometry.statistics._mean import barycenter, check_weights
from fishergcn.geometry.statistics._tangent import check_memory, largest_changes, logarithms, weight_changes

_MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class GraphLine:
    """A geodesic in time; see :func:`geodesic_regression`."""

    factor: FloatArray
    direction: FloatArray
    nodes: IntArray
    times: FloatArray
    middle: float
    speed: float
    distances: FloatArray
    variance: float
    explained: float
    p_value: float
    num_nodes: int
    geometry: Geometry
    __repr__ = one_line

    def at(self, time: float) -> FloatArray:
        """Return the density matrix at a time, (n, n), also before the first graph or after the last."""
        angle = self.speed * (check_real("time", time) - self.middle)
        point = np.cos(angle) * self.factor + np.sin(angle) * self.direction
        found = np.zeros((self.num_nodes, self.num_nodes))
        found[np.ix_(self.nodes, self.nodes)] = point @ point.T
        return found

    def link_changes(self) -> FloatArray:
        """Return by how much each link's weight changes in a unit of time, at the mean time: (n, n), symmetric.

        Weights are those of a graph whose degrees have the sum 1.
        """
        half = self.speed * self.direction @ self.factor.T
        found = np.zeros((self.num_nodes, self.num_nodes))
        density = np.asarray(self.factor @ self.factor.T)
        found[np.ix_(self.nodes, self.nodes)] = weight_changes(density, half + half.T, self.geometry)
        return found

    def top_links(self, most: int = 20) -> tuple[IntArray, FloatArray]:
        """Return the links that change most, (k, 2), and their changes in a unit of time."""
        check_integer("most", most, minimum=1)
        return largest_changes(self.link_changes(), most)


def geodesic_regression(
    graphs: Graphs,
    times: Sequence[float] | None = None,
    weights: Sequence[float] | AnyArray | None = None,
    *,
    permutations: int = 999,
    seed: int = 0,
    geometry: Geometry = "laplacian",
    laplacian: Local = "combinatorial",
) -> GraphLine:
    """Fit a line to graphs in time: the geodesic γ with the least Σ w_i D_B(γ(t_i), ρ_i)².

    With t̄ the mean time, a geodesic of the Bures metric is γ(t) = XXᵀ,

        X = cos(ω(t - t̄)) P + sin(ω(t - t̄)) E,   ‖P‖ = ‖E‖ = 1,  ⟨P, E⟩ = 0,  E = SP with S symmetric,

    ω its speed: the Bures angle for each unit of time. The start is the least-squares line in the tangent space at the
    mean of the graphs; L-BFGS then minimizes the sum in P and S. F(XXᵀ, ρ) has the derivative Y in X, where YYᵀ = ρ and
    XᵀY is p.s.d. The minimum is one to which the start leads; there can be others where the graphs are far from a line.

    Parameters
    ----------
    graphs : GraphCollection, or graphs as it takes them
        At least three, with up to 6000 linked nodes.
    times
        When each was seen, not all equal; by default those of the collection.
    weights
        One for each graph, as in :func:`mean`.
    permutations, seed : int
        For the p-value: how many random orders of the times, at least 99.
    geometry, laplacian
        Which density matrix stands for a graph, see :func:`pairwise`.

    Returns
    -------
    GraphLine
        ``at(time)``, the density matrix at a time, and ``link_changes()``, what the line does to links; ``speed`` ω;
        ``distances`` of the graphs from the line, ``variance``, that from their mean, and ``explained``, the share of
        it that the line accounts for. ``p_value`` is the share of orders of the times whose line in the tangent space
        at the mean explains as much: exact if the graphs do not depend on time.

    Examples
    --------
    >>> import numpy as np
    >>> ring, path = np.roll(np.eye(6), 1, axis=1), np.eye(6, k=1)
    >>> graphs = [ring + ring.T + week * (path + path.T) for week in (0.0, 1.0, 2.0, 3.0)]
    >>> line = geodesic_regression(graphs, times=[0, 1, 2, 3])
    >>> pairs, changes = line.top_links(1)
    >>> pairs.tolist(), bool(changes[0] < 0), bool(line.explained > 0.9)
    ([[0, 5]], True, True)
    """
    check_integer("permutations", permutations, minimum=99)
    check_integer("seed", seed, minimum=0)
    collection = as_collection(graphs, at_least=3, why=" for a line")
    moments = _checked_times(collection, times)
    shares = check_weights(weights, len(collection))
    densities = densities_of(collection, geometry, laplacian)
    check_memory(densities)
    matrices = densities.matrices()
    center, fidelities, *_ = barycenter(matrices, shares, 1e-10, 500)
    middle = float(shares @ moments)
    shifted = moments - middle
    _, lifts = logarithms(matrices, center)
    p_value = _p_value(lifts, shifted, shares, permutations, seed)
    slope = np.tensordot(shares * shifted, lifts, 1) / float(shares @ shifted**2)
    del lifts
    values, basis = np.linalg.eigh(center)
    kept = support(values)
    basis, roots = basis[:, kept], np.sqrt(values[kept])
    small = [basis.T @ np.asarray(each @ basis) for each in matrices]
    # Coordinates in which P is diagonal; S = slope · τ^-½ is symmetric.
    symmetric = basis.T @ slope @ basis / roots
    point, direction, speed, final = _fitted(small, shares, shifted, np.diag(roots), (symmetric + symmetric.T) / 2)
    variance = max(0.0, 2 - 2 * float(shares @ fidelities))
    squares = np.maximum(0.0, 2 - 2 * final)
    explained = 1 - float(shares @ squares) / variance if variance > 0 else 0.0
    return GraphLine(
        basis @ point, basis @ direction, densities.nodes, moments, middle, speed, np.sqrt(squares), variance,
        explained, p_value, collection.num_nodes, geometry,
    )  # fmt: skip


def _checked_times(graphs: GraphCollection, times: Sequence[float] | None) -> FloatArray:
    given = graphs.times if times is None else times
    if given is None:
        raise InputError("times must be given, one for each graph, since the graphs have none.")
    found = np.array([check_real(f"times[{at}]", each) for at, each in enumerate(given)])
    if found.size != len(graphs):
        raise InputError(f"times must be one for each graph, {len(graphs)}, got {found.size}.")
    if np.ptp(found) == 0:
        raise InputError(f"times must not all be equal, got {found[0]:g} for all graphs.")
    return found


def _p_value(lifts: FloatArray, shifted: FloatArray, weights: FloatArray, permutations: int, seed: int) -> float:
    """Return the share of orders of the times, the given one among them, that explain as much in the tangent space."""
    inner = np.einsum("iab,jab->ij", lifts, lifts, optimize=True)
    rng = np.random.default_rng(seed)
    orders = np.array([shifted, *(rng.permutation(shifted) for _ in range(permutations))])
    orders = (orders - (orders @ weights)[:, None]) * weights
    found = np.einsum("pi,ij,pj->p", orders, inner, orders, optimize=True)
    found /= np.square(orders / np.where(weights > 0, weights, np.inf)) @ weights
    return float((found >= found[0] * (1 - 1e-10)).mean())


def _fitted(
    densities: list[FloatArray], weights: FloatArray, times: FloatArray, point: FloatArray, symmetric: FloatArray
) -> tuple[FloatArray, FloatArray, float, FloatArray]:
    """Return P, E, ω and the fidelities of the closest geodesic, from a start on."""
    size = len(point)
    unit = float(np.sqrt(weights @ times**2))  # times in units of their spread, so that P and S move at one pace
    scaled = torch.from_numpy(times / unit)

    def curve(flat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        base, move = flat.reshape(2, size, size)
        base = base / base.norm()
        moved = (move + move.T) @ base / 2
        moved = moved - (moved * base).sum() * base
        speed = moved.norm()
        return base, moved / speed.clamp_min(1e-300), speed

    def points(flat: Tensor) -> Tensor:
        base, direction, speed = curve(flat)
        angles = (speed * scaled)[:, None, None]
        return torch.cos(angles) * base + torch.sin(angles) * direction

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        given = torch.tensor(flat, requires_grad=True)
        found = points(given)
        fidelities, targets = _targets(densities, found.detach().numpy())
        # The derivative of F in X is Y: that of ⟨X, Y⟩ with Y held.
        weighted = torch.from_numpy(targets * weights[:, None, None])
        (slope,) = torch.autograd.grad(-2 * (found * weighted).sum(), given)
        return 2 - 2 * float(weights @ fidelities), slope.numpy()

    start = np.concatenate([point.ravel(), (symmetric * unit).ravel()])
    options: Any = {"maxiter": _MOST_STEPS, "ftol": 1e-13, "gtol": 1e-9}
    solved: Any = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    best = torch.from_numpy(np.asarray(solved.x))
    base, direction, speed = (each.numpy() for each in curve(best))
    fidelities, _ = _targets(densities, points(best).numpy())
    return base, direction, float(speed) / unit, np.minimum(1.0, fidelities)


def _targets(densities: list[FloatArray], points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return fidelities F(XXᵀ, ρ), and their derivatives Y = ρX (XᵀρX)^-½ in X."""
    fidelities, targets = np.empty(len(points)), np.empty_like(points)
    for at, (density, point) in enumerate(zip(densities, points, strict=True)):
        image = density @ point
        values, vectors = scipy.linalg.eigh(point.T @ image, driver="evd", overwrite_a=True, check_finite=False)
        kept = support(values)
        roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
        fidelities[at] = roots.sum()
        targets[at] = image @ (vectors / roots) @ vectors.T
    return fidelities, targets
