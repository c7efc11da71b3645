"""The estimator: scikit-learn's own checks, the semi-supervised convention, new nodes, and the tools around it."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
from scipy import sparse

import fishergcn
from fishergcn.errors import ConvergenceError, InputError

pytest.importorskip("sklearn")
import joblib
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fishergcn.integrations.sklearn import FisherGCNClassifier, hidden_label_scores, labeled_scorer

QUICK = {"max_epochs": 30, "samples": 2, "hidden": (16,), "learning_rate": 0.05}
EXPECTED_FAILURES = {
    "check_classifiers_classes": "takes -1 for a class; here, as in sklearn.semi_supervised, it means unknown",
    "check_sample_weight_equivalence_on_dense_data": "a row of weight 0 is not learned from, but stays in the graph",
    "check_sample_weight_equivalence_on_sparse_data": "a row of weight 0 is not learned from, but stays in the graph",
}


@parametrize_with_checks(
    [FisherGCNClassifier(**QUICK)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_the_checks_of_scikit_learn(estimator, check) -> None:
    check(estimator)


@pytest.fixture
def blobs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = make_blobs(90, n_features=5, centers=3, cluster_std=2.0, random_state=0)
    partly = np.full(90, -1)
    partly[:18] = y[:18]
    return X, y, partly


def test_all_nodes_are_labeled_from_a_few(blobs) -> None:
    X, y, partly = blobs
    model = FisherGCNClassifier(random_state=0, **QUICK).fit(X, partly)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.n_features_in_ == 5
    assert model.n_iter_ == 30 == len(model.loss_curve_)
    assert model.validation_curve_ == []
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1, atol=1e-12)
    assert (model.transduction_ == y).mean() > 0.95
    np.testing.assert_array_equal(model.transduction_, model.label_distributions_.argmax(axis=1))
    again = FisherGCNClassifier(random_state=0, **QUICK).fit(X, partly)
    np.testing.assert_array_equal(again.label_distributions_, model.label_distributions_)


@pytest.mark.parametrize("method", ["gcn", "fishergcn-t"])
@pytest.mark.parametrize("given", [False, True])
def test_the_transduction_is_that_of_the_network(blobs, method, given) -> None:
    X, _, partly = blobs
    chain = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(90, 90))
    model = FisherGCNClassifier(chain if given else "knn", method=method, scaling="none", **QUICK).fit(X, partly)
    if given:
        np.testing.assert_array_equal(model.graph_.toarray(), chain.toarray())
    builder = fishergcn.high_order if method.endswith("-t") else fishergcn.renormalized
    propagation = builder(model.graph_).toarray()
    first, second = (weight.astype(np.float64) for weight in model.weights_.values())
    rounded = X.astype(np.float32).astype(np.float64)  # as the network has seen them in training
    logits = propagation @ np.maximum(propagation @ rounded @ first, 0) @ second
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(model.label_distributions_, odds / odds.sum(axis=1, keepdims=True), rtol=0, atol=1e-10)


def test_the_neighbors_of_rows_are_linked_both_ways(blobs) -> None:
    X, _, partly = blobs
    graph = FisherGCNClassifier(n_neighbors=4, **QUICK).fit(X, partly).graph_.toarray()
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(distances, np.inf)
    arcs = np.zeros((90, 90))
    np.put_along_axis(arcs, np.argsort(distances, axis=1)[:, :4], 1.0, axis=1)
    np.testing.assert_array_equal(graph, np.maximum(arcs, arcs.T))


@pytest.mark.parametrize("method", ["gcn", "fishergcn-t"])
def test_new_nodes_come_with_given_links(blobs, method) -> None:
    """A twin of node 3, with its links and one to node 3 in place of the self-link, is what node 3 is."""
    X, _, partly = blobs
    ring = np.roll(np.eye(90), 1, axis=1)
    ring = ring + ring.T
    model = FisherGCNClassifier(ring, method=method, random_state=0, **QUICK).fit(X, partly)
    links = np.zeros((2, 90))
    links[0, [2, 4]] = 1.0
    probabilities = model.predict_proba(X[[3, 3]], links)
    if method == "gcn":  # same degree and features, so the same row of the propagation matrix
        np.testing.assert_allclose(probabilities[0], _two_hops(model, X), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X[[3, 3]], links), model.classes_[probabilities.argmax(axis=1)])
    alone = np.maximum(model._scaling.apply(X[[3]])[0] @ model.weights_["weights.0"], 0) @ model.weights_["weights.1"]
    odds = np.exp(alone - alone.max())
    np.testing.assert_allclose(probabilities[1], odds / odds.sum(), atol=1e-6)
    with pytest.raises(InputError, match="links must be given for new nodes"):
        model.predict(X[:3])
    np.testing.assert_array_equal(model.predict(X), model.transduction_)
    with pytest.raises(InputError, match=r"links must have shape \(3, 90\), got \(2, 90\)"):
        model.predict(X[:3], links)
    with pytest.raises(InputError, match="not negative"):
        model.predict(X[:2], -links)


def _two_hops(model: FisherGCNClassifier, X: np.ndarray) -> np.ndarray:
    """The network on the 91-node graph, with the degrees of the 90 old nodes as they were."""
    adjacency = np.zeros((91, 91))
    adjacency[:90, :90] = model.graph_.toarray() + np.eye(90)
    adjacency[90, [2, 4, 90]] = 1.0
    degrees = adjacency.sum(axis=1)
    matrix = adjacency / np.sqrt(np.outer(degrees, degrees))
    features = model._scaling.apply(np.vstack([X, X[3]])).astype(np.float32).astype(np.float64)
    first, second = (weight.astype(np.float64) for weight in model.weights_.values())
    logits = (matrix @ np.maximum(matrix @ features @ first, 0) @ second)[90]
    odds = np.exp(logits - logits.max())
    return odds / odds.sum()


def test_new_nodes_are_linked_to_their_nearest_neighbors(blobs) -> None:
    X, y, partly = blobs
    model = FisherGCNClassifier(random_state=0, **QUICK).fit(X[:60], partly[:60])
    distances = np.linalg.norm(X[60:, None] - X[:60], axis=2)
    links = np.zeros((30, 60))
    np.put_along_axis(links, np.argsort(distances, axis=1)[:, :7], 1.0, axis=1)
    np.testing.assert_allclose(model.predict_proba(X[60:]), model.predict_proba(X[60:], links), atol=1e-12)
    assert model.score(X[60:], y[60:]) > 0.9
    np.testing.assert_allclose(model.predict_proba(X[60:])[[5]], model.predict_proba(X[[65]]), atol=1e-12)


@pytest.mark.parametrize("method", ["gcn", "lp"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_fitted_rows_are_answered_as_in_the_graph(blobs, method, form) -> None:
    """All of them, some in another order, or one beside a new one; rows that occur twice are nodes of their own."""
    X, _, partly = blobs
    X = np.round(X)
    X[41] = X[40]
    model = FisherGCNClassifier(method=method, n_neighbors=3, random_state=0, **QUICK).fit(form(X), partly)
    np.testing.assert_array_equal(model.predict_proba(form(X)), model.label_distributions_)
    np.testing.assert_array_equal(model.predict(form(X)), model.transduction_)
    np.testing.assert_array_equal(model.decision_function(form(X))[:5], model.decision_function(form(X[:5])))
    some = [50, 3, 7, 3]
    np.testing.assert_array_equal(model.predict_proba(form(X[some])), model.label_distributions_[some])
    new = X[:2] + np.array([[0.0], [0.25]])
    found = model.predict_proba(form(new))
    np.testing.assert_array_equal(found[0], model.label_distributions_[0])
    np.testing.assert_allclose(found[[1]], model.predict_proba(form(new[1:])), atol=1e-12)
    joined = model.predict_proba(form(X), model._neighbors.links(form(X)))
    assert np.abs(joined - model.label_distributions_).max() > 1e-3


def test_a_fitted_row_may_come_dense_or_sparse(blobs) -> None:
    X, _, partly = blobs
    X[:, 2] = -0.0
    stored = sparse.csr_array(np.abs(X) + 1.0)  # all entries stored, also those that become zero
    stored.data = X.reshape(-1).copy()
    model = FisherGCNClassifier(scaling="none", random_state=0, **QUICK).fit(stored, partly)
    np.testing.assert_array_equal(model.predict_proba(X), model.label_distributions_)


UNKNOWN_LABELS = {
    "NaN": lambda y: np.where(y < 0, np.nan, y),
    "NaN among objects": lambda y: np.array([each if each >= 0 else np.nan for each in y], dtype=object),
    "None": lambda y: np.array([each if each >= 0 else None for each in y]),
    "None in a list": lambda y: [int(each) if each >= 0 else None for each in y],
    "missing in a column of pandas": lambda y: pytest.importorskip("pandas").array(
        [int(each) if each >= 0 else None for each in y], dtype="Int64"
    ),
}


@pytest.mark.parametrize("given", UNKNOWN_LABELS.values(), ids=UNKNOWN_LABELS)
def test_nan_and_none_are_unknown_labels(blobs, given) -> None:
    X, _, partly = blobs
    y = given(partly)
    plain = FisherGCNClassifier(random_state=0, **QUICK).fit(X, partly)
    model = FisherGCNClassifier(random_state=0, **QUICK).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(model.label_distributions_, plain.label_distributions_)
    assert model.score(X, y) == plain.score(X, partly) == labeled_scorer()(model, X, y) > 0.9


@pytest.mark.parametrize("unknown", [None, np.nan])
@pytest.mark.parametrize("form", [list, lambda y: np.array(y, dtype=object)])
def test_unknown_labels_beside_text(blobs, unknown, form) -> None:
    X, y, partly = blobs
    labels = form([unknown if code < 0 else "abc"[code] for code in partly])
    model = FisherGCNClassifier(random_state=0, **QUICK).fit(X, labels)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert (model.transduction_ == np.array(list("abc"))[y]).mean() > 0.95
    assert model.score(X, labels) > 0.9


def test_labels_that_are_refused(blobs) -> None:
    X, _, _ = blobs
    with pytest.raises(InputError, match="text that holds 'nan'; for unknown classes use dtype=object and the number"):
        FisherGCNClassifier(**QUICK).fit(X, np.array(["a"] * 89 + [np.nan]))
    with pytest.raises(InputError, match="at least one known class"):
        FisherGCNClassifier(**QUICK).fit(X, [None] * 90)


def test_a_graph_may_come_from_other_libraries(blobs) -> None:
    X, _, partly = blobs
    links = sparse.csr_array(sparse.diags_array([2.0, 2.0], offsets=[-1, 1], shape=(90, 90)))
    own = fishergcn.Graph(links, features=np.eye(90), labels=np.zeros(90, dtype=int))
    forms = [own, pytest.importorskip("networkx").from_scipy_sparse_array(links)]
    pytest.importorskip("torch_geometric")
    forms.append(own.to_pyg())
    forms[-1].y = forms[-1].y / 2  # no classes: features and labels are those of X and y
    plain = FisherGCNClassifier(links, random_state=0, **QUICK).fit(X, partly)
    for graph in forms:
        model = clone(FisherGCNClassifier(graph, random_state=0, **QUICK)).fit(X, partly)
        np.testing.assert_array_equal(model.graph_.toarray(), links.toarray())
        np.testing.assert_array_equal(model.label_distributions_, plain.label_distributions_)


def test_the_score_counts_known_classes_only(blobs) -> None:
    X, y, partly = blobs
    model = FisherGCNClassifier(random_state=0, **QUICK).fit(X, partly)
    known = partly >= 0
    assert model.score(X, partly) == model.score(X[known], y[known]) > 0.9
    weights = np.arange(90.0)
    assert model.score(X, partly, weights) == model.score(X[known], y[known], weights[known])


def test_text_labels_need_an_array_of_objects(blobs) -> None:
    X, y, partly = blobs
    names = np.array(["Birnen", "Kirschen", "Äpfel"], dtype=object)
    labels = np.where(partly >= 0, names[y], -1)
    model = FisherGCNClassifier(random_state=0, **QUICK).fit(X, labels)
    assert model.classes_.tolist() == names.tolist()
    assert (model.transduction_ == names[y]).mean() > 0.95
    with pytest.raises(InputError, match="use dtype=object and the number -1"):
        FisherGCNClassifier(**QUICK).fit(X, labels.astype(str))
    with pytest.raises(InputError, match="at least one known class"):
        FisherGCNClassifier(**QUICK).fit(X, np.full(90, -1))


def test_held_out_labels_stop_the_training(blobs) -> None:
    X, _, partly = blobs
    options = {**QUICK, "max_epochs": 400}
    model = FisherGCNClassifier(validation_fraction=0.3, patience=5, random_state=0, **options).fit(X, partly)
    assert model.n_iter_ < 400
    assert len(model.validation_curve_) == model.n_iter_


def test_all_labels_are_learned_from_without_validation(blobs) -> None:
    """The spare validation node of the estimator changes nothing: a node of the graph can stand in for it."""
    X, _, partly = blobs
    model = FisherGCNClassifier(scaling="none", dropout=0.0, random_state=0, **QUICK).fit(X, partly)
    assert model.graph_.shape == (90, 90)
    labels = partly.copy()
    labels[89] = 1
    graph = fishergcn.Graph(model.graph_, X, labels, name="estimator")
    split = fishergcn.splits.Split("all-labels", np.arange(18), np.array([89]), np.array([], dtype=int))
    config = fishergcn.TrainConfig(**QUICK, dropout=0.0, stopping="none", scaling="none")
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    [record] = fishergcn.train(graph, "gcn", split, [seed], config, keep_weights=True)
    np.testing.assert_allclose(model.loss_curve_, record.curves["train_loss"], rtol=1e-4)
    for ours, theirs in zip(model.weights_.values(), record.weights.values(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


@pytest.mark.parametrize("scaling", ["global", "columns", "rows", "none"])
def test_sparse_features_give_what_dense_ones_do_up_to_centering(scaling) -> None:
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 8), density=0.4, rng=rng, format="csr")
    y = np.where(np.arange(60) < 20, rng.integers(2, size=60), -1)
    # Dropout draws one number per stored entry, so that it differs.
    model = FisherGCNClassifier(scaling=scaling, random_state=0, dropout=0.0, **QUICK).fit(X, y)
    if scaling in ("rows", "none"):
        dense = FisherGCNClassifier(scaling=scaling, random_state=0, dropout=0.0, **QUICK).fit(X.toarray(), y)
        np.testing.assert_allclose(model.predict_proba(X), dense.predict_proba(X.toarray()), atol=1e-4)
    else:
        scaled = model._scaling.apply(X).toarray()[:, :-1]
        squares = (scaled**2).mean(axis=0)
        np.testing.assert_allclose(squares.mean() if scaling == "global" else squares, 1.0)


def test_dense_features_are_centered_and_scaled(blobs) -> None:
    X, _, partly = blobs
    for scaling in ("global", "columns"):
        seen = FisherGCNClassifier(scaling=scaling, **QUICK).fit(X, partly)._scaling.apply(X)
        np.testing.assert_array_equal(seen[:, -1], 1.0)
        seen = seen[:, :-1]
        np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-12)
        deviations = np.sqrt((seen**2).mean(axis=0))
        np.testing.assert_allclose(np.sqrt((deviations**2).mean()) if scaling == "global" else deviations, 1)


def test_it_works_in_a_pipeline_a_search_and_a_file(blobs) -> None:
    X, _, partly = blobs
    pipeline = make_pipeline(StandardScaler(), FisherGCNClassifier(random_state=0, **QUICK))
    search = GridSearchCV(pipeline, {"fishergcnclassifier__radius": [0.0, 0.5]}, cv=2, n_jobs=1, error_score="raise")
    search.fit(X, partly)
    assert search.best_score_ > 0.9
    file = io.BytesIO()
    joblib.dump(search.best_estimator_, file)
    file.seek(0)
    restored = joblib.load(file)
    np.testing.assert_array_equal(restored.predict_proba(X), search.predict_proba(X))
    copied = clone(search.best_estimator_[-1])
    assert not hasattr(copied, "weights_")
    assert copied.get_params() == search.best_estimator_[-1].get_params()


def test_a_given_graph_does_not_follow_a_search(blobs) -> None:
    X, y, _ = blobs
    graph = sparse.csr_array(sparse.eye_array(90, k=1) + sparse.eye_array(90, k=-1))
    message = "has rows, 60, got 90; cross-validation takes rows out of X but not out of graph: hidden_label_scores"
    with pytest.raises(InputError, match=message):
        cross_val_score(FisherGCNClassifier(graph=graph, **QUICK), X, y, cv=3, error_score="raise")


@pytest.mark.parametrize("kind", ["integers", "text", "NaN", "unsigned"])
def test_labels_are_hidden_fold_by_fold(blobs, kind) -> None:
    """All rows stay: what is fitted and asked is what a loop over the folds would."""
    X, y, partly = blobs
    graph = FisherGCNClassifier(**QUICK).fit(X, partly).graph_
    estimator = FisherGCNClassifier(graph, random_state=0, **QUICK)
    partly = y.copy() if kind in ("unsigned", "text") else np.where(np.arange(90) < 45, y, -1)
    labeled, expected = np.flatnonzero(partly >= 0), []
    for _, fold in StratifiedKFold(3).split(labeled, partly[labeled]):
        hidden, test = partly.copy(), labeled[fold]
        hidden[test] = -1
        found = clone(estimator).fit(X, hidden).transduction_
        expected.append(f1_score(y[test], found[test], average="macro"))
    forms = {"unsigned": partly.astype(np.uint8), "text": np.array(list("abc"))[partly]}
    given = forms.get(kind, np.where(partly < 0, np.nan, partly) if kind == "NaN" else partly)
    np.testing.assert_allclose(hidden_label_scores(estimator, X, given, cv=3, scoring="f1_macro"), expected)
    assert not hasattr(estimator, "model_")


def test_more_neighbors_than_rows_are_announced(blobs) -> None:
    X, _, partly = blobs
    with pytest.warns(UserWarning, match="n_neighbors is 500, but a row of X has only 89 others: all rows are linked"):
        model = FisherGCNClassifier(n_neighbors=500, **QUICK).fit(X, partly)
    assert model.graph_.nnz == 90 * 89
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FisherGCNClassifier(n_neighbors=89, method="gcn", **QUICK).fit(X, partly)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gcm"}, "did you mean 'gcn'"),
        ({"scaling": "row"}, "scaling must be one of"),
        ({"graph": "nn"}, "graph must be one of 'knn'"),
        ({"graph": np.zeros((3, 3))}, "as many nodes as X has rows, 90, got 3"),
        ({"n_neighbors": 0}, "n_neighbors must be at least 1"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"validation_fraction": 1.0}, "validation_fraction must be greater than 0.0 and less than 1.0"),
        ({"device": "abacus"}, "device must be"),
    ],
)
def test_parameters_are_checked_in_fit(blobs, options, message) -> None:
    X, _, partly = blobs
    model = FisherGCNClassifier(**options)
    with pytest.raises(InputError, match=message):
        model.fit(X, partly)


def test_divergence_is_an_error(blobs) -> None:
    X, _, partly = blobs
    with np.errstate(all="ignore"), pytest.raises(ConvergenceError, match="training diverged"):
        FisherGCNClassifier(**{**QUICK, "learning_rate": 1e30}).fit(X, partly)


def test_a_network_without_the_graph(blobs) -> None:
    """It says the same of a row whatever is linked to it."""
    X, _, partly = blobs
    model = FisherGCNClassifier(method="mlp", random_state=0, **QUICK).fit(X, partly)
    np.testing.assert_allclose(model.predict_proba(X), model.label_distributions_, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X[:3], sparse.csr_array((3, 90))), model.predict_proba(X[:3]))


@pytest.mark.parametrize("method", ["lp", "majority"])
def test_methods_that_train_nothing(blobs, method) -> None:
    X, y, partly = blobs
    model = FisherGCNClassifier(method=method).fit(X, partly)
    assert (model.weights_, model.n_iter_, model.loss_curve_) == ({}, 0, [])
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    if method == "lp":
        assert (model.transduction_ == y).mean() > 0.95
        assert (model.predict(X + 1e-6) == y).mean() > 0.95
    with pytest.raises(InputError, match="trains no network: it has no use for node_weight"):
        FisherGCNClassifier(method=method, class_weight="balanced").fit(X, partly)
