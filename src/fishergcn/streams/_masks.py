"""Dropout masks as packed random bits, one stream for every run, sample and layer.

A mask is an int32 tensor of 32-bit words. Bit t of word w of row b decides over element 32 w + t in batch
entry b = run * samples + sample. It is computed from the run's key alone (see ``philox``), so a run's masks
are the same whichever runs stand beside it, on every device.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.arrays import ranges
from fishergcn._base.backend import backend_of
from fishergcn._base.types import AnyArray, IntArray
from fishergcn.streams._philox import bernoulli_words, digits_of, stream_id


def keep_probability(dropout: float) -> float:
    """Return the probability to keep an element, rounded to 16 binary digits as masks realize it."""
    numerator, digits = digits_of(1.0 - dropout)
    return numerator / float(2**digits)


def draw_words(keys: Tensor, samples: int, purpose: int, epoch: int | Tensor, count: int, dropout: float) -> Tensor:
    """Return random words, int32 (R * M, count rounded up to fours), whose bits are 1 with probability 1 - dropout.

    There is one key per run, int64 (R,), on the device where the words are wanted. ``purpose`` says which mask this is,
    0 for the features, l for hidden layer l; ``epoch`` is the step of training, on a GPU also as an int64 tensor there.
    """
    blocks = (count + 3) // 4
    numerator, digits = digits_of(1.0 - dropout)
    words = torch.empty((len(keys) * samples, blocks, 4), dtype=torch.int32, device=keys.device)
    backend = backend_of(torch.empty(0, device=keys.device))
    epoch = epoch if backend == "triton" else int(epoch)
    if digits == 0:  # nothing is random: a probability that rounds to 1
        words.fill_(-numerator)
    elif backend == "triton":
        from fishergcn._kernels import cuda_streams

        cuda_streams.bernoulli_words(words, keys, samples, purpose, epoch, numerator, digits)
    elif backend == "numba":
        from fishergcn._kernels import cpu_streams

        unsigned = words.numpy().view(np.uint32)
        cpu_streams.bernoulli_words(unsigned, unsigned_keys(keys), samples, purpose, epoch, numerator, digits)
    else:
        for row, (key, sample) in enumerate(itertools.product(unsigned_keys(keys), range(samples))):
            drawn = bernoulli_words(int(key), np.arange(blocks), stream_id(purpose, sample), int(epoch), 1.0 - dropout)
            words[row] = torch.from_numpy(drawn.view(np.int32))
    return words.view(len(words), 4 * blocks)


def gather_words(
    keys: Tensor, samples: int, purpose: int, epoch: int, starts: IntArray, lengths: IntArray, dropout: float
) -> Tensor:
    """Return the bits of some elements of the masks that :func:`draw_words` draws, packed again.

    A batch of a large graph uses few bits of its masks; since each can be computed by itself, only those are. Bit t of
    the result is the t-th element of the ranges that ``starts`` and ``lengths`` give, in their order.
    """
    words = np.zeros((len(keys) * samples, (int(lengths.sum()) + 31) // 32), dtype=np.uint32)
    numerator, digits = digits_of(1.0 - dropout)
    if digits > 0 and backend_of(torch.empty(0)) == "numba":
        from fishergcn._kernels import cpu_streams

        arguments = words, unsigned_keys(keys), samples, purpose, epoch, numerator, digits, starts, lengths
        cpu_streams.gather_bits(*arguments)
    else:
        elements = ranges(starts, lengths)
        blocks, place = np.unique(elements >> 7, return_inverse=True)
        for row, (key, sample) in enumerate(itertools.product(unsigned_keys(keys), range(samples))):
            drawn = bernoulli_words(int(key), blocks, stream_id(purpose, sample), epoch, 1.0 - dropout)
            bits = (drawn[place, (elements >> 5) & 3] >> (elements & 31).astype(np.uint32)) & np.uint32(1)
            padded = np.zeros(32 * words.shape[1], dtype=np.uint8)
            padded[: len(elements)] = bits
            words[row] = np.packbits(padded, bitorder="little").view("<u4")
    return torch.from_numpy(words.view(np.int32)).to(keys.device)


def unpack(words: Tensor, count: int) -> Tensor:
    """Return the first ``count`` bits of each row as booleans, shape (batch, count)."""
    shifts = torch.arange(32, device=words.device, dtype=torch.int32)
    bits = (words.unsqueeze(-1) >> shifts) & 1
    return bits.flatten(-2)[..., :count].bool()


def unsigned_keys(keys: Tensor) -> AnyArray:
    """Return the keys of runs as what they are, 64 bits without a sign."""
    return keys.cpu().numpy().view(np.uint64)
