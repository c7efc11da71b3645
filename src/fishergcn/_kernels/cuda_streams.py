"""Random bits on CUDA, in Triton: imported only where they are drawn."""

from __future__ import annotations

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,type-arg,attr-defined,assignment"
import torch
import triton
import triton.language as tl
from torch import Tensor

from fishergcn._kernels.launch import launch


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
    words: Tensor, keys: Tensor, samples: int, purpose: int, epoch: int | Tensor, numerator: int, digits: int
) -> None:
    """Fill words (runs * samples, blocks, 4): bits that are 1 with probability numerator / 2**digits."""
    batch, blocks, _ = words.shape
    if digits == 0:
        words.fill_(-1 if numerator else 0)
        return
    grid = (triton.cdiv(blocks, 256), batch)
    step = epoch if isinstance(epoch, Tensor) else torch.full((1,), epoch, dtype=torch.int64, device=words.device)
    launch(
        _bernoulli_words_launch, grid, words, keys, blocks, samples, purpose, step, numerator, DIGITS=digits, BLOCK=256
    )


@triton.jit(do_not_specialize=["blocks", "samples", "purpose", "numerator"])
def _bernoulli_words_launch(
    words, keys, blocks, samples, purpose, epoch, numerator, DIGITS: tl.constexpr, BLOCK: tl.constexpr
):
    # The epoch comes from memory: as a plain argument its values 0 and 1 would be compiled as special cases.
    _bernoulli_words(words, keys, blocks, samples, purpose, tl.load(epoch), numerator, DIGITS, BLOCK)
