"""Dropout masks of some nodes of a graph, without drawing those of all the others.

A mask belongs to the stored features and the hidden units of the whole graph (see ``nn.masks``). A batch of a large
graph uses few of its bits; since each can be computed by itself, only those are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.arrays import ranges
from fishergcn._base.backend import backend_of
from fishergcn._base.types import AnyArray, IntArray
from fishergcn.nn import Dropout
from fishergcn.streams import digits_of, philox, stream_id

__all__ = ["LocalDropout", "gather_words"]

Ranges: TypeAlias = "tuple[IntArray, IntArray]"  # first elements and numbers of elements


@dataclass(frozen=True)
class LocalDropout(Dropout):
    """The dropout of one step on some nodes of the graph, numbered within the batch.

    Attributes
    ----------
    elements
        For each layer which elements of the whole graph's mask belong to its nodes, as starts and lengths.
    """

    elements: tuple[Ranges, ...] = ()

    def words(self, purpose: int, count: int) -> Tensor | None:
        """Draw the packed mask of a layer, or None where nothing is dropped."""
        if self.rate == 0.0:
            return None
        return gather_words(self.keys, self.samples, purpose, self.epoch, self.rate, *self.elements[purpose])


def gather_words(
    keys: Tensor, samples: int, purpose: int, epoch: int, dropout: float, starts: IntArray, lengths: IntArray
) -> Tensor:
    """Return the bits of some elements of the masks that ``nn.masks.draw_words`` draws, packed again.

    Parameters
    ----------
    keys, samples, purpose, epoch, dropout
        As for ``draw_words``.
    starts, lengths
        Ranges of elements; bit t of the result is the t-th element of the ranges in their order.

    Returns
    -------
    Tensor of shape (R * M, words), int32
    """
    total = int(lengths.sum())
    words = np.zeros((len(keys) * samples, (total + 31) // 32), dtype=np.uint32)
    numerator, digits = digits_of(1.0 - dropout)
    unsigned = keys.cpu().numpy().view(np.uint64)
    if digits == 0:
        words.fill(0xFFFFFFFF if numerator else 0)
    elif backend_of(torch.empty(0)) == "numba":
        from fishergcn._kernels.cpu_masks import gather_bits

        gather_bits(words, unsigned, samples, purpose, epoch, numerator, digits, starts, lengths)
    else:
        elements = ranges(starts, lengths)
        for row in range(len(words)):
            stream = stream_id(purpose, row % samples)
            words[row] = _reference(int(unsigned[row // samples]), stream, epoch, numerator, digits, elements)
    return torch.from_numpy(words.view(np.int32)).to(keys.device)


def _reference(key: int, stream: int, epoch: int, numerator: int, digits: int, elements: IntArray) -> AnyArray:
    blocks, place = np.unique(elements >> 7, return_inverse=True)
    drawn = np.zeros((len(blocks), 4), dtype=np.uint32)
    for plane in range(digits):
        coins = philox(key, blocks, stream, epoch, plane)
        drawn = (coins | drawn) if (numerator >> plane) & 1 else (coins & drawn)
    bits = (drawn[place, (elements >> 5) & 3] >> (elements & 31).astype(np.uint32)) & np.uint32(1)
    padded = np.zeros((len(elements) + 31) // 32 * 32, dtype=np.uint8)
    padded[: len(elements)] = bits
    return np.packbits(padded, bitorder="little").view("<u4")
