"""The CPU kernels, compiled: imported only where they run, so that the package works without numba.

Every kernel is single-threaded (several processes use several cores better, see the benchmarks) and loops
over nodes outside, over samples inside, so that a row of the sparse matrix is read once for all samples.
Arrays are node-major: activations have shape (rows, batch, width).
"""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import njit

from fishergcn._kernels.cpu_lines import QUARTER, VECTOR_BYTES, line_sum

_FAST = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_SUMS = _FAST | {"fastmath": {"contract", "nsz", "reassoc"}}  # sums over a line, in any order
_EXACT = {"cache": True, "nogil": True}
# Numbers of vectors, which are part of their types.
_EIGHT, _FOUR, _TWO, _ONE, _SMALL = (0,) * 8, (0,) * 4, (0,) * 2, (0,), (np.int32(0),)


@njit(inline="always", **_FAST)
def _kept(columns, factors, start, stop, indices, values, bits, scale):
    """Collect the entries whose bit is set, without a branch to mispredict; return how many there are."""
    count = 0
    for e in range(start, stop):
        columns[count] = indices[e]
        factors[count] = values[e] * scale
        count += np.int64((bits[e >> 5] >> np.uint32(e & 31)) & np.uint32(1))
    return count


@njit(inline="always", **_FAST)
def _longest(indptr):
    longest = 0
    for i in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    return longest


# The usual widths of a hidden layer are compile-time constants, which saves the checks and remainders of a
# loop of unknown length (a third of the time): `lanes` is a tuple of width / 16 zeros, whose length is part
# of its type. Other widths pass an empty tuple and are read from the arrays.
_USUAL_WIDTHS = frozenset({16, 32, 64, 128})


def lanes_of(width: int) -> tuple[int, ...]:
    """Return the tuple that tells a kernel its number of columns."""
    return (0,) * (width // 16) if width in _USUAL_WIDTHS else ()


@njit(inline="always", **_FAST)
def _sum_lines(target, base, width, table, shift, columns, factors, start, stop, sides, middle, row, rank):
    """target[base + h] = Σ_t factors[t] table[columns[t], h] - Σ_k sides[row, k] middle[k, h] for h < width.

    All arrays are flat, and the table begins at ``shift``. Lines are cut into pieces that registers hold: some numbers
    are read from the cache again, none of the sums.
    """
    lanes = VECTOR_BYTES // target.itemsize
    h = 0
    while h + 8 * lanes <= width:
        line_sum(
            _EIGHT, target, base + h, table, shift, h, width, columns, factors, start, stop, sides, middle, row, rank
        )
        h += 8 * lanes
    if h + 4 * lanes <= width:
        line_sum(
            _FOUR, target, base + h, table, shift, h, width, columns, factors, start, stop, sides, middle, row, rank
        )
        h += 4 * lanes
    if h + 2 * lanes <= width:
        line_sum(
            _TWO, target, base + h, table, shift, h, width, columns, factors, start, stop, sides, middle, row, rank
        )
        h += 2 * lanes
    # What is left begins within what is done: the same sums are written twice.
    while h < width and width >= lanes:
        g = min(h, width - lanes)
        line_sum(
            _ONE, target, base + g, table, shift, g, width, columns, factors, start, stop, sides, middle, row, rank
        )
        h += lanes
    while h < width and width >= lanes // QUARTER:
        g = min(h, width - lanes // QUARTER)
        line_sum(
            _SMALL, target, base + g, table, shift, g, width, columns, factors, start, stop, sides, middle, row, rank
        )
        h += lanes // QUARTER
    while h < width:  # lines that are shorter than any vector
        total = target.dtype.type(0)
        for t in range(start, stop):
            total += factors[t] * table[shift + np.int64(columns[t]) * width + h]
        for k in range(rank):
            total -= sides[row * rank + k] * middle[k * width + h]
        target[base + h] = total
        h += 1


@njit(inline="always", **_FAST)
def _scatter(lanes, table, source, columns, factors, start, stop):
    """table[columns[t]] += factors[t] source."""
    width = 16 * len(lanes) if len(lanes) > 0 else source.shape[0]
    for t in range(start, stop):
        line, x = table[np.uint32(columns[t])], factors[t]
        for h in range(width):
            line[h] = line[h] + x * source[h]


@njit(inline="always", **_FAST)
def _scatter_four(lanes, table, grad, words, b, start, stop, indices, values, scale):
    """The same for four samples at once: a dropped entry counts with factor 0, cheaper than a branch."""
    width = 16 * len(lanes) if len(lanes) > 0 else grad.shape[1]
    g0, g1, g2, g3 = grad[b], grad[b + 1], grad[b + 2], grad[b + 3]
    w0, w1, w2, w3 = words[b], words[b + 1], words[b + 2], words[b + 3]
    number = values.dtype.type
    one = np.uint32(1)
    for e in range(start, stop):
        w, s = e >> 5, np.uint32(e & 31)
        x = values[e] * scale
        x0 = x * number(np.int32((w0[w] >> s) & one))
        x1 = x * number(np.int32((w1[w] >> s) & one))
        x2 = x * number(np.int32((w2[w] >> s) & one))
        x3 = x * number(np.int32((w3[w] >> s) & one))
        line = table[np.uint32(indices[e])]
        for h in range(width):
            line[h] = line[h] + x0 * g0[h] + x1 * g1[h] + x2 * g2[h] + x3 * g3[h]


@njit(**_FAST)
def features_forward(out, rows, indptr, indices, values, weight, words, samples, scale):
    """out[p, r*M+m, :] = scale * Σ_e bit[r, m, e] x_e weight[r, j_e, :] over the entries e of row rows[p]."""
    longest = _longest(indptr) + 1
    columns, factors = np.empty(longest, dtype=np.uint32), np.empty(longest, dtype=values.dtype)
    target, table = out.reshape(out.size), weight.reshape(weight.size)
    batch, width, size = out.shape[1], out.shape[2], weight.shape[1] * weight.shape[2]
    for p in range(rows.shape[0]):
        start, stop = indptr[rows[p]], indptr[rows[p] + 1]
        for b in range(batch):
            count = _kept(columns, factors, start, stop, indices, values, words[b], scale)
            base, shift = (p * batch + b) * width, b // samples * size
            _sum_lines(target, base, width, table, shift, columns, factors, 0, count, factors, factors, 0, 0)


@njit(**_FAST)
def features_forward_plain(out, rows, indptr, indices, values, weight):
    """out[p, r, :] = Σ_e x_e weight[r, j_e, :]: the same without dropout."""
    target, table = out.reshape(out.size), weight.reshape(weight.size)
    runs, width, size = out.shape[1], out.shape[2], weight.shape[1] * weight.shape[2]
    for p in range(rows.shape[0]):
        start, stop = np.int64(indptr[rows[p]]), np.int64(indptr[rows[p] + 1])
        for r in range(runs):
            base = (p * runs + r) * width
            _sum_lines(target, base, width, table, r * size, indices, values, start, stop, values, values, 0, 0)


@njit(**_FAST)
def features_backward(lanes, grad_weight, rows, indptr, indices, values, grad, words, samples, scale):
    """grad_weight[r, j, :] += scale * Σ_{p, m, e: j_e = j} bit[r, m, e] x_e grad[p, r*M+m, :]."""
    longest = _longest(indptr) + 1
    columns, factors = np.empty(longest, dtype=np.uint32), np.empty(longest, dtype=values.dtype)
    fours = samples // 4 * 4
    for p in range(rows.shape[0]):
        start, stop = indptr[rows[p]], indptr[rows[p] + 1]
        for b in range(grad.shape[1]):
            m = b % samples
            table = grad_weight[b // samples]
            if m >= fours:
                count = _kept(columns, factors, start, stop, indices, values, words[b], scale)
                _scatter(lanes, table, grad[p, b], columns, factors, 0, count)
            elif m % 4 == 0:
                _scatter_four(lanes, table, grad[p], words, b, start, stop, indices, values, scale)


@njit(**_FAST)
def features_backward_plain(lanes, grad_weight, rows, indptr, indices, values, grad):
    """grad_weight[r, j, :] += Σ_{p, e: j_e = j} x_e grad[p, r, :]."""
    for p in range(rows.shape[0]):
        for r in range(grad.shape[1]):
            _scatter(lanes, grad_weight[r], grad[p, r], indices, values, indptr[rows[p]], indptr[rows[p] + 1])


@njit(**_FAST)
def csr_times_dense(out, indptr, indices, values, dense, left, weighted):
    """out[i] = Σ_j s_ij dense[j] - Σ_k left[i, k] weighted[k] for a CSR matrix S, of shapes (p, c), (n, c), (k, c)."""
    width, rank = out.shape[1], left.shape[1]
    target, table = out.reshape(out.size), dense.reshape(dense.size)
    sides, middle = left.reshape(left.size), weighted.reshape(weighted.size)
    for i in range(out.shape[0]):
        start, stop = np.int64(indptr[i]), np.int64(indptr[i + 1])
        _sum_lines(target, i * width, width, table, 0, indices, values, start, stop, sides, middle, i, rank)


@njit(**_FAST)
def relu_dropout(out, values, rows, words, scale):
    """out[p, b, h] = scale * bit[b, rows[p], h] * max(values[p, b, h], 0), words (batch, nodes, stride)."""
    count, batch, width = values.shape
    zero = values.dtype.type(0)
    for p in range(count):
        i = rows[p]
        for b in range(batch):
            source = values[p, b]
            target = out[p, b]
            for w in range(width // 32):
                word = words[b, i, w]
                for t in range(32):
                    keep = values.dtype.type(np.int32((word >> np.uint32(t)) & np.uint32(1)))
                    target[32 * w + t] = max(source[32 * w + t], zero) * (keep * scale)
            for h in range(width // 32 * 32, width):
                keep = values.dtype.type(np.int32((words[b, i, h // 32] >> np.uint32(h % 32)) & np.uint32(1)))
                target[h] = max(source[h], zero) * (keep * scale)


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
def activate(lanes, out, hidden, weight, rows, words, samples, scale):
    """Set hidden as :func:`relu_dropout` does, in place, and out[p, b, :] = hidden[p, b, :] weight[b // M]."""
    count, batch, _ = hidden.shape
    by_class = np.ascontiguousarray(weight.transpose(0, 2, 1))
    for p in range(count):
        relu_dropout(hidden[p : p + 1], hidden[p : p + 1], rows[p : p + 1], words, scale)
        for b in range(batch):
            _times_rows(lanes, out[p, b], hidden[p, b], by_class[b // samples])


@njit(**_SUMS)
def activate_plain(lanes, out, hidden, weight):
    """The same without dropout."""
    count, runs, width = hidden.shape
    by_class = np.ascontiguousarray(weight.transpose(0, 2, 1))
    for p in range(count):
        for r in range(runs):
            unit = hidden[p, r]
            for h in range(width):
                # NaN stays NaN, so that a diverged run is seen.
                unit[h] = unit.dtype.type(0) if unit[h] < 0 else unit[h]
            _times_rows(lanes, out[p, r], unit, by_class[r])


@njit(**_FAST)
def relu_dropout_backward(out, grad, result, scale):
    """Set out = scale * grad where result > 0, else 0: a unit passes its gradient iff active and kept."""
    flat_out, flat_grad, flat_result = out.ravel(), grad.ravel(), result.ravel()
    zero = out.dtype.type(0)
    for t in range(flat_out.shape[0]):
        flat_out[t] = flat_grad[t] * scale if flat_result[t] > zero else zero


_ROWS_AT_ONCE = 256  # so many terms are added in the precision of the weights, and these sums in float64


@njit(**_FAST)
def hidden_backward(lanes, slope, hidden, grad, weight, samples, scale):
    """Set slope[r] += Σ_{p, m} hiddenᵀ grad and hidden = scale * (grad weight[r]ᵀ) where hidden > 0, else 0.

    Of shapes (R, H, C), (p, R*M, H), (p, R*M, C) and (R, H, C): the gradients of the weights behind ReLU and dropout
    and of what stands before both, which takes the place of the activations.
    """
    count, batch, size = hidden.shape
    width, classes = 16 * len(lanes) if len(lanes) > 0 else size, grad.shape[2]
    rows = np.ascontiguousarray(weight.transpose(0, 2, 1))
    part, total = np.zeros(rows.shape, dtype=weight.dtype), np.zeros(rows.shape, dtype=np.float64)
    line = np.empty(size, dtype=weight.dtype)
    zero = weight.dtype.type(0)
    for first in range(0, count, _ROWS_AT_ONCE):
        for p in range(first, min(first + _ROWS_AT_ONCE, count)):
            for b in range(batch):
                r, unit = b // samples, hidden[p, b]
                for h in range(width):
                    line[h] = zero
                for c in range(classes):
                    x, row, sums = grad[p, b, c], rows[r, c], part[r, c]
                    for h in range(width):
                        sums[h] += x * unit[h]
                        line[h] += x * row[h]
                for h in range(width):
                    unit[h] = line[h] * scale if unit[h] > zero else zero
        total += part
        part[:] = 0
    for r in range(slope.shape[0]):
        for h in range(size):
            for c in range(classes):
                slope[r, h, c] += total[r, c, h]


@njit(**_EXACT)
def cross_entropy(loss, accuracy, slope, logits, rows, labels, shares):
    """Fill loss (R,), accuracy (R,) and slope (R, N, M, C) = d loss_r / d logits at the labeled rows."""
    runs, count, samples, classes = slope.shape
    for r in range(runs):
        total, hits, seen = 0.0, 0, 0
        for n in range(count):
            share = shares[r, n] / samples
            if share == 0:
                slope[r, n] = 0
                continue
            label = labels[r, n]
            for m in range(samples):
                row = logits[rows[r, n], r * samples + m]
                largest, best = row[0], 0
                for c in range(1, classes):
                    if row[c] > largest:
                        largest, best = row[c], c
                mass = 0.0
                for c in range(classes):
                    mass += np.exp(np.float64(row[c] - largest))
                total += share * (np.log(mass) - np.float64(row[label] - largest))
                for c in range(classes):
                    slope[r, n, m, c] = share * np.exp(np.float64(row[c] - largest)) / mass
                slope[r, n, m, label] -= share
                hits += best == label
                seen += 1
        loss[r] = total
        accuracy[r] = hits / max(seen, 1)


@njit(**_EXACT)
def cross_entropy_backward(out, slope, grad, rows):
    """Set out[rows[r, n], r*M+m, :] += grad[r] slope[r, n, m, :], out being 0 before."""
    runs, count, samples, classes = slope.shape
    for r in range(runs):
        for n in range(count):
            for m in range(samples):
                target = out[rows[r, n], r * samples + m]
                for c in range(classes):
                    target[c] += grad[r] * slope[r, n, m, c]


@njit(**_FAST)
def chebyshev_step(out, indptr, indices, values, dense):
    """out[i] = Σ_j s_ij dense[j] - out[i]: a step of the recurrence T_{m+1} = 2 x T_m - T_{m-1}, S being 2 x."""
    width = out.shape[1]
    table, line = dense.reshape(dense.size), np.empty(width, dtype=out.dtype)
    for i in range(out.shape[0]):
        start, stop = np.int64(indptr[i]), np.int64(indptr[i + 1])
        _sum_lines(line, 0, width, table, 0, indices, values, start, stop, values, values, 0, 0)
        for h in range(width):
            out[i, h] = line[h] - out[i, h]
