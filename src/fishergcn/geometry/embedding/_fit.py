"""The maximum-likelihood embedding: a minimizer of KL(W : P(Y)) found from several starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import linalg, optimize, sparse
from scipy.sparse import linalg as sparse_linalg

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.reprs import one_line
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.embedding._similarities import MEMORY_LIMIT, Model, similarities
from fishergcn.graph import components, largest_component

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
# The largest number of equal balls that touch one of their kind, where it is known; 3^d - 1 bounds it always.
KISSING_NUMBERS = {1: 2, 2: 6, 3: 12, 4: 24}


@dataclass(frozen=True)
class RestartSummary:
    """How one start ended; see :func:`fit`."""

    start: str
    divergence: float
    gradient_norm: float
    iterations: int
    converged: bool


@dataclass(frozen=True)
class EmbeddingFit(RestartSummary):
    """How the best of several starts ended, and a report on all of them; see :func:`fit`."""

    embedding: FloatArray
    minimizer_known: bool
    restarts: tuple[RestartSummary, ...]

    __repr__ = one_line


def fit(
    W: MatrixLike,
    dim: int = 2,
    seed: int = 0,
    *,
    restarts: int = 3,
    tolerance: float = 1e-5,
    max_iterations: int = 2000,
    progress: bool = False,
    memory_limit: int = MEMORY_LIMIT,
) -> EmbeddingFit:
    """Y* = argmin_Y KL(W : P(Y)), the maximum-likelihood embedding.

    Parameters
    ----------
    W : array_like or SciPy sparse, shape (n, n)
        Similarities (:func:`similarities`), connected when directions are ignored: parts would repel each other for
        ever. Embed one component (``similarities(graph, nodes=largest_component(graph.adjacency))``).
    dim : int
        d, the number of coordinates.
    restarts, seed : int
        Number of starts: the first from the leading eigenvectors of W, others random. The lowest divergence wins.
    tolerance, max_iterations
        Each start stops when ‖4 L_sym(W - P) Y‖ ≤ tolerance · ‖4 L_sym(W) Y‖, or after ``max_iterations``.
    progress : bool
        Show the divergence and the gradient of the running start on the terminal.
    memory_limit : int
        Bytes for the row blocks of P(Y).

    Returns
    -------
    EmbeddingFit
        ``embedding`` Y*, (n, d), with its mean at the origin and its principal axes along the coordinates. Of the best
        start: ``start``, ``divergence``, ``iterations``, and ``gradient_norm``, the ratio of the two norms above, which
        is the force that is left relative to the attraction. ``converged`` says whether it is within the tolerance; the
        problem is not convex, and no method can promise the lowest minimum. ``restarts`` has the same of each start.

    Notes
    -----
    A connected W need not have a minimizer: the path of three nodes with order 1 is fitted ever better as it grows. One
    exists if all links of W are joined through rows that share a node, and some node is similar to more nodes (with
    rows of their own) than equal balls can touch one ball in d dimensions: 2, 6, 12, 24, and at most 3^d - 1. Where
    ``minimizer_known``, the result of that test, is False, the embedding may be one step of an endless expansion.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(12), 1, axis=1) + np.roll(np.eye(12), -1, axis=1)
    >>> W = (np.ones((12, 12)) - np.eye(12) + 20 * ring) / 51
    >>> found = fit(W, dim=2, restarts=2)
    >>> found.converged, found.minimizer_known, [each.start for each in found.restarts]
    (True, True, ['spectral', 'random'])
    """
    model = Model(W, check_integer("memory_limit", memory_limit, minimum=1))
    dim = check_integer("dim", dim, minimum=1)
    seed = check_integer("seed", seed, minimum=0)
    count = check_integer("restarts", restarts, minimum=1)
    tolerance = check_real("tolerance", tolerance, above=0)
    limit = check_integer("max_iterations", max_iterations, minimum=1)
    _check_connected(model.similarities)
    coordinates = _Conditioning(model)
    found: list[tuple[FloatArray, RestartSummary]] = []
    for number in range(count):
        start = "random" if number else "spectral"
        Y = _starting_point(model, dim, start, np.random.default_rng([seed, number]))
        with _reporter(progress, f"start {number + 1} of {count} ({start})") as report:
            Y, iterations = _descend(model, coordinates, Y, tolerance, limit, report)
        value, slope = model.divergence_and_gradient(Y)
        norm = _relative_norm(model, Y, slope)
        found.append((Y, RestartSummary(start, value, norm, iterations, norm <= tolerance)))
    Y, best = min(found, key=lambda pair: pair[1].divergence)
    return EmbeddingFit(
        **vars(best),
        embedding=_canonical(Y),
        minimizer_known=_minimizer_known(model.similarities, dim),
        restarts=tuple(summary for _, summary in found),
    )


def _check_connected(W: CSRArray) -> None:
    sizes = np.bincount(components(W))
    if sizes.size > 1:
        raise InputError(
            f"W must be connected, got {sizes.size} parts (the largest has {sizes.max()} of {W.shape[0]} nodes), "
            "which repel each other without end: pass similarities(graph, nodes=largest_component(graph.adjacency))."
        )


def _minimizer_known(W: CSRArray, dim: int) -> bool:
    """Whether the sufficient condition in the notes of :func:`fit` holds."""
    links = sparse.coo_array(W)
    nodes = W.shape[0]
    pairs = np.minimum(links.row, links.col).astype(np.int64) * nodes + np.maximum(links.row, links.col)
    unique, pair_of = np.unique(pairs, return_inverse=True)
    # Rows and unordered links as the two sides of a graph: connected when all links are of comparable length.
    size = nodes + len(unique)
    joined = sparse.coo_array((np.ones(W.nnz), (links.row, nodes + pair_of)), shape=(size, size))
    if len(np.unique(components(joined)[nodes:])) > 1:
        return False
    with_row = (np.diff(W.indptr) > 0).astype(np.float64)
    neighbors = np.add.reduceat(np.append(with_row[W.indices], 0), W.indptr[:-1]) * with_row
    return bool(neighbors.max() > KISSING_NUMBERS.get(dim, 3**dim - 1))


def _canonical(Y: FloatArray) -> FloatArray:
    """Center Y and turn it to its principal axes, each axis with its largest coordinate positive."""
    centered = Y - Y.mean(axis=0)
    _, _, axes = np.linalg.svd(centered.T @ centered)
    turned = centered @ axes.T
    extremes = turned[np.abs(turned).argmax(axis=0), np.arange(turned.shape[1])]
    return np.asarray(turned * np.where(extremes < 0, -1.0, 1.0))


@contextmanager
def _reporter(shown: bool, title: str) -> Iterator[Report]:
    """Yield a function of (iteration, divergence, gradient norm) that shows them, or does nothing."""
    if not shown:
        yield lambda iteration, divergence, norm: None
        return
    from rich.console import Console

    with Console(stderr=True).status(title) as status:
        yield lambda iteration, divergence, norm: status.update(
            f"{title}: iteration {iteration}, divergence {divergence:.6g}, relative gradient {norm:.2e}"
        )


def spectral_embedding(adjacency: MatrixLike, dim: int = 2, seed: int = 0) -> FloatArray:
    """Y, (n, d): the leading eigenvectors of the walk, of unit variance, at the size of least divergence KL(W : P(Y)).

    The size is the best of a coarse grid, not a minimum to all digits.

    What :func:`fit` starts from, for graphs of any number of components: nodes outside the largest one lie in the
    middle. The divergence takes a few passes over all pairs of nodes, where a fit takes hundreds. ``adjacency`` is A,
    with a link at least, ``dim`` is d, and ``seed`` that of the solver and of a jitter of 1%, which separates nodes of
    the same place.

    Examples
    --------
    >>> import numpy as np
    >>> path = np.diag(np.ones(5), 1)
    >>> line = spectral_embedding(path + path.T, dim=1)[:, 0]
    >>> bool((np.diff(line) > 0).all() or (np.diff(line) < 0).all())
    True
    """
    matrix = check_adjacency(adjacency)
    dim = check_integer("dim", dim, minimum=1)
    rng = np.random.default_rng(check_integer("seed", seed, minimum=0))
    if matrix.nnz == 0:
        raise InputError("the graph must have a link at least, got none.")
    inside = np.flatnonzero(largest_component(matrix))
    part = _starting_point(Model(similarities(matrix[inside][:, inside])), dim, "spectral", rng)
    positions = JITTER * rng.standard_normal((matrix.shape[0], dim))
    positions[inside] = part - part.mean(axis=0)
    return positions


class _Conditioning:
    """The variables X = CᵀY, in which the attraction, quadratic in Y, is round: CCᵀ = 4 L_sym(W) + μI.

    Only the repulsion remains to be learned. Of graphs whose factor would not fit, C² is the diagonal of that matrix.
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

    def solved(self, right: FloatArray, trans: str) -> FloatArray:
        """Return C^-ᵀX, the positions ("T"), or C^-1 ∂/∂Y, the gradient with respect to X ("N")."""
        if self._triangle is None:
            return right / self._scale
        solve: Any = linalg.solve_triangular
        return np.asarray(solve(self._triangle, right, lower=True, trans=trans, check_finite=False))


def _relative_norm(model: Model, Y: FloatArray, gradient: FloatArray) -> float:
    """Return ‖4 L_sym(W - P) Y‖ / ‖4 L_sym(W) Y‖."""
    attraction = float(np.linalg.norm(4 * (model.laplacian @ (Y - Y.mean(axis=0)))))
    # All nodes at one point: both vanish, and there is no stationarity to speak of in a limit of 0/0.
    return float(np.linalg.norm(gradient)) / attraction if attraction > 0 else np.inf


def _descend(
    model: Model, coordinates: _Conditioning, Y: FloatArray, tolerance: float, max_iterations: int, report: Report
) -> tuple[FloatArray, int]:
    """Run L-BFGS from Y until the relative gradient is within the tolerance; return Y and the iterations."""
    shape = Y.shape
    norm, iteration = np.inf, 0

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        nonlocal norm
        positions = coordinates.solved(x.reshape(shape), "T")
        value, gradient = model.divergence_and_gradient(positions)
        norm = _relative_norm(model, positions, gradient)
        return value, coordinates.solved(gradient, "N").ravel()

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
    return coordinates.solved(result.x.reshape(shape), "T"), iteration


def _starting_point(model: Model, dim: int, kind: str, generator: np.random.Generator) -> FloatArray:
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
