"""The CUDA kernels, in Triton: imported only where they run. float32; activations are node-major (rows, batch, width).

Sparse features gather rows of each run's own weights, all samples of a run together, so that a weight row is read
once for M samples. Sparse propagation walks a row of the matrix for a block of columns at a time. A denser matrix is
multiplied as a dense one in half precision with float32 sums (``half_product``).
"""

from __future__ import annotations

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,type-arg,attr-defined,assignment"
import math
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from fishergcn.nn import SparseFeatures
    from fishergcn.operators import SparseMatrix

__all__ = [
    "bernoulli_words",
    "csr_times_dense",
    "features_backward",
    "features_forward",
    "half_product",
    "relu_dropout",
    "relu_dropout_backward",
    "times_weight",
    "times_weight_backward",
]


@triton.jit
def _bernoulli_words(
    words, keys, blocks, samples, purpose, epoch, numerator, DIGITS: tl.constexpr, BLOCK: tl.constexpr
):
    b = tl.program_id(1)
    key = tl.load(keys + b // samples)
    block = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    stream = (purpose * 65536 + b % samples).to(tl.uint32)
    zero = tl.zeros((BLOCK,), dtype=tl.uint32)
    r0, r1, r2, r3 = zero, zero, zero, zero
    for plane in tl.static_range(DIGITS):
        k0 = (key & 0xFFFFFFFF).to(tl.uint32)
        k1 = ((key >> 32) & 0xFFFFFFFF).to(tl.uint32)
        c0, c1 = block.to(tl.uint32), zero + stream
        c2, c3 = zero + epoch.to(tl.uint32), zero + plane
        m0, m1 = zero + 0xD2511F53, zero + 0xCD9E8D57
        for _ in tl.static_range(10):
            low_high, high_high = tl.umulhi(c0, m0), tl.umulhi(c2, m1)
            low, high = c0 * m0, c2 * m1
            c0, c2 = high_high ^ c1 ^ k0, low_high ^ c3 ^ k1
            c1, c3 = high, low
            k0 = (k0 + 0x9E3779B9).to(tl.uint32)
            k1 = (k1 + 0xBB67AE85).to(tl.uint32)
        if (numerator >> plane) & 1:
            r0, r1, r2, r3 = r0 | c0, r1 | c1, r2 | c2, r3 | c3
        else:
            r0, r1, r2, r3 = r0 & c0, r1 & c1, r2 & c2, r3 & c3
    base = words + (b.to(tl.int64) * blocks + block) * 4
    inside = block < blocks
    tl.store(base, r0.to(tl.int32, bitcast=True), mask=inside)
    tl.store(base + 1, r1.to(tl.int32, bitcast=True), mask=inside)
    tl.store(base + 2, r2.to(tl.int32, bitcast=True), mask=inside)
    tl.store(base + 3, r3.to(tl.int32, bitcast=True), mask=inside)


def bernoulli_words(
    words: Tensor, keys: Tensor, samples: int, purpose: int, epoch: int, numerator: int, digits: int
) -> None:
    """Fill words (runs * samples, blocks, 4): bits that are 1 with probability numerator / 2**digits."""
    batch, blocks, _ = words.shape
    if digits == 0:
        words.fill_(-1 if numerator else 0)
        return
    grid = (triton.cdiv(blocks, 256), batch)
    step = torch.full((1,), epoch, dtype=torch.int64, device=words.device)
    _bernoulli_words_launch[grid](words, keys, blocks, samples, purpose, step, numerator, DIGITS=digits, BLOCK=256)


@triton.jit
def _bernoulli_words_launch(
    words, keys, blocks, samples, purpose, epoch, numerator, DIGITS: tl.constexpr, BLOCK: tl.constexpr
):
    # The epoch comes from memory: as a plain argument its values 0 and 1 would be compiled as special cases.
    _bernoulli_words(words, keys, blocks, samples, purpose, tl.load(epoch), numerator, DIGITS, BLOCK)


@triton.jit
def _features_forward(
    out, rows, indptr, indices, values, weight, words, stride, D, H, scale,
    M: tl.constexpr, MASKED: tl.constexpr, BH: tl.constexpr, BE: tl.constexpr,
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
        w = w * x[:, None]
        for m in tl.static_range(M):
            if MASKED:
                word = tl.load(words + (r * M + m) * stride + (e >> 5), mask=inside, other=0)
                bit = ((word >> (e & 31)) & 1) != 0
                total = tl.sum(tl.where(bit[:, None], w, 0.0), axis=0)
            else:
                total = tl.sum(w, axis=0)
            if first > start:
                total += tl.load(target + m * H, mask=h < H, other=0.0)
            tl.store(target + m * H, total, mask=h < H)


def features_forward(
    out: Tensor, features: SparseFeatures, weight: Tensor, words: Tensor | None, samples: int, keep: float
) -> None:
    """out[p, r*M+m, :] = Σ_e bit[r, m, e] x_e weight[r, j_e, :] / keep over the stored entries e of row p."""
    runs, columns, width = weight.shape
    if out.shape[0] == 0:
        return
    _features_forward[(out.shape[0], runs)](
        out, features.rows, features.indptr, features.indices, features.values, weight,
        features.indices if words is None else words, 0 if words is None else words.shape[1],
        columns, width, 1.0 if words is None else 1.0 / keep,
        M=1 if words is None else samples, MASKED=words is not None,
        BH=max(16, triton.next_power_of_2(width)), BE=32, num_warps=1,
    )  # fmt: skip


@triton.jit
def _features_backward(
    out, pointers, positions, entries, values, grad, words, stride, D, H, scale,
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
        place = grad + ((p.to(tl.int64) * runs + r) * M)[:, None] * H + h[None, :]
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
    out: Tensor, features: SparseFeatures, grad: Tensor, words: Tensor | None, samples: int, keep: float
) -> None:
    """out[r, j, :] = Σ_{p, m, e: j_e = j} bit[r, m, e] x_e grad[p, r*M+m, :] / keep."""
    runs, columns, width = out.shape
    pointers, positions, entries = features.columns
    chunks = len(pointers) - 1
    partial = out if chunks == 1 else out.new_empty(chunks, *out.shape)
    _features_backward[(columns, chunks, runs)](
        partial, pointers, positions, entries, features.values, grad,
        entries if words is None else words, 0 if words is None else words.shape[1],
        columns, width, 1.0 if words is None else 1.0 / keep,
        M=1 if words is None else samples, MASKED=words is not None,
        BH=max(16, triton.next_power_of_2(width)), BE=16, num_warps=1,
    )  # fmt: skip
    if chunks > 1:
        torch.sum(partial, 0, out=out)


@triton.jit
def _csr_times_dense(out, indptr, indices, values, dense, basis, weighted, width, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for e in range(tl.load(indptr + i), tl.load(indptr + i + 1)):
        row = tl.load(indices + e).to(tl.int64)
        total += tl.load(values + e) * tl.load(dense + row * width + column, mask=inside, other=0.0)
    for k in tl.static_range(K):
        total -= tl.load(basis + i.to(tl.int64) * K + k) * tl.load(
            weighted + k * width + column, mask=inside, other=0.0
        )
    tl.store(out + i.to(tl.int64) * width + column, total, mask=inside)


def csr_times_dense(
    out: Tensor, csr: Tensor, dense: Tensor, basis: Tensor | None = None, weighted: Tensor | None = None
) -> None:
    """out[i] = Σ_j s_ij dense[j] - Σ_k basis[i, k] weighted[k] over (batch, width) flattened."""
    width = dense.shape[1] * dense.shape[2]
    block = min(512, max(16, triton.next_power_of_2(width)))
    grid = (out.shape[0], triton.cdiv(width, block))
    if basis is None or weighted is None:
        basis, weighted = dense[:0], dense[:0]  # nothing to subtract: K = 0
    _csr_times_dense[grid](
        out, csr.crow_indices(), csr.col_indices(), csr.values(), dense,
        basis.contiguous(), weighted.contiguous(), width,
        K=basis.shape[1] if len(basis) else 0, BLOCK=block, num_warps=4,
    )  # fmt: skip


@triton.jit
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
    _relu_dropout[grid](
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
    _relu_dropout_backward[(triton.cdiv(count, 2048),)](out, grad, result, scale, count, BLOCK=2048, num_warps=8)


@triton.jit
def _times_weight(out, hidden, weight, P, B, M, H, C, BP: tl.constexpr, BH: tl.constexpr, BC: tl.constexpr):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    b = tl.program_id(1)
    h, c = tl.arange(0, BH), tl.arange(0, BC)
    row = p.to(tl.int64) * B + b
    x = tl.load(hidden + row[:, None] * H + h[None, :], mask=(p < P)[:, None] & (h < H)[None, :], other=0.0)
    place = weight + (b // M).to(tl.int64) * H * C + h[:, None] * C + c[None, :]
    w = tl.load(place, mask=(h < H)[:, None] & (c < C)[None, :], other=0.0)
    result = tl.dot(x, w, input_precision="tf32x3")
    tl.store(out + row[:, None] * C + c[None, :], result, mask=(p < P)[:, None] & (c < C)[None, :])


def times_weight(out: Tensor, hidden: Tensor, weight: Tensor) -> None:
    """out[p, r*M+m, :] = hidden[p, r*M+m, :] @ weight[r]."""
    count, batch, width = hidden.shape
    runs, _, columns = weight.shape
    sizes = {"BH": max(16, triton.next_power_of_2(width)), "BC": max(16, triton.next_power_of_2(columns))}
    _times_weight[(triton.cdiv(count, 64), batch)](
        out, hidden, weight, count, batch, batch // runs, width, columns, BP=64, num_warps=4, **sizes
    )


@triton.jit
def _weight_gradient(
    partial, hidden, grad, P, B, M, H, C, STEPS: tl.constexpr, BP: tl.constexpr, BH: tl.constexpr, BC: tl.constexpr
):  # fmt: skip
    part, r = tl.program_id(0), tl.program_id(1)
    h, c = tl.arange(0, BH), tl.arange(0, BC)
    total = tl.zeros((BH, BC), dtype=tl.float32)
    for step in range(STEPS):
        p = (part * STEPS + step) * BP + tl.arange(0, BP)
        for m in range(M):
            row = p.to(tl.int64) * B + r * M + m
            x = tl.load(hidden + row[None, :] * H + h[:, None], mask=(p < P)[None, :] & (h < H)[:, None], other=0.0)
            g = tl.load(grad + row[:, None] * C + c[None, :], mask=(p < P)[:, None] & (c < C)[None, :], other=0.0)
            total += tl.dot(x, g, input_precision="tf32x3")
    place = partial + ((part * tl.num_programs(1) + r).to(tl.int64) * H + h)[:, None] * C + c[None, :]
    tl.store(place, total, mask=(h < H)[:, None] & (c < C)[None, :])


def times_weight_backward(hidden: Tensor, weight: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of ``times_weight`` for hidden and for weight."""
    grad = grad.contiguous()
    grad_hidden = torch.empty_like(hidden)
    times_weight(grad_hidden, grad, weight.transpose(1, 2).contiguous())
    count, batch, width = hidden.shape
    runs, _, columns = weight.shape
    steps = 8
    parts = triton.cdiv(count, 32 * steps)
    partial = hidden.new_empty(parts, runs, width, columns)
    sizes = {"BH": max(16, triton.next_power_of_2(width)), "BC": max(16, triton.next_power_of_2(columns))}
    _weight_gradient[(parts, runs)](
        partial,
        hidden,
        grad,
        count,
        batch,
        batch // runs,
        width,
        columns,
        STEPS=steps,
        BP=32,
        num_warps=4,
        **sizes,
    )
    return grad_hidden, partial.sum(0)


_MATRIX_EXPONENT = 10  # entries of a propagation matrix are at most 1; times 2**10 even 1e-7 is a normal half number
_LARGEST_EXPONENT = 14  # activations are scaled so that their largest entry is below 2**15
_ALIGNMENT = 64


def half_product(matrix: SparseMatrix, dense: Tensor, transposed: bool) -> Tensor:
    """S Z or Sᵀ Z as a dense product in half precision with float32 sums.

    Half precision has the 10-bit mantissa of TF32 at twice its speed; its narrow range is met by scaling S, and each
    batch entry of Z, by powers of two. So the relative rounding of an operand is at most 2**-11.
    """
    half = _half_matrix(matrix, transposed)
    rows = matrix.shape[1] if transposed else matrix.shape[0]
    count, batch, width = dense.shape
    largest = torch.linalg.vector_norm(dense, math.inf, dim=(0, 2)).clamp_min(1e-30)
    scale = torch.exp2(torch.floor(_LARGEST_EXPONENT - torch.log2(largest)))
    flat = batch * width
    operand = torch.empty((half.shape[1], _padded(flat)), dtype=torch.half, device=dense.device)
    grid = (operand.shape[0], triton.cdiv(operand.shape[1], 1024))
    _scaled_half[grid](operand, dense, scale, count, flat, width, operand.shape[1], BLOCK=1024)
    product = _exact_sums(half, operand)[:rows, :flat].reshape(rows, batch, width)
    return product.mul_((2.0**-_MATRIX_EXPONENT / scale)[None, :, None])


@triton.jit
def _scaled_half(out, dense, scale, rows, columns, width, padded, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (i < rows) & (c < columns)
    value = tl.load(dense + i * columns + c, mask=inside, other=0.0)
    factor = tl.load(scale + c // width, mask=inside, other=0.0)
    tl.store(out + i * padded + c, (value * factor).to(tl.float16), mask=c < padded)


def _exact_sums(half: Tensor, operand: Tensor) -> Tensor:
    """Half times half with float32 sums and result."""
    settings = torch.backends.cuda.matmul
    before = settings.allow_fp16_reduced_precision_reduction
    settings.allow_fp16_reduced_precision_reduction = False
    try:
        return torch.mm(half, operand, out_dtype=torch.float32)
    finally:
        settings.allow_fp16_reduced_precision_reduction = before


def _half_matrix(matrix: SparseMatrix, transposed: bool) -> Tensor:
    """Return the scaled dense matrix in half precision, padded for the tensor cores; kept on the sparse one."""
    name = "_half_backward" if transposed and not matrix.symmetric else "_half_forward"
    if name not in matrix.__dict__:
        csr = matrix.backward if transposed else matrix.forward
        rows, columns = csr.shape
        half = torch.zeros((_padded(rows), _padded(columns)), dtype=torch.half, device=csr.device)
        counts = csr.crow_indices().diff()
        row = torch.repeat_interleave(torch.arange(rows, device=csr.device), counts)
        half[row, csr.col_indices().long()] = (csr.values() * 2.0**_MATRIX_EXPONENT).half()
        matrix.__dict__[name] = half
    kept: Tensor = matrix.__dict__[name]
    return kept


def _padded(size: int) -> int:
    return (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
