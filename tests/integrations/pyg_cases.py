"""Graphs and models that the tests of the add-on share."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

NODES, FEATURES, CLASSES = 30, 5, 3


def random_data(seed: int = 0, nodes: int = NODES, density: float = 0.15, dtype: torch.dtype = torch.float64) -> Data:
    """A random graph whose nodes have features and labels; it may have isolated nodes."""
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((nodes, nodes)) < density, 1)
    arcs = np.stack(np.nonzero(links | links.T))
    return Data(
        x=torch.tensor(rng.standard_normal((nodes, FEATURES)), dtype=dtype),
        edge_index=torch.tensor(arcs),
        y=torch.tensor(rng.integers(CLASSES, size=nodes)),
        num_nodes=nodes,
    )


class Net(nn.Module):
    """Two layers, in float64."""

    def __init__(self, layer: type[nn.Module] = GCNConv, dropout: float = 0.0, **options: object) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = layer(FEATURES, 8, **options)
        self.second = layer(8, CLASSES, **options)
        self.dropout = dropout
        self.double()

    def forward(self, x: torch.Tensor, *links: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(self.first(x, *links).relu(), self.dropout, self.training)
        return self.second(x, *links)


def loss_of(model: nn.Module, data: Data) -> torch.Tensor:
    return functional.cross_entropy(model(data.x, data.edge_index), data.y)


def dense_net(model: Net, x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """A Net of GCNConv on a dense propagation matrix."""
    hidden = (matrix @ model.first.lin(x) + model.first.bias).relu()
    return matrix @ model.second.lin(hidden) + model.second.bias
