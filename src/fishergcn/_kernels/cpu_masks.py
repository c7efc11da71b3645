"""The compiled version of ``_local_masks``; imported only where it runs."""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import njit

from fishergcn._kernels.cpu import bernoulli_block, stream_of

__all__ = ["gather_bits"]


@njit(cache=True, nogil=True)
def gather_bits(words, keys, samples, purpose, epoch, numerator, digits, starts, lengths):
    """Set the bits of words (runs * samples, w), all 0 before, to those of the elements in the given ranges."""
    for b in range(words.shape[0]):
        k0, k1, stream = stream_of(keys[b // samples], purpose, b % samples)
        r0 = r1 = r2 = r3 = np.uint32(0)
        current, position = np.int64(-1), 0
        for i in range(starts.shape[0]):
            for element in range(starts[i], starts[i] + lengths[i]):
                word = element >> 5
                if word >> 2 != current:
                    current = word >> 2
                    r0, r1, r2, r3 = bernoulli_block(k0, k1, stream, current, epoch, numerator, digits)
                lane = word & 3
                value = r0 if lane == 0 else r1 if lane == 1 else r2 if lane == 2 else r3
                bit = (value >> np.uint32(element & 31)) & np.uint32(1)
                words[b, position >> 5] |= np.uint32(bit << np.uint32(position & 31))
                position += 1
