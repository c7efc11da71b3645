"""Packed masks: compiled and plain, in any company, for some elements or for all."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fishergcn import backend
from fishergcn.streams import draw_words, gather_words, keep_probability, unpack

KEYS = torch.tensor([1, -1, 2**62 + 11], dtype=torch.int64)
DROPOUTS = [0.5, 0.8, 0.25, 0.1, 1e-7, 1 - 1e-7]


@pytest.mark.parametrize("dropout", DROPOUTS)
def test_reference_equals_compiled(dropout):
    compiled = draw_words(KEYS, 2, 63001, 7, 10, dropout)
    with backend("reference"):
        assert torch.equal(draw_words(KEYS, 2, 63001, 7, 10, dropout), compiled)


def test_rows_do_not_depend_on_company():
    together = draw_words(KEYS, 4, 0, 3, 20, 0.3).view(3, 4, -1)
    for run in range(3):
        assert torch.equal(draw_words(KEYS[run : run + 1], 4, 0, 3, 20, 0.3), together[run])
    assert torch.equal(draw_words(KEYS.flip(0), 4, 0, 3, 20, 0.3).view(3, 4, -1), together.flip(0))


def test_more_samples_or_words_begin_with_the_same():
    assert torch.equal(draw_words(KEYS[:1], 5, 0, 3, 20, 0.3)[:2, :8], draw_words(KEYS[:1], 2, 0, 3, 8, 0.3))


def test_unpack_reads_the_lowest_bit_first():
    words = torch.tensor([[1, 2], [-(2**31), -1]], dtype=torch.int32)
    bits = unpack(words, 40)
    assert bits.shape == (2, 40)
    assert bits.dtype == torch.bool
    assert bits[0].nonzero().ravel().tolist() == [0, 33]
    assert bits[1].nonzero().ravel().tolist() == list(range(31, 40))


def test_keep_probability():
    assert keep_probability(0.5) == 0.5
    assert keep_probability(0.0) == 1.0
    assert keep_probability(0.8) == pytest.approx(0.2, abs=2.0**-17)
    assert keep_probability(1 - 1e-9) > 0
    kept = unpack(draw_words(KEYS, 4, 0, 0, 4000, 0.8), 128_000).double().mean()
    assert abs(kept - keep_probability(0.8)) < 4.5 * 0.4 / np.sqrt(12 * 128_000)


def test_nothing_to_draw():
    assert draw_words(KEYS, 2, 0, 0, 0, 0.5).shape == (6, 0)


@pytest.mark.parametrize("dropout", [0.5, 0.8, 0.3, 1e-7])
@pytest.mark.parametrize("name", ["auto", "reference"])
def test_masks_of_some_elements_are_those_of_the_whole_graph(dropout, name):
    keys = torch.tensor([3, -(2**62)])
    starts, lengths = np.array([5, 200, 64, 64, 990]), np.array([40, 0, 64, 3, 10])
    with backend(name):
        found = gather_words(keys, 3, 1, 7, starts, lengths, dropout)
        whole = unpack(draw_words(keys, 3, 1, 7, 40, dropout), 1000)
    expected = torch.cat([whole[:, first : first + count] for first, count in zip(starts, lengths, strict=True)], dim=1)
    assert torch.equal(unpack(found, int(lengths.sum())), expected)
