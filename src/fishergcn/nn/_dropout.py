"""The dropout of one step: random masks that belong to the nodes and stored features of the whole graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.reprs import one_line
from fishergcn._base.types import FeatureMatrix, IntArray
from fishergcn.nn._activation import words_per_node
from fishergcn.streams import draw_words, gather_words

Ranges: TypeAlias = "tuple[IntArray, IntArray]"  # first elements and numbers of elements


@dataclass(frozen=True)
class Dropout:
    """The dropout of one training step: M masks for each of R runs (by their keys), each element dropped at a rate."""

    keys: Tensor  # int64, (R,)
    samples: int  # M
    epoch: int | Tensor  # which step; on a GPU also as an int64 tensor of one number there
    rate: float

    __repr__ = one_line

    def words(self, purpose: int, count: int) -> Tensor | None:
        """Draw the packed mask of a layer, or None where nothing is dropped."""
        if self.rate == 0.0:
            return None
        return self._draw(purpose, count)

    def _draw(self, purpose: int, count: int) -> Tensor:
        return draw_words(self.keys, self.samples, purpose, self.epoch, count, self.rate)


@dataclass(frozen=True, repr=False)
class MappedDropout(Dropout):
    """The dropout of a module: its keys may be of tensors that torch.func transforms, one for each of an ensemble."""

    def _draw(self, purpose: int, count: int) -> Tensor:
        drawn: Tensor = _Words.apply(self.keys, self.samples, purpose, self.epoch, count, self.rate)  # type: ignore[no-untyped-call]
        return drawn


class _Words(torch.autograd.Function):
    """Random words of keys that may be mapped: each entry has those of its own key."""

    @staticmethod
    def forward(*arguments: Any) -> Tensor:
        return draw_words(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[None, ...]:
        return (None,) * 6

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> None:
        return None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], keys: Tensor, *options: Any) -> tuple[Tensor, int]:
        """The mapped dimension joins the runs."""
        keys = keys.movedim(in_dims[0], 0)
        words: Tensor = _Words.apply(keys.flatten(), *options)  # type: ignore[no-untyped-call]
        return words.view(info.batch_size, -1, words.shape[1]), 0


@dataclass(frozen=True, repr=False)
class LocalDropout(Dropout):
    """The dropout of one step on some nodes: ``elements`` are ranges of the whole graph's mask, layer by layer."""

    elements: tuple[Ranges, ...] = ()

    @classmethod
    def of(
        cls, whole: Dropout, features: FeatureMatrix, entering: IntArray, hidden: Iterable[tuple[IntArray, int]]
    ) -> LocalDropout:
        """Pick what a batch needs of the masks of the whole graph.

        ``features`` is X of the whole graph, ``entering`` the nodes whose features are read, ``hidden`` the nodes and
        the width of each hidden layer.
        """
        if isinstance(features, sparse.csr_array):
            starts = features.indptr[entering].astype(np.int64)
            elements = [(starts, features.indptr[entering + 1] - starts)]
        else:
            elements = [_equal_ranges(entering, features.shape[1])]
        elements += [_equal_ranges(rows, 32 * words_per_node(width)) for rows, width in hidden]
        return cls(whole.keys, whole.samples, whole.epoch, whole.rate, tuple(elements))

    def _draw(self, purpose: int, count: int) -> Tensor:
        return gather_words(self.keys, self.samples, purpose, int(self.epoch), *self.elements[purpose], self.rate)


def _equal_ranges(nodes: IntArray, length: int) -> Ranges:
    return nodes * length, np.full(len(nodes), length)
