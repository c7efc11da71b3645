"""A dense product in half precision with float32 sums, on the tensor cores of a CUDA device."""

from __future__ import annotations

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,type-arg,attr-defined,assignment"
import math

import torch
import triton
import triton.language as tl
from torch import Tensor

_MATRIX_EXPONENT = 10  # entries of a propagation matrix are at most 1; times 2**10 even 1e-7 is a normal half number
_LARGEST_EXPONENT = 14  # activations are scaled so that their largest entry is below 2**15
_ALIGNMENT = 64


def half_product(half: Tensor, dense: Tensor, rows: int) -> Tensor:
    """S Z as a dense product in half precision with float32 sums, for S from :func:`half_matrix` with so many rows.

    Half precision has the 10-bit mantissa of TF32 at twice its speed; its narrow range is met by scaling S, and each
    batch entry of Z, by powers of two. So the relative rounding of an operand is at most 2**-11.
    """
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


def half_matrix(csr: Tensor) -> Tensor:
    """Return the scaled dense matrix in half precision, padded for the tensor cores."""
    rows, columns = csr.shape
    half = torch.zeros((_padded(rows), _padded(columns)), dtype=torch.half, device=csr.device)
    counts = csr.crow_indices().diff()
    row = torch.repeat_interleave(torch.arange(rows, device=csr.device), counts)
    half[row, csr.col_indices().long()] = (csr.values() * 2.0**_MATRIX_EXPONENT).half()
    return half


def _padded(size: int) -> int:
    return (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
