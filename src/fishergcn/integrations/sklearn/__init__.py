"""FisherGCN as an estimator of scikit-learn."""

from __future__ import annotations

from fishergcn.integrations.sklearn._classifier import FisherGCNClassifier

__all__ = ["FisherGCNClassifier"]
