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

from fishergcn._kernels.cpu import (
    ONE,
    SMALL,
    TOGETHER,
    WIDEST,
    add_lines,
    room_of,
    row_loss,
    sum_lines,
    transposed_product,
)
from fishergcn._kernels.cpu_bits import gate, kept
from fishergcn._kernels.cpu_lines import QUARTER, VECTOR_BYTES, moment_sums

_FAST = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_SUMS = _FAST | {"fastmath": {"contract", "nsz", "reassoc"}}  # sums over a line, in any order
_EXACT = {"cache": True, "nogil": True}
_BLOCK = 64  # terms added in the precision of the weights; these sums are added in float64

# The usual widths of a hidden layer are compile-time constants, which saves the checks and remainders of a
# loop of unknown length (a third of the time): `lanes` is a tuple of width / 16 zeros, whose length is part
# of its type. Other widths pass an empty tuple and are read from the arrays.
_USUAL_WIDTHS = frozenset({16, 32, 64, 128})


def lanes_of(width: int) -> tuple[int, ...]:
    """Return the tuple that tells a kernel its number of columns."""
    return (0,) * (width // 16) if width in _USUAL_WIDTHS else ()


@njit(inline="always", **_FAST)
def _some_moments(group, sums, k, factors, first, count, flat, part):
    """sums[k + a] += Σ_t factors[first + t, k + a] lines[first + t], t < count and a below the length of ``group``."""
    rank, width = sums.shape
    numbers, start, shift = factors.reshape(factors.size), first * rank + k, first * width
    lanes, h = VECTOR_BYTES // flat.itemsize, 0
    while h + len(WIDEST) * lanes <= width:
        moment_sums(WIDEST, group, part, h, flat, shift + h, width, numbers, start, rank, count)
        h += len(WIDEST) * lanes
    while h + lanes <= width:
        moment_sums(ONE, group, part, h, flat, shift + h, width, numbers, start, rank, count)
        h += lanes
    while h + lanes // QUARTER <= width:
        moment_sums(SMALL, group, part, h, flat, shift + h, width, numbers, start, rank, count)
        h += lanes // QUARTER
    for g in range(h, width):
        for a in range(len(group)):
            total = flat.dtype.type(0)
            for t in range(count):
                total += numbers[start + t * rank + a] * flat[shift + t * width + g]
            part[a * width + g] = total
    for a in range(len(group)):
        line = part[a * width : (a + 1) * width]
        for h in range(width):
            sums[k + a, h] += line[h]


@njit(inline="always", **_FAST)
def _add_moments(sums, factors, first, last, lines, part):
    """sums[k] += Σ_p factors[p, k] lines[p] for p from first to last, of shapes (K, H), (p, K) and (p, H)."""
    flat, rank, k = lines.reshape(lines.size), sums.shape[0], 0
    while k + len(TOGETHER) <= rank:
        _some_moments(TOGETHER, sums, k, factors, first, last - first, flat, part)
        k += len(TOGETHER)
    while k < rank:
        _some_moments(ONE, sums, k, factors, first, last - first, flat, part)
        k += 1


@njit(**_FAST)
def moments(sums, factors, lines):
    """Sums += factorsᵀ lines, of shapes (K, H), (p, K) and (p, H), the sums in float64."""
    part = np.empty(len(TOGETHER) * lines.shape[1], dtype=lines.dtype)
    for first in range(0, lines.shape[0], _BLOCK):
        _add_moments(sums, factors, first, min(first + _BLOCK, lines.shape[0]), lines, part)


@njit(**_FAST)
def enter(out, sums, left, rows, indptr, indices, values, start_row, stop_row, weight, words, scale):
    """out[b, p] = scale * Σ_e bit[b, e] x_e weight[j_e] over the entries e of row rows[p]; sums[b] += leftᵀ out[b].

    For some samples b of a run and p from start_row to stop_row: of shapes (b, p, H), (b, k, H), (p, k) and, for
    ``weight``, (D, H); the sums are in float64. The samples take turns row by row, while its weights are in the cache.
    """
    room = room_of(indptr, values)
    columns, factors = np.empty(room, dtype=np.uint32), np.empty(room, dtype=values.dtype)
    target, table, (samples, count, width) = out.reshape(out.size), weight.reshape(weight.size), out.shape
    part = np.empty(len(TOGETHER) * width, dtype=out.dtype)
    for first in range(start_row, stop_row, _BLOCK):
        last = min(first + _BLOCK, stop_row)
        for p in range(first, last):
            start, stop = np.int64(indptr[rows[p]]), np.int64(indptr[rows[p] + 1])
            for b in range(samples):
                found = kept(columns, factors, start, stop, indices, values, words[b], scale)
                base = (b * count + p) * width
                sum_lines(target, base, width, table, 0, columns, factors, 0, found, factors, factors, 0, 0)
        for b in range(samples):
            _add_moments(sums[b], left, first, last, out[b], part)


@njit(inline="always", **_SUMS)
def _times_rows(lanes, target, unit, rows):
    """target[c] = Σ_h unit[h] rows[c, h]."""
    width = 16 * len(lanes) if len(lanes) > 0 else unit.shape[0]
    for c in range(target.shape[0]):
        row, total = rows[c], unit.dtype.type(0)
        for h in range(width):
            total += unit[h] * row[h]
        target[c] = total


@njit(forceinline=True, **_SUMS)
def activate(lanes, out, places, sums, left, hidden, by_class, rows, words, scale):
    """hidden[p] = scale * bit[rows[p]] * max(hidden[p], 0), in place, and out[q, c] = Σ_h hidden[p, h] by_class[c, h].

    q = places[p], nowhere if that is -1. sums += leftᵀ hidden, in float64. Words have shape (nodes, stride); NaN stays
    NaN, so that a diverged run is seen.
    """
    flat, (count, width) = hidden.reshape(hidden.size), hidden.shape
    part = np.empty(len(TOGETHER) * width, dtype=hidden.dtype)
    for first in range(0, count, _BLOCK):
        last = min(first + _BLOCK, count)
        for p in range(first, last):
            gate(flat, p * width, width, words[rows[p]], scale)
            if places[p] >= 0:
                _times_rows(lanes, out[places[p]], hidden[p], by_class)
        _add_moments(sums, left, first, last, hidden, part)


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


@njit(forceinline=True, **_FAST)
def hidden_backward(slope, sums, left, weighted, hidden, grad, places, by_class, scale):
    """The gradients of the weights behind ReLU and dropout, and of what stands before both, G, in place of hidden.

        slope[c] += Σ_p g[p, c] hidden[p],   hidden[p] = scale * (Σ_c g[p, c] by_class[c] - left[p] weighted)

    where hidden > 0, else 0; g[p] = grad[places[p]], or 0 where that is -1. sums += leftᵀ G. Of shapes (C, H), (p, H),
    (C, H), (p, k), (k, H) and (q, C) for ``grad``; slope and sums are in float64.
    """
    (count, width), (classes, rank) = hidden.shape, (grad.shape[1], left.shape[1])
    flat, given, sides = hidden.reshape(hidden.size), grad.reshape(grad.size), left.reshape(left.size)
    table, middle = by_class.reshape(by_class.size), weighted.reshape(weighted.size)
    line, order = np.empty(width, dtype=hidden.dtype), np.arange(classes).astype(np.uint32)
    part, some = np.empty(len(TOGETHER) * width, dtype=hidden.dtype), np.zeros(by_class.size, dtype=hidden.dtype)
    zero = hidden.dtype.type(0)
    for first in range(0, count, _BLOCK):
        last, added = min(first + _BLOCK, count), False
        for p in range(first, last):
            start, terms = 0, 0
            if places[p] >= 0:
                start, terms, added = np.int64(places[p]) * classes, classes, True
                add_lines(ONE, some, 0, width, order, 0, given, start, 0, classes, flat, p * width, 0)
            sum_lines(line, 0, width, table, 0, order, given[start:], 0, terms, sides, middle, p, rank)
            unit = hidden[p]
            for h in range(width):
                unit[h] = line[h] * scale if unit[h] > zero else zero
        if added:
            for c in range(classes):
                for h in range(width):
                    slope[c, h] += some[c * width + h]
            some[:] = 0
        _add_moments(sums, left, first, last, hidden, part)


@njit(forceinline=True, **_FAST)
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
