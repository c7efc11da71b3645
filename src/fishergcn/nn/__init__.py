"""The network: features, dropout, layers, and what a set of nodes sees of the graph."""

from __future__ import annotations

from fishergcn.nn._compiled import CompiledNetwork
from fishergcn.nn._dropout import Dropout, LocalDropout
from fishergcn.nn._features import make_features, ready_features
from fishergcn.nn._gcn import GCN, layer_sizes, logits
from fishergcn.nn._scaling import FeatureScaling
from fishergcn.nn._view import Features, View, blockwise_view, full_view, local_view

__all__ = [
    "GCN", "CompiledNetwork", "Dropout", "FeatureScaling", "Features", "LocalDropout", "View", "blockwise_view",
    "full_view", "layer_sizes", "local_view", "logits", "make_features", "ready_features",
]  # fmt: skip
