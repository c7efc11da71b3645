"""Replaced feature entries: how many, where, and what stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fishergcn.attacks import count_replaced, replace_entries
from fishergcn.errors import InputError


def some_features(seed, rows=15, columns=12):
    rng = np.random.default_rng(seed)
    dense = np.zeros((rows, columns))
    for row in dense:
        chosen = rng.choice(columns, size=rng.integers(0, columns // 2 + 1), replace=False)
        row[chosen] = rng.integers(1, 1000, size=len(chosen))
    return sparse.csr_array(dense)


@settings(max_examples=40)
@given(st.integers(0, 30), st.floats(0, 1))
def test_entries_move_within_their_rows(seed, share):
    before = some_features(seed)
    after = replace_entries(before, share, seed)
    old, new = before.toarray(), after.toarray()
    assert (np.sort(new, axis=1) == np.sort(old, axis=1)).all()  # the same values in each row
    assert ((old != 0) & (new == 0)).sum() == round(share * before.nnz)
    assert after.has_sorted_indices
    assert after.nnz == before.nnz
    assert (replace_entries(before, share, seed) != after).nnz == 0


def test_larger_shares_contain_smaller_ones():
    before = some_features(1)
    moved = [replace_entries(before, share, 2).toarray() - before.toarray() for share in (0.3, 0.8)]
    changed = moved[0] != 0
    assert changed.any()
    assert (moved[0][changed] == moved[1][changed]).all()


@settings(max_examples=40)
@given(st.integers(0, 30), st.integers(1, 25), st.floats(0, 1))
def test_dense_entries_swap_within_their_columns(seed, nodes, share):
    before = np.random.default_rng(seed).normal(size=(nodes, 6)).astype(np.float32)  # all values differ
    kept = before.copy()
    after = replace_entries(before, share, seed)
    assert after.dtype == before.dtype
    assert (before == kept).all()
    assert (np.sort(after, axis=0) == np.sort(before, axis=0)).all()  # the same values in each column
    changed = (after != before).sum(axis=0)
    assert (changed == changed[0]).all()
    assert changed[0] == 2 * round(share * nodes / 2) or changed[0] == nodes - 1  # of an odd number one stays
    assert abs(changed[0] - share * nodes) <= 1
    assert count_replaced(before, share) == changed.sum()
    assert (replace_entries(before, share, seed) == after).all()


def test_dense_columns_are_changed_in_other_rows_each():
    before = np.random.default_rng(0).normal(size=(200, 5))
    changed = replace_entries(before, 0.5, 0) != before
    assert (changed.sum(axis=0) == 100).all()
    assert len(np.unique(changed, axis=1).T) == 5
    assert (replace_entries(before, 0.0, 0) == before).all()


def test_larger_shares_contain_smaller_ones_of_dense_features():
    before = np.random.default_rng(1).normal(size=(50, 7))
    few, many = (replace_entries(before, share, 2) for share in (0.3, 0.8))
    changed = few != before
    assert changed.any()
    assert (few[changed] == many[changed]).all()


def test_the_count_of_sparse_entries():
    before = some_features(3)
    assert count_replaced(before, 0.37) == round(0.37 * before.nnz)


def test_what_cannot_move_is_refused():
    with pytest.raises(InputError, match="at most a half, got 3 of 4"):
        replace_entries(sparse.csr_array([[1.0, 1.0, 1.0, 0.0]]), 0.1, 0)
    with pytest.raises(InputError, match="must be a matrix, got 1 dimensions"):
        replace_entries(np.ones(4), 0.1, 0)
    with pytest.raises(InputError, match="share must be"):
        replace_entries(some_features(0), 1.5, 0)


def test_a_table_that_is_mostly_zero_counts_as_sparse():
    """24,057 words in 2,112 rows of 200: a quarter of them are 6,014, not 105,600 cells of the table."""
    rng = np.random.default_rng(0)
    dense = np.zeros((2112, 200))
    dense.reshape(-1)[rng.permutation(dense.size)[:24_057]] = 1.0
    assert count_replaced(dense, 0.25) == count_replaced(sparse.csr_array(dense), 0.25) == round(0.25 * 24_057)
    found = replace_entries(dense, 0.25, seed=1)
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, replace_entries(sparse.csr_array(dense), 0.25, seed=1).toarray())
    assert int((found != dense).sum()) == 2 * round(0.25 * 24_057)
