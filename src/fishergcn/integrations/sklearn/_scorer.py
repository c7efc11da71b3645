"""Scores over the rows whose class is known, for scikit-learn's searches and validation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fishergcn._base.imports import require
from fishergcn._base.types import AnyArray
from fishergcn.integrations.sklearn._table import known_labels, marked

metrics: Any = require("sklearn.metrics", extra="sklearn", purpose="labeled_scorer")


def labeled_scorer(scoring: str | Callable[..., float] = "accuracy") -> Callable[..., float]:
    """Return a scorer that leaves out the rows whose label is -1, unknown.

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
