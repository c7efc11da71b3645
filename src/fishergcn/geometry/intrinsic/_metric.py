"""The Bures metric, as a quadratic form on tangent matrices and in coordinates of spectrum and rotation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from fishergcn._base.checks import check_choice
from fishergcn._base.reprs import one_line
from fishergcn._base.types import FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import as_symmetric, check_spectrum, decompose

Coordinates: TypeAlias = Literal["eigenvalue", "log", "softmax"]


def bures_metric(rho: MatrixLike, tangent: MatrixLike) -> float:
    """Bures line element ds² = ½ Σ_jk (u_jᵀ dρ u_k)² / (λ_j + λ_k), over λ_j + λ_k > 0.

    D_B²(ρ, ρ + t dρ) = t² ds² + O(t³) if ρ has full rank; on a singular ρ the same holds along a curve of
    constant rank whose tangent is dρ.

    Parameters
    ----------
    rho : (n, n) array or SciPy sparse matrix
        ρ = Σ λ_i u_i u_iᵀ, a density matrix, n up to :data:`DENSE_LIMIT`. It may be singular.
    tangent : (n, n) array or SciPy sparse matrix
        dρ, symmetric with trace 0.

    Returns
    -------
    float
        ds², already squared; the quantum Fisher information is four times this.

    Warns
    -----
    UserWarning
        If dρ puts mass into the kernel of ρ. D_B² then grows *linearly*, at the rate :func:`kernel_rate`, so
        no metric describes it, and the value returned is only the part of the sum that is finite.

    Examples
    --------
    >>> import numpy as np
    >>> bures_metric(np.diag([0.5, 0.5]), np.diag([1.0, -1.0]))
    1.0
    """
    eigenvalues, components = _components(rho, tangent)
    sums = eigenvalues[:, None] + eigenvalues[None, :]
    scale = np.abs(components).max(initial=0.0)
    if np.abs(components[sums == 0]).max(initial=0.0) > 1e-10 * scale:
        warnings.warn(
            "tangent puts mass into the kernel of rho, where the squared Bures distance grows linearly "
            "(see kernel_rate); the value covers the other directions only.",
            stacklevel=2,
        )
    return float(0.5 * np.divide(components**2, sums, out=np.zeros_like(sums), where=sums > 0).sum())


def quantum_fisher(rho: MatrixLike, tangent: MatrixLike) -> float:
    """Quantum Fisher information tr(ρ S²) = 4 ds², where dρ = (ρS + Sρ)/2 defines S.

    S is the symmetric logarithmic derivative. For commuting ρ and dρ this is the classical Fisher information
    Σ dλ_i² / λ_i.

    This is four times :func:`bures_metric`, with its arguments and the same remark on the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> quantum_fisher(np.diag([0.5, 0.5]), np.diag([1.0, -1.0]))
    4.0
    """
    return 4 * bures_metric(rho, tangent)


def kernel_rate(rho: MatrixLike, tangent: MatrixLike) -> float:
    """First-order growth of D_B² where the kernel fills up, tr(P dρ P) with P the projector on ker ρ.

    D_B²(ρ, ρ + t dρ) = t · rate + o(t). Zero for every dρ along which the rank stays the same, and negative if
    ρ + t dρ leaves the p.s.d. matrices at once. Arguments are those of :func:`bures_metric`.

    Examples
    --------
    >>> import numpy as np
    >>> kernel_rate(np.diag([1.0, 0.0]), np.diag([-1.0, 1.0]))
    1.0
    """
    eigenvalues, components = _components(rho, tangent)
    return float(np.diagonal(components)[eigenvalues == 0].sum())


def spectral_metric(eigenvalues: MatrixLike, coordinates: Coordinates = "eigenvalue") -> FloatArray:
    """Bures metric G on the spectrum, ds² = dxᵀ G dx.

    ===============  =========================  =================================
    ``coordinates``  x                          G
    ===============  =========================  =================================
    ``eigenvalue``   λ, with Σ dλ_i = 0         diag(1 / 4λ)
    ``log``          θ = log λ, Σ λ_i dθ_i = 0  diag(λ) / 4
    ``softmax``      θ, λ = softmax(θ)          (diag λ - λλᵀ) / 4, null vector 1
    ===============  =========================  =================================

    Parameters
    ----------
    eigenvalues : (n,) array
        λ, non-negative with sum 1. Every graph has λ = 0 once per component: those directions have no finite
        metric and get a zero row, so that G is the metric of the support.
    coordinates : {"eigenvalue", "log", "softmax"}
        Which x.

    Returns
    -------
    (n, n) array
        G, a quarter of the classical Fisher information matrix.

    Examples
    --------
    >>> import numpy as np
    >>> spectral_metric(np.array([0.5, 0.5]), "softmax")
    array([[ 0.0625, -0.0625],
           [-0.0625,  0.0625]])
    """
    check_choice("coordinates", coordinates, get_args(Coordinates))
    values = check_spectrum(eigenvalues)
    if coordinates == "eigenvalue":
        return np.diag(np.divide(0.25, values, out=np.zeros_like(values), where=values > 0))
    if coordinates == "log":
        return np.diag(values / 4)
    return (np.diag(values) - np.outer(values, values)) / 4


def rotation_metric(eigenvalues: MatrixLike) -> FloatArray:
    """Cost of rotating eigenvectors, a_ij = (λ_i - λ_j)² / (λ_i + λ_j), 0 where both vanish.

    With Ω = Uᵀ dU antisymmetric, ds² = Σ dλ_i² / 4λ_i + Σ_{i<j} a_ij Ω_ij²: an eigenvector cannot move alone,
    and a rotation in the plane of u_i and u_j costs a_ij. ``eigenvalues`` are λ, as in :func:`spectral_metric`.

    Examples
    --------
    >>> import numpy as np
    >>> rotation_metric(np.array([0.75, 0.25]))
    array([[0.  , 0.25],
           [0.25, 0.  ]])
    """
    values = check_spectrum(eigenvalues)
    sums = values[:, None] + values[None, :]
    differences = values[:, None] - values[None, :]
    return np.divide(differences**2, sums, out=np.zeros_like(sums), where=sums > 0)


def rotation_trace(eigenvalues: MatrixLike) -> FloatArray:
    """Scale of the metric for each eigenvector, tr G(u_i) = ½ Σ_j a_ij.

    The factor ½ books half of each planar rotation to either of its two vectors; the sum over i is
    tr G(U) = n - 2 Σ_ij λ_i λ_j / (λ_i + λ_j). See :func:`rotation_trace_bounds`. ``eigenvalues`` are λ, as in
    :func:`spectral_metric`, and the result, of shape (n,), is in their order.

    Examples
    --------
    >>> import numpy as np
    >>> rotation_trace(np.array([1.0, 0.0, 0.0, 0.0]))
    array([1.5, 0.5, 0.5, 0.5])
    """
    return np.asarray(rotation_metric(eigenvalues).sum(axis=1) / 2)


@dataclass(frozen=True, eq=False)
class RotationTraceBounds:
    """Upper bounds on :func:`rotation_trace`, attained at λ = e_1.

    Attributes
    ----------
    vectors : (n,) array
        (1 + (n-2) λ_i) / 2, at most (n-1)/2, bounds tr G(u_i).
    total : float
        n - 1/λ_max, at most n - 1, bounds tr G(U).

    Examples
    --------
    >>> import numpy as np
    >>> spectrum = np.array([0.5, 0.3, 0.2])
    >>> bounds = rotation_trace_bounds(spectrum)
    >>> bounds.vectors, bounds.total
    (array([0.75, 0.65, 0.6 ]), 1.0)
    >>> rotation_trace(spectrum).round(3)
    array([0.089, 0.035, 0.074])
    """

    vectors: FloatArray
    total: float

    __repr__ = one_line


def rotation_trace_bounds(eigenvalues: MatrixLike) -> RotationTraceBounds:
    """Tight bounds tr G(u_i) ≤ ½(1 + (n-2)λ_i) and tr G(U) ≤ n - 1/λ_max.

    Both follow from a_ij = λ_i + λ_j - 4λ_iλ_j/(λ_i + λ_j): drop the last term for the first, use
    λ_i + λ_j ≤ 2λ_max in it for the second. The bounds ½ and n/2 found in the literature are false for n ≥ 3.
    ``eigenvalues`` are λ, as in :func:`spectral_metric`.

    Examples
    --------
    >>> import numpy as np
    >>> rotation_trace_bounds(np.array([1.0, 0.0, 0.0, 0.0]))
    RotationTraceBounds(vectors=array([1.5, 0.5, 0.5, 0.5]), total=3.0)
    """
    values = check_spectrum(eigenvalues)
    n = values.size
    # One eigenvalue alone has nothing to rotate with; the first formula gives 0 there, as it should.
    return RotationTraceBounds(vectors=(1 + (n - 2) * values) / 2, total=float(n - 1 / values.max()))


def _components(rho: MatrixLike, tangent: Any) -> tuple[FloatArray, FloatArray]:
    """Return the spectrum of ρ and the tangent in its eigenbasis, both validated."""
    eigenvalues, eigenvectors = decompose("rho", rho)
    direction = as_symmetric("tangent", tangent)
    if direction.shape != eigenvectors.shape:
        raise InputError(f"tangent must have the shape of rho, {eigenvectors.shape}, got {direction.shape}.")
    trace = float(np.trace(direction))
    # Looser than rounding alone asks for: a tangent is often a difference quotient.
    if abs(trace) > 1e-8 * max(np.abs(direction.diagonal()).sum(), np.abs(direction).max(initial=0.0)):
        raise InputError(f"tangent must have trace 0, since the trace of rho is fixed, got {trace:.6g}.")
    return eigenvalues, eigenvectors.T @ direction @ eigenvectors
