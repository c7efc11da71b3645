"""The CUDA kernels, in Triton: imported only where they run. float32; activations are node-major (rows, batch, width).

Sparse features gather rows of each run's own weights, all samples of a run together, so that a weight row is read
once for M samples. Sparse propagation walks a row of the matrix for a block of columns at a time.
"""

from __future__ import annotations

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,type-arg,attr-defined,assignment"
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from fishergcn._kernels.launch import launch

_ROWS_TOGETHER = 4


@triton.jit
def _features_forward(out, rows, indptr, indices, values, weight, D, H, BH: tl.constexpr, BE: tl.constexpr):
    p, r = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i = tl.load(rows + p)
    start, stop = tl.load(indptr + i), tl.load(indptr + i + 1)
    h = tl.arange(0, BH)
    total = tl.zeros((BE, BH), dtype=tl.float32)
    for first in range(start, stop, BE):
        e = first + tl.arange(0, BE)
        inside = e < stop
        j = tl.load(indices + e, mask=inside, other=0)
        x = tl.load(values + e, mask=inside, other=0.0)
        w = tl.load(weight + (r * D + j)[:, None] * H + h[None, :], mask=inside[:, None] & (h < H)[None, :], other=0.0)
        total += w * x[:, None]
    tl.store(out + (p.to(tl.int64) * tl.num_programs(1) + r) * H + h, tl.sum(total, axis=0), mask=h < H)


@triton.jit(do_not_specialize=["stride"])
def _features_forward_masked(
    out, rows, indptr, indices, values, weight, words, stride, D, H, scale,
    M: tl.constexpr, BH: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    p, r = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i = tl.load(rows + p)
    start, stop = tl.load(indptr + i), tl.load(indptr + i + 1)
    h = tl.arange(0, BH)
    target = out + (p.to(tl.int64) * tl.num_programs(1) + r) * M * H + h
    if start == stop:
        for m in tl.static_range(M):
            tl.store(target + m * H, tl.zeros((BH,), dtype=tl.float32), mask=h < H)
    for first in range(start, stop, BE):
        e = first + tl.arange(0, BE)
        inside = e < stop
        j = tl.load(indices + e, mask=inside, other=0)
        x = tl.load(values + e, mask=inside, other=0.0) * scale
        w = tl.load(weight + (r * D + j)[:, None] * H + h[None, :], mask=inside[:, None] & (h < H)[None, :], other=0.0)
        for m in tl.static_range(M):
            word = tl.load(words + (r * M + m) * stride + (e >> 5), mask=inside, other=0)
            kept = tl.where(((word >> (e & 31)) & 1) != 0, x, 0.0)
            total = tl.sum(w * kept[:, None], axis=0)
            if first > start:
                total += tl.load(target + m * H, mask=h < H, other=0.0)
            tl.store(target + m * H, total, mask=h < H)


def features_forward(
    out: Tensor, parts: tuple[Tensor, ...], weight: Tensor, words: Tensor | None, samples: int, keep: float
) -> None:
    """out[p, r*M+m, :] = Σ_e bit[r, m, e] x_e weight[r, j_e, :] / keep over the stored entries e of row p.

    ``parts`` are the chosen rows, then row pointers, columns and values of X.
    """
    runs, columns, width = weight.shape
    if out.shape[0] == 0:
        return
    grid, padded = (out.shape[0], runs), max(16, triton.next_power_of_2(width))
    if words is None:
        launch(_features_forward, grid, out, *parts, weight, columns, width, BH=padded, BE=8, num_warps=1)
        return
    launch(
        _features_forward_masked, grid,
        out, *parts, weight, words, words.shape[1], columns, width, 1.0 / keep,
        M=samples, BH=padded, BE=32, num_warps=1,
    )  # fmt: skip


@triton.jit(do_not_specialize=["stride"])
def _features_backward(
    out, pointers, positions, entries, values, grad, words, stride, across, D, H, scale,
    M: tl.constexpr, MASKED: tl.constexpr, BH: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    j, chunk, r = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    runs = tl.num_programs(2)
    start, stop = tl.load(pointers + chunk * D + j), tl.load(pointers + (chunk + 1) * D + j)
    h = tl.arange(0, BH)
    total = tl.zeros((BE, BH), dtype=tl.float32)
    for first in range(start, stop, BE):
        t = first + tl.arange(0, BE)
        inside = t < stop
        p = tl.load(positions + t, mask=inside, other=0)
        e = tl.load(entries + t, mask=inside, other=0)
        x = tl.load(values + e, mask=inside, other=0.0) * scale
        place = grad + (p.to(tl.int64) * across + r * M * H)[:, None] + h[None, :]
        part = tl.zeros((BE, BH), dtype=tl.float32)
        for m in tl.static_range(M):
            kept = inside
            if MASKED:
                word = tl.load(words + (r * M + m) * stride + (e >> 5), mask=inside, other=0)
                kept = kept & (((word >> (e & 31)) & 1) != 0)
            part += tl.load(place + m * H, mask=kept[:, None] & (h < H)[None, :], other=0.0)
        total += part * x[:, None]
    tl.store(out + ((chunk * runs + r) * D + j) * H + h, tl.sum(total, axis=0), mask=h < H)


def features_backward(
    out: Tensor, parts: tuple[Tensor, ...], grad: Tensor, words: Tensor | None, samples: int, keep: float
) -> None:
    """out[r, j, :] = Σ_{p, m, e: j_e = j} bit[r, m, e] x_e grad[p, r*M+m, :] / keep.

    ``parts`` are X by columns, in chunks of rows (pointers, row positions, entries), and its values; ``grad`` is of
    float32 or of half precision, with rows of any length.
    """
    runs, columns, width = out.shape
    pointers, _, entries, _ = parts
    chunks = len(pointers) - 1
    partial = out if chunks == 1 else out.new_empty(chunks, *out.shape)
    wide = grad.dtype == torch.float32 and words is not None and samples > 1  # much to read for an entry
    launch(
        _features_backward, (columns, chunks, runs),
        partial, *parts, grad,
        entries if words is None else words, 0 if words is None else words.shape[1], grad.stride(0),
        columns, width, 1.0 if words is None else 1.0 / keep,
        M=1 if words is None else samples, MASKED=words is not None,
        BH=max(16, triton.next_power_of_2(width)), BE=8, num_warps=2 if wide else 1,
    )  # fmt: skip
    if chunks > 1:
        torch.sum(partial, 0, out=out)


@triton.jit
def _csr_times_dense(
    out, indptr, indices, values, dense, basis, weighted, rows, width,
    K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    first = tl.program_id(0).to(tl.int64) * ROWS
    for step in range(ROWS):
        i = first + step
        if i < rows:
            total = tl.zeros((BLOCK,), dtype=tl.float32)
            for e in range(tl.load(indptr + i), tl.load(indptr + i + 1)):
                row = tl.load(indices + e).to(tl.int64)
                total += tl.load(values + e) * tl.load(dense + row * width + column, mask=inside, other=0.0)
            for k in tl.static_range(K):
                low = tl.load(weighted + k * width + column, mask=inside, other=0.0)
                total -= tl.load(basis + i * K + k) * low
            tl.store(out + i * width + column, total, mask=inside)


def csr_times_dense(
    out: Tensor, csr: Tensor, dense: Tensor, basis: Tensor | None = None, weighted: Tensor | None = None
) -> None:
    """out[i] = Σ_j s_ij dense[j] - Σ_k basis[i, k] weighted[k] over (batch, width) flattened."""
    width = dense.shape[1] * dense.shape[2]
    block = min(512, max(16, triton.next_power_of_2(width)))
    if basis is None or weighted is None:
        basis, weighted = dense[:0], dense[:0]  # nothing to subtract: K = 0
    rank = basis.shape[1] if len(basis) else 0
    together = _ROWS_TOGETHER if rank else 1  # rows of a program find ``weighted`` in the cache of its processor
    grid = (triton.cdiv(out.shape[0], together), triton.cdiv(width, block))
    launch(
        _csr_times_dense, grid,
        out, csr.crow_indices(), csr.col_indices(), csr.values(), dense,
        basis.contiguous(), weighted.contiguous(), out.shape[0], width,
        K=rank, ROWS=together, BLOCK=block, num_warps=4,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows", "width"])
def _moments(
    out, basis, dense, rows, width, K: tl.constexpr, ROWS: tl.constexpr, BK: tl.constexpr, BLOCK: tl.constexpr
):
    part = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BK)
    total = tl.zeros((BK, BLOCK), dtype=tl.float32)
    for i in range(part * ROWS, tl.minimum(part * ROWS + ROWS, rows)):
        value = tl.load(dense + i * width + column, mask=column < width, other=0.0).to(tl.float32)
        total += tl.load(basis + i * K + k, mask=k < K, other=0.0)[:, None] * value[None, :]
    place = out + (part * K + k)[:, None] * width + column[None, :]
    tl.store(place, total, mask=(k < K)[:, None] & (column < width)[None, :])


def moments(basis: Tensor, dense: Tensor) -> Tensor:
    """Σ_i basis[i, k] dense[i], shape (K, B, d): few sums over many rows, which BLAS is not made for."""
    rows, batch, width = dense.shape
    rank, flat = basis.shape[1], batch * width
    parts = triton.cdiv(rows, 256)
    partial = torch.empty((parts, rank, batch, width), dtype=torch.float32, device=dense.device)
    launch(
        _moments, (parts, triton.cdiv(flat, 512)),
        partial, basis.contiguous(), dense, rows, flat,
        K=rank, ROWS=256, BK=triton.next_power_of_2(rank), BLOCK=512, num_warps=4,
    )  # fmt: skip
    return partial[0] if parts == 1 else partial.sum(0)


@triton.jit(do_not_specialize=["stride", "per_node", "B"])
def _relu_dropout(out, values, rows, words, stride, per_node, B, H, scale, BB: tl.constexpr, BH: tl.constexpr):
    p = tl.program_id(0)
    i = tl.load(rows + p).to(tl.int64)
    b = tl.program_id(1) * BB + tl.arange(0, BB)
    h = tl.arange(0, BH)
    inside = (b < B)[:, None] & (h < H)[None, :]
    word = tl.load(words + b[:, None].to(tl.int64) * stride + i * per_node + (h >> 5)[None, :], mask=inside, other=0)
    bit = ((word >> (h & 31)[None, :]) & 1) != 0
    place = (p.to(tl.int64) * B + b)[:, None] * H + h[None, :]
    value = tl.load(values + place, mask=inside, other=0.0)
    # NaN must stay NaN, so that a diverged run is seen: `value > 0` alone would turn it into 0.
    active = bit & ((value > 0) | (value != value))
    tl.store(out + place, tl.where(active, value * scale, 0.0), mask=inside)


def relu_dropout(out: Tensor, values: Tensor, rows: Tensor, words: Tensor, scale: float) -> None:
    """out[p, b, h] = scale * bit[b, rows[p], h] * max(values[p, b, h], 0)."""
    count, batch, width = values.shape
    grid = (count, triton.cdiv(batch, 16))
    launch(
        _relu_dropout, grid,
        out, values, rows, words, words.shape[1], (width + 31) // 32, batch, width, scale,
        BB=16, BH=max(16, triton.next_power_of_2(width)), num_warps=4,
    )  # fmt: skip


@triton.jit
def _relu_dropout_backward(out, grad, result, scale, count, BLOCK: tl.constexpr):
    t = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = t < count
    active = tl.load(result + t, mask=inside, other=0.0) > 0
    tl.store(out + t, tl.where(active, tl.load(grad + t, mask=inside, other=0.0) * scale, 0.0), mask=inside)


def relu_dropout_backward(out: Tensor, grad: Tensor, result: Tensor, scale: float) -> None:
    """Out = scale * grad where result > 0, else 0."""
    count = out.numel()
    launch(
        _relu_dropout_backward, (triton.cdiv(count, 2048),), out, grad, result, scale, count, BLOCK=2048, num_warps=8
    )


class Active(NamedTuple):
    """ReLU and dropout of what a layer multiplies with its weights: H[p, b, h] = scale · bit[b, i(p), h] max(V, 0)."""

    rows: Tensor | None = None  # i(p), the node of each row, (p,)
    words: Tensor | None = None  # packed masks, (B, ≥ n * words per node); None for ReLU alone
    scale: float = 1.0  # one over the probability to keep a unit


@triton.jit
def _entering(
    hidden, q, r, h, rows, words, stride, per_node, Q, R, H, scale,
    M: tl.constexpr, RELU: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    # The samples of a run at a node lie side by side: q counts all samples of all nodes.
    row = (q // M * R + r) * M + q % M
    inside = (q < Q)[:, None] & (h < H)[None, :]
    x = tl.load(hidden + row[:, None] * H + h[None, :], mask=inside, other=0.0)
    if RELU:
        # NaN must stay NaN, so that a diverged run is seen: `x > 0` alone would turn it into 0.
        x = tl.where((x > 0) | (x != x), x, 0.0)
    if MASKED:
        node = tl.load(rows + q // M, mask=q < Q, other=0).to(tl.int64)
        mask = (r * M + q % M) * stride + node * per_node
        word = tl.load(words + mask[:, None] + (h >> 5)[None, :], mask=inside, other=0)
        x = tl.where(((word >> (h & 31)[None, :]) & 1) != 0, x * scale, 0.0)
    return x, row


@triton.jit(do_not_specialize=["Q", "R", "stride", "per_node"])
def _times_weight(
    out, hidden, weight, rows, words, stride, per_node, Q, R, H, C, scale,
    M: tl.constexpr, RELU: tl.constexpr, MASKED: tl.constexpr,
    BQ: tl.constexpr, BH: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    q = tl.program_id(0) * BQ + tl.arange(0, BQ)
    r = tl.program_id(1).to(tl.int64)
    h, c = tl.arange(0, BH), tl.arange(0, BC)
    x, row = _entering(hidden, q, r, h, rows, words, stride, per_node, Q, R, H, scale, M, RELU, MASKED)
    place = weight + r * H * C + h[:, None] * C + c[None, :]
    w = tl.load(place, mask=(h < H)[:, None] & (c < C)[None, :], other=0.0)
    result = tl.dot(x, w, input_precision="tf32x3")
    tl.store(out + row[:, None] * C + c[None, :], result, mask=(q < Q)[:, None] & (c < C)[None, :])


def times_weight(out: Tensor, hidden: Tensor, weight: Tensor, active: Active | None = None) -> None:
    """out[p, r*M+m, :] = hidden[p, r*M+m, :] @ weight[r], after ReLU and dropout of ``hidden`` if they are given."""
    count, batch, width = hidden.shape
    runs, _, columns = weight.shape
    samples = batch // runs
    launch(
        _times_weight, (triton.cdiv(count * samples, 64), runs),
        out, hidden, weight, *_masks(active, hidden), count * samples, runs, width, columns,
        BQ=64, num_warps=4, **_options(active, samples, width, columns),
    )  # fmt: skip


def _masks(active: Active | None, hidden: Tensor) -> tuple[Tensor, Tensor, int, int]:
    if active is None or active.rows is None or active.words is None:
        return hidden, hidden, 0, 0  # not read
    return active.rows, active.words, active.words.shape[1], (hidden.shape[2] + 31) // 32


def _options(active: Active | None, samples: int, width: int, columns: int) -> dict[str, float]:
    padded = {"BH": max(16, triton.next_power_of_2(width)), "BC": max(16, triton.next_power_of_2(columns))}
    masked = active is not None and active.words is not None
    scale = 1.0 if active is None else active.scale
    return {"scale": scale, "M": samples, "RELU": active is not None, "MASKED": masked, **padded}


@triton.jit(do_not_specialize=["Q", "R", "stride", "per_node"])
def _weight_gradient(
    partial, out, hidden, grad, weight, rows, words, stride, per_node, Q, R, H, C, scale,
    M: tl.constexpr, RELU: tl.constexpr, MASKED: tl.constexpr, STEPS: tl.constexpr,
    BQ: tl.constexpr, BH: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    part, r = tl.program_id(0), tl.program_id(1).to(tl.int64)
    h, c = tl.arange(0, BH), tl.arange(0, BC)
    if RELU:
        place = weight + r * H * C + h[None, :] * C + c[:, None]
        w = tl.load(place, mask=(h < H)[None, :] & (c < C)[:, None], other=0.0)
    total = tl.zeros((BH, BC), dtype=tl.float32)
    for step in range(STEPS):
        q = (part * STEPS + step) * BQ + tl.arange(0, BQ)
        x, row = _entering(hidden, q, r, h, rows, words, stride, per_node, Q, R, H, scale, M, RELU, MASKED)
        g = tl.load(grad + row[:, None] * C + c[None, :], mask=(q < Q)[:, None] & (c < C)[None, :], other=0.0)
        if RELU:
            slope = tl.where(x > 0, tl.dot(g, w, input_precision="tf32x3") * scale, 0.0)
            tl.store(out + row[:, None] * H + h[None, :], slope, mask=(q < Q)[:, None] & (h < H)[None, :])
        total += tl.dot(tl.trans(x), g, input_precision="tf32x3")
    place = partial + ((part * R + r) * H + h)[:, None] * C + c[None, :]
    tl.store(place, total, mask=(h < H)[:, None] & (c < C)[None, :])


def weight_gradient(hidden: Tensor, grad: Tensor, runs: int) -> Tensor:
    """Σ_{p, m} hidden[p, r*M+m, :]ᵀ grad[p, r*M+m, :], shape (R, H, C): the gradient of ``times_weight`` for weight."""
    return _gradients(hidden, grad, runs, None, None, None)


def layer_gradients(slope: Tensor, values: Tensor, grad: Tensor, weight: Tensor, active: Active) -> Tensor:
    """Return the gradient of ``times_weight`` for weight where it is ``active``, and set slope to that for values.

    slope[p, r*M+m, :] = scale · grad[p, r*M+m, :] @ weight[r]ᵀ where ReLU and dropout let it pass, else 0.
    """
    return _gradients(values, grad, len(weight), slope, weight, active)


def _gradients(
    hidden: Tensor, grad: Tensor, runs: int, slope: Tensor | None, weight: Tensor | None, active: Active | None
) -> Tensor:
    count, batch, width = hidden.shape
    columns, samples, steps = grad.shape[2], batch // runs, 8
    parts = triton.cdiv(count * samples, 32 * steps)
    partial = hidden.new_empty(parts, runs, width, columns)
    launch(
        _weight_gradient, (parts, runs),
        partial, hidden if slope is None else slope, hidden, grad, grad if weight is None else weight,
        *_masks(active, hidden), count * samples, runs, width, columns,
        STEPS=steps, BQ=32, num_warps=2, num_stages=1, **_options(active, samples, width, columns),
    )  # fmt: skip
    return partial.sum(0)
