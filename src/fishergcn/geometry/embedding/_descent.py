"""One descent on KL(W : P(Y)): where it starts, in which variables it runs, when it stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy import linalg, optimize, sparse
from scipy.sparse import linalg as sparse_linalg

from fishergcn._base.types import FloatArray
from fishergcn.geometry.embedding._model import Model

Report: TypeAlias = Callable[[int, float, float], None]

# Up to this many nodes the attraction 4 L_sym(W) is factorized (n² numbers) to condition the problem.
DENSE_NODES = 6000
# Share of the mean diagonal of 4 L_sym(W) added before it is factorized, as its kernel holds translations.
DAMPING = 1e-2
# Pairs of steps and gradient changes that L-BFGS remembers.
MEMORY = 20
# Sizes, in standard deviations along each axis, among which a start picks the best.
SCALES = 2.0 ** np.arange(-8, 6)
# Noise on the spectral start, which would leave nodes with equal links at equal positions for ever.
JITTER = 1e-2


class Conditioning:
    """The variables X = CᵀY, in which the attraction is round: CCᵀ = 4 L_sym(W) + μI.

    Of graphs whose factor would not fit, C² is the diagonal of that matrix.
    """

    def __init__(self, model: Model) -> None:
        diagonal = 4 * model.laplacian.diagonal()
        damping = DAMPING * float(diagonal.mean())
        self._triangle: FloatArray | None = None
        self._scale: FloatArray = np.sqrt(diagonal + damping)[:, None]
        if model.num_nodes <= DENSE_NODES:
            matrix = 4 * model.laplacian.toarray()
            matrix[np.diag_indices_from(matrix)] += damping
            self._triangle = linalg.cholesky(matrix, lower=True, overwrite_a=True)

    def variables(self, Y: FloatArray) -> FloatArray:
        """Return CᵀY."""
        return self._scale * Y if self._triangle is None else np.asarray(self._triangle.T @ Y)

    def positions(self, X: FloatArray) -> FloatArray:
        """Return C^-ᵀX."""
        return self._solved(X, "T")

    def pulled_back(self, gradient: FloatArray) -> FloatArray:
        """Return C^-1 ∂/∂Y, the gradient with respect to X."""
        return self._solved(gradient, "N")

    def _solved(self, right: FloatArray, trans: str) -> FloatArray:
        if self._triangle is None:
            return right / self._scale
        solve: Any = linalg.solve_triangular
        return np.asarray(solve(self._triangle, right, lower=True, trans=trans, check_finite=False))


def stationarity(model: Model, Y: FloatArray) -> tuple[float, float]:
    """Return the divergence and ‖4 L_sym(W - P) Y‖ / ‖4 L_sym(W) Y‖."""
    value, gradient = model.divergence_and_gradient(Y)
    return value, _relative_norm(model, Y, gradient)


def _relative_norm(model: Model, Y: FloatArray, gradient: FloatArray) -> float:
    attraction = float(np.linalg.norm(4 * (model.laplacian @ (Y - Y.mean(axis=0)))))
    # All nodes at one point: both vanish, and there is no stationarity to speak of in a limit of 0/0.
    return float(np.linalg.norm(gradient)) / attraction if attraction > 0 else np.inf


def descend(
    model: Model, coordinates: Conditioning, Y: FloatArray, tolerance: float, max_iterations: int, report: Report
) -> tuple[FloatArray, int]:
    """Run L-BFGS from Y until the relative gradient is within the tolerance; return Y and the iterations."""
    shape = Y.shape
    norm, iteration = np.inf, 0

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        nonlocal norm
        positions = coordinates.positions(x.reshape(shape))
        value, gradient = model.divergence_and_gradient(positions)
        norm = _relative_norm(model, positions, gradient)
        return value, coordinates.pulled_back(gradient).ravel()

    def after_iteration(intermediate_result: optimize.OptimizeResult) -> None:
        # The point accepted last is the one evaluated last, so that `norm` is its own.
        nonlocal iteration
        iteration += 1
        report(iteration, float(intermediate_result.fun), norm)
        if norm <= tolerance:
            raise StopIteration

    result = optimize.minimize(
        objective,
        coordinates.variables(Y).ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=after_iteration,
        # The rule above decides when to stop; the built-in ones, on other scales, are switched off.
        options={
            "maxiter": max_iterations,
            "maxfun": 20 * max_iterations,
            "ftol": 0.0,
            "gtol": 0.0,
            "maxcor": MEMORY,
            "maxls": 40,
        },
    )
    return coordinates.positions(result.x.reshape(shape)), iteration


def starting_point(model: Model, dim: int, kind: str, generator: np.random.Generator) -> FloatArray:
    """Return a spectral or a random start, at the size of least divergence."""
    Y = generator.standard_normal((model.num_nodes, dim))
    if kind == "spectral":
        vectors = _leading_eigenvectors(model, dim, generator)
        vectors /= np.maximum(vectors.std(axis=0), np.finfo(float).tiny)
        Y[:, : vectors.shape[1]] = vectors + JITTER * Y[:, : vectors.shape[1]]
    values = [model.divergence_and_gradient(scale * Y)[0] for scale in SCALES]
    return np.asarray(SCALES[int(np.argmin(values))] * Y)


def _leading_eigenvectors(model: Model, dim: int, generator: np.random.Generator) -> FloatArray:
    """Return D^-½u for the eigenvectors u that follow the first of D^-½ W̄ D^-½, W̄ = (W + Wᵀ)/2."""
    degrees = model.laplacian.diagonal()
    scale = sparse.diags_array(1 / np.sqrt(degrees))
    walk = sparse.csr_array(scale @ (sparse.diags_array(degrees) - model.laplacian) @ scale)
    count = min(dim + 1, model.num_nodes)
    if count < model.num_nodes // 4:
        start = generator.standard_normal(model.num_nodes)
        values, vectors = sparse_linalg.eigsh(walk, k=count, which="LA", v0=start, tol=1e-4)
    else:
        values, vectors = np.linalg.eigh(walk.toarray())
    order = np.argsort(-values)[1:count]
    return np.asarray(vectors[:, order] / np.sqrt(degrees)[:, None])
