"""Largest eigenpairs of a sparse symmetric matrix: Chebyshev if it is large, Lanczos, ARPACK, LOBPCG, block Krylov.

Nothing is returned whose residual was not checked.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import linalg as sparse_linalg

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn._kernels.choice import LARGE_GRAPH
from fishergcn.errors import ConvergenceError
from fishergcn.spectrum._chebyshev import chebyshev, suits
from fishergcn.spectrum._lanczos import lanczos

# Below this size a dense decomposition is faster than any iteration, and exact on repeated eigenvalues.
DENSE_SIZE = 512
# Columns whose inner products are that close to those of an orthonormal basis are one, up to rounding.
ORTHONORMAL = 1e-11


class Eigenpairs(NamedTuple):
    """Eigenvalues (k,) descending, orthonormal eigenvectors (m, k), largest relative residual, solver."""

    values: FloatArray
    vectors: FloatArray
    residual: float
    solver: str


def largest_eigenpairs(matrix: CSRArray, rank: int, *, seed: int, tolerance: float) -> Eigenpairs:
    """Return the ``rank`` algebraically largest eigenpairs of a symmetric matrix M, the largest of the order of ‖M‖."""
    size = matrix.shape[0]
    if size <= DENSE_SIZE or 4 * rank >= size:
        return _checked(matrix, _dense(matrix, rank), rank, "dense")
    reached = []
    solvers = [("Lanczos", lanczos), ("ARPACK", _arpack), ("LOBPCG", _lobpcg), ("block Krylov", _block_krylov)]
    # Lanczos vectors of a large graph no longer fit the cache, and filtering blocks in float32 is faster.
    if size > LARGE_GRAPH and suits(matrix, rank, tolerance):
        solvers.insert(0, ("Chebyshev", chebyshev))
    for name, solver in solvers:
        basis = solver(matrix, rank, seed, tolerance)
        if basis is None:
            reached.append(f"{name} failed")
            continue
        pairs = _checked(matrix, basis, rank, name)
        if name == "ARPACK" and pairs.residual <= tolerance and _misses_a_copy(matrix, pairs, seed):
            reached.append("ARPACK missed a repeated eigenvalue")
            continue
        if pairs.residual <= tolerance:
            return pairs
        reached.append(f"{name} reached {pairs.residual:.1e}")
    raise ConvergenceError(
        f"No solver found {rank} eigenpairs of a matrix of size {size} with a relative residual of at most "
        f"{tolerance:.1e} ({', '.join(reached)}); pass a larger tolerance or a smaller rank."
    )


def _misses_a_copy(matrix: CSRArray, pairs: Eigenpairs, seed: int) -> bool:
    """Say whether what is orthogonal to eigenvectors has a larger eigenvalue than the last of them.

    From one start vector, iterations see a repeated eigenvalue once, and its copies by rounding alone.
    """
    start, vectors = np.random.default_rng(seed + 1).standard_normal(matrix.shape[0]), pairs.vectors

    def without(vector: FloatArray) -> FloatArray:
        return vector - vectors @ (vectors.T @ vector)

    # Shifted, so that what is left out, which has eigenvalue 0 here, is not the largest.
    shift = 2.0 * float(abs(pairs.values).max())
    rest = sparse_linalg.LinearOperator(
        matrix.shape, lambda x: without(matrix @ without(x.ravel()) + shift * without(x.ravel())), dtype=np.float64
    )
    try:
        [next_value] = sparse_linalg.eigsh(
            rest, k=1, which="LA", v0=without(start), tol=1e-6, return_eigenvectors=False
        )
    except sparse_linalg.ArpackError:
        return True
    return bool(next_value - shift > pairs.values[-1] + 1e-6 * shift)


def _checked(matrix: CSRArray, basis: FloatArray, rank: int, solver: str) -> Eigenpairs:
    """Return the best eigenpairs within the span of ``basis`` and their residual."""
    if basis.shape[1] == rank and np.abs(basis.T @ basis - np.eye(rank)).max() < ORTHONORMAL:
        # Most solvers return Ritz vectors, which another Rayleigh-Ritz step would not change.
        image = _product(matrix, basis)
        projected = basis.T @ image
        values: FloatArray = projected.diagonal()
        if np.abs(projected - np.diag(values)).max() < ORTHONORMAL * np.abs(values).max():
            order = np.argsort(-values, kind="stable")
            values, basis = values[order], basis[:, order]
            return _with_residual(image[:, order], values, basis, solver)
    values, basis = _rayleigh_ritz(matrix, basis, rank)
    return _with_residual(_product(matrix, basis), values, basis, solver)


def _with_residual(image: FloatArray, values: FloatArray, vectors: FloatArray, solver: str) -> Eigenpairs:
    errors = np.linalg.norm(image - vectors * values, axis=0)
    return Eigenpairs(values, vectors, float(errors.max() / max(abs(values[0]), np.finfo(float).tiny)), solver)


def _rayleigh_ritz(matrix: CSRArray, basis: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """Return the ``rank`` largest Ritz pairs of the span of the columns of ``basis``, descending."""
    basis = np.linalg.qr(basis)[0]
    projected: FloatArray = basis.T @ _product(matrix, basis)
    values, rotation = linalg.eigh((projected + projected.T) / 2)
    return values[::-1][:rank].copy(), basis @ rotation[:, ::-1][:, :rank]


def _product(matrix: CSRArray, vectors: FloatArray) -> FloatArray:
    product: Any = matrix @ vectors
    return np.asarray(product, dtype=np.float64)


def _dense(matrix: CSRArray, rank: int) -> FloatArray:
    size, dense = matrix.shape[0], matrix.toarray()
    if 4 * rank < size:
        few: FloatArray = linalg.eigh(dense, subset_by_index=[size - rank, size - 1], driver="evr")[1]
        # Asked for some, LAPACK may return fewer where eigenvalues coincide, as those of a star do.
        if few.shape[1] == rank and np.abs(few.T @ few - np.eye(rank)).max() < ORTHONORMAL:
            return few
    vectors: FloatArray = linalg.eigh(dense, driver="evd")[1]
    return vectors[:, size - rank :]


def _arpack(matrix: CSRArray, rank: int, seed: int, tolerance: float) -> FloatArray | None:
    start = np.random.default_rng(seed).standard_normal(matrix.shape[0])
    # A subspace wider than ARPACK's default of 2k + 1 pays where eigenvalues crowd together. On most graphs some more
    # vectors are enough, and fastest; where they are not, many more are tried.
    for width in (2 * rank + 4, 2 * rank + 50):
        try:
            # Half the tolerance leaves room for the difference between ARPACK's estimate and the residual itself.
            vectors: FloatArray = sparse_linalg.eigsh(
                matrix, k=rank, which="LA", v0=start, ncv=min(matrix.shape[0], width), maxiter=300, tol=tolerance / 2
            )[1]
        except sparse_linalg.ArpackError:
            continue
        return vectors
    return None


def _lobpcg(matrix: CSRArray, rank: int, seed: int, tolerance: float) -> FloatArray | None:
    start = np.random.default_rng(seed).standard_normal((matrix.shape[0], rank + 5))
    with warnings.catch_warnings():
        # It warns where it stops short; the residual, checked by the caller, says so too.
        warnings.simplefilter("ignore")
        try:
            vectors: Any = sparse_linalg.lobpcg(matrix, start, largest=True, tol=tolerance / 2, maxiter=200)[1]
        except (linalg.LinAlgError, ValueError):
            return None
    return vectors if np.isfinite(vectors).all() else None


def _block_krylov(
    matrix: CSRArray, rank: int, seed: int, tolerance: float, *, depth: int = 6, restarts: int = 100
) -> FloatArray:
    """Return an orthonormal basis of Ritz vectors from restarted block Krylov spaces.

    Each round spans [X, MX, …, M^depth X] with full reorthogonalization (Musco & Musco 2015) and starts the
    next from its best Ritz vectors. A block wider than k finds repeated eigenvalues, and converges with the
    gap below the last column of the block instead of the k-th.
    """
    size = matrix.shape[0]
    width = min(size, rank + max(10, rank // 2))
    block: FloatArray = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, width)))[0]
    for _ in range(restarts):
        basis = block
        newest = block
        for _ in range(depth):
            newest = _orthogonal_part(_product(matrix, newest), basis)
            if newest.shape[1] == 0:  # the space is invariant: its Ritz pairs are exact
                break
            basis = np.hstack([basis, newest])
        values, block = _rayleigh_ritz(matrix, basis, width)
        errors = np.linalg.norm(_product(matrix, block[:, :rank]) - block[:, :rank] * values[:rank], axis=0)
        if errors.max() <= 0.5 * tolerance * abs(values[0]):
            break
    return block


def _orthogonal_part(vectors: FloatArray, basis: FloatArray) -> FloatArray:
    """Return orthonormal columns that, with ``basis``, span what ``vectors`` and ``basis`` span."""
    room = basis.shape[0] - basis.shape[1]
    scale = np.linalg.norm(vectors, axis=0).max(initial=0.0)
    for _ in range(2):  # once more, since the first pass cancels digits
        vectors = vectors - basis @ (basis.T @ vectors)
    columns, triangle, _ = linalg.qr(vectors, mode="economic", pivoting=True)
    count = int(np.sum(np.abs(np.diag(triangle)) > 1e-10 * scale))
    kept: Any = columns[:, : min(count, room)]
    # Small columns grow when normalized, and with them what rounding left of the basis in them.
    kept = kept - basis @ (basis.T @ kept)
    return np.linalg.qr(kept)[0] if kept.shape[1] else kept
