"""The network: features, dropout, layers, and what a set of nodes sees of the graph."""

from __future__ import annotations

from fishergcn.nn._activation import words_per_node
from fishergcn.nn._features import DenseFeatures, SparseFeatures, make_features
from fishergcn.nn._gcn import GCN, Dropout, layer_sizes, logits
from fishergcn.nn._layerwise import layerwise_logits, reach
from fishergcn.nn._linear import times_weight
from fishergcn.nn._view import Features, Operator, View, full_view, local_view

__all__ = [
    "GCN",
    "DenseFeatures",
    "Dropout",
    "Features",
    "Operator",
    "SparseFeatures",
    "View",
    "full_view",
    "layer_sizes",
    "layerwise_logits",
    "local_view",
    "logits",
    "make_features",
    "reach",
    "times_weight",
    "words_per_node",
]
