"""Geodesics from a point and a direction: the exponential map, its inverse, and distances along congruences M ρ M.

Both ρ and the symmetric M may be sparse, of any size.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
from scipy import sparse

from fishergcn._base.checks import check_real
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import (
    DENSE_LIMIT,
    as_float,
    as_symmetric,
    check_same_shape,
    check_semidefinite,
    check_semidefinite_sparse,
    check_trace_one,
    decompose,
    lowest_eigenvalue,
    shape_of,
    sparse_symmetric,
    symmetric_csr,
)

# A symmetric matrix: the diagonal alone, dense, or sparse.
Move: TypeAlias = "FloatArray | CSRArray"

# How far rounding may carry M out of the p.s.d. matrices, relative to its largest eigenvalue.
_TOLERANCE = 1e-9
# tr ρX counts as zero up to this share of (tr ρX²)^½, which bounds it: x is often a difference of rounded numbers.
_CENTERED = 1e-8


def exponential_map(rho: MatrixLike, x: MatrixLike, t: float = 1.0) -> FloatArray | CSRArray:
    """Point ρ(t) = (I + tX) ρ (I + tX) / (1 + t²κ²) of the Bures geodesic that leaves ρ in the direction X.

    X is symmetric with tr ρX = 0, and κ² = tr XρX; a vector stands for a diagonal matrix, and :func:`center` subtracts
    tr ρX. The velocity at t = 0 is dρ = ρX + Xρ, of length κ, so that X is half the :func:`logarithmic_derivative` of
    dρ. tκ is the tangent of the angle, not the angle: ``bures_angle(rho, ρ(t))`` = arctan(tκ), so the point at angle τ
    is at t = tan(τ) / κ. I + tX must be p.s.d. on the support of ρ, which may be singular: this holds for every t near
    0, and beyond, the path is no longer the shortest one.

    The result is a csr_array if ρ is sparse and X is sparse or diagonal, else dense. Sparse matrices may have any size;
    beyond 6000 nodes p.s.d.-ness of I + tX is verified on all of space.

    Examples
    --------
    >>> import numpy as np
    >>> exponential_map(np.diag([0.5, 0.5]), [1.0, -1.0], 0.5).diagonal()
    array([0.9, 0.1])
    """
    time = check_real("t", t)
    density, move = _tangent(rho, x, whole=True)
    lowest = _lowest_on_support(density, _shifted(move, time, 1.0))
    if lowest < 0:
        raise InputError(
            "I + t x must be positive semi-definite on the support of rho, but it has an eigenvalue of "
            f"{lowest:.6g} there; {_allowed(density, move, time, lowest)}."
        )
    return _congruent(density, _shifted(move, time, 1.0))


def logarithmic_map(a: MatrixLike, b: MatrixLike) -> FloatArray:
    """Direction X in which the Bures geodesic from a arrives at b at t = 1: the inverse of :func:`exponential_map`.

    With factors a = WWᵀ and b = YYᵀ turned so that WᵀY is p.s.d., X is the symmetric matrix with XW = Y/F - W, where
    F is the fidelity; so tr aX = 0 and κ = tan(bures_angle(a, b)). If a has full rank,
    I + X = a^-½ (a^½ b a^½)^½ a^-½ / F, the optimal transport map between centered Gaussians, scaled.

    ``a`` and ``b`` are density matrices as in :func:`fidelity`. The rank of b must not exceed that of a (a geodesic
    into a larger rank exists, see :func:`geodesic`, but no X leads along it), and their ranges must not be orthogonal.
    Of all X, the one that vanishes between vectors of the kernel of a is returned.

    Examples
    --------
    >>> import numpy as np
    >>> logarithmic_map(np.diag([0.5, 0.5]), np.diag([0.9, 0.1])).diagonal().round(12)
    array([ 0.5, -0.5])
    """
    check_same_shape(a, b)
    (weights, basis), (values, vectors) = decompose("a", a), decompose("b", b)
    rank, reached = int(np.count_nonzero(weights)), int(np.count_nonzero(values))
    if reached > rank:
        raise InputError(
            f"b must have at most the rank of a, since a congruence cannot raise it, but the ranks are {reached} and "
            f"{rank}."
        )
    basis, roots = basis[:, :rank], np.sqrt(weights[:rank])
    factor = vectors[:, :rank] * np.sqrt(values[:rank])
    left, overlaps, right = scipy.linalg.svd(factor.T @ (basis * roots), check_finite=False)
    overlap = float(overlaps.sum())
    if overlap <= len(weights) * np.finfo(np.float64).eps:
        raise InputError("a and b must not have orthogonal ranges: the geodesic from a to b is not unique there.")
    # (I + X) restricted to the support of a, as an n x r matrix.
    images = factor @ (left @ right) / overlap / roots
    inner = basis.T @ images
    inner = (inner + inner.T) / 2 - np.eye(rank)
    outer = images - basis @ (basis.T @ images)
    x = basis @ inner @ basis.T + outer @ basis.T + basis @ outer.T
    return np.asarray((x + x.T) / 2)


def tangent_norm(rho: MatrixLike, x: MatrixLike) -> float:
    """Speed κ = (tr XρX)^½ at which :func:`exponential_map` leaves ρ: κ² is :func:`bures_metric` of ρX + Xρ."""
    density, move = _tangent(rho, x)
    return float(np.sqrt(_square(density, move)))


def center(rho: MatrixLike, x: MatrixLike) -> FloatArray | CSRArray:
    """Subtract the mean of X from its diagonal, X - tr(ρX) I: what :func:`exponential_map` can take.

    Arguments are those of :func:`exponential_map`, less tr ρX = 0; the result is of the kind of ``x``.

    Examples
    --------
    >>> import numpy as np
    >>> center(np.diag([0.75, 0.25]), [4.0, 0.0])
    array([ 1., -3.])
    """
    density, move = _checked(rho, x)
    return _shifted(move, 1.0, -_mean(density, move))


def congruence_distance(rho: MatrixLike, m: MatrixLike) -> float:
    """Bures distance from ρ to MρM / tr ρM², without an eigenvector of either: D_B² = 2 - 2 tr ρM / (tr ρM²)^½.

    ``m`` is M, symmetric and p.s.d. on the support of ρ; a vector stands for a diagonal matrix (how loud each node
    speaks) and takes the diagonal of ρ alone, O(n), at any size. M need not be centered; M = I + tX is the end of
    :func:`exponential_map`. ``rho`` is a density matrix, singular or not; sparse ones may have any size.

    With μ = tr ρM and κ² = tr ρ(M - μ)² / μ², D_B = 2 sin(arctan(κ) / 2), which loses no digits for M near I.

    Examples
    --------
    >>> import numpy as np
    >>> rho, m = np.diag([0.5, 0.5]), np.array([1.5, 0.5])
    >>> moved = np.diag(m) @ rho @ np.diag(m)
    >>> from fishergcn.geometry.intrinsic import bures_distance
    >>> abs(congruence_distance(rho, m) - bures_distance(rho, moved / np.trace(moved))) < 1e-15
    True
    """
    density, move = _checked(rho, m, name="m")
    lowest = _lowest_on_support(density, move)
    if lowest < 0:
        raise InputError(
            f"m must be positive semi-definite on the support of rho, but it has an eigenvalue of {lowest:.6g} there."
        )
    average = _mean(density, move)
    if not average > 0:
        raise InputError("m must not vanish on the support of rho, since nothing is left of rho then.")
    return float(2 * np.sin(np.arctan(np.sqrt(_square(density, _shifted(move, 1 / average, -1.0)))) / 2))


def _checked(
    rho: MatrixLike, x: MatrixLike, name: str = "x", *, whole: bool = False
) -> tuple[FloatArray | CSRArray, Move]:
    """Return ρ and X; unless the ``whole`` of ρ enters the result, a diagonal X needs the diagonal of ρ alone."""
    density = _as_density(rho, diagonal_only=not whole and len(shape_of(x, name)) == 1)
    return density, _as_move(name, x, density.shape[0])


def _tangent(rho: MatrixLike, x: MatrixLike, *, whole: bool = False) -> tuple[FloatArray | CSRArray, Move]:
    density, move = _checked(rho, x, whole=whole)
    trace = _mean(density, move)
    if abs(trace) > _CENTERED * np.sqrt(_square(density, move)):
        raise InputError(f"x must have tr(rho x) = 0, got {trace:.6g}; center(rho, x) subtracts it from the diagonal.")
    return density, move


def _allowed(density: FloatArray | CSRArray, move: Move, time: float, lowest: float) -> str:
    """Say for which t the path is shortest: 1 + tξ ≥ 0 for every eigenvalue ξ of X on the support."""
    # The extreme eigenvalue on the side of t follows from the one found; the other side takes a look of its own.
    ends = {np.sign(time): time / (1 - lowest)}
    back = _lowest_on_support(density, _shifted(move, -np.sign(time), 0.0))
    ends[-np.sign(time)] = np.sign(time) / back if back < 0 else -np.sign(time) * np.inf
    return f"t must be between {min(ends.values()):.4g} and {max(ends.values()):.4g}"


def _as_density(rho: MatrixLike, *, diagonal_only: bool = False) -> FloatArray | CSRArray:
    """Return a checked density matrix, sparse where it came sparse."""
    if not _is_sparse(rho):
        matrix = as_symmetric("rho", rho)
        check_trace_one("rho", float(np.trace(matrix)))
        check_semidefinite("rho", matrix)
        return matrix
    # Comparing entries with their mirror images takes longer than all the rest, and may be for nothing.
    if diagonal_only and min(shape_of(rho)) > DENSE_LIMIT:
        return _with_checked_diagonal(rho)
    csr = sparse_symmetric("rho", rho)
    check_trace_one("rho", float(csr.trace()))
    check_semidefinite_sparse("rho", csr)
    return csr


def _with_checked_diagonal(rho: Any) -> CSRArray:
    if rho.ndim != 2 or rho.shape[0] != rho.shape[1] or rho.dtype.kind not in "fiub":
        raise InputError(f"rho must be a square matrix of real numbers, got shape {rho.shape} and dtype {rho.dtype}.")
    csr = _csr(rho)
    if not np.isfinite(csr.data).all():
        raise InputError("rho must be finite, but it holds a NaN or an infinite entry.")
    diagonal = csr.diagonal()
    lowest = float(diagonal.min())
    if lowest < 0:
        raise InputError(f"rho must be positive semi-definite, but its diagonal has an entry of {lowest:.6g}.")
    check_trace_one("rho", float(diagonal.sum()))
    return csr


def _as_move(name: str, value: MatrixLike, size: int) -> Move:
    """Return a symmetric matrix as its diagonal if a vector came, and dense or CSR otherwise."""
    shape = shape_of(value, name)
    if len(shape) == 1:
        diagonal = as_float(name, value)
        if not np.isfinite(diagonal).all():
            index = int(np.argmin(np.isfinite(diagonal)))
            raise InputError(f"{name} must be finite, but entry {index} is {diagonal[index]}.")
        move: Move = diagonal
    else:
        move = symmetric_csr(name, value) if _is_sparse(value) else as_symmetric(name, value)
    if move.shape[0] != size:
        raise InputError(
            f"{name} must be of the size of rho, ({size},) for a diagonal or ({size}, {size}), got shape {shape}."
        )
    return move


def _shifted(move: Any, scale: float, constant: float) -> Move:
    """Return scale · X + constant · I."""
    if move.ndim == 1:
        return np.asarray(scale * move + constant)
    identity: Any = sparse.eye_array(move.shape[0], format="csr") if _is_sparse(move) else np.eye(move.shape[0])
    result: Any = scale * move + constant * identity
    return _csr(result) if _is_sparse(result) else np.asarray(result)


def _mean(rho: Any, move: Any) -> float:
    """Return tr ρX, the expectation of X."""
    if move.ndim == 1:
        return float(rho.diagonal() @ move)
    product = rho.multiply(move) if _is_sparse(rho) else move.multiply(rho) if _is_sparse(move) else rho * move
    return float(product.sum())


def _square(rho: Any, move: Any) -> float:
    """Return tr XρX, which rounding must not make negative."""
    if move.ndim == 1:
        return float(rho.diagonal() @ move**2)
    image = rho @ move
    product = image.multiply(move) if _is_sparse(image) else move.multiply(image) if _is_sparse(move) else image * move
    return max(0.0, float(product.sum()))


def _congruent(rho: Any, move: Any) -> FloatArray | CSRArray:
    """Return MρM / tr ρM², exactly symmetric, sparse if ρ and M are."""
    if move.ndim == 1:
        move = sparse.diags_array(move, format="csr") if _is_sparse(rho) else np.diag(move)
    result: Any = move @ rho @ move
    result = (result + result.T) / 2
    result = result / result.trace()
    return _csr(result) if _is_sparse(result) else np.asarray(result)


def _lowest_on_support(rho: Any, move: Any) -> float:
    """Return the smallest eigenvalue of M on the support of ρ if it is negative beyond rounding, otherwise 0."""
    size = rho.shape[0]
    if move.ndim == 1:
        seen = move[rho.diagonal() > 0]
        lowest, largest = float(seen.min()), float(np.abs(seen).max())
    elif _is_sparse(move) and size > DENSE_LIMIT:
        lowest, largest = lowest_eigenvalue(move)
    else:
        values = scipy.linalg.eigvalsh(move.toarray() if _is_sparse(move) else move)
        lowest, largest = float(values[0]), float(np.abs(values).max())
    if lowest >= -_TOLERANCE * largest:
        return 0.0
    if size <= DENSE_LIMIT:  # beyond, a negative eigenvalue anywhere counts
        eigenvalues, eigenvectors = decompose("rho", rho)
        basis = eigenvectors[:, eigenvalues > 0]
        moved = move[:, None] * basis if move.ndim == 1 else move @ basis
        lowest = float(scipy.linalg.eigvalsh(basis.T @ moved)[0])
    return lowest if lowest < -_TOLERANCE * largest else 0.0


def _is_sparse(value: Any) -> bool:
    # A plain answer: SciPy's own narrows types to a class without methods.
    return bool(sparse.issparse(value))


def _csr(value: Any) -> CSRArray:
    return sparse.csr_array(value, dtype=np.float64)
