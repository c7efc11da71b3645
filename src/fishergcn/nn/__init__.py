"""The network: features, dropout, layers, and what a set of nodes sees of the graph."""

from __future__ import annotations

from fishergcn.nn._dropout import Dropout, LocalDropout
from fishergcn.nn._features import DenseFeatures, SparseFeatures, make_features
from fishergcn.nn._gcn import GCN, layer_sizes, logits
from fishergcn.nn._linear import times_weight
from fishergcn.nn._scaling import FeatureScaling
from fishergcn.nn._view import Features, View, blockwise_view, full_view, local_view

__all__ = [
    "GCN", "DenseFeatures", "Dropout", "FeatureScaling", "Features", "LocalDropout", "SparseFeatures", "View",
    "blockwise_view", "full_view", "layer_sizes", "local_view", "logits", "make_features", "times_weight",
]  # fmt: skip
