"""FisherGCN: graph convolutional networks trained in a Fisher-Bures neighborhood of their graph."""

from __future__ import annotations

from fishergcn import datasets, splits
from fishergcn._version import __version__
from fishergcn.graph import Graph
from fishergcn.nn.gcn import GCN
from fishergcn.perturbation import Neighborhood, SparsePlusLowRank, SpectralAdversary
from fishergcn.propagation import high_order, renormalized
from fishergcn.spectrum import Spectrum, top_spectrum
from fishergcn.training import METHODS, RunRecord, TrainConfig, train

__all__ = [
    "GCN",
    "METHODS",
    "Graph",
    "Neighborhood",
    "RunRecord",
    "SparsePlusLowRank",
    "SpectralAdversary",
    "Spectrum",
    "TrainConfig",
    "__version__",
    "datasets",
    "high_order",
    "renormalized",
    "splits",
    "top_spectrum",
    "train",
]
