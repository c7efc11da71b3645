"""The estimators where sets, intervals, several labels or a number are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from fishergcn.errors import InputError

pytest.importorskip("sklearn")
from sklearn.base import clone, is_regressor
from sklearn.datasets import make_blobs
from sklearn.metrics import r2_score

from fishergcn.integrations.sklearn import FisherGCNClassifier, FisherGCNRegressor

QUICK = {"max_epochs": 60, "hidden": (16,), "learning_rate": 0.05, "random_state": 0}


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = make_blobs(400, n_features=4, centers=3, cluster_std=3.5, random_state=1)
    return X, y, np.where(np.arange(400) < 200, y, -1)


@pytest.fixture(scope="module")
def numbers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = 1e4 + 500 * X[:, 0] + 100 * rng.normal(size=400)
    return X, y, np.where(np.arange(400) < 200, y, np.nan)


def test_sets_are_from_rows_that_were_only_set_aside(blobs) -> None:
    X, y, partly = blobs
    model = FisherGCNClassifier(coverage=0.8, **QUICK).fit(X, partly)
    aside = model.model_.aside.nodes
    split = model.model_.runs[0].split
    assert len(aside) == len(split.val) == 20
    assert not np.intersect1d(aside, np.concatenate([split.train, split.val])).size
    assert (partly[aside] >= 0).all()
    sets = model.predict_sets()
    assert sets.shape == (400, 3)
    held = sets[200:][np.arange(200), y[200:]].mean()
    assert 0.6 < held < 0.97  # of 20 rows set aside: 60 to 94 in 95 of 100 draws
    assert clone(model).coverage == 0.8
    with pytest.raises(InputError, match="no nodes were set aside for prediction sets"):
        FisherGCNClassifier(**QUICK).fit(X, partly).predict_sets()


@pytest.mark.parametrize(
    ("coverage", "message"),
    [(1.0, "coverage must be a number between 0 and 1"), (0.99, "need at least 101 labeled validation nodes")],
)
def test_a_coverage_that_cannot_be(blobs, coverage, message) -> None:
    with pytest.raises(InputError, match=message):
        FisherGCNClassifier(coverage=coverage, **QUICK).fit(blobs[0], blobs[2])


def test_several_labels(blobs) -> None:
    X, y, _ = blobs
    several = np.stack([y == 0, y != 1], axis=1).astype(int)
    partly = np.where(np.arange(400)[:, None] < 200, several, -1)
    model = FisherGCNClassifier(**QUICK).fit(X, partly)
    assert model.transduction_.shape == model.label_distributions_.shape == (400, 2)
    assert (model.transduction_[200:] == several[200:]).mean() > 0.8
    np.testing.assert_array_equal(model.predict(X), model.transduction_)
    assert model.score(X[:300], several[:300]) > 0.6
    with pytest.raises(InputError, match="coverage is for one class or one number a node"):
        FisherGCNClassifier(coverage=0.9, **QUICK).fit(X, partly)
    with pytest.raises(InputError, match="class_weight must be None where nodes have several labels"):
        FisherGCNClassifier(class_weight="balanced", **QUICK).fit(X, partly)


def test_a_number(numbers) -> None:
    X, y, partly = numbers
    model = FisherGCNRegressor(method="mlp", **QUICK).fit(X, partly)
    assert is_regressor(model)
    assert r2_score(y[200:], model.transduction_[200:]) > 0.93  # 0.96 is the best there is; 0.57 with a dropout of 0.5
    np.testing.assert_allclose(model.predict(X), model.transduction_)
    assert model.score(X, np.where(np.arange(400) < 200, np.nan, y)) == pytest.approx(
        r2_score(y[200:], model.transduction_[200:])
    )
    for refused in (model.predict_proba, model.decision_function):
        with pytest.raises(AttributeError, match="use predict"):
            refused(X)
    with pytest.raises(InputError, match="coverage must be given"):
        model.predict_interval()


def test_intervals_are_from_rows_that_were_only_set_aside(numbers) -> None:
    X, y, partly = numbers
    model = FisherGCNRegressor(method="mlp", coverage=0.8, **QUICK).fit(X, partly)
    aside = model.model_.nodes_aside
    split = model.model_.runs[0].split
    assert len(aside) >= 20
    assert not np.intersect1d(aside, np.concatenate([split.train, split.val])).size
    low, high = model.predict_interval().T
    assert (low < model.transduction_).all()
    assert (model.transduction_ < high).all()
    assert 0.6 < ((low <= y) & (y <= high))[200:].mean() < 0.97
    with pytest.raises(InputError, match="predict_sets is for one class a node"):
        model.predict_sets()


@pytest.mark.parametrize("values", [np.zeros(399), np.full(400, np.nan), np.full(400, np.inf), ["much"] * 400])
def test_numbers_that_are_none(numbers, values) -> None:
    with pytest.raises(InputError, match="y must hold"):
        FisherGCNRegressor(**QUICK).fit(numbers[0], values)
