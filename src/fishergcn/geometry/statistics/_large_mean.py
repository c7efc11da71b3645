"""The mean of large graphs among graphs with the same links, and how close it is to the true one, by random probes.

The true mean is dense. This one is a sparse τ on the links that occur in any graph. With T_i the transport maps from τ
to the ρ_i, T̄ = Σ w_i T_i, g = f(τ) and E = T̄/g - I, one more step of the iteration would move τ to (T̄τT̄) / tr, by
r = (tr EτE)^½ in the Bures-Wasserstein metric, to first order. Duality bounds what can be gained: for T_i' > 0,

    f(τ') ≤ ½ (c λ_max(Σ w_i T_i') + c⁻¹ Σ w_i tr ρ_i T_i'⁻¹).

Take T_i' = C (T_i + εΠ_i) C with C = (I + E/2)⁻¹ and Π_i the projection on the kernel of ρ_i, and T̄ + εΣw_iΠ_i for T̄ in
E. Then λ_max ≤ g, since (1 + e) ≤ (1 + e/2)², and C⁻¹ is at hand: no matrix is inverted. The gap is of second order.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, special
from scipy.sparse.csgraph import connected_components

from fishergcn._base.reprs import one_line
from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.execution import count_cores
from fishergcn.geometry.intrinsic._transport import Kernel, Moved, signed_links, transport
from fishergcn.geometry.statistics._densities import Densities

# Weights of a link in the graphs are averaged as powers: 1 is the arithmetic mean, ½ that of commuting graphs.
_POWERS = (1.0, 0.9, 0.75, 0.6)
_CHOOSING = 2  # probes for each power
# Runs end where doubling their length changed My by less than this share of y - My.
_SETTLED = 3e-3

Draw = Callable[[np.random.Generator], FloatArray]


@dataclass(frozen=True, eq=False)
class LargeMean:
    """A sparse τ; fidelities and the residual with half the widths of their 95% intervals, and a bound below."""

    density: CSRArray
    fidelities: FloatArray
    fidelity_errors: FloatArray
    variance_error: float
    residual: float
    residual_error: float
    lowest_variance: float
    __repr__ = one_line


class _Within:
    """QτQ, with Q = I - Π."""

    def __init__(self, matrix: CSRArray, kernel: Kernel) -> None:
        self.matrix, self.kernel = matrix, kernel

    def __matmul__(self, x: FloatArray) -> FloatArray:
        found = np.asarray(self.matrix @ (x - self.kernel.part(x)))
        return found - self.kernel.part(found)


class Center:
    """A candidate τ, and the maps between it and all graphs; matrices are n times density matrices."""

    def __init__(self, matrices: list[CSRArray], weights: FloatArray, tau: CSRArray, draw: Draw, steps: int) -> None:
        self.matrices, self.weights, self.tau, self.draw, self.steps = matrices, weights, tau, draw, steps

    def images(self, y: FloatArray) -> tuple[FloatArray, float]:
        """Return T_i y for all graphs, (m, n), and by how much half of the steps changed Σ w_i T_i y."""
        found, change = np.empty((len(self.matrices), y.size)), np.zeros_like(y)
        with ThreadPoolExecutor(min(len(self.matrices), count_cores())) as pool:  # sparse products run side by side
            moves = pool.map(lambda each: self._moved(self.tau, each, y), self.matrices)
            for at, (weight, moved) in enumerate(zip(self.weights, moves, strict=True)):
                found[at] = moved.image
                change += weight * (moved.image - moved.before)
        return found, float(np.linalg.norm(change))

    def costs(self, y: FloatArray, images: FloatArray) -> FloatArray:
        """Return a sample of D_B² of each graph: ‖y - T_i y‖² varies less, but needs the range of ρ_i in that of τ."""
        off = y - images
        return np.where(self.weights > 0, np.square(off).sum(axis=1), 2 * (off @ y)) / y.size

    def back(self, at: int, kernel: Kernel | None, x: FloatArray) -> float:
        """Return xᵀT_i⁺x, or a little more: T_i⁺ is the map from ρ_i to τ within the range of ρ_i."""
        target: Any = self.tau
        if kernel is not None:
            x, target = x - kernel.part(x), _Within(self.tau, kernel)
        moved = self._moved(self.matrices[at], target, x)
        return float(x @ moved.image + abs(x @ (moved.image - moved.before)))

    def _moved(self, source: CSRArray, target: Any, y: FloatArray) -> Moved:
        def settled(image: FloatArray, before: FloatArray) -> bool:
            return bool(np.linalg.norm(image - before) <= _SETTLED * np.linalg.norm(y - image))

        return transport(source, target, y, self.steps, settled)


class _Certificate:
    """Samples of r², and of a bound of what the variance of τ is more than the least one."""

    def __init__(self, center: Center, draws: list[Draw], kernels: dict[int, Kernel], rng: np.random.Generator) -> None:
        self.center, self.draws, self.kernels, self.rng = center, draws, kernels, rng
        self.weights = center.weights
        y = center.draw(rng)
        images, _ = center.images(y)
        # Any g and ε are right; the bound is tight for those that few vectors lead to.
        self.fidelity = self.scale = float(y @ (self.weights @ images)) / float(y @ y)
        self.slack = 0.0
        if kernels:
            # Π_i costs ε tr Π_iτ, and brings tr EρE Π_i / 4ε; both are small where few nodes are cut off.
            share = sum(self.weights[at] * kernel.mass(center.tau) for at, kernel in kernels.items()) / y.size
            cut = list(kernels)
            picked = [self._picked(cut) for _ in range(_CHOOSING)]
            rest = float(np.mean([self._rest(at)[1] for at in picked])) * float(self.weights[cut].sum()) / y.size
            self.slack = min(1.0, np.sqrt(max(rest, 1e-12) / 4 / max(share, 1e-12))) * self.scale
            self.scale += self.slack * share

    def _picked(self, among: list[int]) -> int:
        return int(self.rng.choice(among, p=self.weights[among] / self.weights[among].sum()))

    def _rest(self, at: int) -> tuple[float, float]:
        """Return samples of n tr ρ_iET_i⁺E and n tr ρ_iEΠ_iE."""
        own = self.draws[at](self.rng)
        off = self._apart(own, self.center.images(own)[0])
        kernel = self.kernels.get(at)
        return self.center.back(at, kernel, off), float(np.square(kernel.part(off)).sum()) if kernel else 0.0

    def sample(self, y: FloatArray, images: FloatArray, change: float) -> tuple[float, float]:
        plain = self.weights @ images / self.fidelity - y
        apart = self._apart(y, images)
        # tr EτT̄, where T̄ = g(I + E) - εP
        gap = self.scale * (float(np.linalg.norm(apart)) + change / self.scale) ** 2
        gap += self.slack * float((y - apart) @ self._missing(y))
        if self.kernels:  # Σ w_i tr EΠ_iτT_i, with random signs in place of the sum
            signs = self.rng.choice([-1.0, 1.0], self.weights.size) * np.sqrt(self.weights)
            lost = np.sum([signs[at] * kernel.part(y) for at, kernel in self.kernels.items()], axis=0)
            moved = np.sum([signs[at] * images[at] for at in self.kernels], axis=0)
            gap -= float(moved @ self._apart(lost, self.center.images(lost)[0]))
        inside, outside = self._rest(self._picked(list(range(self.weights.size))))
        rest = inside + (outside / self.slack if self.kernels else 0.0)
        return float(plain @ plain) / y.size, (gap + rest / 4) / y.size

    def _apart(self, y: FloatArray, images: FloatArray) -> FloatArray:
        """Return Ey from the images T_i y."""
        return np.asarray((self.weights @ images + self.slack * self._missing(y)) / self.scale - y)

    def _missing(self, y: FloatArray) -> FloatArray:
        """Return Py = Σ w_i Π_i y."""
        found = np.zeros_like(y)
        for at, kernel in self.kernels.items():
            found += self.weights[at] * kernel.part(y)
        return found


def large_mean(densities: Densities, weights: FloatArray, probes: int, steps: int, seed: int) -> LargeMean:
    """Return the best sparse mean with its certificate; graphs of weight 0 have fidelities alone."""
    matrices = [sparse.csr_array(each * densities.size) for each in densities.laplacians]
    draws = [signed_links(*each) for each in zip(matrices, densities.kernels, strict=True)]
    best = _best_center(matrices, draws, densities, weights, steps, seed)
    kernels = _kernels(matrices, densities.kernels, weights, best.tau)
    certificate = _Certificate(best, draws, kernels, np.random.default_rng([seed, 2]))
    rng = np.random.default_rng([seed, 3])
    costs, squares, gaps = np.empty((probes, weights.size)), np.empty(probes), np.empty(probes)
    for probe in range(probes):
        y = best.draw(rng)
        images, change = best.images(y)
        costs[probe] = best.costs(y, images)
        squares[probe], gaps[probe] = certificate.sample(y, images, change)
    student = float(special.stdtrit(probes - 1, 0.975)) / np.sqrt(probes)

    def width(samples: FloatArray) -> Any:
        return student * samples.std(axis=0, ddof=1)

    scaled: Any = best.tau / best.tau.trace()
    variances, residual = costs @ weights, float(np.sqrt(squares.mean()))
    bounds = variances - gaps
    return LargeMean(
        sparse.csr_array(scaled),
        np.clip(1 - costs.mean(axis=0) / 2, 0.0, 1.0),
        width(costs) / 2,
        float(width(variances)),
        residual,
        float(width(squares)) / (2 * residual) if residual > 0 else 0.0,
        max(0.0, float(bounds.mean() - width(bounds))),
    )


def _best_center(
    matrices: list[CSRArray], draws: list[Draw], densities: Densities, weights: FloatArray, steps: int, seed: int
) -> Center:
    """Return the candidate with the least variance, as far as few probes can tell."""
    used = np.flatnonzero(weights > 0)
    parts: Any = [weights[at] * matrices[at] for at in used]
    total: Any = sum(parts[1:], start=parts[0])
    average = sparse.csr_array(total)

    def drawn(rng: np.random.Generator) -> FloatArray:
        return np.asarray(np.sum([np.sqrt(weights[at]) * draws[at](rng) for at in used], axis=0))

    if any(np.ptp(each) > 0 for each in densities.kernels):  # no combinatorial Laplacians, whose links can be averaged
        return Center(matrices, weights, average, drawn, steps)
    ones = np.ones(densities.size)
    centers = []
    for power in _POWERS:
        tau = average if power == 1 else _power_mean([matrices[at] for at in used], weights[used], power)
        centers.append(Center(matrices, weights, tau, signed_links(tau, ones), steps))

    def variance(center: Center) -> float:
        rng = np.random.default_rng([seed, 1])  # the same for all, so that they differ by what the candidates do
        found = [center.costs(y, center.images(y)[0]) for y in (center.draw(rng) for _ in range(_CHOOSING))]
        return float((np.array(found) @ weights).mean())

    return min(centers, key=variance)


def _power_mean(laplacians: list[CSRArray], weights: FloatArray, power: float) -> CSRArray:
    """Return the Laplacian of trace n whose weights are (Σ w_i a_i^p)^(1/p), but for a factor."""
    total: Any = sparse.csr_array(laplacians[0].shape)
    for weight, each in zip(weights, laplacians, strict=True):
        links = sparse.csr_array(sparse.diags_array(each.diagonal()) - each)
        links.data = weight * np.maximum(links.data, 0.0) ** power
        total = sparse.csr_array(total + links)
    total.data **= 1 / power
    total.eliminate_zeros()
    found = sparse.csr_array(sparse.diags_array(np.asarray(total.sum(axis=1)).ravel()) - total)
    return sparse.csr_array(found * (found.shape[0] / found.trace()))


def _kernels(
    matrices: list[CSRArray], vectors: list[FloatArray], weights: FloatArray, tau: CSRArray
) -> dict[int, Kernel]:
    """Return the kernels of the graphs that are larger than that of τ."""
    found = {at: Kernel(matrices[at], vectors[at]) for at in np.flatnonzero(weights > 0).tolist()}
    if any(np.ptp(each) > 0 for each in vectors):
        return found
    least = connected_components(tau, directed=False)[0]
    return {at: kernel for at, kernel in found.items() if kernel.count > least}
