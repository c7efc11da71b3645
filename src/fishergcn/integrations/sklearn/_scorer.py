"""Scores over the rows whose class is known, for scikit-learn's searches and validation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fishergcn._base.imports import require
from fishergcn._base.types import AnyArray, FloatArray
from fishergcn.integrations.sklearn._table import UNKNOWN, known_labels, marked

base: Any = require("sklearn.base", extra="sklearn", purpose="hidden_label_scores")
metrics: Any = require("sklearn.metrics", extra="sklearn", purpose="labeled_scorer")
selection: Any = require("sklearn.model_selection", extra="sklearn", purpose="hidden_label_scores")


def labeled_scorer(scoring: str | Callable[..., float] = "accuracy") -> Callable[..., float]:
    """Return a scorer that leaves out the rows whose label is unknown: -1, NaN or None.

    scikit-learn's own scorers take -1 for one more class, which no prediction ever hits.

    Parameters
    ----------
    scoring : str or scorer
        What scikit-learn's ``scoring`` takes: a name such as ``"balanced_accuracy"``, ``"f1_macro"``,
        ``"neg_log_loss"`` or ``"roc_auc_ovr"``, or what :func:`sklearn.metrics.make_scorer` returns.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``, for ``cross_val_score``, ``GridSearchCV`` and the like. The estimator predicts for
        all rows of X, so that one with a graph of its own can be asked about the rows it was fitted on.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = np.zeros((4, 1)), np.array([1, 1, 0, -1])
    >>> model = DummyClassifier().fit(X, [1, 1, 1, 0])
    >>> labeled_scorer("recall")(model, X, y), labeled_scorer()(model, X, y).__round__(2)
    (1.0, 0.67)
    """
    return functools.partial(_score, metrics.get_scorer(scoring) if isinstance(scoring, str) else scoring)


def hidden_label_scores(
    estimator: Any, X: Any, y: Any, *, cv: Any = 5, scoring: str | Callable[..., float] = "accuracy"
) -> FloatArray:
    """Cross-validate by hiding labels: all rows stay in the fit, so that a given graph keeps its nodes.

    ``cross_val_score`` takes rows out of X, and a given graph does not follow. Here the labels of a fold are unknown in
    the fit, and the score is that of the predictions for its rows.

    Parameters
    ----------
    estimator : estimator
        A semi-supervised one, for which -1 is an unknown class; a copy is fitted for each fold.
    X, y : array or sparse matrix of shape (n_samples, n_features), array of shape (n_samples,)
        All rows, and their labels; -1, NaN or None where unknown.
    cv : int, splitter or iterable
        As in :func:`sklearn.model_selection.cross_val_score`, over the rows whose label is known.
    scoring : str or scorer
        As in :func:`labeled_scorer`.

    Returns
    -------
    ndarray of shape (folds,)
        The score of each fold.

    Examples
    --------
    >>> from sklearn.semi_supervised import LabelSpreading
    >>> X = np.r_[0:10, 50:60][:, None]
    >>> y = np.where(np.arange(20) % 2, -1, X[:, 0] >= 50)
    >>> hidden_label_scores(LabelSpreading("knn", n_neighbors=3), X, y, cv=2).tolist()
    [1.0, 1.0]
    """
    y = np.asarray(marked(y))
    if y.dtype.kind in "USbu":  # which -1 does not fit in
        y = y.astype(object if y.dtype.kind in "US" else np.int64)
    known, scores = np.flatnonzero(known_labels(y)), []
    for _, fold in selection.check_cv(cv, y[known], classifier=True).split(known, y[known]):
        hidden, asked = y.copy(), np.full_like(y, UNKNOWN)
        hidden[known[fold]], asked[known[fold]] = UNKNOWN, y[known[fold]]
        scores.append(labeled_scorer(scoring)(base.clone(estimator).fit(X, hidden), X, asked))
    return np.array(scores)


def _score(scorer: Callable[..., float], estimator: Any, X: Any, y: Any, **options: Any) -> float:
    y = np.asarray(marked(y))
    known = known_labels(y)
    weight = options.pop("sample_weight", None)
    if weight is not None:
        options["sample_weight"] = np.asarray(weight)[known]
    return float(scorer(_Known(estimator, known), X, y[known], **options))


class _Known:
    """An estimator that answers for all rows and hands out those of known class."""

    def __init__(self, estimator: Any, known: AnyArray) -> None:
        self._estimator, self._known = estimator, known

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._estimator, name)
        if name not in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            return found
        # Under the name of the method, which scikit-learn looks up by it.
        return functools.wraps(found)(lambda X: found(X)[self._known])
