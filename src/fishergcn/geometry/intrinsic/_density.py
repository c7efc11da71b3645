"""What counts as a density matrix: validation, and the spectrum that everything else starts from."""

from __future__ import annotations

from typing import Any, cast, overload

import numpy as np
import numpy.typing as npt
import scipy.linalg
from scipy import sparse
from scipy.sparse.linalg import ArpackError, eigsh

from fishergcn._base.matrices import refuse_graph
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import ConvergenceError, InputError

# Largest number of nodes for which a function may build a dense n x n matrix (8 n² bytes, O(n³) time).
DENSE_LIMIT = 6000

# How far rounding may push an input off its set before it is refused: relative to the largest entry for
# symmetry and to the largest eigenvalue for p.s.d.-ness, absolute for a trace that should be one.
_TOLERANCE = 1e-10


@overload
def density_matrix(laplacian: sparse.sparray | sparse.spmatrix) -> CSRArray: ...
@overload
def density_matrix(laplacian: npt.ArrayLike) -> FloatArray: ...
def density_matrix(laplacian: MatrixLike) -> CSRArray | FloatArray:
    """Turn a graph Laplacian into a density matrix, ρ = L / tr L.

    ``laplacian`` is L, (n, n), symmetric and positive semi-definite with tr L > 0; ρ is sparse if it is. Up to 6000
    nodes p.s.d.-ness is verified by a Cholesky factorization; on larger sparse matrices only its consequence
    ``|L_ij| <= sqrt(L_ii L_jj)`` is.

    Examples
    --------
    >>> import numpy as np
    >>> density_matrix(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """
    given: Any = laplacian
    is_sparse: bool = sparse.issparse(given)
    if is_sparse and max(given.shape) > DENSE_LIMIT:
        matrix: Any = sparse_symmetric("laplacian", given)
    else:
        matrix = as_symmetric("laplacian", given)
        check_semidefinite("laplacian", matrix)
        if is_sparse:
            matrix = sparse.csr_array(given, dtype=np.float64)
    return cast("CSRArray | FloatArray", matrix / positive_trace(float(matrix.trace())))


def density_spectrum(rho: MatrixLike) -> FloatArray:
    """Return the eigenvalues of a density matrix, descending, with rounding noise set to zero and sum 1."""
    matrix = _unit_trace("rho", rho)
    values = scipy.linalg.eigvalsh(matrix, driver="evd", overwrite_a=True, check_finite=False)
    return _clean("rho", np.asarray(values[::-1], dtype=np.float64))


def as_symmetric(name: str, value: MatrixLike) -> FloatArray:
    """Return ``value`` as a dense, finite, exactly symmetric matrix, or say which entry forbids it."""
    shape = shape_of(value, name)
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise InputError(f"{name} must be a square matrix with at least one row, got shape {shape}.")
    if shape[0] > DENSE_LIMIT:
        raise InputError(
            f"{name} must have at most {DENSE_LIMIT} rows, since the computation is dense, got {shape[0]}; "
            "graph_distance, estimate_entropy and rank_projection work on larger sparse ones."
        )
    matrix = as_float(name, value)
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0]
        raise InputError(f"{name} must be finite, but entry ({i}, {j}) is {matrix[i, j]}.")
    asymmetry = np.abs(matrix - matrix.T)
    i, j = divmod(int(np.argmax(asymmetry)), shape[0])
    if asymmetry[i, j] > _TOLERANCE * np.abs(matrix).max():
        raise InputError(_not_symmetric(name, i, j, matrix[i, j], matrix[j, i]))
    return (matrix + matrix.T) / 2


def check_trace_one(name: str, trace: float) -> None:
    """Refuse a trace that is not one."""
    if abs(trace - 1) > _TOLERANCE:
        raise InputError(
            f"{name} must have trace 1 within {_TOLERANCE:g}, got {trace:.12g} (off by {trace - 1:.3g}); "
            "density_matrix normalizes a Laplacian."
        )


def decompose(name: str, rho: MatrixLike) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues of a density matrix, descending with noise as exact zeros, and its eigenvectors."""
    matrix = _unit_trace(name, rho)
    eigenvalues, eigenvectors = scipy.linalg.eigh(matrix, driver="evd", overwrite_a=True, check_finite=False)
    return _clean(name, eigenvalues[::-1]), eigenvectors[:, ::-1]


def check_tangent(name: str, tangent: MatrixLike, size: int) -> FloatArray:
    """Return a tangent of density matrices of ``size`` rows, symmetric with trace 0, or say why it is none."""
    direction = as_symmetric(name, tangent)
    if direction.shape != (size, size):
        raise InputError(f"{name} must have the shape of rho, {(size, size)}, got {direction.shape}.")
    trace = float(np.trace(direction))
    # Looser than rounding alone asks for: a tangent is often a difference quotient.
    if abs(trace) > 1e-8 * max(np.abs(direction.diagonal()).sum(), np.abs(direction).max(initial=0.0)):
        raise InputError(f"{name} must have trace 0, since the trace of rho is fixed, got {trace:.6g}.")
    return direction


def shape_of(value: MatrixLike, name: str = "rho") -> tuple[int, ...]:
    """Shape of a sparse or dense matrix, or of what NumPy makes of it; a graph has none."""
    laplacian = "graph_laplacian(graph.adjacency)"
    refuse_graph(value, name, laplacian if name == "laplacian" else f"density_matrix({laplacian})")
    given: Any = value
    return tuple(given.shape) if hasattr(given, "shape") else np.shape(given)


def check_same_shape(a: MatrixLike, b: MatrixLike) -> None:
    """Refuse matrices of different shapes."""
    one, other = shape_of(a, "a"), shape_of(b, "b")
    if one != other:
        raise InputError(f"a and b must have the same shape, got {one} and {other}.")


def check_spectrum(eigenvalues: MatrixLike) -> FloatArray:
    """Return ``eigenvalues`` as a point of the probability simplex, order kept, noise set to zero."""
    values = as_float("eigenvalues", eigenvalues)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"eigenvalues must be a vector with at least one entry, got shape {values.shape}.")
    if not np.isfinite(values).all():
        index = int(np.argmin(np.isfinite(values)))
        raise InputError(f"eigenvalues must be finite, but entry {index} is {values[index]}.")
    if abs(values.sum() - 1) > _TOLERANCE:
        raise InputError(
            f"eigenvalues must sum to 1 within {_TOLERANCE:g}, got {values.sum():.12g} (off by {values.sum() - 1:.3g})."
        )
    return _clean("eigenvalues", values)


def support(eigenvalues: FloatArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where a spectrum is above the noise level n·eps·λ_max."""
    noise = eigenvalues.size * np.finfo(np.float64).eps * np.abs(eigenvalues).max()
    return np.asarray(eigenvalues > noise)


def _unit_trace(name: str, rho: MatrixLike) -> FloatArray:
    matrix = as_symmetric(name, rho)
    check_trace_one(name, float(np.trace(matrix)))
    return matrix


def _clean(name: str, eigenvalues: FloatArray) -> FloatArray:
    """Set noise to zero, renormalize, and refuse what is more negative than rounding explains."""
    lowest = int(np.argmin(eigenvalues))
    allowed = -_TOLERANCE * np.abs(eigenvalues).max()
    if eigenvalues[lowest] < allowed:
        what = f"entry {lowest}" if name == "eigenvalues" else "its smallest eigenvalue"
        must = "non-negative" if name == "eigenvalues" else "positive semi-definite"
        raise InputError(f"{name} must be {must}, but {what} is {eigenvalues[lowest]:.6g} (allowed: {allowed:.1g}).")
    # The kernel of a Laplacian comes out of the solver as ±1e-17, whose square root is no longer small.
    kept = np.where(support(eigenvalues), eigenvalues, 0.0)
    return np.asarray(kept / kept.sum())


def check_semidefinite(name: str, matrix: FloatArray) -> None:
    """Refuse a dense matrix with an eigenvalue below zero."""
    scale = float(np.abs(np.diagonal(matrix)).max()) or 1.0
    shifted = matrix + _TOLERANCE * scale * np.eye(len(matrix))
    try:
        scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        smallest = scipy.linalg.eigvalsh(matrix, subset_by_index=[0, 0])[0]
        raise InputError(
            f"{name} must be positive semi-definite, but its smallest eigenvalue is {smallest:.6g}."
        ) from error


def lowest_eigenvalue(matrix: CSRArray) -> tuple[float, float]:
    """Return the smallest eigenvalue of a sparse matrix (0 if Gershgorin's circles forbid less), and a bound on all."""
    size = matrix.shape[0]
    diagonal = matrix.diagonal()
    radius: FloatArray = np.asarray(abs(matrix).sum(axis=1)).ravel() - np.abs(diagonal)
    largest = float((np.abs(diagonal) + radius).max())
    if (diagonal - radius).min() >= 0:
        return 0.0, largest
    if size <= 100:  # too small for the iteration, or nearly so
        return float(scipy.linalg.eigvalsh(matrix.toarray(), subset_by_index=[0, 0])[0]), largest
    start = np.random.default_rng(0).standard_normal(size)
    # The other end of a shifted matrix, since the tolerance is relative and the eigenvalue in question near zero.
    mirrored = sparse.csr_array(largest * sparse.eye_array(size) - matrix)
    try:
        found = eigsh(mirrored, k=1, which="LA", v0=start, tol=1e-4, return_eigenvectors=False)
    except ArpackError as error:
        raise ConvergenceError(
            "The smallest eigenvalue of a matrix did not converge, so whether the matrix is p.s.d. is unknown."
        ) from error
    return largest - float(found[0]), largest


def check_semidefinite_sparse(name: str, matrix: CSRArray) -> None:
    """Refuse a sparse matrix of any size with an eigenvalue below zero, as far as a short Lanczos run finds it."""
    lowest, largest = lowest_eigenvalue(matrix)
    if lowest < -_TOLERANCE * largest:
        raise InputError(f"{name} must be positive semi-definite, but it has an eigenvalue of at most {lowest:.6g}.")


def positive_trace(trace: float) -> float:
    """Return the trace of a Laplacian, or refuse a graph without links."""
    if trace <= 0:
        raise InputError(
            f"laplacian must have a positive trace, got {trace:g}; a graph without links has no density matrix."
        )
    return trace


def symmetric_csr(name: str, value: Any) -> CSRArray:
    """Return a finite, symmetric sparse matrix as csr_array, or say which entry forbids it."""
    if value.ndim != 2 or value.shape[0] != value.shape[1] or value.shape[0] == 0:
        raise InputError(f"{name} must be a square matrix with at least one row, got shape {value.shape}.")
    _check_real(name, value.dtype)
    matrix: CSRArray = sparse.csr_array(value, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    entries = matrix.tocoo()
    rows, columns = entries.coords
    if not np.isfinite(entries.data).all():
        bad = int(np.argmin(np.isfinite(entries.data)))
        raise InputError(f"{name} must be finite, but entry ({rows[bad]}, {columns[bad]}) is {entries.data[bad]}.")
    difference = abs(matrix - matrix.T).tocoo()
    if difference.nnz and difference.data.max() > _TOLERANCE * np.abs(entries.data).max():
        i, j = (int(index[np.argmax(difference.data)]) for index in difference.coords)
        raise InputError(_not_symmetric(name, i, j, matrix[i, j], matrix[j, i]))
    return matrix


def sparse_symmetric(name: str, value: Any) -> CSRArray:
    """Return a sparse matrix as csr_array after the checks of a p.s.d. one that do not need a dense one."""
    matrix = symmetric_csr(name, value)
    entries = matrix.tocoo()
    rows, columns = entries.coords
    diagonal = matrix.diagonal()
    lowest = int(np.argmin(diagonal))
    if diagonal[lowest] < 0:
        raise InputError(
            f"{name} must be positive semi-definite, but entry ({lowest}, {lowest}) is {diagonal[lowest]:.6g}."
        )
    # Every 2 x 2 principal minor of a p.s.d. matrix is non-negative.
    excess = np.abs(entries.data) - np.sqrt(diagonal[rows] * diagonal[columns])
    if excess.size and excess.max() > _TOLERANCE * diagonal.max():
        bad = int(np.argmax(excess))
        raise InputError(
            f"{name} must be positive semi-definite, but entry ({rows[bad]}, {columns[bad]}) = "
            f"{entries.data[bad]:.6g} exceeds the geometric mean of its diagonal entries "
            f"by {excess[bad]:.3g}."
        )
    return matrix


def as_float(name: str, value: Any) -> FloatArray:
    """Return an array of real numbers as float64."""
    array = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
    _check_real(name, array.dtype)
    return array.astype(np.float64)


def _check_real(name: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, got dtype {dtype}.")


def _not_symmetric(name: str, i: int, j: int, upper: float, lower: float) -> str:
    return (
        f"{name} must be symmetric, but entries ({i}, {j}) = {upper:.6g} and ({j}, {i}) = {lower:.6g} "
        f"differ by {abs(upper - lower):.3g}."
    )
