"""A number of each node, as an estimator of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fishergcn._base.imports import require
from fishergcn._base.tensors import check_outputs
from fishergcn._base.types import FloatArray
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.integrations.sklearn._classifier import FisherGCNClassifier
from fishergcn.integrations.sklearn._table import Scaling

if TYPE_CHECKING:
    from typing_extensions import Self

_PURPOSE = {"extra": "sklearn", "purpose": "FisherGCNRegressor"}
metrics: Any = require("sklearn.metrics", **_PURPOSE)
tags_module: Any = require("sklearn.utils", **_PURPOSE)
validation: Any = require("sklearn.utils.validation", **_PURPOSE)


class FisherGCNRegressor(FisherGCNClassifier):
    """A number of each node, by the same networks on the same graphs as :class:`FisherGCNClassifier` has for classes.

    Transductive: :meth:`fit` takes all nodes, with NaN for those whose number is unknown, and ``transduction_`` holds
    the numbers of all of them. Parameters are those of :class:`FisherGCNClassifier`, but for ``class_weight``, which
    must be None; with ``coverage``, numbers are set aside for :meth:`predict_interval`.

    Attributes
    ----------
    transduction_ : ndarray of shape (n_samples,)
        The predicted number of each fitted row, those with known numbers included.
    model_ : TrainedModel
        The network with its graph and scaled features.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> y = np.where(np.arange(80) < 40, X[:, 0], np.nan)
    >>> model = FisherGCNRegressor(method="mlp", random_state=0).fit(X, y)
    >>> bool(np.corrcoef(model.transduction_[40:], X[40:, 0])[0, 1] > 0.9)
    True
    """

    _estimator_type = "regressor"
    _usual_dropout = 0.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from the rows with a number, and from the graph between all rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            All nodes.
        y : array of shape (n_samples,)
            Their numbers; NaN where unknown.
        sample_weight : array of shape (n_samples,), optional
            How much each number counts.

        Returns
        -------
        FisherGCNRegressor
            Itself.
        """
        config = self._config()
        if self.class_weight is not None:
            raise InputError("class_weight must be None where numbers are predicted, since there are no classes.")
        X = validation.validate_data(self, X, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2)
        values = _numbers(y, X.shape[0])
        weight: FloatArray | None = None
        if sample_weight is not None:
            given = validation._check_sample_weight(sample_weight, X, dtype=np.float64)
            weight = np.where(np.isfinite(values), given, 0.0)
        self._link(X)
        self._scaling = Scaling.learn(X, self.scaling)
        graph = Graph(self.graph_, self._scaling.apply(X), values, name="estimator", task="regression")
        self._keep(self._trained(graph, config, weight))
        self.transduction_ = self._precise.predict()
        return self

    def predict(self, X: Any, links: Any = None) -> FloatArray:
        """Return the number of new or fitted nodes; arguments as in :meth:`FisherGCNClassifier.predict_proba`."""
        return self._precise.answered(check_outputs(self._logits(X, links))[:, 0].double().cpu().numpy())[:, 0]

    def predict_interval(self) -> FloatArray:
        """Return an interval around the number of each fitted row, (n_samples, 2), which holds it as often as promised.

        ``coverage`` is promised, as by :meth:`fishergcn.TrainedModel.predict_interval`; new rows have no intervals.
        """
        validation.check_is_fitted(self)
        if self.coverage is None:
            raise InputError("coverage must be given, such as 0.9, so that numbers are set aside for intervals.")
        return self.model_.predict_interval(self.coverage)

    def predict_proba(self, X: Any, links: Any = None) -> FloatArray:
        """Refuse: a number has no probabilities."""
        raise AttributeError("a number has no probabilities: use predict.")

    def decision_function(self, X: Any, links: Any = None) -> FloatArray:
        """Refuse: a number has no decision function."""
        raise AttributeError("a number has no decision function: use predict.")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of :meth:`predict` on the rows whose number is known."""
        values = _numbers(y, X.shape[0])
        known = np.isfinite(values)
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(metrics.r2_score(values[known], self.predict(X)[known], sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "regressor", None
        tags.regressor_tags = tags_module.RegressorTags()
        return tags


def _numbers(y: Any, rows: int) -> FloatArray:
    """Return numbers in float64, NaN for None."""
    try:
        found: FloatArray = np.asarray(y, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise InputError("y must hold a number for each row, NaN where it is unknown.") from None
    if len(found) != rows or np.isinf(found).any() or not np.isfinite(found).any():
        raise InputError(f"y must hold a finite number or NaN for each of the {rows} rows, at least one known.")
    return found
