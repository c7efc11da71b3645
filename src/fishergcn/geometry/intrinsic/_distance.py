"""How far apart two density matrices are, by metric or divergence, and the shortest path between them."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from fishergcn._base.checks import check_real
from fishergcn._base.types import FloatArray, MatrixLike
from fishergcn.geometry.intrinsic._density import check_same_shape, decompose

# Mass of a in the kernel of b beyond this makes the divergence infinite; less is rounding.
_OUTSIDE = 1e-12


def fidelity(a: MatrixLike, b: MatrixLike) -> float:
    """Overlap of two density matrices, F = tr sqrt(a^½ b a^½), in [0, 1]; symmetric in its arguments.

    This is the *root* fidelity (also what ``qutip.fidelity`` returns); Jozsa's fidelity is its square.
    F = 1 only for equal matrices and F = 0 only for matrices with orthogonal ranges.
    ``a`` and ``b`` are density matrices of one size, n up to 6000, sparse or not; they may be singular.

    Examples
    --------
    >>> import numpy as np
    >>> round(fidelity(np.diag([0.5, 0.5]), np.diag([0.9, 0.1])), 12)
    0.894427191
    """
    x, y = _purifications(a, b)
    # F is the trace norm of YᵀX. Rounding can lift it above one by a few units in the last place.
    return min(1.0, float(scipy.linalg.svdvals(y.T @ x).sum()))


def bures_distance(a: MatrixLike, b: MatrixLike) -> float:
    """Bures distance D_B = sqrt(2 - 2 F(a, b)), in [0, sqrt 2]; not squared. Arguments are those of :func:`fidelity`.

    D_B is the chordal distance: the length of the straight line between the two closest purifications, so
    D_B² = 2 - 2 cos(angle) with :func:`bures_angle`. For commuting matrices it is sqrt 2 times the Hellinger
    distance of the spectra. To second order, D_B²(ρ, ρ + dρ) = :func:`bures_metric` ``(ρ, dρ)``.

    2 - 2F loses every digit below 1e-8 when a ≈ b. With factors a = XXᵀ and b = YYᵀ, D_B is the minimum over orthogonal
    U of ``‖X - YU‖_F``, attained at the polar factor of YᵀX; evaluating that norm involves no such cancellation.

    Examples
    --------
    >>> import numpy as np
    >>> round(bures_distance(np.diag([1.0, 0.0]), np.diag([0.0, 1.0])) ** 2, 12)
    2.0
    >>> round(bures_distance(np.diag([0.5, 0.5]), np.diag([0.5 + 1e-12, 0.5 - 1e-12])) / 1e-12, 3)
    1.0
    """
    x, y = _aligned(a, b)
    # Rounding must not carry two orthogonal matrices beyond the diameter.
    return min(float(np.sqrt(2.0)), float(np.linalg.norm(x - y)))


def bures_angle(a: MatrixLike, b: MatrixLike) -> float:
    """Bures angle arccos F(a, b), in [0, π/2]: the length of the geodesic of unit-trace matrices, in radians.

    It is evaluated as 2 arcsin(D_B / 2), accurate for a ≈ b. Arguments are those of :func:`fidelity`.

    Examples
    --------
    >>> import numpy as np
    >>> round(bures_angle(np.diag([1.0, 0.0]), np.diag([0.5, 0.5])) / np.pi, 12)
    0.25
    """
    return _angle(bures_distance(a, b))


def geodesic(a: MatrixLike, b: MatrixLike, t: float) -> FloatArray:
    """Point at time t on the shortest Bures path of density matrices from a to b, a dense matrix.

    With factors a = XXᵀ and b = YYᵀ turned so that XᵀY is p.s.d., X and Y are unit vectors at the Bures angle
    ϑ, and the great circle between them,

        W(t) = [sin((1-t)ϑ) X + sin(tϑ) Y] / sin ϑ,    ρ(t) = W(t) W(t)ᵀ,

    projects to the geodesic: every ρ(t) is a density matrix and ``bures_angle(a, ρ(t)) = t ϑ``. ``a`` and ``b`` are as
    in :func:`fidelity`; if XᵀY is singular on the common support, one of several shortest paths is taken. ``t`` lies
    between 0 (a) and 1 (b); ½ is the midpoint, equally far from both.

    Examples
    --------
    >>> import numpy as np
    >>> geodesic(np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), 1 / 3).diagonal().round(12)
    array([0.75, 0.25])
    """
    time = check_real("t", t, minimum=0.0, maximum=1.0)
    x, y = _aligned(a, b)
    angle = _angle(float(np.linalg.norm(x - y)))
    if angle > 0:
        point = (np.sin((1 - time) * angle) * x + np.sin(time * angle) * y) / np.sin(angle)
    else:
        point = (1 - time) * x + time * y
    rho = point @ point.T
    return np.asarray(rho / np.trace(rho))


def von_neumann_divergence(a: MatrixLike, b: MatrixLike) -> float:
    """Von Neumann divergence D(a ‖ b) = tr(a log a - a log b - a + b), in nats: the quantum relative entropy.

    It is the Bregman divergence of tr(x log x): how far this function lies, at a, above its tangent at b. It is not
    symmetric, 0 only for a = b, at least -2 log F(a, b), and infinite unless the range of a lies within that of b.
    Connected graphs have a finite divergence by their combinatorial Laplacians, whose kernel is the constant vector;
    kernels of normalized ones depend on the degrees. Arguments are those of :func:`fidelity`.

    Examples
    --------
    >>> import numpy as np
    >>> round(von_neumann_divergence(np.diag([0.9, 0.1]), np.diag([0.5, 0.5])), 6)
    0.368064
    >>> von_neumann_divergence(np.diag([0.5, 0.5]), np.diag([1.0, 0.0]))
    inf
    """
    check_same_shape(a, b)
    (values, vectors), (weights, basis) = decompose("a", a), decompose("b", b)
    # Row i: how much of the i-th eigenvector of b is in a, weighted by the eigenvalues of a.
    shares = np.square(basis.T @ vectors) @ values
    if shares[weights == 0].sum() > _OUTSIDE:
        return float("inf")
    inside = weights > 0
    positive = values[values > 0]
    found = float((positive * np.log(positive)).sum() - (shares[inside] * np.log(weights[inside])).sum())
    # The traces are both one, and rounding must not make it negative.
    return max(0.0, found)


def _purifications(a: MatrixLike, b: MatrixLike) -> tuple[FloatArray, FloatArray]:
    """Return n x r factors with a = XXᵀ and b = YYᵀ, r the larger of the two ranks."""
    check_same_shape(a, b)
    factors = []
    for name, rho in (("a", a), ("b", b)):
        eigenvalues, eigenvectors = decompose(name, rho)
        factors.append((eigenvectors * np.sqrt(eigenvalues), int(np.count_nonzero(eigenvalues))))
    width = max(rank for _, rank in factors)
    # Columns beyond the rank are exactly zero, so cutting or keeping them changes nothing.
    return factors[0][0][:, :width], factors[1][0][:, :width]


def _aligned(a: MatrixLike, b: MatrixLike) -> tuple[FloatArray, FloatArray]:
    """Return factors of a and b that are as close to each other as factors can be (XᵀY is p.s.d.)."""
    x, y = _purifications(a, b)
    left, _, right = scipy.linalg.svd(y.T @ x, check_finite=False)
    return x, y @ (left @ right)


def _angle(distance: float) -> float:
    return float(2 * np.arcsin(min(distance / 2, np.sqrt(0.5))))
