"""Packed bits a vector at a time: what a loop over single bits gives."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from numba import njit

from fishergcn._kernels import cpu_bits

ENTRIES = 150  # the last word is not full
RANGES = [(0, 0), (0, 1), (3, 19), (5, 37), (31, 33), (32, 64), (0, 150), (133, 150), (149, 150)]


@pytest.fixture(params=[np.float32, np.float64])
def given(request):
    rng = np.random.default_rng(4)
    words = rng.integers(0, 2**32, size=(ENTRIES + 31) // 32, dtype=np.uint32)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")[:ENTRIES].astype(bool)
    indices = rng.integers(0, 1000, size=ENTRIES).astype(np.int32)
    return words, bits, indices, rng.standard_normal(ENTRIES).astype(request.param)


@njit
def collect(columns, factors, start, stop, indices, values, words, scale):
    return cpu_bits.kept(columns, factors, start, stop, indices, values, words, scale)


@njit
def scatter(factors, place, start, stop, values, words, scale):
    cpu_bits.spread(factors, place, start, stop, values, words, scale)


@njit
def mask(line, base, width, words, scale):
    cpu_bits.gate(line, base, width, words, scale)


@pytest.mark.parametrize(("start", "stop"), RANGES)
def test_kept_entries_are_collected_in_order(given, start, stop) -> None:
    words, bits, indices, values = given
    columns, factors = np.zeros(ENTRIES + 16, dtype=np.uint32), np.zeros(ENTRIES + 16, dtype=values.dtype)
    found = collect(columns, factors, start, stop, indices, values, words, values.dtype.type(2))
    chosen = start + np.flatnonzero(bits[start:stop])
    assert found == len(chosen)
    np.testing.assert_array_equal(columns[:found], indices[chosen])
    np.testing.assert_array_equal(factors[:found], 2 * values[chosen])


@pytest.mark.parametrize(("start", "stop"), RANGES)
def test_dropped_entries_become_zero(given, start, stop) -> None:
    words, bits, _, values = given
    factors = np.full(ENTRIES + 40, np.nan, dtype=values.dtype)
    scatter(factors, 7, start, stop, values, words, values.dtype.type(2))
    np.testing.assert_array_equal(factors[7 : 7 + stop - start], np.where(bits, 2 * values, 0)[start:stop])
    assert np.isnan(factors[:7]).all()


def test_kept_and_spread_read_nothing_behind_the_end(given) -> None:
    words, _, indices, values = given
    # Views of a larger array: what follows them would show.
    longer = np.concatenate([values, np.full(16, np.inf, dtype=values.dtype)])
    factors = np.zeros(ENTRIES + 16, dtype=values.dtype)
    scatter(factors, 0, 0, ENTRIES, longer[:ENTRIES], words, values.dtype.type(1))
    assert np.isfinite(factors).all()
    columns = np.zeros(ENTRIES + 16, dtype=np.uint32)
    found = collect(columns, factors, 0, ENTRIES, indices, longer[:ENTRIES], words, values.dtype.type(1))
    assert np.isfinite(factors[:found]).all()


@pytest.mark.parametrize("width", [1, 3, 8, 16, 31, 33, 64, 100])
def test_a_line_is_masked_in_place(given, width) -> None:
    words, bits, _, values = given
    values = values.copy()
    values[[2, 40]] = np.nan
    line = values.copy()
    mask(line, 5, width, words, values.dtype.type(2))
    inside, kept = values[5 : 5 + width], bits[:width]
    np.testing.assert_array_equal(line[5 : 5 + width], np.where(kept & ~(inside < 0), 2 * inside, 0))
    np.testing.assert_array_equal(line[5 + width :], values[5 + width :])
    np.testing.assert_array_equal(line[:5], values[:5])
