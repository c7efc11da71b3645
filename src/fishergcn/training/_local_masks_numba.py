"""The compiled version of ``_local_masks``; imported only where it runs."""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import njit

from fishergcn.nn._numba import _philox

__all__ = ["gather_bits"]


@njit(cache=True, nogil=True)
def gather_bits(words, keys, samples, purpose, epoch, numerator, digits, starts, lengths):
    """Set the bits of words (runs * samples, w), all 0 before, to those of the elements in the given ranges."""
    for b in range(words.shape[0]):
        k0 = np.uint32(keys[b // samples] & np.uint64(0xFFFFFFFF))
        k1 = np.uint32(keys[b // samples] >> np.uint64(32))
        stream = np.uint32(purpose * 65536 + b % samples)
        r0 = r1 = r2 = r3 = np.uint32(0)
        current, position = np.int64(-1), 0
        for i in range(starts.shape[0]):
            for element in range(starts[i], starts[i] + lengths[i]):
                word = element >> 5
                if word >> 2 != current:
                    current = word >> 2
                    r0 = r1 = r2 = r3 = np.uint32(0)
                    for plane in range(digits):
                        c0, c1, c2, c3 = _philox(k0, k1, np.uint32(current), stream, np.uint32(epoch), np.uint32(plane))
                        if (numerator >> plane) & 1:
                            r0, r1, r2, r3 = r0 | c0, r1 | c1, r2 | c2, r3 | c3
                        else:
                            r0, r1, r2, r3 = r0 & c0, r1 & c1, r2 & c2, r3 & c3
                lane = word & 3
                value = r0 if lane == 0 else r1 if lane == 1 else r2 if lane == 2 else r3
                bit = (value >> np.uint32(element & 31)) & np.uint32(1)
                words[b, position >> 5] |= np.uint32(bit << np.uint32(position & 31))
                position += 1
