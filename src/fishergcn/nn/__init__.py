"""Networks: what they are, features, dropout, layers, and what a set of nodes sees of the graph."""

from __future__ import annotations

from fishergcn.nn import networks as _networks
from fishergcn.nn._compiled import CompiledNetwork
from fishergcn.nn._dropout import Dropout, LocalDropout
from fishergcn.nn._family import Family, by_layer
from fishergcn.nn._features import make_features, ready_features
from fishergcn.nn._gcn import GCN, layer_sizes, logits
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
from fishergcn.nn._scaling import FeatureScaling
from fishergcn.nn._view import Features, View, blockwise_view, full_view, local_view

__all__ = [
    "GCN", "Base", "CompiledNetwork", "Dropout", "Family", "FeatureScaling", "Features", "LocalDropout", "Network",
    "Parameter", "Role", "Rule", "View", "bases", "blockwise_view", "by_layer", "find_base", "find_network",
    "full_view", "layer_sizes", "load_plugins", "local_view", "logits", "make_features", "outside_modules",
    "ready_features",
    "register", "unregister",
]  # fmt: skip
