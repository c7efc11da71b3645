"""Features on a common scale, against scikit-learn and plain sums."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.nn import FeatureScaling, make_features

preprocessing = pytest.importorskip("sklearn.preprocessing")


def table(seed=0, rows=40):
    """Columns of other units, one of them constant and one empty."""
    rng = np.random.default_rng(seed)
    x = (rng.random((rows, 6)) < 0.5) * rng.standard_normal((rows, 6)) * 10.0 ** np.arange(6)
    x[:, 2], x[:, 3] = 0.1, 0.0  # 0.1 is not a binary fraction: sums of it round
    return x


def test_dense_columns_are_those_of_scikit_learn():
    x, other = table(), table(1, rows=7)
    theirs = preprocessing.StandardScaler().fit(x)
    ours = FeatureScaling.learn(x, "columns")
    np.testing.assert_allclose(ours.apply(x), theirs.transform(x), atol=1e-12)
    np.testing.assert_allclose(ours.apply(other), theirs.transform(other), atol=1e-12)
    assert ours.scale[2] == ours.scale[3] == 1.0


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_array])
def test_sparse_columns_are_those_of_scikit_learn_and_stay_sparse(kind):
    x = table()
    theirs = preprocessing.StandardScaler(with_mean=False).fit(sparse.csr_matrix(x))
    ours = FeatureScaling.learn(kind(x), "columns")
    found = ours.apply(kind(x))
    assert ours.center is None
    assert (sparse.issparse(found), found.nnz) == (True, np.count_nonzero(x))
    np.testing.assert_allclose(found.toarray(), theirs.transform(sparse.csr_matrix(x)).toarray(), atol=1e-12)


def test_a_column_that_hardly_varies():
    """E[x²] - E[x]² would be 0 here, or negative."""
    x = np.full((50, 1), 1e6)
    x[0] += 1e-3
    for given in (x, sparse.csr_array(x)):
        np.testing.assert_allclose(FeatureScaling.learn(given, "columns").scale, x.std(axis=0), rtol=1e-6)


def test_rows_are_divided_by_their_sum():
    x = abs(table())
    x[4] = 0.0
    sums = x.sum(axis=1, keepdims=True)
    expected = np.divide(x, sums, out=x.copy(), where=sums > 0)
    for given in (x, sparse.csr_array(x)):
        found = FeatureScaling.learn(given, "rows").apply(given)
        np.testing.assert_allclose(found.toarray() if sparse.issparse(found) else found, expected, rtol=1e-15)


@pytest.mark.parametrize("scaling", ["rows", "none", "columns"])
@pytest.mark.parametrize("stored", [np.array, sparse.csr_array])
def test_the_features_given_are_left_alone(scaling, stored):
    given = stored(table())
    before = given.copy()
    FeatureScaling.learn(given, scaling).apply(given)
    assert abs(given - before).max() == 0


def test_features_take_a_scaling_learned_elsewhere():
    x, other = table(), table(1)
    learned = FeatureScaling.learn(x, "columns")
    found = make_features(other, scaling=learned, dtype=torch.float64)
    np.testing.assert_array_equal(found.values.numpy(), learned.apply(other))
    with pytest.raises(InputError, match="scaling must be one of 'rows', 'none', 'columns', got True"):
        make_features(x, scaling=True)
