"""Geodesics from a point and a direction: the exponential map, its inverse, and distances along congruences."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from fishergcn._base.checks import check_real
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import check_same_shape, decompose, shape_of
from fishergcn.geometry.intrinsic._moves import (
    Move,
    as_density,
    as_move,
    congruent,
    lowest_on_support,
    mean,
    shifted,
    square,
)

# tr ρX counts as zero up to this share of (tr ρX²)^½, which bounds it: x is often a difference of rounded numbers.
_CENTERED = 1e-8


def exponential_map(rho: MatrixLike, x: MatrixLike, t: float = 1.0) -> FloatArray | CSRArray:
    """Point ρ(t) = (I + tX) ρ (I + tX) / (1 + t²κ²) of the Bures geodesic that leaves ρ in the direction X.

    X is symmetric with tr ρX = 0, and κ² = tr XρX (:func:`tangent_norm`). The velocity at t = 0 is ρX + Xρ, of length
    κ. tκ is the tangent of the angle, not the angle: ``bures_angle(rho, ρ(t))`` = arctan(tκ), so the point at angle τ
    is at t = tan(τ) / κ.

    Parameters
    ----------
    rho : (n, n) array or SciPy sparse matrix
        ρ, a density matrix. It may be singular.
    x : (n,) or (n, n) array, or SciPy sparse matrix
        X; a vector stands for a diagonal matrix. :func:`center` subtracts tr ρX from its diagonal, and
        :func:`solve_lyapunov` makes X from a tangent matrix.
    t : float
        How far. I + tX must be p.s.d. on the support of ρ, which holds for every t near 0: beyond, the path is no
        longer the shortest one.

    Returns
    -------
    (n, n) array, or csr_array if ρ is sparse and X is sparse or diagonal
        ρ(t). Sparse matrices may have any size; p.s.d.-ness of I + tX is then verified on all of space.

    Examples
    --------
    >>> import numpy as np
    >>> exponential_map(np.diag([0.5, 0.5]), [1.0, -1.0], 0.5).diagonal()
    array([0.9, 0.1])
    >>> exponential_map(np.diag([0.5, 0.5]), [2.0, 0.0], 0.5)
    Traceback (most recent call last):
        ...
    fishergcn.errors.InputError: x must have tr(rho x) = 0, got 1; center(rho, x) subtracts it from the diagonal.
    """
    time = check_real("t", t)
    density, move = _tangent(rho, x, whole=True)
    lowest = lowest_on_support(density, shifted(move, time, 1.0))
    if lowest < 0:
        raise InputError(
            "I + t x must be positive semi-definite on the support of rho, but it has an eigenvalue of "
            f"{lowest:.6g} there; {_allowed(density, move, time, lowest)}."
        )
    return congruent(density, shifted(move, time, 1.0))


def logarithmic_map(a: MatrixLike, b: MatrixLike) -> FloatArray:
    """Direction X in which the Bures geodesic from a arrives at b at t = 1: the inverse of :func:`exponential_map`.

    With factors a = WWᵀ and b = YYᵀ turned so that WᵀY is p.s.d., X is the symmetric matrix with XW = Y/F - W, where
    F is the fidelity; so tr aX = 0 and κ = tan(bures_angle(a, b)). If a has full rank,
    I + X = a^-½ (a^½ b a^½)^½ a^-½ / F, the optimal transport map between centered Gaussians, scaled.

    Parameters
    ----------
    a, b : (n, n) array or SciPy sparse matrix
        Density matrices as in :func:`fidelity`. The rank of b must not exceed that of a (a geodesic into a larger rank
        exists, see :func:`geodesic`, but no X leads along it), and their ranges must not be orthogonal.

    Returns
    -------
    (n, n) array
        X; of all that do, the one that vanishes between vectors of the kernel of a.

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
    """Speed κ = (tr XρX)^½ at which :func:`exponential_map` leaves ρ in the direction X.

    κ² is :func:`bures_metric` of the tangent ρX + Xρ, and ¼ of its quantum Fisher information, the symmetric
    logarithmic derivative being 2X. For a diagonal X, κ² = Σ ρ_ii x_i².

    Arguments are those of :func:`exponential_map`.

    Examples
    --------
    >>> import numpy as np
    >>> tangent_norm(np.diag([0.75, 0.25]), [1.0, -3.0])
    1.7320508075688772
    """
    density, move = _tangent(rho, x)
    return float(np.sqrt(square(density, move)))


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
    return shifted(move, 1.0, -mean(density, move))


def congruence_distance(rho: MatrixLike, m: MatrixLike) -> float:
    """Bures distance from ρ to MρM / tr ρM², without an eigenvector of either: D_B² = 2 - 2 tr ρM / (tr ρM²)^½.

    For a diagonal M (how loud each node speaks) it takes the diagonal of ρ alone, O(n), at any size. M need not be
    centered; M = I + tX is the end of :func:`exponential_map`.

    Parameters
    ----------
    rho : (n, n) array or SciPy sparse matrix
        ρ, a density matrix, singular or not; sparse ones may have any size.
    m : (n,) or (n, n) array, or SciPy sparse matrix
        M, symmetric and p.s.d. on the support of ρ; a vector stands for a diagonal matrix.

    Notes
    -----
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
    lowest = lowest_on_support(density, move)
    if lowest < 0:
        raise InputError(
            f"m must be positive semi-definite on the support of rho, but it has an eigenvalue of {lowest:.6g} there."
        )
    average = mean(density, move)
    if not average > 0:
        raise InputError("m must not vanish on the support of rho, since nothing is left of rho then.")
    return float(2 * np.sin(np.arctan(np.sqrt(square(density, shifted(move, 1 / average, -1.0)))) / 2))


def _checked(
    rho: MatrixLike, x: MatrixLike, name: str = "x", *, whole: bool = False
) -> tuple[FloatArray | CSRArray, Move]:
    """Return ρ and X; unless the ``whole`` of ρ enters the result, a diagonal X needs the diagonal of ρ alone."""
    density = as_density(rho, diagonal_only=not whole and len(shape_of(x, name)) == 1)
    return density, as_move(name, x, density.shape[0])


def _tangent(rho: MatrixLike, x: MatrixLike, *, whole: bool = False) -> tuple[FloatArray | CSRArray, Move]:
    density, move = _checked(rho, x, whole=whole)
    trace = mean(density, move)
    if abs(trace) > _CENTERED * np.sqrt(square(density, move)):
        raise InputError(f"x must have tr(rho x) = 0, got {trace:.6g}; center(rho, x) subtracts it from the diagonal.")
    return density, move


def _allowed(density: FloatArray | CSRArray, move: Move, time: float, lowest: float) -> str:
    """Say for which t the path is shortest: 1 + tξ ≥ 0 for every eigenvalue ξ of X on the support."""
    # The extreme eigenvalue on the side of t follows from the one found; the other side takes a look of its own.
    ends = {np.sign(time): time / (1 - lowest)}
    back = lowest_on_support(density, shifted(move, -np.sign(time), 0.0))
    ends[-np.sign(time)] = np.sign(time) / back if back < 0 else -np.sign(time) * np.inf
    return f"t must be between {min(ends.values()):.4g} and {max(ends.values()):.4g}"
