"""Polynomials in L: X = Σ_j x_j P_j(L), orthonormal for ρ."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from scipy.linalg import solve_triangular
from scipy.sparse.linalg import eigsh
from torch import Tensor

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.errors import InputError
from fishergcn.operators import PolynomialOperator, SparseMatrix
from fishergcn.perturbation._family import Factor, Family, laplacian_diagonal

_EXACT_NODES = 5_000
_SMALL_NODES = 1_000  # up to here all eigenvalues are computed where it matters
_COLUMNS = 256  # at once; and as many random signs where the traces are estimated


class Polynomials(Family):
    """P_1, …, P_p with tr ρP_i(L)P_j(L) = δ_ij and tr ρP_j(L) = 0, so tr ρX² = Σ x_j².

    They come from the Chebyshev moments tr T_j(Ã), j ≤ 2p + 1: exact up to 5,000 nodes, and beyond that from 256
    random sign vectors, whose relative error falls with the root of 256 n (10⁻³ and less).
    """

    constants = ("_basis",)

    def __init__(self, propagation: CSRArray, degree: int) -> None:
        laplacian_diagonal(propagation)
        self.propagation, self.degree = propagation, degree
        traces = _traces(propagation, degree)
        heat = [traces[j] - (traces[j + 1] + traces[abs(j - 1)]) / 2 for j in range(2 * degree + 1)]  # tr L T_j(Ã)
        orders = np.arange(degree + 1)
        gram = np.array(heat)[np.add.outer(orders, orders)] + np.array(heat)[np.abs(np.subtract.outer(orders, orders))]
        gram /= 2 * heat[0]
        lowest = float(np.linalg.eigvalsh(gram)[0])
        if lowest < 1e-10:
            raise InputError(
                f"degree must be less than the number of distinct eigenvalues of L that are not 0, got {degree}."
            )
        triangle = np.linalg.cholesky(gram)
        self.polynomials: FloatArray = solve_triangular(triangle, np.eye(degree + 1), lower=True)  # P_j in T_a
        self.unit = torch.full((degree,), degree**-0.5, dtype=torch.float64)
        self.diagonal = torch.ones(degree, dtype=torch.float64)
        self._basis = torch.from_numpy(self.polynomials)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return 0 and the length of x."""
        return torch.zeros_like(x[..., 0]), torch.linalg.vector_norm(x, dim=-1)

    def factor(self, x: Tensor) -> Factor:
        """Return I + X = Σ_a b_a T_a(Ã), a = 0..p."""
        return Factor(_times_polynomial, self._basis[0] + x @ self._basis[1:])

    def smallest(self, x: FloatArray) -> float:
        """Return the smallest eigenvalue of I + X on the support; of large graphs the minimum between its ends."""
        series = chebyshev.Chebyshev(self.polynomials[0] + x @ self.polynomials[1:])
        return float(series(self._extremes(series)).min())

    def largest(self, x: FloatArray) -> float:
        """Return the largest eigenvalue of (I + X) L (I + X); of large graphs the maximum between its ends."""
        # The spectrum of a polynomial has clusters at its maxima, where Lanczos would take minutes.
        series = chebyshev.Chebyshev(self.polynomials[0] + x @ self.polynomials[1:])
        square = series * series * chebyshev.Chebyshev([1.0, -1.0])
        return float(square(self._extremes(square)).max())

    def _extremes(self, series: Any) -> FloatArray:
        """Return where a function of Ã may have its extremes: all eigenvalues, or ends and turning points."""
        points = self._points
        if len(points) > 2:
            return points
        turning = series.deriv().roots() if series.degree() > 1 else np.empty(0)
        inside = [each.real for each in turning if abs(each.imag) < 1e-9 and points[0] < each.real < points[1]]
        return np.append(points, inside)

    @cached_property
    def _points(self) -> FloatArray:
        """The eigenvalues of Ã below 1, or of a large graph the smallest one and 1."""
        if self.propagation.shape[0] <= _SMALL_NODES:
            values = np.linalg.eigvalsh(self.propagation.toarray())
            return np.asarray(values[values < 1.0 - 1e-9], dtype=np.float64)
        lowest = eigsh(self.propagation, k=1, which="SA", return_eigenvectors=False, tol=1e-6)[0]
        return np.array([lowest, 1.0])

    def mean_operator(self, matrix: SparseMatrix, radius: float) -> PolynomialOperator:
        """E[XLX] = σ² Σ_j P_j(L)² L, a polynomial in Ã."""
        total = np.array([1.0])
        for each in self.polynomials[1:]:
            total = chebyshev.chebadd(total, chebyshev.chebmul(each, each) * radius**2 / self.degree)
        laplacian = chebyshev.chebmul(total, [1.0, -1.0]) / (1.0 + radius**2)
        return PolynomialOperator(matrix, chebyshev.chebsub([1.0], laplacian).tolist())


def _times_polynomial(matrix: SparseMatrix, dense: Tensor, coefficients: Tensor) -> Tensor:
    return PolynomialOperator(matrix, coefficients.T.unsqueeze(-1).unbind(0)).propagate(dense)


def _traces(propagation: CSRArray, degree: int) -> FloatArray:
    """Return tr T_j(Ã), j = 0..2p + 1, from T_a T_b = (T_{a+b} + T_{|a-b|}) / 2."""
    matrix, nodes = SparseMatrix.from_scipy(propagation), propagation.shape[0]
    found = np.zeros(2 * degree + 2)
    exact = nodes <= _EXACT_NODES
    rng = np.random.default_rng(0)
    for start in range(0, nodes if exact else 1, _COLUMNS):
        width = min(_COLUMNS, nodes - start) if exact else _COLUMNS
        block = torch.zeros(nodes, 1, width, dtype=torch.float64)
        if exact:
            block[torch.arange(start, start + width), 0, torch.arange(width)] = 1.0
        else:
            block[:, 0] = torch.from_numpy(rng.choice([-1.0, 1.0], (nodes, width)))
        terms = [block, matrix.propagate(block)]
        for _ in range(degree):
            terms.append(2 * matrix.propagate(terms[-1]) - terms[-2])
        scale = 1.0 if exact else 1.0 / width
        products = [float((terms[(j + 1) // 2] * terms[j // 2]).sum()) * scale for j in range(2 * degree + 2)]
        found += products
    traces = found.copy()
    for j in range(2, len(found)):
        traces[j] = 2 * found[j] - traces[j % 2]  # T_a T_b with a + b = j and a - b = j % 2
    return traces
