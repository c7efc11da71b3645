"""Compiled kernels check nothing: what would lead them out of their arrays is refused before, in one sentence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.nn import ready_features, relu_dropout
from fishergcn.operators import SparseMatrix
from fishergcn.training import Targets, scores

GIVEN = sparse.csr_array((np.random.default_rng(0).random((6, 40)) < 0.5).astype(np.float32))


def changed(name: str, value: int) -> sparse.csr_array:
    matrix = GIVEN.copy()
    getattr(matrix, name)[3] = value
    return matrix


@pytest.mark.parametrize(("name", "value"), [("indices", 40), ("indices", -1), ("indptr", 10**6), ("indptr", -5)])
@pytest.mark.parametrize("make", [ready_features, lambda matrix: SparseMatrix.from_scipy(matrix)])
def test_indices_outside_are_refused(make, name, value):
    with pytest.raises(InputError, match=r"must have (row pointers|column numbers)"):
        make(changed(name, value))


def test_pointers_beyond_the_entries_are_refused():
    matrix = GIVEN.copy()
    matrix.indptr[-1] += 7
    with pytest.raises(InputError, match="row pointers"):
        ready_features(matrix)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (torch.zeros(1, 39, 8), None),
        (torch.zeros(40, 8), None),
        (torch.zeros(1, 40, 8, dtype=torch.float64), None),
        (torch.zeros(1, 40, 8), torch.zeros(1, 1, dtype=torch.int32)),
        (torch.zeros(1, 40, 8), torch.zeros(2, 8, dtype=torch.int64)),
        (torch.zeros(1, 40, 8), torch.zeros(3, 8, dtype=torch.int32)),
    ],
    ids=["rows", "dimensions", "dtype", "few words", "wide words", "samples"],
)
def test_weights_and_masks_of_another_shape_are_refused(weight, words):
    with pytest.raises(InputError, match=r"^(weights|masks) must"):
        ready_features(GIVEN).times(weight, words, 2, 0.5)


def test_strides_are_taken_care_of():
    features, rng = ready_features(GIVEN), torch.Generator().manual_seed(0)
    strided = torch.randn(1, 8, 40, generator=rng).transpose(1, 2)
    torch.testing.assert_close(
        features.times(strided, None, 1, 0.0)[:, 0], torch.from_numpy(GIVEN.toarray()) @ strided[0]
    )


@pytest.mark.parametrize("rows", [[0, 6], [-1, 2]])
def test_rows_outside_are_refused(rows):
    with pytest.raises(InputError, match="rows must be numbers below 6"):
        ready_features(GIVEN).restrict(torch.tensor(rows))


@pytest.mark.parametrize(
    ("rows", "words"),
    [(None, (2, 3)), ([0, 1, 9, 2], (2, 8)), ([0, 1, 2], (2, 8)), ([0, 1, 2, -1], (2, 8)), (None, (3, 8))],
)
def test_masks_that_have_not_all_nodes_are_refused(rows, words):
    given = None if rows is None else torch.tensor(rows, dtype=torch.int32)
    with pytest.raises(InputError):
        relu_dropout(torch.ones(4, 2, 40), given, torch.zeros(words, dtype=torch.int32), 0.5)


@pytest.mark.parametrize(
    ("rows", "labels"), [([[4]], [[0]]), ([[-1]], [[0]]), ([[0]], [[3]]), ([[0]], [[-1]]), ([[0, 1]], [[0]])]
)
def test_targets_outside_the_logits_are_refused(rows, labels):
    targets = Targets(torch.tensor(rows), torch.tensor(labels), torch.ones(1, 1))
    with pytest.raises(InputError, match="targets"):
        scores(torch.zeros(4, 1, 3), targets)


def test_activations_of_another_shape_or_type_are_refused():
    matrix = SparseMatrix.from_scipy(sparse.eye_array(4, format="csr") * 2.0, dtype=torch.float32)
    for wrong in (torch.zeros(5, 1, 2), torch.zeros(4, 2), torch.zeros(4, 1, 2, dtype=torch.float64)):
        with pytest.raises(InputError, match="activations must be"):
            matrix.propagate(wrong)
    strided = torch.arange(16.0).view(2, 2, 4).permute(2, 0, 1)
    torch.testing.assert_close(matrix.propagate(strided), 2 * strided)
