"""The extreme eigenpairs of the Laplacian L = I - Ã of a normalized graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_choice, check_integer, check_real
from fishergcn._base.matrices import check_propagation
from fishergcn._base.types import CSRArray, FloatArray, IntArray, MatrixLike
from fishergcn._kernels.choice import LARGE_GRAPH
from fishergcn.errors import InputError
from fishergcn.graph import largest_component
from fishergcn.spectrum._krylov import Eigenpairs, largest_eigenpairs

Component: TypeAlias = Literal["largest", "all"]

# Eigenvalues of L below this are its kernel, up to rounding.
KERNEL = 1e-9


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenpairs (w_i, u_i) of L = I - Ã; the arrays are read-only copies.

    Attributes
    ----------
    eigenvalues : ndarray, shape (k,)
        w, descending.
    eigenvectors : ndarray, shape (n, k)
        Ū, orthonormal columns, zero outside the component they were computed on.
    trace : float
        tr L of the whole graph.
    residual : float
        max_i ‖L u_i - w_i u_i‖ divided by the largest eigenvalue that was computed.
    solver : str
        What found them.

    Examples
    --------
    >>> import numpy as np
    >>> spectrum = Spectrum(np.array([1.0]), np.array([[0.6], [-0.8]]), trace=4.0, residual=0.0)
    >>> spectrum
    Spectrum(2 nodes, 1 eigenvalues from 1 to 1, trace 4, residual 0.0e+00, solver given)
    >>> spectrum.captured_mass
    0.25
    """

    eigenvalues: FloatArray
    eigenvectors: FloatArray
    trace: float
    residual: float
    solver: str = "given"

    def __post_init__(self) -> None:
        for name in ("eigenvalues", "eigenvectors"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.eigenvectors.ndim != 2 or self.eigenvalues.shape != self.eigenvectors.shape[1:]:
            raise InputError(
                "eigenvalues and eigenvectors must have shapes (k,) and (n, k), got "
                f"{self.eigenvalues.shape} and {self.eigenvectors.shape}."
            )

    def __repr__(self) -> str:
        values = f" from {self.eigenvalues[0]:.4g} to {self.eigenvalues[-1]:.4g}" if self.rank else ""
        return (
            f"Spectrum({len(self.eigenvectors)} nodes, {self.rank} eigenvalues{values}, trace {self.trace:.6g}, "
            f"residual {self.residual:.1e}, solver {self.solver})"
        )

    @property
    def rank(self) -> int:
        """k, the number of eigenpairs."""
        return self.eigenvalues.size

    @property
    def captured_mass(self) -> float:
        """S = Σ w / tr L, the share of the density matrix L / tr L that these eigenpairs carry."""
        return float(self.eigenvalues.sum() / self.trace)


def top_spectrum(
    propagation: MatrixLike,
    rank: int = 10,
    seed: int = 0,
    component: Component = "largest",
    *,
    tolerance: float | None = None,
) -> Spectrum:
    """Return the k largest eigenpairs of L = I - Ã.

    By default L is restricted to the largest connected component: the other rows and columns are zero.

    Parameters
    ----------
    propagation : array_like or SciPy sparse, shape (n, n)
        Ã: symmetric, finite, n ≥ 2.
    rank : int
        k, from 1 to n - 1 and to the size of the component.
    seed : int
        Starting vectors are drawn from it; equal seeds give equal results.
    component : {"largest", "all"}
        Where L is taken: on the largest connected component (the first among equals), or everywhere.
    tolerance : float, optional
        Largest accepted relative residual max_i ‖L u_i - w_i u_i‖ / w_1. Default: 1e-10 up to 100,000
        nodes, 1e-4 beyond.

    Returns
    -------
    Spectrum
        Each eigenvector's largest entry by magnitude (the first, if several are within 1e-6) is positive.

    Raises
    ------
    InputError
        If an argument is not as described, or L is zero.
    ConvergenceError
        If all solvers (Chebyshev beyond 100,000 nodes, Lanczos, ARPACK, LOBPCG, block Krylov) miss the tolerance.

    Notes
    -----
    Where w_k = w_{k+1} the eigenspace is cut, and which of its vectors are returned is a matter of the seed.

    Examples
    --------
    >>> path = [[0.5, 0.4, 0.0], [0.4, 0.3, 0.4], [0.0, 0.4, 0.5]]
    >>> spectrum = top_spectrum(path, rank=2)
    >>> spectrum.eigenvalues.round(3)
    array([1.174, 0.5  ])
    >>> round(spectrum.trace, 3)
    1.7
    """
    propagation, trace = _check_propagation(propagation)
    check_choice("component", component, get_args(Component))
    n = propagation.shape[0]
    nodes = np.flatnonzero(largest_component(propagation)) if component == "largest" else np.arange(n)
    rank = _check_rank(rank, nodes.size if nodes.size < n else n - 1, n)
    laplacian: Any = sparse.eye_array(nodes.size, format="csr") - _block(propagation, nodes)
    pairs = _solve(laplacian, rank, seed, tolerance)
    # L is positive semi-definite; rounding is not.
    values = np.where(np.abs(pairs.values) < 1e-12, 0.0, pairs.values)
    return _spectrum(pairs._replace(values=values), nodes, n, trace)


def bottom_spectrum(
    propagation: MatrixLike, rank: int = 10, seed: int = 0, *, tolerance: float | None = None
) -> Spectrum:
    """Return the k smallest non-zero eigenpairs of L = I - Ã on the largest connected component.

    These are the largest eigenpairs of Ã there but for the Perron vector, which spans the kernel of L.

    Parameters
    ----------
    propagation : array_like or SciPy sparse, shape (n, n)
        Ã: symmetric, finite, n ≥ 2, largest eigenvalue 1.
    rank : int
        k, from 1 to one less than the size of the component.
    seed, tolerance
        As in :func:`top_spectrum`, which raises the same errors; residuals are relative to the largest eigenvalue of Ã.

    Returns
    -------
    Spectrum
        Eigenvalues descending, as everywhere: the last one is the smallest.

    Examples
    --------
    >>> complete = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]
    >>> bottom_spectrum(complete, rank=1).eigenvalues.round(3)
    array([0.75])
    """
    propagation, trace = _check_propagation(propagation)
    nodes = np.flatnonzero(largest_component(propagation))
    n = propagation.shape[0]
    rank = _check_rank(rank, nodes.size - 1, n)
    pairs = _solve(_block(propagation, nodes), rank + 1, seed, tolerance)
    values = 1.0 - pairs.values
    first = 1 if values[0] < KERNEL else 0
    chosen = slice(first, first + rank)
    pairs = pairs._replace(values=values[chosen][::-1], vectors=pairs.vectors[:, chosen][:, ::-1])
    return _spectrum(pairs, nodes, n, trace)


def _check_propagation(propagation: MatrixLike) -> tuple[CSRArray, float]:
    """Return Ã as exactly symmetric CSR, and tr L."""
    csr = check_propagation(propagation)
    trace = csr.shape[0] - float(csr.trace())
    if trace <= KERNEL:
        raise InputError(f"propagation must leave a Laplacian I - Ã of positive trace, got {trace:.3g} (no links?).")
    return csr, trace


def _check_rank(rank: int, maximum: int, n: int) -> int:
    rank = check_integer("rank", rank)
    if not 1 <= rank <= maximum:
        raise InputError(f"rank must be between 1 and {maximum} on this component of a graph of {n} nodes, got {rank}.")
    return rank


def _block(matrix: CSRArray, nodes: IntArray) -> CSRArray:
    """Return the rows and columns of ``nodes``."""
    if nodes.size == matrix.shape[0]:
        return matrix
    block: CSRArray = matrix[nodes][:, nodes]
    return block


def _solve(matrix: CSRArray, rank: int, seed: int, tolerance: float | None) -> Eigenpairs:
    seed = check_integer("seed", seed, minimum=0)
    if tolerance is None:  # eigenvalues of large graphs crowd so much that it is loosened
        tolerance = 1e-10 if matrix.shape[0] <= LARGE_GRAPH else 1e-4
    tolerance = check_real("tolerance", tolerance, above=0, below=1)
    return largest_eigenpairs(matrix, rank, seed=seed, tolerance=tolerance)


def _spectrum(pairs: Eigenpairs, nodes: IntArray, n: int, trace: float) -> Spectrum:
    """Fix the signs and embed the eigenvectors of a component in the whole graph."""
    magnitude = np.abs(pairs.vectors)
    leading = np.argmax(magnitude >= (1 - 1e-6) * magnitude.max(axis=0), axis=0)
    signs = np.where(pairs.vectors[leading, np.arange(leading.size)] < 0, -1.0, 1.0)
    eigenvectors = np.zeros((n, leading.size))
    eigenvectors[nodes] = pairs.vectors * signs
    return Spectrum(pairs.values, eigenvectors, trace, pairs.residual, pairs.solver)
