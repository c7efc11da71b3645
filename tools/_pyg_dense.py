"""The dense side of the checks of the add-on for PyTorch Geometric, which shares no code with the package.

L comes from the links by hand, its eigenpairs from ``numpy.linalg.eigh``, c from the formula; a copy of a layer has a
``propagate`` that subtracts the dense matrix U diag(c) Uᵀ times its input.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric import nn as pyg
from torch_geometric.data import Data

from fishergcn.integrations.pyg import BuresAdversary

NODES, WIDTH, CLASSES, RANK = 24, 4, 3, 5


def graph(seed: int = 0, nodes: int = NODES, density: float = 0.25) -> Data:
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((nodes, nodes)) < density, 1)
    links[np.arange(nodes - 1), np.arange(1, nodes)] = True  # connected
    arcs = np.stack(np.nonzero(links | links.T))
    x = torch.tensor(rng.standard_normal((nodes, WIDTH)))
    y = torch.tensor(rng.integers(CLASSES, size=nodes))
    return Data(x=x, edge_index=torch.tensor(arcs), y=y, num_nodes=nodes)


def dense_correction(data: Data, phi: Tensor, self_links: int = 1, weight: Tensor | None = None) -> Tensor:
    """U diag(c) Uᵀ of one graph, by hand."""
    nodes = int(data.num_nodes)
    adjacency = np.zeros((nodes, nodes))
    adjacency[data.edge_index[1], data.edge_index[0]] = 1.0 if weight is None else weight.numpy()
    adjacency += self_links * np.eye(nodes)
    root = 1 / np.sqrt(adjacency.sum(axis=1))
    values, vectors = np.linalg.eigh(np.eye(nodes) - root[:, None] * adjacency * root)
    w, u = values[::-1][: len(phi)], vectors[:, ::-1][:, : len(phi)]
    share = w / w.sum()
    moved = share * np.exp(phi.detach().numpy())
    c = w.sum() * (moved / moved.sum() - share)
    return torch.tensor(u @ np.diag(c) @ u.T)


def dense_copy(module: nn.Module, correction: Tensor) -> nn.Module:
    """Copy a model and let each of its layers subtract the dense correction in ``propagate``."""
    copied = copy.deepcopy(module)
    for layer in copied.modules():
        if isinstance(layer, pyg.MessagePassing):
            layer.propagate = _dense_propagate(
                layer, correction, "value" if isinstance(layer, pyg.TransformerConv) else "x"
            )
    return copied


def _dense_propagate(layer: Any, correction: Tensor, argument: str) -> Callable[..., Tensor]:
    plain = layer.propagate

    def propagate(edge_index: Any, size: Any = None, **given: Any) -> Tensor:
        x = given[argument]
        x = (x[0] if isinstance(x, tuple | list) else x).movedim(layer.node_dim, 0)
        product = (correction.to(x) @ x.flatten(1)).view(-1, *x.shape[1:])
        out: Tensor = plain(edge_index, size=size, **given)
        return out - product.movedim(0, layer.node_dim)

    return propagate


class Net(nn.Module):
    def __init__(self, layer: type[nn.Module] = pyg.GCNConv, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = layer(WIDTH, 8, **options), layer(8, CLASSES, **options)
        self.double()

    def forward(self, x: Tensor, *links: Tensor) -> Tensor:
        return self.second(self.first(x, *links).relu(), *links)


def loss_of(model: nn.Module, data: Data) -> Tensor:
    return cross_entropy(model(data.x, data.edge_index).to(torch.float64), data.y)


def against_dense(
    model: nn.Module,
    run: Callable[[], Tensor],
    adversary: BuresAdversary,
    corrections: Callable[[Tensor], Tensor],
    *inputs: Any,
) -> float:
    """Return the largest deviation of a pass, ``run``, with an attached adversary."""
    phi = adversary.draw()[0].detach()
    with adversary.perturbed(phi):
        found = run()
    adversary.detach()
    expected = dense_copy(model, corrections(phi))(*inputs)
    return float((found - expected).detach().abs().max())
