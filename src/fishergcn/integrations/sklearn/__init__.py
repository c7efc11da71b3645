"""FisherGCN as an estimator of scikit-learn."""

from __future__ import annotations

from fishergcn.integrations.sklearn._classifier import FisherGCNClassifier
from fishergcn.integrations.sklearn._regressor import FisherGCNRegressor
from fishergcn.integrations.sklearn._scorer import hidden_label_scores, labeled_scorer

__all__ = ["FisherGCNClassifier", "FisherGCNRegressor", "hidden_label_scores", "labeled_scorer"]
