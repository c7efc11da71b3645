"""Lanczos steps on the CPU, compiled: imported only where they run, so that the package works without numba.

On one thread, and without calls: a BLAS would wake threads of its own for each of these short sums. Four vectors are
taken at a time, so that the one they are multiplied with is read less often.
"""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
from numba import njit, uint64

_FAST = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_SUMS = {**_FAST, "fastmath": {"contract", "nsz", "reassoc"}}


@njit(forceinline=True, **_SUMS)
def _dot(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(forceinline=True, **_FAST)
def _multiply(out, indptr, indices, values, vector):
    # Sums that may be reordered would be vectorized, and vectors of gathered numbers are slow.
    # Unsigned, for a signed index is first asked whether it counts from the end.
    for i in range(uint64(out.shape[0])):
        p = q = 0.0  # two sums, since each waits for its last term
        start, stop = uint64(indptr[i]), uint64(indptr[i + 1])
        for e in range(start, stop - ((stop - start) & uint64(1)), uint64(2)):
            p += values[e] * vector[uint64(indices[e])]
            q += values[e + uint64(1)] * vector[uint64(indices[e + uint64(1)])]
        if (stop - start) & uint64(1):
            p += values[stop - uint64(1)] * vector[uint64(indices[stop - uint64(1)])]
        out[i] = p + q


@njit(forceinline=True, **_SUMS)
def _four_dots(a, b, c, d, x):
    p = q = r = s = 0.0
    for i in range(x.shape[0]):
        p += a[i] * x[i]
        q += b[i] * x[i]
        r += c[i] * x[i]
        s += d[i] * x[i]
    return p, q, r, s


@njit(forceinline=True, **_SUMS)
def _subtract_four(x, a, p, b, q, c, r, d, s):
    for i in range(x.shape[0]):
        x[i] -= (p * a[i] + q * b[i]) + (r * c[i] + s * d[i])


@njit(forceinline=True, **_SUMS)
def _subtract(x, a, p):
    for i in range(x.shape[0]):
        x[i] -= p * a[i]


@njit(forceinline=True, **_SUMS)
def _make_orthogonal(x, basis, count, parts):
    """Take its part along the first rows of an orthonormal basis from x (classical Gram-Schmidt)."""
    whole = count // 4 * 4
    for k in range(0, whole, 4):
        parts[k : k + 4] = _four_dots(basis[k], basis[k + 1], basis[k + 2], basis[k + 3], x)
    for k in range(whole, count):
        parts[k] = _dot(basis[k], x)
    for k in range(0, whole, 4):
        _subtract_four(
            x, basis[k], parts[k], basis[k + 1], parts[k + 1], basis[k + 2], parts[k + 2], basis[k + 3], parts[k + 3]
        )
    for k in range(whole, count):
        _subtract(x, basis[k], parts[k])


@njit(**_SUMS)
def extend(indptr, indices, values, basis, projected, parts, done):
    """Fill T and the rows of V from ``done`` on; return β, or -1 where the Krylov space has ended.

    M is given in compressed rows, n x n; ``basis`` V has the shape (width + 1, n), ``projected`` T (width, width), and
    ``parts`` (width + 1,) is room for coefficients. ``done`` rows are there already, beside the one that is next.
    """
    width, beta = projected.shape[0], 0.0
    for j in range(done, width):
        vector, image = basis[j], basis[j + 1]
        _multiply(image, indptr, indices, values, vector)
        alpha = _dot(vector, image)
        _subtract(image, vector, alpha)
        if j > done:
            _subtract(image, basis[j - 1], beta)
        else:
            for k in range(done):
                if projected[k, done] != 0.0:
                    _subtract(image, basis[k], projected[k, done])
        _make_orthogonal(image, basis, j + 1, parts)
        scale, beta = abs(alpha) + beta, _dot(image, image) ** 0.5
        if not beta > 1e-12 * scale:
            return -1.0
        projected[j, j] = alpha
        if j + 1 < width:
            projected[j, j + 1] = projected[j + 1, j] = beta
        factor = 1.0 / beta
        for i in range(image.shape[0]):
            image[i] *= factor
    return beta
