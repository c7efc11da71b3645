"""The nearest density matrix of low rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from fishergcn._base.checks import check_integer
from fishergcn._base.reprs import one_line
from fishergcn._base.types import FloatArray, MatrixLike
from fishergcn.errors import ConvergenceError, InputError
from fishergcn.geometry.intrinsic._density import (
    DENSE_LIMIT,
    check_semidefinite_sparse,
    check_trace_one,
    decompose,
    shape_of,
    sparse_symmetric,
    support,
)

# Below this size a dense decomposition is as fast as any iteration.
_DENSE_SIZE = 512


@dataclass(frozen=True, eq=False)
class RankProjection:
    """The nearest density matrix of rank k, Ū diag(λ̄) Ūᵀ; see :func:`rank_projection`."""

    eigenvalues: FloatArray
    eigenvectors: FloatArray
    distance: float
    captured_mass: float
    gap: float

    __repr__ = one_line

    def to_dense(self) -> FloatArray:
        """Return the projection as an (n, n) matrix."""
        return np.asarray((self.eigenvectors * self.eigenvalues) @ self.eigenvectors.T)


def rank_projection(rho: MatrixLike, rank: int) -> RankProjection:
    """Closest density matrix of rank k in Bures distance: the k largest eigenpairs, renormalized.

    ρ̄ᵏ = Σ_{i≤k} λ_i u_i u_iᵀ / s with s = Σ_{i≤k} λ_i, at D_B² = 2(1 - sqrt s).

    Parameters
    ----------
    rho : (n, n) array or SciPy sparse matrix
        ρ. A sparse one of more than 512 nodes is handled by a Lanczos method that finds only the top of the spectrum,
        at any size (p.s.d.-ness is then checked by a short one at the bottom), unless the rank is of the order of n.
    rank : int
        k, between 1 and the rank of ρ.

    Returns
    -------
    RankProjection
        ``eigenvalues`` λ̄, descending with sum 1, and ``eigenvectors`` Ū, (n, k); ``to_dense()`` is Ū diag(λ̄) Ūᵀ.
        ``captured_mass`` is s, ``distance`` the Bures distance to ρ, and ``gap`` λ_k - λ_{k+1} of ρ: the projection is
        unique if and only if it is positive.

    Examples
    --------
    >>> import numpy as np
    >>> projection = rank_projection(np.diag([0.5, 0.3, 0.2]), 2)
    >>> round(projection.captured_mass, 12), round(projection.gap, 12)
    (0.8, 0.1)
    >>> projection.to_dense().diagonal()
    array([0.625, 0.375, 0.   ])
    """
    size = max(shape_of(rho), default=1)
    check_integer("rank", rank, minimum=1, maximum=max(size, 1))
    given: Any = rho
    if sparse.issparse(given) and size > _DENSE_SIZE and (size > DENSE_LIMIT or 10 * rank < size):
        eigenvalues, eigenvectors = _top_pairs(rho, rank)
        tail = max(0.0, 1.0 - float(eigenvalues[:rank].sum()))
    else:
        eigenvalues, eigenvectors = decompose("rho", rho)
        tail = float(eigenvalues[rank:].sum())
    found = int(np.count_nonzero(support(eigenvalues)))
    if rank > found:
        raise InputError(f"rank must be at most the rank of rho, which is {found}, got {rank}.")
    mass = float(eigenvalues[:rank].sum())
    below = float(eigenvalues[rank]) if rank < len(eigenvalues) else 0.0
    return RankProjection(
        eigenvalues=eigenvalues[:rank] / mass,
        eigenvectors=np.ascontiguousarray(eigenvectors[:, :rank]),
        # 1 - sqrt(s) = (1 - s) / (1 + sqrt(s)), and the tail is summed directly: no cancellation at s ≈ 1.
        distance=float(np.sqrt(2 * tail / (1 + np.sqrt(mass)))),
        captured_mass=mass,
        gap=float(eigenvalues[rank - 1]) - below,
    )


def _top_pairs(rho: MatrixLike, rank: int) -> tuple[FloatArray, FloatArray]:
    matrix = sparse_symmetric("rho", rho)
    check_trace_one("rho", float(matrix.trace()))
    check_semidefinite_sparse("rho", matrix)
    size = matrix.shape[0]
    if rank + 1 >= size // 2:
        raise InputError(f"rank must be below {size // 2 - 1} on a sparse matrix of {size} rows, got {rank}.")
    # Fixed start, so that the same matrix always gives the same vectors.
    start = np.random.default_rng(0).standard_normal(size)
    try:
        # Wider than ARPACK's default of 2k + 1, which pays where eigenvalues crowd together.
        width = min(size, 2 * (rank + 1) + 30)
        values, vectors = eigsh(matrix, k=rank + 1, which="LA", v0=start, tol=0, ncv=width)
    except ArpackNoConvergence as error:
        raise ConvergenceError(
            f"The {rank + 1} largest eigenpairs of rho did not converge ({len(error.eigenvalues)} did); "
            "a smaller rank may help."
        ) from error
    order = np.argsort(values)[::-1]
    return np.asarray(values[order], dtype=np.float64), np.asarray(vectors[:, order], dtype=np.float64)
