"""What a congruence M ρ M is made of: a density matrix and a symmetric M, of any size where both are sparse."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
from scipy import sparse

from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import (
    DENSE_LIMIT,
    as_float,
    as_symmetric,
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


def as_density(rho: MatrixLike, *, diagonal_only: bool = False) -> FloatArray | CSRArray:
    """Return a checked density matrix, sparse where it came sparse.

    Where only the diagonal enters the result, entries off the diagonal of a large sparse one are checked to be finite
    and no more: comparing them with their mirror images takes longer than all the rest.
    """
    if not _is_sparse(rho):
        matrix = as_symmetric("rho", rho)
        check_trace_one("rho", float(np.trace(matrix)))
        check_semidefinite("rho", matrix)
        return matrix
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


def as_move(name: str, value: MatrixLike, size: int) -> Move:
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


def shifted(move: Any, scale: float, constant: float) -> Move:
    """Return scale · X + constant · I."""
    if move.ndim == 1:
        return np.asarray(scale * move + constant)
    identity: Any = sparse.eye_array(move.shape[0], format="csr") if _is_sparse(move) else np.eye(move.shape[0])
    result: Any = scale * move + constant * identity
    return _csr(result) if _is_sparse(result) else np.asarray(result)


def mean(rho: Any, move: Any) -> float:
    """Return tr ρX, the expectation of X."""
    if move.ndim == 1:
        return float(rho.diagonal() @ move)
    product = rho.multiply(move) if _is_sparse(rho) else move.multiply(rho) if _is_sparse(move) else rho * move
    return float(product.sum())


def square(rho: Any, move: Any) -> float:
    """Return tr XρX, which rounding must not make negative."""
    if move.ndim == 1:
        return float(rho.diagonal() @ move**2)
    image = rho @ move
    product = image.multiply(move) if _is_sparse(image) else move.multiply(image) if _is_sparse(move) else image * move
    return max(0.0, float(product.sum()))


def congruent(rho: Any, move: Any) -> FloatArray | CSRArray:
    """Return MρM / tr ρM², exactly symmetric, sparse if ρ and M are."""
    if move.ndim == 1:
        move = sparse.diags_array(move, format="csr") if _is_sparse(rho) else np.diag(move)
    result: Any = move @ rho @ move
    result = (result + result.T) / 2
    result = result / result.trace()
    return _csr(result) if _is_sparse(result) else np.asarray(result)


def lowest_on_support(rho: Any, move: Any) -> float:
    """Return the smallest eigenvalue of M on the support of ρ if it is negative beyond rounding, otherwise 0.

    M that is p.s.d. everywhere is p.s.d. there; the support itself is looked at only where that fails, and only up to
    DENSE_LIMIT nodes. Beyond, a negative eigenvalue anywhere counts.
    """
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
    if size <= DENSE_LIMIT:
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
