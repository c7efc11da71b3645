"""The passes of a network's step on the CPU, one sample at a time, compiled: imported only where they run.

Rows are taken in blocks that stay in the cache, and all that is wanted of a block is computed while it is there: its
activations, their product with the next weights, and the moments Uᵀ Z that a perturbation of low rank needs. A sample's
activations are used up before those of the next one are computed, so that two arrays of them are held, and on graphs of
some ten thousand nodes these stay in the cache too.
"""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import njit

from fishergcn._kernels.cpu import room_of, row_loss, sum_lines, transposed_product
from fishergcn._kernels.cpu_bits import gate, kept

_FAST = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_SUMS = _FAST | {"fastmath": {"contract", "nsz", "reassoc"}}  # sums over a line, in any order
_EXACT = {"cache": True, "nogil": True}
_BLOCK = 64  # so many terms are added in the precision of the weights, and these sums in float64

# The usual widths of a hidden layer are compile-time constants, which saves the checks and remainders of a
# loop of unknown length (a third of the time): `lanes` is a tuple of width / 16 zeros, whose length is part
# of its type. Other widths pass an empty tuple and are read from the arrays.
_USUAL_WIDTHS = frozenset({16, 32, 64, 128})


def lanes_of(width: int) -> tuple[int, ...]:
    """Return the tuple that tells a kernel its number of columns."""
    return (0,) * (width // 16) if width in _USUAL_WIDTHS else ()


@njit(inline="always", **_FAST)
def _scratch(lines):
    """Return what :func:`_add_moments` works with: the numbers 0, 1, …, factors and a line."""
    kind = lines.dtype
    return np.arange(_BLOCK).astype(np.uint32), np.empty(_BLOCK, dtype=kind), np.empty(lines.shape[1], dtype=kind)


@njit(inline="always", **_FAST)
def _add_moments(sums, factors, first, last, lines, places, numbers, part):
    """sums[k] += Σ_p factors[p, k] lines[p] for p from first to last, of shapes (K, H), (p, K) and (p, H)."""
    rank, width = sums.shape
    flat, count = lines.reshape(lines.size), last - first
    for k in range(rank):
        for t in range(count):
            numbers[t] = factors[first + t, k]
        sum_lines(part, 0, width, flat, first * width, places, numbers, 0, count, numbers, numbers, 0, 0)
        for h in range(width):
            sums[k, h] += part[h]


@njit(**_FAST)
def enter(out, sums, left, rows, indptr, indices, values, weight, words, scale):
    """out[p] = scale * Σ_e bit[e] x_e weight[j_e] over the entries e of row rows[p]; sums += leftᵀ out.

    Of shapes (p, H), (k, H), (p, k) and, for ``weight``, (D, H); the sums are in float64.
    """
    room = room_of(indptr, values)
    columns, factors = np.empty(room, dtype=np.uint32), np.empty(room, dtype=values.dtype)
    target, table, (count, width) = out.reshape(out.size), weight.reshape(weight.size), out.shape
    places, numbers, part = _scratch(out)
    for first in range(0, count, _BLOCK):
        last = min(first + _BLOCK, count)
        for p in range(first, last):
            start, stop = np.int64(indptr[rows[p]]), np.int64(indptr[rows[p] + 1])
            found = kept(columns, factors, start, stop, indices, values, words, scale)
            sum_lines(target, p * width, width, table, 0, columns, factors, 0, found, factors, factors, 0, 0)
        _add_moments(sums, left, first, last, out, places, numbers, part)


@njit(inline="always", **_SUMS)
def _times_rows(lanes, target, unit, rows):
    """target[c] = Σ_h unit[h] rows[c, h]."""
    width = 16 * len(lanes) if len(lanes) > 0 else unit.shape[0]
    for c in range(target.shape[0]):
        row, total = rows[c], unit.dtype.type(0)
        for h in range(width):
            total += unit[h] * row[h]
        target[c] = total


@njit(**_SUMS)
def activate(lanes, out, hidden, by_class, rows, words, scale):
    """hidden[p] = scale * bit[rows[p]] * max(hidden[p], 0), in place, and out[p, c] = Σ_h hidden[p, h] by_class[c, h].

    Words have shape (nodes, stride); NaN stays NaN, so that a diverged run is seen.
    """
    flat, (count, width) = hidden.reshape(hidden.size), hidden.shape
    for p in range(count):
        gate(flat, p * width, width, words[rows[p]], scale)
        _times_rows(lanes, out[p], hidden[p], by_class)


@njit(**_SUMS)
def activate_plain(lanes, out, hidden, weight):
    """The same without dropout, of R networks: hidden (p, R, H), weight (R, H, C) and out (p, R, C)."""
    count, runs, width = hidden.shape
    by_class = np.ascontiguousarray(weight.transpose(0, 2, 1))
    for p in range(count):
        for r in range(runs):
            unit = hidden[p, r]
            for h in range(width):
                unit[h] = unit.dtype.type(0) if unit[h] < 0 else unit[h]
            _times_rows(lanes, out[p, r], unit, by_class[r])


@njit(**_FAST)
def hidden_backward(slope, sums, left, hidden, grad, by_class, scale):
    """slope[c] += Σ_p grad[p, c] hidden[p]; hidden[p] = scale * Σ_c grad[p, c] by_class[c] where hidden > 0, else 0.

    Of shapes (C, H), (p, H), (p, C) and (C, H): the gradients of the weights behind ReLU and dropout and of what stands
    before both, which takes the place of the activations. sums += leftᵀ hidden, of what they are then. Slope and sums
    are in float64.
    """
    (count, width), classes = hidden.shape, grad.shape[1]
    table, given = by_class.reshape(by_class.size), grad.reshape(grad.size)
    line, order = np.empty(width, dtype=hidden.dtype), np.arange(classes).astype(np.uint32)
    zero = hidden.dtype.type(0)
    places, numbers, part = _scratch(hidden)
    for first in range(0, count, _BLOCK):
        last = min(first + _BLOCK, count)
        _add_moments(slope, grad, first, last, hidden, places, numbers, part)
        for p in range(first, last):
            factors, unit = given[p * classes : (p + 1) * classes], hidden[p]
            sum_lines(line, 0, width, table, 0, order, factors, 0, classes, factors, factors, 0, 0)
            for h in range(width):
                unit[h] = line[h] * scale if unit[h] > zero else zero
        _add_moments(sums, left, first, last, hidden, places, numbers, part)


@njit(**_FAST)
def add_transposed(out, indptr, indices, values, dense):
    """out[j] += Σ_i s_ij dense[i] for a CSR matrix S with few rows, of shapes (n, c) and (p, c)."""
    for i in range(dense.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            target, x = out[indices[e]], values[e]
            for c in range(dense.shape[1]):
                target[c] += x * dense[i, c]


@njit(**_FAST)
def leave(grad_weight, rows, indptr, indices, values, grad, first, words, scale):
    """grad_weight[j] += scale * Σ_{b, p, e: j_e = j} bit[b, e] x_e grad[b, first + p] for some samples b of a run.

    Of shapes (1, D, H), and (b, n, H) for ``grad``, whose rows from ``first`` on are those given.
    """
    batch, count, width = grad.shape
    flat = grad.reshape(grad.size)[first * width :]
    transposed_product(
        grad_weight, rows, indptr, indices, values, flat, width, count * width, batch, words, batch, scale
    )


@njit(**_EXACT)
def cross_entropy_of_sample(grad, logits, rows, labels, shares, samples):
    """Set grad = d loss / d logits, of shape (p, C), of one sample of M; return its share of the loss, and the hits."""
    total, hits = 0.0, 0
    line = np.empty(logits.shape[1], dtype=np.float64)
    grad[:] = 0
    for n in range(rows.shape[0]):
        share = shares[n] / samples
        if share == 0:
            continue
        found, hit = row_loss(line, logits[rows[n]], labels[n], share)
        total += share * found
        hits += hit
        for c in range(line.shape[0]):
            grad[rows[n], c] += line[c]
    return total, hits
