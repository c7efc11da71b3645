"""Features times weights: the compiled kernel against the reference and against dense products."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import backend
from fishergcn.errors import InputError
from fishergcn.nn import make_features, ready_features
from fishergcn.streams import draw_words, keep_probability, unpack

TOLERANCE = {torch.float64: {"rtol": 0, "atol": 1e-12}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}


def matrix(rows=11, columns=37, density=0.3, seed=0):
    """A random matrix with an empty first, middle and last row, and rows of every length modulo 4."""
    values = sparse.random_array((rows, columns), density=density, rng=np.random.default_rng(seed)).tolil()
    for row in (0, rows // 2, rows - 1):
        values[row] = 0
    return sparse.csr_array(values)


def prepared(dtype, **options):
    return ready_features(matrix(**options), "cpu", dtype)


def reference(features, *arguments):
    """The kernel in plain torch."""
    with backend("reference"):
        return features.times(*arguments)


def weights(runs, columns, width, dtype, seed=1):
    return torch.randn(runs, columns, width, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def masks_for(features, runs, samples, dropout):
    keys = torch.arange(1, runs + 1, dtype=torch.int64)
    return draw_words(keys, samples, 0, 3, features.mask_words, dropout)


def both(features, weight, words, samples, dropout):
    """Value and gradient through the compiled kernel and through the reference."""
    results = []
    for product in (features.times, lambda *arguments: reference(features, *arguments)):
        leaf = weight.clone().requires_grad_()
        out = product(leaf, words, samples, dropout)
        direction = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(5))
        (gradient,) = torch.autograd.grad((out * direction).sum(), leaf)
        results.append((out.detach(), gradient))
    return results


CASES = [
    # width, runs, samples, dropout
    (1, 1, 1, 0.5),
    (7, 2, 3, 0.8),
    (16, 1, 4, 0.5),
    (33, 2, 5, 0.5),
    (64, 1, 9, 0.8),
]


@pytest.mark.parametrize(("width", "runs", "samples", "dropout"), CASES)
@pytest.mark.parametrize("rows", [None, [1, 2, 5, 9], [5], []])
def test_kernel_equals_reference(width, runs, samples, dropout, rows):
    features = prepared(torch.float64).restrict(None if rows is None else torch.tensor(rows, dtype=torch.int64))
    weight = weights(runs, 37, width, torch.float64)
    words = masks_for(features, runs, samples, dropout)
    (out, grad), (expected, expected_grad) = both(features, weight, words, samples, dropout)
    assert out.shape == (11 if rows is None else len(rows), runs * samples, width)
    torch.testing.assert_close(out, expected, **TOLERANCE[torch.float64])
    torch.testing.assert_close(grad, expected_grad, **TOLERANCE[torch.float64])


@pytest.mark.parametrize(("width", "runs", "samples", "dropout"), [CASES[1], CASES[4]])
def test_kernel_in_float32(width, runs, samples, dropout):
    features = prepared(torch.float32)
    words = masks_for(features, runs, samples, dropout)
    (out, grad), (expected, expected_grad) = both(
        features, weights(runs, 37, width, torch.float32), words, samples, dropout
    )
    torch.testing.assert_close(out, expected, **TOLERANCE[torch.float32])
    torch.testing.assert_close(grad, expected_grad, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("width", [1, 7, 16, 33, 64])
def test_without_dropout(width):
    features = prepared(torch.float64).restrict(torch.tensor([10, 1, 3]))
    (out, grad), (expected, expected_grad) = both(features, weights(2, 37, width, torch.float64), None, 1, 0.0)
    torch.testing.assert_close(out, expected, **TOLERANCE[torch.float64])
    torch.testing.assert_close(grad, expected_grad, **TOLERANCE[torch.float64])


def test_reference_equals_the_dense_product():
    """The reference itself, by the definition: mask, scale, multiply."""
    features, weight = prepared(torch.float64), weights(2, 37, 5, torch.float64)
    words = masks_for(features, 2, 3, 0.8)
    coo = matrix().tocoo()
    masks = torch.zeros(6, 11, 37, dtype=torch.float64)
    masks[:, coo.row, coo.col] = unpack(words, coo.nnz).double()
    x = torch.tensor(matrix().toarray())
    out = reference(features, weight, words, 3, 0.8)
    for b in range(6):
        expected = (x * masks[b] / keep_probability(0.8)) @ weight[b // 3]
        torch.testing.assert_close(out[:, b], expected, **TOLERANCE[torch.float64])
    torch.testing.assert_close(
        reference(features, weight, None, 1, 0.0)[:, 1], x @ weight[1], **TOLERANCE[torch.float64]
    )


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_derivatives(dropout):
    features = prepared(torch.float64, rows=6, columns=5, density=0.5).restrict(torch.tensor([1, 4, 2]))
    words = masks_for(features, 2, 5, dropout) if dropout else None
    weight = weights(2, 5, 3, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda w: features.times(w, words, 5, dropout) ** 2,
        weight,
        check_forward_ad=True,
        check_batched_grad=False,
    )


def test_dense_features_equal_sparse_ones():
    """With every entry stored, masks of sparse and of dense features number the entries alike."""
    x = np.random.default_rng(2).uniform(0.1, 1.0, (6, 9))
    stored, dense = (
        make_features(sparse.csr_array(x), dtype=torch.float64),
        make_features(x, dtype=torch.float64),
    )
    assert repr(stored).startswith("SparseFeatures(")
    assert repr(dense).startswith("DenseFeatures(")
    assert stored.shape == dense.shape == (6, 9)
    assert stored.mask_words == dense.mask_words
    words = masks_for(stored, 2, 3, 0.5)
    weight = weights(2, 9, 7, torch.float64)
    for rows in (None, torch.tensor([4, 0], dtype=torch.int32)):
        for masks, samples in ((words, 3), (None, 1)):
            torch.testing.assert_close(
                stored.restrict(rows).times(weight, masks, samples, 0.5),
                dense.restrict(rows).times(weight, masks, samples, 0.5),
                **TOLERANCE[torch.float64],
            )
    leaf = weight.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda w: dense.times(w, words, 3, 0.5), leaf)


def test_rows_are_normalized():
    x = np.array([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [1.0, -1.0, 0.0]])
    expected = np.array([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0], [0.5, -0.5, 0.0]])  # by magnitudes: no sum is near 0
    eye = torch.eye(3, dtype=torch.float64)[None]
    for given in (x, sparse.csr_array(x)):
        out = make_features(given, dtype=torch.float64).times(eye, None, 1, 0.0)[:, 0]
        np.testing.assert_array_equal(out.numpy(), expected)
        out = make_features(given, scaling="none", dtype=torch.float64).times(eye, None, 1, 0.0)[:, 0]
        np.testing.assert_array_equal(out.numpy(), x)
    assert x[0, 0] == 1.0  # the caller's array is left alone


def test_masks_do_not_depend_on_how_a_matrix_is_stored():
    """Unsorted columns and duplicate entries describe the same matrix: a mask hits the same entries."""
    tidy = sparse.csr_array(([1.0, 2.0, 4.0], [0, 1, 2], [0, 3, 3]), shape=(2, 3))
    messy = sparse.csr_array(([4.0, 0.5, 2.0, 0.5], [2, 0, 1, 0], [0, 4, 4]), shape=(2, 3))
    weight = weights(1, 3, 2, torch.float64)
    for scaling in ("rows", "none", "columns"):
        made = [make_features(each, scaling=scaling, dtype=torch.float64) for each in (tidy, messy)]
        words = masks_for(made[0], 1, 4, 0.5)
        results = [each.times(weight, words, 4, 0.5) for each in made]
        assert torch.equal(*results)
    assert messy.nnz == 4


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_columns_list_the_entries_of_the_chosen_rows(monkeypatch, chunk):
    """Chunk by chunk, column by column, each entry once, and in a chunk only rows of that chunk."""
    monkeypatch.setattr("fishergcn.nn._features._CHUNK_ROWS", chunk)
    rows = [9, 2, 5, 7, 1]
    features = prepared(torch.float64).restrict(torch.tensor(rows))
    pointers, position, entry = (part.tolist() for part in features.columns)
    assert len(pointers) == -(-len(rows) // chunk) + 1
    dense = np.zeros((len(rows), 37))
    for c, (starts, stops) in enumerate(pairwise(pointers)):
        for column in range(37):
            for t in range(starts[column], stops[column]):
                assert position[t] // chunk == c
                dense[position[t], column] += features.values[entry[t]]
    np.testing.assert_array_equal(dense, matrix().toarray()[rows])


def test_weights_that_do_not_fit():
    with pytest.raises(InputError, match=r"weights must have 3 dimensions and 37 rows, got shape \(1, 36, 4\)\."):
        prepared(torch.float64).times(weights(1, 36, 4, torch.float64), None, 1, 0.0)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_read_only_memory_is_taken_without_a_warning(convert):
    values = convert(np.eye(3, dtype=np.float32))
    for array in (values,) if isinstance(values, np.ndarray) else (values.data, values.indices, values.indptr):
        array.setflags(write=False)
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else torch warns once in a process
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ready_features(values).shape == (3, 3)
    finally:
        torch.set_warn_always(before)
