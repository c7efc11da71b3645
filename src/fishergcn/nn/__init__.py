"""Networks: what they are, features, dropout, layers, and what a set of nodes sees of the graph."""

from __future__ import annotations

from fishergcn.nn import networks as _networks
from fishergcn.nn._activation import relu_dropout, words_per_node
from fishergcn.nn._compiled import CompiledNetwork
from fishergcn.nn._dropout import Dropout, LocalDropout, MappedDropout
from fishergcn.nn._family import Family, by_layer, norms_of
from fishergcn.nn._features import make_features, ready_features, with_links
from fishergcn.nn._gcn import GCN, logits
from fishergcn.nn._layer import times_weight
from fishergcn.nn._network import (
    Base,
    Network,
    Parameter,
    Role,
    Rule,
    bases,
    find_base,
    find_network,
    load_plugins,
    outside_modules,
    register,
    unregister,
)
from fishergcn.nn._norm import Norm, moving_averages
from fishergcn.nn._scaling import FeatureScaling
from fishergcn.nn._view import Features, View, blockwise_view, full_view, local_view

__all__ = [
    "GCN", "Family", "Network", "Parameter", "Rule", "View", "bases", "find_network", "make_features", "register",
    "unregister",
]  # fmt: skip

SHARED = (
    "Base", "CompiledNetwork", "Dropout", "FeatureScaling", "Features", "LocalDropout", "MappedDropout", "Norm",
    "Role", "blockwise_view", "by_layer", "find_base", "full_view", "load_plugins", "local_view", "logits",
    "moving_averages", "norms_of", "outside_modules", "ready_features", "relu_dropout", "times_weight", "with_links",
    "words_per_node",
)  # fmt: skip
