"""Weights of rows and classes, decisions, scorers, the choice of a method, and what else an estimator can be asked."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fishergcn
from fishergcn.errors import InputError

pytest.importorskip("sklearn")
from scipy import sparse
from scipy.special import expit, softmax
from sklearn import metrics
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.class_weight import compute_sample_weight

from fishergcn.integrations.sklearn import FisherGCNClassifier, labeled_scorer

QUICK = {"max_epochs": 30, "hidden": (16,), "learning_rate": 0.05, "random_state": 0}


@pytest.fixture
def blobs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = make_blobs(90, n_features=5, centers=3, cluster_std=2.0, random_state=0)
    partly = np.full(90, -1)
    partly[:18] = y[:18]
    return X, y, partly


def test_rows_are_linked_to_their_nearest_ones() -> None:
    model = FisherGCNClassifier(n_neighbors=1, metric="euclidean", **QUICK).fit([[0.0], [1.0], [5.0]], [0, -1, 1])
    assert model.graph_.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    np.testing.assert_array_equal(model.predict_proba([[4.0]]), model.predict_proba([[4.0]], links=[[0, 0, 1]]))


def test_the_network_sees_scaled_columns_and_a_column_of_ones() -> None:
    X, y = np.array([[1.0, 0.0], [3.0, 0.0]]), [0, 1]
    for scaling, expected in (("columns", [[-1, 0, 1], [1, 0, 1]]), ("rows", [[1, 0], [1, 0]])):
        model = FisherGCNClassifier(np.ones((2, 2)), scaling=scaling, **QUICK).fit(X, y)
        assert model.model_.graph.features.tolist() == expected
    rows = FisherGCNClassifier(np.ones((2, 2)), scaling="rows", **QUICK).fit([[1.0, -3.0], [0.0, 0.0]], y)
    assert rows.model_.graph.features.tolist() == [[0.25, -0.75], [0, 0]]


@pytest.mark.parametrize("method", ["gcn", "fishergcn-t", "mlp-x5-c"])
def test_weights_are_relative_and_zero_hides_a_label(blobs, method) -> None:
    X, _, partly = blobs
    weight = np.arange(90.0)
    weight[:4] = 0.0
    model = FisherGCNClassifier(method=method, dropout=0.0, **QUICK).fit(X, partly, sample_weight=weight)
    larger = FisherGCNClassifier(method=method, dropout=0.0, **QUICK).fit(X, partly, 8 * weight)
    np.testing.assert_array_equal(larger.label_distributions_, model.label_distributions_)
    hidden = np.where(weight > 0, partly, -1)
    assert set(hidden) == set(partly)
    without = FisherGCNClassifier(method=method, dropout=0.0, **QUICK).fit(X, hidden, weight)
    np.testing.assert_allclose(without.label_distributions_, model.label_distributions_, atol=1e-4)
    plain = FisherGCNClassifier(method=method, dropout=0.0, **QUICK).fit(X, partly)
    assert np.abs(plain.label_distributions_ - model.label_distributions_).max() > 1e-3
    same = FisherGCNClassifier(method=method, dropout=0.0, **QUICK).fit(X, partly, np.full(90, 3.0))
    np.testing.assert_array_equal(same.label_distributions_, plain.label_distributions_)


def test_the_first_loss_is_the_weighted_mean(blobs) -> None:
    """The loss of a step is taken before it: its weights are the initial ones, which the second fit starts from too."""
    X, _, partly = blobs
    weight = np.linspace(0.1, 5.0, 90)
    options = {**QUICK, "max_epochs": 1, "dropout": 0.0, "weight_decay": 0.0, "learning_rate": 1e-30}
    model = FisherGCNClassifier(**options).fit(X, partly, weight)
    known = partly >= 0
    losses = -np.log(model.label_distributions_[known, partly[known]])
    assert model.loss_curve_ == pytest.approx([np.average(losses, weights=weight[known])], rel=1e-6)
    assert model.loss_curve_[0] != pytest.approx(losses.mean(), rel=1e-3)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 5.0, 2: 0.5}])
def test_class_weights_are_sample_weights(blobs, class_weight) -> None:
    X, _, partly = blobs
    known = partly >= 0
    model = FisherGCNClassifier(class_weight=class_weight, **QUICK).fit(X, partly, np.linspace(1, 2, 90))
    weight = np.linspace(1, 2, 90)
    weight[known] *= compute_sample_weight(class_weight, partly[known])
    same = FisherGCNClassifier(**QUICK).fit(X, partly, weight)
    np.testing.assert_array_equal(model.label_distributions_, same.label_distributions_)


def test_held_out_labels_have_weights_too(blobs) -> None:
    X, _, partly = blobs
    options = {**QUICK, "validation_fraction": 0.3}
    plain = FisherGCNClassifier(**options).fit(X, partly)
    weighted = FisherGCNClassifier(**options).fit(X, partly, 1.0 + 9.0 * (partly == 0))
    assert weighted.label_distributions_[:, 0].mean() > plain.label_distributions_[:, 0].mean()


@pytest.mark.parametrize(
    ("options", "weight", "message"),
    [
        ({}, np.full(90, np.nan), "NaN"),
        ({}, np.full(90, -1.0), "negative"),
        ({}, np.zeros(90), "at least one non-zero number"),
        ({}, np.arange(90) >= 18, "positive for some label and negative for none"),
        ({}, np.ones(89), "sample_weight.shape"),
        ({"class_weight": "even"}, None, "balanced"),
        ({"metric": "precomputed"}, None, "distances for features; give the features as X and the neighbors as graph"),
    ],
)
def test_what_is_wrong_is_refused(blobs, options, weight, message) -> None:
    X, _, partly = blobs
    with pytest.raises(ValueError, match=message):
        FisherGCNClassifier(**options).fit(X, partly, weight)


def test_the_way_that_the_refusal_of_distances_names(blobs) -> None:
    X, y, partly = blobs
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    arcs = kneighbors_graph(distances, 7, metric="precomputed")
    model = FisherGCNClassifier(arcs.maximum(arcs.T), **QUICK).fit(X, partly)
    assert (model.transduction_ == y).mean() > 0.95


def test_a_metric_may_be_a_function(blobs) -> None:
    X, _, partly = blobs
    model = FisherGCNClassifier(metric=lambda a, b: np.abs(a - b).sum(), **QUICK).fit(X, partly)
    named = FisherGCNClassifier(metric="manhattan", n_jobs=2, **QUICK).fit(X, partly)
    np.testing.assert_array_equal(model.label_distributions_, named.label_distributions_)


@pytest.mark.parametrize("classes", [2, 3])
def test_decisions_are_logits(blobs, classes) -> None:
    X, _, partly = blobs
    partly = np.where(partly >= classes, -1, partly)
    model = FisherGCNClassifier(**QUICK).fit(X, partly)
    new = X[:40] + 0.1
    decisions, probabilities = model.decision_function(new), model.predict_proba(new)
    if classes == 2:
        assert decisions.shape == (40,)
        np.testing.assert_allclose(expit(decisions), probabilities[:, 1], atol=1e-12)
    else:
        np.testing.assert_allclose(softmax(decisions, axis=1), probabilities, atol=1e-12)
        np.testing.assert_array_equal(decisions.argmax(axis=1), model.predict(new))


def test_progress_is_shown_on_request(blobs, capsys) -> None:
    X, _, partly = blobs
    FisherGCNClassifier(**QUICK).fit(X, partly)
    assert capsys.readouterr() == ("", "")
    FisherGCNClassifier(verbose=1, **QUICK).fit(X, partly)
    out, err = capsys.readouterr()
    assert out == ""
    assert "gcn" in err


def test_the_estimator_is_a_trained_model(blobs, tmp_path) -> None:
    """What it says of its rows and of new ones is what the model says, and a saved one goes on saying it."""
    X, _, partly = blobs
    model = FisherGCNClassifier(method="gcn-t", **QUICK).fit(X, partly)
    trained = model.model_
    assert trained.method.name == "gcn-t"
    np.testing.assert_allclose(trained.probabilities(), model.label_distributions_, atol=1e-6)
    trained.save(tmp_path / "model")
    loaded = fishergcn.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.probabilities(), trained.probabilities())
    links = np.zeros((1, 90))
    links[0, [3, 5]] = 1.0
    found = loaded.logits_of_new(links, model._scaling.apply(X[:1]))[:, 0].numpy()
    np.testing.assert_allclose(found, model.decision_function(X[:1], links), atol=1e-5)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr"])
def test_scorers_leave_out_unknown_classes(blobs, name, given) -> None:
    X, y, partly = blobs
    chain = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(90, 90)) if given else None
    model = FisherGCNClassifier(chain, **QUICK).fit(X, partly)
    rows = np.arange(90) if given else np.arange(10, 80)
    truth = y.copy()
    truth[::3] = -1
    known = truth[rows] >= 0
    found = labeled_scorer(name)(model, X[rows], truth[rows])
    asked = model.predict_proba(X[rows])[known]
    predicted, true = asked.argmax(axis=1), y[rows][known]
    expected = {
        "accuracy": lambda: metrics.accuracy_score(true, predicted),
        "balanced_accuracy": lambda: metrics.balanced_accuracy_score(true, predicted),
        "f1_macro": lambda: metrics.f1_score(true, predicted, average="macro"),
        "neg_log_loss": lambda: -metrics.log_loss(true, asked),
        "roc_auc_ovr": lambda: metrics.roc_auc_score(true, asked, multi_class="ovr"),
    }[name]()
    assert found == pytest.approx(expected, abs=1e-12)


def test_scorers_of_decisions_with_weights(blobs) -> None:
    X, y, _ = blobs
    y = np.where(y == 2, -1, y)
    known = y >= 0
    model, weight = LogisticRegression().fit(X[known][::2], y[known][::2]), np.linspace(0, 1, 90)
    model.coef_ = -0.1 * model.coef_ + 0.05
    scorer = pickle.loads(
        pickle.dumps(
            labeled_scorer(metrics.make_scorer(metrics.average_precision_score, response_method="decision_function"))
        )
    )
    expected = metrics.average_precision_score(y[known], model.decision_function(X[known]), sample_weight=weight[known])
    assert scorer(model, X, y, sample_weight=weight) == pytest.approx(expected, abs=1e-12)


def test_scorers_in_searches(blobs) -> None:
    X, y, _ = blobs
    partly = np.where(np.arange(90) % 2, y, -1)
    ours = cross_val_score(FisherGCNClassifier(**QUICK), X, partly, cv=2, scoring=labeled_scorer())
    np.testing.assert_allclose(ours, cross_val_score(FisherGCNClassifier(**QUICK), X, partly, cv=2))
    search = GridSearchCV(
        FisherGCNClassifier(**QUICK), {"dropout": [0.2, 0.5]}, cv=2, scoring=labeled_scorer("f1_macro")
    )
    assert search.fit(X, partly).best_score_ > 0.9


def test_auto_chooses_and_then_learns_from_all_labels(blobs) -> None:
    X, y, _ = blobs
    partly = np.where(np.arange(90) < 45, y, -1)
    model = FisherGCNClassifier(method="auto", **QUICK).fit(X, partly)
    selection = model.selection_
    assert sum(each.share for each in selection.candidates) == pytest.approx(1.0)
    assert {each.name for each in selection.candidates} >= {"lp", "mlp", "gcn"}
    assert model.model_.split_sizes["train"] == 44  # all but one, without which nothing can be trained
    assert (model.transduction_ == y).mean() > 0.95
    assert model.predict(X + 1e-6).shape == (90,)
    again = FisherGCNClassifier(method="auto", **QUICK).fit(X, partly)
    assert again.selection_.chosen == selection.chosen


def test_auto_with_weights_and_held_out_labels(blobs) -> None:
    X, y, _ = blobs
    partly = np.where(np.arange(90) < 45, y, -1)
    options = {**QUICK, "max_epochs": 10}
    model = FisherGCNClassifier(method="auto", validation_fraction=0.25, class_weight="balanced", **options)
    model.fit(X, partly)
    assert model.selection_.chosen not in ("lp", "majority")
    assert model.model_.split_sizes == {"train": 34, "val": 11, "test": 0}
    assert len(model.validation_curve_) == model.n_iter_


def test_auto_needs_two_labels_of_a_class(blobs) -> None:
    X, _, _ = blobs
    with pytest.raises(InputError, match="needs a class with two labeled nodes"):
        FisherGCNClassifier(method="auto").fit(X, np.where(np.arange(90) < 3, np.arange(90), -1))
