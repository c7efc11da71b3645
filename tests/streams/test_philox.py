"""Philox against the published known answers, and what is made from its bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fishergcn.streams import draw_words, run_key
from fishergcn.streams._philox import bernoulli_words, digits_of, normals, philox, stream_id, uniforms


def words_of(key, count, *arguments):
    """The first words of a stream."""
    return bernoulli_words(key, np.arange(-(-count // 4)), *arguments).reshape(-1)[:count]


# From the file kat_vectors of Random123: philox4x32 10, counter, key, result.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter, key, answer):
    block, stream, epoch, plane = counter
    result = philox(key[0] | key[1] << 32, block, stream, epoch, plane)
    assert result.dtype == np.uint32
    assert result.shape == (1, 4)
    assert tuple(result[0].tolist()) == answer


def test_broadcasting_equals_one_by_one():
    keys = np.array([3, 2**63 + 5, 2**64 - 1], dtype=np.uint64)[:, None]
    blocks = np.arange(4)[None, :]
    together = philox(keys, blocks, 77, 9, 2)
    assert together.shape == (3, 4, 4)
    for i in range(3):
        for j in range(4):
            alone = philox(int(keys[i, 0]), int(blocks[0, j]), 77, 9, 2)
            np.testing.assert_array_equal(together[i, j], alone[0])


def test_every_part_of_the_counter_counts():
    base = (12345, 1, 2, 3, 4)
    results = {tuple(philox(*base)[0])}
    for position in range(5):
        changed = list(base)
        changed[position] += 1
        results.add(tuple(philox(*changed)[0]))
    assert len(results) == 6


def test_run_keys_are_stable_and_distinct():
    assert run_key("cora", "public", 2019) == 0xA46DBB7BFBF1AF7C
    # Neither types nor boundaries between the parts are lost.
    names = [("a", "b"), ("ab",), ("a", "b", 1), ("a", "b", "1"), ("a", "b1"), ("a\x1fb",)]
    assert len({run_key(*each) for each in names}) == len(names)
    assert all(0 <= run_key(*each) < 2**64 for each in names)


def test_streams_of_purposes_and_samples_are_distinct():
    ids = {stream_id(purpose, sample) for purpose in (0, 1, 2, 60000, 63001) for sample in (0, 1, 65535)}
    assert len(ids) == 15
    assert max(ids) < 2**32


def test_digits():
    assert digits_of(0.5) == (1, 1)
    assert digits_of(0.75) == (3, 2)
    assert digits_of(0.0) == (0, 0)
    assert digits_of(1.0) == (1, 0)
    assert digits_of(1e-9) == (1, 16)
    for p in (0.1, 0.2, 1 / 3, 0.9):
        numerator, digits = digits_of(p)
        assert abs(numerator / 2**digits - p) <= 2.0**-17
        assert numerator % 2 == 1


@pytest.mark.parametrize("p", [0.5, 0.2, 0.8, 0.75, 0.95, 2.0**-16])
def test_bits_have_their_probability(p):
    """Within 4.5 standard deviations of a binomial, over all bits, and for each bit position by itself."""
    count = 6000
    bits = np.unpackbits(words_of(99, count, 5, 17, p).view(np.uint8).reshape(count, 4), axis=1)
    spread = math.sqrt(p * (1 - p))
    assert abs(bits.mean() - p) < 4.5 * spread / math.sqrt(bits.size)
    assert np.all(np.abs(bits.mean(axis=0) - p) < 5 * spread / math.sqrt(count) + 1 / count)


def test_bits_that_are_certain():
    assert np.all(words_of(1, 7, 0, 0, 1.0) == 0xFFFFFFFF)
    assert np.all(words_of(1, 7, 0, 0, 0.0) == 0)


def test_bits_of_different_words_are_independent():
    """No correlation between neighboring bits, words, streams, epochs and keys."""
    count = 4000

    def coins(key, stream, epoch):
        words = words_of(key, count, stream, epoch, 0.5)
        return np.unpackbits(words.view(np.uint8)).astype(float) * 2 - 1

    base = coins(1, 0, 0)
    others = [
        coins(2, 0, 0),
        coins(1, 1, 0),
        coins(1, 0, 1),
        np.roll(base, 1),
        np.roll(base, 32),
        np.roll(base, 128),
    ]
    for other in others:
        assert abs((base * other).mean()) < 4.5 / math.sqrt(base.size)


def test_a_longer_stream_begins_like_a_shorter_one():
    np.testing.assert_array_equal(words_of(4, 5, 1, 2, 0.2), words_of(4, 50, 1, 2, 0.2)[:5])
    np.testing.assert_array_equal(uniforms(4, 5, 1, 2), uniforms(4, 50, 1, 2)[:5])


def test_uniforms_and_normals():
    u, z = uniforms(7, 40_001, 3, 0), normals(7, 40_001, 3, 0)
    assert u.shape == z.shape == (40_001,)
    assert u.min() > 0
    assert u.max() < 1
    n = u.size
    assert abs(u.mean() - 0.5) < 4.5 / math.sqrt(12 * n)
    assert abs(u.var() - 1 / 12) < 4.5 * math.sqrt(1 / 180 / n)
    assert abs(z.mean()) < 4.5 / math.sqrt(n)
    assert abs(z.var() - 1) < 4.5 * math.sqrt(2 / n)
    assert abs((z**4).mean() - 3) < 4.5 * math.sqrt(96 / n)


@pytest.mark.parametrize("draw", [uniforms, normals])
def test_draws_of_many_keys_and_epochs_equal_one_by_one(draw):
    keys, epochs = np.array([5, 6], dtype=np.uint64), np.array([0, 1, 9])
    together = draw(keys[None, :], 7, 8, epochs[:, None])
    assert together.shape == (3, 2, 7)
    for i, epoch in enumerate(epochs):
        for j, key in enumerate(keys):
            np.testing.assert_array_equal(together[i, j], draw(int(key), 7, 8, int(epoch)))


@pytest.mark.parametrize("dropout", [0.5, 0.8, 0.25, 0.1, 1e-7, 1 - 1e-7])
@pytest.mark.parametrize(("samples", "count"), [(1, 1), (3, 9), (5, 64)])
def test_packed_masks_equal_the_definition(dropout, samples, count):
    keys = torch.tensor([1, -1, 2**62 + 11], dtype=torch.int64)
    words = draw_words(keys, samples, 2, 41, count, dropout)
    padded = -(-count // 4) * 4
    assert words.shape == (3 * samples, padded)
    assert words.dtype == torch.int32
    for run, key in enumerate(keys.numpy().view(np.uint64)):
        for sample in range(samples):
            expected = bernoulli_words(int(key), range(padded // 4), stream_id(2, sample), 41, 1 - dropout).ravel()
            np.testing.assert_array_equal(words[run * samples + sample].numpy().view(np.uint32), expected)
