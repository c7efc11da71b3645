"""Random bits on the CPU, compiled: imported only where they are drawn, so that the package works without numba."""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import njit

_EXACT = {"cache": True, "nogil": True}


@njit(inline="always", **_EXACT)
def _philox(k0, k1, c0, c1, c2, c3):
    m0, m1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    for _ in range(10):
        low = np.uint64(c0) * m0
        high = np.uint64(c2) * m1
        c0 = np.uint32(np.uint32(high >> np.uint64(32)) ^ c1 ^ k0)
        c1 = np.uint32(high)
        c2 = np.uint32(np.uint32(low >> np.uint64(32)) ^ c3 ^ k1)
        c3 = np.uint32(low)
        k0 = np.uint32(k0 + np.uint32(0x9E3779B9))
        k1 = np.uint32(k1 + np.uint32(0xBB67AE85))
    return c0, c1, c2, c3


@njit(inline="always", **_EXACT)
def _stream_of(key, purpose, sample):
    """Return the two words of a run's key and the stream that a sample of it draws from."""
    return np.uint32(key & np.uint64(0xFFFFFFFF)), np.uint32(key >> np.uint64(32)), np.uint32(purpose * 65536 + sample)


@njit(inline="always", **_EXACT)
def _bernoulli_block(k0, k1, stream, block, epoch, numerator, digits):
    """Return the four words of a block, of bits that are 1 with probability numerator / 2**digits."""
    r0 = r1 = r2 = r3 = np.uint32(0)
    for plane in range(digits):
        c0, c1, c2, c3 = _philox(k0, k1, np.uint32(block), stream, np.uint32(epoch), np.uint32(plane))
        if (numerator >> plane) & 1:
            r0, r1, r2, r3 = r0 | c0, r1 | c1, r2 | c2, r3 | c3
        else:
            r0, r1, r2, r3 = r0 & c0, r1 & c1, r2 & c2, r3 & c3
    return r0, r1, r2, r3


@njit(**_EXACT)
def bernoulli_words(words, keys, samples, purpose, epoch, numerator, digits):
    """Fill words (runs * samples, blocks, 4): bits that are 1 with probability numerator / 2**digits."""
    for b in range(words.shape[0]):
        k0, k1, stream = _stream_of(keys[b // samples], purpose, b % samples)
        for block in range(words.shape[1]):
            r0, r1, r2, r3 = _bernoulli_block(k0, k1, stream, block, epoch, numerator, digits)
            words[b, block, 0] = r0
            words[b, block, 1] = r1
            words[b, block, 2] = r2
            words[b, block, 3] = r3


@njit(**_EXACT)
def gather_bits(words, keys, samples, purpose, epoch, numerator, digits, starts, lengths):
    """Set the bits of words (runs * samples, w), all 0 before, to those of the elements in the given ranges."""
    for b in range(words.shape[0]):
        k0, k1, stream = _stream_of(keys[b // samples], purpose, b % samples)
        r0 = r1 = r2 = r3 = np.uint32(0)
        current, position = np.int64(-1), 0
        for i in range(starts.shape[0]):
            for element in range(starts[i], starts[i] + lengths[i]):
                word = element >> 5
                if word >> 2 != current:
                    current = word >> 2
                    r0, r1, r2, r3 = _bernoulli_block(k0, k1, stream, current, epoch, numerator, digits)
                lane = word & 3
                value = r0 if lane == 0 else r1 if lane == 1 else r2 if lane == 2 else r3
                bit = (value >> np.uint32(element & 31)) & np.uint32(1)
                words[b, position >> 5] |= np.uint32(bit << np.uint32(position & 31))
                position += 1
