"""Dropout masks as packed random bits, one stream for every run, sample and layer.

A mask is an int32 tensor of 32-bit words. Bit t of word w of row b decides over element 32 w + t in batch
entry b = run * samples + sample. It is computed from the run's key alone (see ``philox``), so a run's masks
are the same whichever runs stand beside it, on every device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.backend import backend_of
from fishergcn.streams._philox import bernoulli_words, digits_of, stream_id

__all__ = ["draw_words", "keep_probability", "unpack"]


def keep_probability(dropout: float) -> float:
    """Return the probability to keep an element, rounded to 16 binary digits as masks realize it.

    Examples
    --------
    >>> keep_probability(0.5)
    0.5
    """
    numerator, digits = digits_of(1.0 - dropout)
    return numerator / float(2**digits)


def draw_words(keys: Tensor, samples: int, purpose: int, epoch: int, count: int, dropout: float) -> Tensor:
    """Return random words whose bits are 1 with probability 1 - dropout.

    Parameters
    ----------
    keys
        One 64-bit key per run, as int64, shape (R,), on the device where the words are wanted.
    samples
        M, the number of samples per run.
    purpose
        Which mask this is: 0 for the features, l for hidden layer l.
    epoch
        Which step of training.
    count
        How many words each sample needs.
    dropout
        The probability to drop an element.

    Returns
    -------
    Tensor of shape (R * M, count'), int32
        With count' the next multiple of 4 from ``count``.
    """
    blocks = (count + 3) // 4
    numerator, digits = digits_of(1.0 - dropout)
    words = torch.empty((len(keys) * samples, blocks, 4), dtype=torch.int32, device=keys.device)
    backend = backend_of(torch.empty(0, device=keys.device))
    if digits == 0:  # nothing is random: a probability that rounds to 1
        words.fill_(-numerator)
    elif backend == "triton":
        from fishergcn._kernels import cuda

        cuda.bernoulli_words(words, keys, samples, purpose, epoch, numerator, digits)
    elif backend == "numba":
        from fishergcn._kernels import cpu

        cpu.bernoulli_words(_unsigned(words), keys.numpy().view(np.uint64), samples, purpose, epoch, numerator, digits)
    else:
        for row, key in enumerate(keys.cpu().numpy().view(np.uint64)):
            for sample in range(samples):
                drawn = bernoulli_words(int(key), 4 * blocks, stream_id(purpose, sample), epoch, 1.0 - dropout)
                words[row * samples + sample] = torch.from_numpy(drawn.view(np.int32)).view(blocks, 4)
    return words.view(len(words), 4 * blocks)


def unpack(words: Tensor, count: int) -> Tensor:
    """Return the first ``count`` bits of each row as booleans, shape (batch, count)."""
    shifts = torch.arange(32, device=words.device, dtype=torch.int32)
    bits = (words.unsqueeze(-1) >> shifts) & 1
    return bits.flatten(-2)[..., :count].bool()


def _unsigned(words: Tensor) -> Any:
    return words.numpy().view(np.uint32)
