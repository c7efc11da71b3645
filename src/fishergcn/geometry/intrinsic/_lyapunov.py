"""The Lyapunov equation of a density matrix: symmetric logarithmic derivatives and the quantum Fisher information."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fishergcn._base.types import FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import as_symmetric, check_tangent, decompose


def solve_lyapunov(rho: MatrixLike, right: MatrixLike) -> FloatArray:
    """Solve ρX + Xρ = R for the symmetric matrix X.

    With ρ = Σ λ_i u_i u_iᵀ the solution is X = Σ_jk u_j (u_jᵀ R u_k) / (λ_j + λ_k) u_kᵀ. The velocity of
    :func:`exponential_map` at t = 0 is ρX + Xρ, so this is how a tangent matrix dρ becomes an x.

    Parameters
    ----------
    rho : (n, n) array or SciPy sparse matrix
        ρ, a density matrix, n up to :data:`DENSE_LIMIT`. It may be singular.
    right : (n, n) array or SciPy sparse matrix
        R, symmetric. Between vectors of the kernel of ρ it must vanish, since the left side does.

    Returns
    -------
    (n, n) array
        X, symmetric; of all solutions on a singular ρ the one that vanishes between kernel vectors.

    Examples
    --------
    >>> import numpy as np
    >>> rho = np.diag([0.75, 0.25])
    >>> x = solve_lyapunov(rho, [[0.75, 1.0], [1.0, -0.75]])
    >>> x
    array([[ 0.5,  1. ],
           [ 1. , -1.5]])
    """
    eigenvalues, eigenvectors = decompose("rho", rho)
    return _solution(eigenvalues, eigenvectors, "right", right)


def logarithmic_derivative(rho: MatrixLike, tangent: MatrixLike) -> FloatArray:
    """Symmetric logarithmic derivative S of a density matrix, dρ = (ρS + Sρ)/2.

    For commuting ρ and dρ it is d log ρ on the support. It is twice the solution of :func:`solve_lyapunov`, and
    tr ρS = 0.

    Parameters
    ----------
    rho, tangent : (n, n) array or SciPy sparse matrix
        ρ and dρ as in :func:`bures_metric`; a tangent that fills the kernel of ρ has no S and is refused.

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

    S_a are the symmetric logarithmic derivatives of the tangents. G is four times the Bures metric: for small steps
    D_B²(ρ, ρ + Σ v_a ∂_aρ) ≈ ¼ vᵀGv, and the diagonal of G is :func:`quantum_fisher` of each tangent.

    Parameters
    ----------
    rho : (n, n) array or SciPy sparse matrix
        As in :func:`bures_metric`.
    tangents : sequence of k (n, n) arrays or SciPy sparse matrices
        ∂_aρ, symmetric with trace 0, none of which fills the kernel of ρ.

    Returns
    -------
    (k, k) array
        G, symmetric and positive semi-definite.

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
