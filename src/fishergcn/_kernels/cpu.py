"""The CPU kernels, compiled: imported only where they run, so that the package works without numba.

Every kernel is single-threaded (several processes use several cores better, see the benchmarks) and loops
over nodes outside, over samples inside, so that a row of the sparse matrix is read once for all samples.
Arrays are node-major: activations have shape (rows, batch, width).
"""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import njit

_FAST = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_EXACT = {"cache": True, "nogil": True}


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
def _combine(lanes, target, table, columns, factors, start, stop):
    """Set target = Σ_t factors[t] table[columns[t]], four rows at a time to touch target less often."""
    width = 16 * len(lanes) if len(lanes) > 0 else target.shape[0]
    for h in range(width):
        target[h] = 0
    t = start
    while t + 4 <= stop:
        a, b = table[np.uint32(columns[t])], table[np.uint32(columns[t + 1])]
        c, d = table[np.uint32(columns[t + 2])], table[np.uint32(columns[t + 3])]
        x, y, z, u = factors[t], factors[t + 1], factors[t + 2], factors[t + 3]
        for h in range(width):
            target[h] = target[h] + x * a[h] + y * b[h] + z * c[h] + u * d[h]
        t += 4
    while t < stop:
        a, x = table[np.uint32(columns[t])], factors[t]
        for h in range(width):
            target[h] = target[h] + x * a[h]
        t += 1


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
def features_forward(lanes, out, rows, indptr, indices, values, weight, words, samples, scale):
    """out[p, r*M+m, :] = scale * Σ_e bit[r, m, e] x_e weight[r, j_e, :] over the entries e of row rows[p]."""
    longest = _longest(indptr) + 1
    columns, factors = np.empty(longest, dtype=np.uint32), np.empty(longest, dtype=values.dtype)
    for p in range(rows.shape[0]):
        start, stop = indptr[rows[p]], indptr[rows[p] + 1]
        for b in range(out.shape[1]):
            count = _kept(columns, factors, start, stop, indices, values, words[b], scale)
            _combine(lanes, out[p, b], weight[b // samples], columns, factors, 0, count)


@njit(**_FAST)
def features_forward_plain(lanes, out, rows, indptr, indices, values, weight):
    """out[p, r, :] = Σ_e x_e weight[r, j_e, :]: the same without dropout."""
    for p in range(rows.shape[0]):
        for r in range(out.shape[1]):
            _combine(lanes, out[p, r], weight[r], indices, values, indptr[rows[p]], indptr[rows[p] + 1])


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
def csr_times_dense(lanes, out, indptr, indices, values, dense):
    """out[i, b, :] = Σ_j s_ij dense[j, b, :] for a CSR matrix S."""
    batch = dense.shape[1]
    table = dense.reshape(dense.shape[0] * batch, dense.shape[2])
    longest = _longest(indptr) + 1
    columns = np.empty(longest, dtype=np.uint32)
    for i in range(out.shape[0]):
        start, stop = indptr[i], indptr[i + 1]
        for b in range(batch):
            for e in range(start, stop):
                columns[e - start] = indices[e] * batch + b
            _combine(lanes, out[i, b], table, columns, values[start:stop], 0, stop - start)


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


@njit(**_FAST)
def relu_dropout_backward(out, grad, result, scale):
    """Set out = scale * grad where result > 0, else 0: a unit passes its gradient iff active and kept."""
    flat_out, flat_grad, flat_result = out.ravel(), grad.ravel(), result.ravel()
    zero = out.dtype.type(0)
    for t in range(flat_out.shape[0]):
        flat_out[t] = flat_grad[t] * scale if flat_result[t] > zero else zero


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
