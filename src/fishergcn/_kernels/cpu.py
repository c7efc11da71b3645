"""The CPU kernels, compiled: imported only where they run, so that the package works without numba.

Every kernel is single-threaded (several processes use several cores better, see the benchmarks) and loops
over nodes outside, over samples inside, so that a row of the sparse matrix is read once for all samples.
Arrays are node-major: activations have shape (rows, batch, width).
"""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import njit

from fishergcn._kernels.cpu_bits import gate, kept, spread
from fishergcn._kernels.cpu_lines import QUARTER, VECTOR_BYTES, add_to_lines, fetch, line_sum

_FAST = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_EXACT = {"cache": True, "nogil": True}
# Numbers of vectors, which are part of their types.
_EIGHT, _FOUR, _TWO, ONE, SMALL = (0,) * 8, (0,) * 4, (0,) * 2, (0,), (np.int32(0),)


# Lines, and vectors of a line, that stay in registers at once.
TOGETHER = (0,) * 5
WIDEST = _FOUR if VECTOR_BYTES == 64 else _TWO
# Prefetch distance, in terms, for tables larger than the caches; wide lines are prefetched by the hardware.
_FAR_BYTES, _WIDE_BYTES, _FETCHED_BYTES, _SOON = 2**24, 2**11, 64, 12


@njit(inline="always", **_FAST)
def room_of(indptr, values):
    """Return how long the longest row is, and a vector."""
    longest = 0
    for i in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    return np.int64(longest) + VECTOR_BYTES // values.itemsize


@njit(inline="always", **_FAST)
def sum_lines(target, base, width, table, shift, columns, factors, start, stop, sides, middle, row, rank):
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
        line_sum(ONE, target, base + g, table, shift, g, width, columns, factors, start, stop, sides, middle, row, rank)
        h += lanes
    while h < width and width >= lanes // QUARTER:
        g = min(h, width - lanes // QUARTER)
        line_sum(
            SMALL, target, base + g, table, shift, g, width, columns, factors, start, stop, sides, middle, row, rank
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
def add_lines(samples, table, shift, width, columns, start, factors, place, pitch, count, grad, base, step):
    """table[columns[start + t], h] += Σ_s factors[place + s pitch + t] grad[base + s step + h].

    For t < count and h < width. All arrays are flat, and the table begins at ``shift``; the length of ``samples`` says
    how many s there are.
    """
    lanes, h = VECTOR_BYTES // table.itemsize, 0
    places = (columns, start, factors, place, pitch, count)
    while h + len(WIDEST) * lanes <= width:
        add_to_lines(WIDEST, samples, table, shift + h, width, *places, grad, base + h, step)
        h += len(WIDEST) * lanes
    while h + lanes <= width:
        add_to_lines(ONE, samples, table, shift + h, width, *places, grad, base + h, step)
        h += lanes
    while h + lanes // QUARTER <= width:
        add_to_lines(SMALL, samples, table, shift + h, width, *places, grad, base + h, step)
        h += lanes // QUARTER
    if h < width:
        for t in range(count):
            line = shift + np.int64(columns[start + t]) * width
            for s in range(len(samples)):
                x = factors[place + s * pitch + t]
                for g in range(h, width):
                    table[line + g] += x * grad[base + s * step + g]


@njit(inline="always", **_FAST)
def transposed_product(into, rows, indptr, indices, values, grad, row_step, step, batch, words, samples, scale):
    """Add to the gradient of the weights what :func:`features_backward` says; sample b of row p at p row_step + b step.

    Several samples of a run together take each line from the cache once. Dropped entries count with factor 0 there,
    which is cheaper than a branch; of the others they are left out.
    """
    room = room_of(indptr, values)
    columns, factors = np.empty(room, dtype=np.uint32), np.empty(len(TOGETHER) * room, dtype=values.dtype)
    table, width, size = into.reshape(into.size), into.shape[2], into.shape[1] * into.shape[2]
    together = samples // len(TOGETHER) * len(TOGETHER)
    for p in range(rows.shape[0]):
        start, stop = np.int64(indptr[rows[p]]), np.int64(indptr[rows[p] + 1])
        for b in range(batch):
            m, shift, base = b % samples, b // samples * size, p * row_step + b * step
            if m >= together:
                count = kept(columns, factors, start, stop, indices, values, words[b], scale)
                add_lines(ONE, table, shift, width, columns, 0, factors, 0, 0, count, grad, base, 0)
            elif m % len(TOGETHER) == 0:
                for s in range(len(TOGETHER)):
                    spread(factors, s * room, start, stop, values, words[b + s], scale)
                count = stop - start
                add_lines(TOGETHER, table, shift, width, indices, start, factors, 0, room, count, grad, base, step)


@njit(**_FAST)
def features_forward(out, rows, indptr, indices, values, weight, words, samples, scale):
    """out[p, r*M+m, :] = scale * Σ_e bit[r, m, e] x_e weight[r, j_e, :] over the entries e of row rows[p]."""
    room = room_of(indptr, values)
    columns, factors = np.empty(room, dtype=np.uint32), np.empty(room, dtype=values.dtype)
    target, table = out.reshape(out.size), weight.reshape(weight.size)
    batch, width, size = out.shape[1], out.shape[2], weight.shape[1] * weight.shape[2]
    for p in range(rows.shape[0]):
        start, stop = np.int64(indptr[rows[p]]), np.int64(indptr[rows[p] + 1])
        for b in range(batch):
            count = kept(columns, factors, start, stop, indices, values, words[b], scale)
            base, shift = (p * batch + b) * width, b // samples * size
            sum_lines(target, base, width, table, shift, columns, factors, 0, count, factors, factors, 0, 0)


@njit(**_FAST)
def features_forward_plain(out, rows, indptr, indices, values, weight):
    """out[p, r, :] = Σ_e x_e weight[r, j_e, :]: the same without dropout."""
    target, table = out.reshape(out.size), weight.reshape(weight.size)
    runs, width, size = out.shape[1], out.shape[2], weight.shape[1] * weight.shape[2]
    for p in range(rows.shape[0]):
        start, stop = np.int64(indptr[rows[p]]), np.int64(indptr[rows[p] + 1])
        for r in range(runs):
            base = (p * runs + r) * width
            sum_lines(target, base, width, table, r * size, indices, values, start, stop, values, values, 0, 0)


@njit(**_FAST)
def features_backward(grad_weight, rows, indptr, indices, values, grad, words, samples, scale):
    """grad_weight[r, j, :] += scale * Σ_{p, m, e: j_e = j} bit[r, m, e] x_e grad[p, r*M+m, :]."""
    _, batch, width = grad.shape
    transposed_product(
        grad_weight, rows, indptr, indices, values, grad.reshape(grad.size), batch * width, width, batch,
        words, samples, scale,
    )  # fmt: skip


@njit(**_FAST)
def features_backward_plain(grad_weight, rows, indptr, indices, values, grad):
    """grad_weight[r, j, :] += Σ_{p, e: j_e = j} x_e grad[p, r, :]."""
    (_, runs, width), flat, table = grad.shape, grad.reshape(grad.size), grad_weight.reshape(grad_weight.size)
    for p in range(rows.shape[0]):
        start, stop = np.int64(indptr[rows[p]]), np.int64(indptr[rows[p] + 1])
        for r in range(runs):
            shift, base = r * grad_weight.shape[1] * width, (p * runs + r) * width
            add_lines(ONE, table, shift, width, indices, start, values, start, 0, stop - start, flat, base, 0)


@njit(forceinline=True, **_FAST)
def csr_times_dense(out, indptr, indices, values, dense, left, weighted):
    """out[i] = Σ_j s_ij dense[j] - Σ_k left[i, k] weighted[k] for a CSR matrix S, of shapes (p, c), (n, c), (k, c)."""
    width, rank = out.shape[1], left.shape[1]
    target, table = out.reshape(out.size), dense.reshape(dense.size)
    sides, middle = left.reshape(left.size), weighted.reshape(weighted.size)
    soon, end, numbers = np.int64(indptr[0]), np.int64(indptr[out.shape[0]]), _FETCHED_BYTES // dense.itemsize
    far = dense.size * dense.itemsize > _FAR_BYTES and width * dense.itemsize <= _WIDE_BYTES
    for i in range(out.shape[0]):
        start, stop = np.int64(indptr[i]), np.int64(indptr[i + 1])
        while far and soon < min(stop + _SOON, end):
            first = np.int64(indices[soon]) * width
            for place in range(first, first + width, numbers):
                fetch(table, place)
            soon += 1
        sum_lines(target, i * width, width, table, 0, indices, values, start, stop, sides, middle, i, rank)


@njit(**_FAST)
def relu_dropout(out, values, rows, words, scale):
    """out[p, b, h] = scale * bit[b, rows[p], h] * max(values[p, b, h], 0), words (batch, nodes, stride)."""
    count, batch, width = values.shape
    flat = out.reshape(out.size)
    for p in range(count):
        for b in range(batch):
            out[p, b] = values[p, b]
            gate(flat, (p * batch + b) * width, width, words[b, rows[p]], scale)


@njit(**_FAST)
def relu_dropout_backward(out, grad, result, scale):
    """Set out = scale * grad where result > 0, else 0: a unit passes its gradient iff active and kept."""
    flat_out, flat_grad, flat_result = out.ravel(), grad.ravel(), result.ravel()
    zero = out.dtype.type(0)
    for t in range(flat_out.shape[0]):
        flat_out[t] = flat_grad[t] * scale if flat_result[t] > zero else zero


@njit(inline="always", **_EXACT)
def row_loss(slope, row, label, share):
    """Set slope = share * dℓ / d row; return ℓ = log Σ_c exp(row_c) - row_label, and whether row_label is largest."""
    largest, best = row[0], 0
    for c in range(1, row.shape[0]):
        if row[c] > largest:
            largest, best = row[c], c
    mass = 0.0
    for c in range(row.shape[0]):
        part = np.exp(np.float64(row[c] - largest))
        slope[c] = part
        mass += part
    factor = share / mass
    for c in range(row.shape[0]):
        slope[c] *= factor
    slope[label] -= share
    return np.log(mass) - np.float64(row[label] - largest), best == label


@njit(**_EXACT)
def cross_entropy(loss, accuracy, slope, logits, rows, labels, shares):
    """Fill loss (R,), accuracy (R,) and slope (R, N, M, C) = d loss_r / d logits at the labeled rows."""
    runs, count, samples, _ = slope.shape
    for r in range(runs):
        total, hits, seen = 0.0, 0, 0
        for n in range(count):
            share = shares[r, n] / samples
            if share == 0:
                slope[r, n] = 0
                continue
            for m in range(samples):
                row = logits[rows[r, n], r * samples + m]
                found, hit = row_loss(slope[r, n, m], row, labels[r, n], share)
                total += share * found
                hits += hit
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
        sum_lines(line, 0, width, table, 0, indices, values, start, stop, values, values, 0, 0)
        for h in range(width):
            out[i, h] = line[h] - out[i, h]
