"""The Bures metric: on tangent matrices, in coordinates of spectrum and rotation, and by logarithmic derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from fishergcn._base.checks import check_choice
from fishergcn._base.types import FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import as_symmetric, check_spectrum, check_tangent, decompose

Coordinates: TypeAlias = Literal["eigenvalue", "log", "softmax"]


def bures_metric(rho: MatrixLike, tangent: MatrixLike) -> float:
    """Bures line element ds² = ½ Σ_jk (u_jᵀ dρ u_k)² / (λ_j + λ_k), over λ_j + λ_k > 0; already squared.

    ``rho`` is a density matrix ρ = Σ λ_i u_i u_iᵀ, n up to 6000, singular or not, and ``tangent`` dρ, symmetric with
    trace 0. D_B²(ρ, ρ + t dρ) = t² ds² + O(t³) if ρ has full rank; on a singular ρ the same holds along a curve of
    constant rank whose tangent is dρ. If dρ puts mass into the kernel of ρ, D_B² grows *linearly*, at the rate
    :func:`kernel_rate`: no metric describes it, the value is only the part of the sum that is finite, and a warning
    says so. The quantum Fisher information tr(ρ S²), with S the :func:`logarithmic_derivative`, is four times this; for
    commuting ρ and dρ it is the classical one, Σ dλ_i² / λ_i.

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
    """Bures metric G on the spectrum, ds² = dxᵀ G dx: a quarter of the classical Fisher information matrix, (n, n).

    ===============  =========================  =================================
    ``coordinates``  x                          G
    ===============  =========================  =================================
    ``eigenvalue``   λ, with Σ dλ_i = 0         diag(1 / 4λ)
    ``log``          θ = log λ, Σ λ_i dθ_i = 0  diag(λ) / 4
    ``softmax``      θ, λ = softmax(θ)          (diag λ - λλᵀ) / 4, null vector 1
    ===============  =========================  =================================

    ``eigenvalues`` are λ, (n,), non-negative with sum 1. Every graph has λ = 0 once per component: those directions
    have no finite metric and get a zero row, so that G is the metric of the support.

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
    and a rotation in the plane of u_i and u_j costs a_ij. Half of each rotation booked to either of its two vectors,
    tr G(u_i) = ½ Σ_j a_ij ≤ ½(1 + (n-2)λ_i), and tr G(U) = Σ_i tr G(u_i) ≤ n - 1/λ_max: tight bounds, attained at
    λ = e_1, where ½ and n/2 found in the literature are false for n ≥ 3. ``eigenvalues`` are λ, as in
    :func:`spectral_metric`.

    Examples
    --------
    >>> import numpy as np
    >>> rotation_metric(np.array([1.0, 0.0, 0.0, 0.0])).sum(axis=1) / 2  # tr G(u_i)
    array([1.5, 0.5, 0.5, 0.5])
    """
    values = check_spectrum(eigenvalues)
    sums = values[:, None] + values[None, :]
    differences = values[:, None] - values[None, :]
    return np.divide(differences**2, sums, out=np.zeros_like(sums), where=sums > 0)


def solve_lyapunov(rho: MatrixLike, right: MatrixLike) -> FloatArray:
    """Solve ρX + Xρ = R for the symmetric X = Σ_jk u_j (u_jᵀ R u_k) / (λ_j + λ_k) u_kᵀ, where ρ = Σ λ_i u_i u_iᵀ.

    On a singular ρ, R must vanish between vectors of the kernel, and of all solutions the one that does is returned.
    """
    eigenvalues, eigenvectors = decompose("rho", rho)
    return _solution(eigenvalues, eigenvectors, "right", right)


def logarithmic_derivative(rho: MatrixLike, tangent: MatrixLike) -> FloatArray:
    """Symmetric logarithmic derivative S of a density matrix, dρ = (ρS + Sρ)/2; tr ρS = 0.

    For commuting ρ and dρ it is d log ρ on the support. ``rho`` and ``tangent`` are ρ and dρ as in
    :func:`bures_metric`; a tangent that fills the kernel of ρ has no S and is refused.

    Examples
    --------
    >>> import numpy as np
    >>> logarithmic_derivative(np.diag([0.75, 0.25]), np.diag([0.5, -0.5])).diagonal().round(12)
    array([ 0.66666667, -2.        ])
    """
    eigenvalues, eigenvectors = decompose("rho", rho)
    return 2 * _solution(eigenvalues, eigenvectors, "tangent", check_tangent("tangent", tangent, len(eigenvalues)))


def quantum_fisher_matrix(rho: MatrixLike, tangents: Sequence[MatrixLike]) -> FloatArray:
    """Quantum Fisher information matrix of k parameters, G_ab = ½ tr ρ(S_a S_b + S_b S_a) = tr(∂_aρ S_b).

    S_a are the symmetric logarithmic derivatives of the ``tangents`` ∂_aρ, symmetric with trace 0, none of which fills
    the kernel of ρ. G is four times the Bures metric: for small steps D_B²(ρ, ρ + Σ v_a ∂_aρ) ≈ ¼ vᵀGv, and the
    diagonal of G is 4 :func:`bures_metric` of each tangent.

    Examples
    --------
    >>> import numpy as np
    >>> along, across = np.diag([1.0, -1.0]), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> quantum_fisher_matrix(np.diag([0.75, 0.25]), [along, across]).round(12)
    array([[5.33333333, 0.        ],
           [0.        , 4.        ]])
    """
    eigenvalues, eigenvectors = decompose("rho", rho)
    size = len(eigenvalues)
    checked = [check_tangent(f"tangents[{a}]", tangent, size) for a, tangent in enumerate(tangents)]
    if not checked:
        raise InputError("tangents must hold at least one matrix, got none.")
    lifts = [
        _solution(eigenvalues, eigenvectors, f"tangents[{a}]", tangent).ravel() for a, tangent in enumerate(checked)
    ]
    matrix = 2 * np.stack(lifts) @ np.stack([tangent.ravel() for tangent in checked]).T
    return np.asarray((matrix + matrix.T) / 2)


def _solution(eigenvalues: FloatArray, eigenvectors: FloatArray, name: str, right: MatrixLike) -> FloatArray:
    matrix = as_symmetric(name, right)
    if matrix.shape != eigenvectors.shape:
        raise InputError(f"{name} must have the shape of rho, {eigenvectors.shape}, got {matrix.shape}.")
    components = eigenvectors.T @ matrix @ eigenvectors
    sums = eigenvalues[:, None] + eigenvalues[None, :]
    inside = np.abs(components[sums == 0]).max(initial=0.0)
    # Looser than rounding alone asks for: a tangent is often a difference quotient.
    if inside > 1e-8 * np.abs(components).max(initial=0.0):
        raise InputError(
            f"{name} must vanish between vectors of the kernel of rho, where rho x + x rho does, but it has an entry "
            f"of {inside:.3g} there."
        )
    solved = np.divide(components, sums, out=np.zeros_like(sums), where=sums > 0)
    x = eigenvectors @ solved @ eigenvectors.T
    return np.asarray((x + x.T) / 2)


def _components(rho: MatrixLike, tangent: Any) -> tuple[FloatArray, FloatArray]:
    """Return the spectrum of ρ and the tangent in its eigenbasis, both validated."""
    eigenvalues, eigenvectors = decompose("rho", rho)
    direction = check_tangent("tangent", tangent, len(eigenvalues))
    return eigenvalues, eigenvectors.T @ direction @ eigenvectors
