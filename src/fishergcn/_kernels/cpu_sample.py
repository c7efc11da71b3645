"""Forward and backward pass of one sample of a two-layer network, in one call each: imported only where they run.

On a graph of some thousand nodes calling a kernel and multiplying matrices of some hundred numbers takes as long as
a third of the kernels' work. These two call the kernels of `cpu_network` in the order in which a network needs them.
"""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import njit

from fishergcn._kernels.cpu import csr_times_dense
from fishergcn._kernels.cpu_network import activate, add_transposed, hidden_backward

_FAST = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}


@njit(inline="always", **_FAST)
def _weighted(out, coefficients, moments):
    """out[k] = c_k moments[k]."""
    for k in range(out.shape[0]):
        for h in range(out.shape[1]):
            out[k, h] = coefficients[k] * moments[k, h]


@njit(**_FAST)
def forward(
    lanes, logits, hidden, inner, outer, first, entering, coefficients, matrix, last, bases, places, rows, words,
    weight, by_class, scale,
):  # fmt: skip
    """H = mask ∘ ReLU(Ã Z⁰) and logits = Ã H W, of the perturbed graph Ã = S - U diag(c) Uᵀ.

    Fills ``logits`` (p, C), ``hidden`` H (n, d), ``inner`` Uᵀ H (k, d) and ``outer`` Uᵀ H W (k, C), the last two in
    float64, from ``first`` Z⁰ and ``entering`` Uᵀ Z⁰. ``matrix`` and ``last`` are the arrays of S and of its rows of
    the outputs, ``bases`` U at the rows that enter, of H and of the outputs; places, rows, words, by_class and scale
    are as for ``activate``.
    """
    rank, (width, classes) = coefficients.shape[0], weight.shape
    wide, narrow = np.empty((rank, width), dtype=weight.dtype), np.empty((rank, classes), dtype=weight.dtype)
    _weighted(wide, coefficients, entering)
    csr_times_dense(hidden, matrix[0], matrix[1], matrix[2], first, bases[1], wide)
    inner[:] = 0
    values = np.empty((max(1, places.max() + 1), classes), dtype=weight.dtype)
    activate(lanes, values, places, inner, bases[1], hidden, by_class, rows, words, scale)
    for k in range(rank):
        for c in range(classes):
            total = 0.0
            for h in range(width):
                total += inner[k, h] * by_class[c, h]
            outer[k, c] = total
    _weighted(narrow, coefficients, outer)
    csr_times_dense(logits, last[0], last[1], last[2], values, bases[2], narrow)


@njit(**_FAST)
def backward(
    into, for_coefficients, first, hidden, slope, inner, outer, entering, coefficients, transposed, last, bases, places,
    by_class, scale,
):  # fmt: skip
    """Add the gradients of W to ``into`` (d, C) and of c to ``for_coefficients`` (k,); leave that of Z⁰ in ``first``.

    From ``slope``, that of the logits, and what :func:`forward` filled; ``hidden`` is used up. ``transposed`` has the
    arrays of Sᵀ.
    """
    rank, (classes, width) = coefficients.shape[0], by_class.shape
    kind = by_class.dtype
    found, narrow, wide = (
        np.zeros((rank, classes)),
        np.empty((rank, classes), dtype=kind),
        np.zeros((rank, width), kind),
    )
    for p in range(slope.shape[0]):
        for k in range(rank):
            for c in range(classes):
                found[k, c] += bases[2][p, k] * slope[p, c]
    _weighted(narrow, coefficients, found)
    for k in range(rank):
        for c in range(classes):
            for_coefficients[k] -= found[k, c] * outer[k, c]
            for h in range(width):
                into[h, c] -= inner[k, h] * narrow[k, c]
                wide[k, h] += narrow[k, c] * by_class[c, h]
    before = np.zeros((max(1, places.max() + 1), classes), dtype=kind)
    add_transposed(before, last[0], last[1], last[2], slope)
    of_weights, sums = np.zeros((classes, width)), np.zeros((rank, width))
    hidden_backward(of_weights, sums, bases[1], wide, hidden, before, places, by_class, scale)
    for c in range(classes):
        for h in range(width):
            into[h, c] += of_weights[c, h]
    for k in range(rank):
        for h in range(width):
            for_coefficients[k] -= sums[k, h] * entering[k, h]
    _weighted(wide, coefficients, sums)
    csr_times_dense(first, transposed[0], transposed[1], transposed[2], hidden, bases[0], wide)
