"""Fidelities of many pairs between two bounds, from a few determinants each instead of all eigenvalues.

With M = ρ^½ σ ρ^½, scaled so that eigenvalues are of the order of one, F = Σ √x over the eigenvalues x of M. Some sums
over eigenvalues are much cheaper than that one:

    Σ 1 = rank ρ,  Σ x = tr ρσ,  Σ x² = tr (ρσ)²  and  Σ log(1 + x/t) = log det(I + M/t), a Cholesky factor for each t.

Let r be a combination of these functions with r(x) ≥ √x on [0, b], where b bounds the eigenvalues: then F ≤ Σ r(x), and
likewise from below. Linear programs find the tightest such r for the eigenvalues of some pairs; they hold for all.

The determinant needs no square root: with ρ = G R Gᵀ, where R is ρ without one node of each component and G restores
it, det(I + M/t) = det(R) det(t R⁻¹ + Gᵀσ G) / t^rank, and σ is sparse. R⁻¹ is found once for all σ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.linalg import blas, lapack
from scipy.optimize import linprog, minimize
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh

from fishergcn._base.reprs import one_line
from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.errors import ConvergenceError
from fishergcn.geometry.statistics._densities import Densities

# Widest error of a distance, relative to it, for which determinants are taken; up to this many of them for a pair.
TOLERANCE = 2e-3
_MOST = 5
# Pairs whose eigenvalues are found to choose r.
_REFERENCES = 3
# Products of entries up to which tr (ρσ)² is cheaper than another determinant.
_PRODUCTS = 600_000
# Points of [0, b] on which r is compared with the root, and how much finer they are in the end.
_POINTS, _FINER = 300, 30
# Determinants are in single precision; errors found in the reference pairs are multiplied by this.
_CAUTION = 10


@dataclass(frozen=True, eq=False)
class Rule:
    """Points t, coefficients of the functions below and above the root, and what to do with their sums."""

    points: FloatArray
    square: bool
    below: FloatArray
    above: FloatArray
    share: float
    rounding: float

    __repr__ = one_line

    def bounds(self, sums: FloatArray, size: int) -> tuple[float, float, float]:
        """Return an estimate of F, and bounds of it, from the sums of the functions over all eigenvalues."""
        low, high = (float(each @ sums) / size for each in (self.below, self.above))
        middle = low + self.share * (high - low)
        return middle, max(0.0, low - self.rounding), min(1.0, high + self.rounding)


class Grounded:
    """One graph, ready for determinants with many others."""

    def __init__(self, laplacian: CSRArray, kernel: FloatArray) -> None:
        size = laplacian.shape[0]
        self.laplacian = laplacian
        count, label = connected_components(laplacian, directed=False)
        # The node of a component that is left out: one with many links.
        order = np.lexsort((-laplacian.diagonal(), label))
        grounds = order[np.searchsorted(label[order], np.arange(count))]
        self.kept = np.setdiff1d(np.arange(size), grounds)
        linked = np.bincount(label, minlength=count) > 1
        self.grounds = grounds[linked]
        ratios = np.zeros((self.kept.size, count))
        ratios[np.arange(self.kept.size), label[self.kept]] = kernel[self.kept] / kernel[grounds][label[self.kept]]
        factor, _ = lapack.dpotrf(laplacian[self.kept][:, self.kept].toarray(order="F"), lower=1, overwrite_a=1)
        self.log_determinant = 2 * float(np.log(np.diag(factor)).sum())
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        # Only the lower triangle is referred to.
        self.inverse = np.asfortranarray(inverse, dtype=np.float32)
        self.ratios = np.asfortranarray(ratios[:, linked], dtype=np.float32)

    def sums(self, other: CSRArray, points: FloatArray, *, square: bool) -> FloatArray:
        """Return Σ 1, Σ x, Σ x² where asked for, and Σ log(1 + x/t) for each point t, over the eigenvalues x."""
        found = [float(self.kept.size), float(self.laplacian.multiply(other).sum())]
        if square:
            product = self.laplacian @ other
            found.append(float(product.multiply(product.T).sum()))
        for precision in (np.float32, np.float64):
            determinants = self._log_determinants(other, points, precision)
            if determinants is not None:
                return np.array([*found, *determinants])
        raise ConvergenceError("A determinant is out of reach of float64; compute='exact' needs none.")

    def _log_determinants(
        self, other: CSRArray, points: FloatArray, precision: type[np.float32] | type[np.float64]
    ) -> list[float] | None:
        """Return log det(I + M/t) at all points; None where the precision is too low."""
        single = precision is np.float32
        update, factorize = (blas.ssyr2k, lapack.spotrf) if single else (blas.dsyr2k, lapack.dpotrf)
        inside = other[self.kept][:, self.kept].tocoo()
        rows, columns = inside.coords
        lower = rows >= columns
        rows, columns, entries = rows[lower], columns[lower], inside.data[lower].astype(precision)
        ratios, inverse = self.ratios.astype(precision, copy=False), self.inverse.astype(precision, copy=False)
        cross, corner = other[self.grounds][:, self.kept].toarray(), other[self.grounds][:, self.grounds].toarray()
        moved = np.asfortranarray((cross - corner @ self.ratios.T / 2).T, dtype=precision)
        matrix = np.empty_like(inverse, order="F")
        found = []
        for point in points:
            np.multiply(inverse, precision(point), out=matrix)
            matrix[rows, columns] += entries
            matrix = update(-1.0, ratios, moved, beta=1.0, c=matrix, overwrite_c=1, lower=1)
            matrix, failed = factorize(matrix, lower=1, clean=0, overwrite_a=1)
            if failed:
                return None
            pivots = np.log(np.diag(matrix).astype(np.float64))
            found.append(2 * float(pivots.sum()) + self.log_determinant - self.kept.size * float(np.log(point)))
        return found


def find_rule(densities: Densities) -> Rule | None:
    """Return the bounds with the fewest determinants that are tight enough on reference pairs; None if none are."""
    count, size = len(densities), densities.size
    last = count - 1
    pairs = sorted({(0, last), (0, count // 2), (last // 3, max(last // 3 + 1, 2 * last // 3))})[:_REFERENCES]
    scaled = [sparse.csr_array(each * size) for each in densities.laplacians]
    spectra = [_product_spectrum(scaled[one], scaled[other]) for one, other in pairs]
    most = max(largest_bound(each) for each in scaled)
    products = np.mean([np.diff(scaled[one].indptr) @ np.diff(scaled[other].indptr) for one, other in pairs])
    square = bool(products <= _PRODUCTS)
    for number in range(2, _MOST + 1):
        rule = _fitted(spectra, most**2, number, square, size)
        if rule is None:
            continue
        exact = [_sums(values, rule.points, square) for values in spectra]
        measured = [
            Grounded(scaled[one], densities.kernels[one]).sums(scaled[other], rule.points, square=square)
            for one, other in pairs
        ]
        both = list(zip(exact, measured, strict=True))
        off = [abs(each @ (one - other)) for each in (rule.below, rule.above) for one, other in both]
        rule = Rule(rule.points, square, rule.below, rule.above, rule.share, _CAUTION * float(max(off)) / size + 1e-12)
        found = [rule.bounds(sums, size) for sums in exact]
        if all(high - low <= 2 * TOLERANCE * (2 - 2 * middle) for middle, low, high in found):
            return rule
    return None


def _fitted(spectra: Sequence[FloatArray], most: float, number: int, square: bool, size: int) -> Rule | None:
    """Return bounds with ``number`` determinants that are as tight as can be on the given eigenvalues."""
    everything = np.concatenate(spectra)
    low, high = np.log(np.quantile(everything[everything > 1e-8 * most], [0.1, 0.99]))

    def width(logarithms: FloatArray) -> float:
        found = _programs(everything, most, np.exp(logarithms), square)
        return 1e9 if found is None else float((found[1] - found[0]) @ _sums(everything, np.exp(logarithms), square))

    best = minimize(
        width,
        np.linspace(low - 3.0, high, number),
        method="Nelder-Mead",
        options={"maxiter": 40 * number, "xatol": 0.1, "fatol": 1e-6 * everything.size},
    )
    points = np.sort(np.exp(best.x))
    found = _programs(everything, most, points, square)
    if found is None:
        return None
    below, above = _shifted(*found, most, points, square)
    totals = _sums(everything, points, square)
    least, largest = float(below @ totals), float(above @ totals)
    share = (float(np.sqrt(everything).sum()) - least) / max(largest - least, 1e-300)
    return Rule(points, square, below, above, min(1.0, max(0.0, share)), 0.0)


def _functions(x: FloatArray, points: FloatArray, square: bool) -> FloatArray:
    columns = [np.ones_like(x), x, *([x**2] if square else []), *(np.log1p(x / point) for point in points)]
    return np.stack(columns, axis=1)


def _sums(x: FloatArray, points: FloatArray, square: bool) -> FloatArray:
    return np.asarray(_functions(x, points, square).sum(axis=0))


def _grid(most: float, count: int) -> FloatArray:
    return np.concatenate([[0.0], np.geomspace(1e-9 * most, most, count)])


def _programs(x: FloatArray, most: float, points: FloatArray, square: bool) -> tuple[FloatArray, FloatArray] | None:
    """Return coefficients of the largest function below the root and the smallest above, summed over x."""
    grid = _grid(most, _POINTS)
    values = _functions(grid, points, square)
    scale = np.abs(values).max(axis=0)
    totals = _sums(x, points, square) / scale
    found = []
    for sign in (-1.0, 1.0):
        solved = linprog(
            sign * totals,
            A_ub=-sign * values / scale,
            b_ub=-sign * np.sqrt(grid),
            bounds=[(None, None)] * scale.size,
            method="highs",
        )
        if solved.status != 0:
            return None
        found.append(np.asarray(solved.x / scale))
    return found[0], found[1]


def _shifted(
    below: FloatArray, above: FloatArray, most: float, points: FloatArray, square: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the functions moved by constants, so that they are bounds between the points of the programs, too."""
    grid = _grid(most, _POINTS * _FINER)
    values, root = _functions(grid, points, square), np.sqrt(grid)
    constant = np.zeros_like(below)
    constant[0] = 1.0
    return (
        below - constant * max(0.0, float((values @ below - root).max())),
        above + constant * max(0.0, float((root - values @ above).max())),
    )


def _product_spectrum(one: CSRArray, other: CSRArray) -> FloatArray:
    """Return the eigenvalues of the product of two p.s.d. matrices, as many as the rank of the first."""
    values, vectors = scipy.linalg.eigh(one.toarray(), driver="evd", overwrite_a=True, check_finite=False)
    kept = values > values.size * np.finfo(np.float64).eps * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    found = scipy.linalg.eigvalsh(root.T @ np.asarray(other @ root), driver="evd", overwrite_a=True, check_finite=False)
    return np.maximum(np.asarray(found, dtype=np.float64), 0.0)


def largest_bound(matrix: CSRArray) -> float:
    """Return an upper bound of the eigenvalues, close to the largest."""
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    values, vectors = eigsh(matrix, k=1, which="LA", v0=start, tol=1e-4)
    residual = np.linalg.norm(matrix @ vectors[:, 0] - values[0] * vectors[:, 0])
    return float(values[0] + residual) * 1.001
