"""Random numbers that depend on what they are for, not on when they are drawn.

Philox-4x32-10 (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*, SC 2011) maps a 64-bit key and a
128-bit counter to 128 random bits. A training run owns a key; the counter says which number is meant:

    counter = (block, stream, epoch, plane)

so any number can be computed anywhere, in any order, on any device, with the same result. Word ``w`` of a
stream is lane ``w % 4`` of block ``w // 4``. This file is the plain definition in NumPy; the compiled CPU and
CUDA versions in ``_kernels`` give the same bits.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import numpy.typing as npt

from fishergcn._base.types import FloatArray

Words = npt.NDArray[np.uint32]

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_PRECISION = 16  # binary digits of a keep probability


def run_key(*identity: str | int) -> int:
    """Return the 64-bit key of what ``identity`` names, such as a data set, a split and a seed."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in identity)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "little")


def stream_id(purpose: int, sample: int) -> int:
    """Return the stream of one purpose (a layer's dropout, the perturbation's noise) in one sample."""
    return purpose * 65536 + sample


def philox(key: npt.ArrayLike, block: npt.ArrayLike, stream: int, epoch: npt.ArrayLike, plane: int) -> Words:
    """Return Philox-4x32-10 of keys and counters (block, stream, epoch, plane), broadcast, shape (..., 4)."""
    mask, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    keys, counts, epochs = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(part, dtype=np.uint64)) for part in (key, block, epoch))
    )
    lanes = [counts & mask, np.full_like(counts, stream), epochs & mask, np.full_like(counts, plane)]
    k0, k1 = keys & mask, keys >> shift
    for _ in range(_ROUNDS):
        low = lanes[0] * np.uint64(_MULTIPLIERS[0])
        high = lanes[2] * np.uint64(_MULTIPLIERS[1])
        lanes = [(high >> shift) ^ lanes[1] ^ k0, high & mask, (low >> shift) ^ lanes[3] ^ k1, low & mask]
        k0, k1 = (k0 + np.uint64(_WEYL[0])) & mask, (k1 + np.uint64(_WEYL[1])) & mask
    return np.stack(lanes, axis=-1).astype(np.uint32)


@cache
def digits_of(probability: float) -> tuple[int, int]:
    """Return (numerator, digits), probability ≈ numerator / 2**digits, to 16 digits; positive stays positive."""
    numerator = max(round(probability * 2**_PRECISION), int(probability > 0))
    digits = _PRECISION
    while digits > 0 and numerator % 2 == 0:
        numerator, digits = numerator // 2, digits - 1
    return numerator, digits


def bernoulli_words(key: int, blocks: npt.ArrayLike, stream: int, epoch: int, probability: float) -> Words:
    """Return the 4 words of each block, 32 bits each, every bit 1 with the given probability, shape (blocks, 4).

    A coin of probability 0.b₁b₂…b_d (binary) is made from d fair coins r: start with 0 and, from the last
    digit to the first, take ``r | coin`` where the digit is 1 and ``r & coin`` where it is 0. So a fair coin
    costs one random bit, not one random float.
    """
    numerator, digits = digits_of(probability)
    blocks = np.asarray(blocks)
    result = np.full((len(blocks), 4), 0xFFFFFFFF if digits == 0 and numerator else 0, dtype=np.uint32)
    for plane in range(digits):
        coins = philox(key, blocks, stream, epoch, plane)
        result = (coins | result) if (numerator >> plane) & 1 else (coins & result)
    return result


def uniforms(key: npt.ArrayLike, count: int, stream: int, epoch: npt.ArrayLike) -> FloatArray:
    """Return ``count`` numbers uniform on the open interval (0, 1) for each (key, epoch): (..., count)."""
    keys, epochs = (np.asarray(part, dtype=np.uint64)[..., None] for part in (key, epoch))
    words = philox(keys, np.arange((count + 3) // 4), stream, epochs, 0)
    flat = words.reshape(*words.shape[:-2], -1)[..., :count]
    return (flat.astype(np.float64) + 0.5) / 2**32


def normals(key: npt.ArrayLike, count: int, stream: int, epoch: npt.ArrayLike) -> FloatArray:
    """Return ``count`` standard normal numbers for each (key, epoch), by the Box-Muller transform."""
    pairs = (count + 1) // 2
    both = uniforms(key, 2 * pairs, stream, epoch)
    radius = np.sqrt(-2.0 * np.log(both[..., :pairs]))
    angle = 2.0 * np.pi * both[..., pairs:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)[..., :count]
