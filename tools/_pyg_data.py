"""Kinds of data and batches for the add-on for PyTorch Geometric: the deviation of each from a dense computation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch_geometric.transforms as T
from _pyg_dense import CLASSES, RANK, WIDTH, Net, against_dense, dense_copy, dense_correction, graph, loss_of
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader, RandomNodeLoader

from fishergcn.integrations.pyg import AddBuresSpectrum, BuresAdversary


def of_weights(kind: str) -> Callable[[], float]:
    def find() -> float:
        data, model, inside = graph(), Net(normalize=kind != "GCNNorm"), None
        weight = 0.5 + (data.edge_index.sum(dim=0) % 5).double()
        if kind == "edge_attr":
            data.edge_attr = weight
            adversary, links = BuresAdversary(data, RANK, 1.0), (data.edge_index, weight)
        elif kind == "GCNNorm":
            data.edge_weight = weight
            inside = T.GCNNorm()(data)
            adversary = BuresAdversary(inside, RANK, 1.0, normalize=False)
            links = (inside.edge_index, inside.edge_weight)
        else:
            data.edge_weight = weight
            inside = T.ToSparseTensor(attr="edge_weight")(data)
            adversary, links = BuresAdversary(inside, RANK, 1.0), (inside.adj_t,)
        adversary.attach(model)
        run = lambda: model(data.x, *links)  # noqa: E731
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning if kind != "adj_t" else DeprecationWarning)
            return against_dense(
                model, run, adversary, lambda phi: dense_correction(data, phi, 1, weight), data.x, *links
            )

    return find


def sparse_features() -> float:
    data, model = graph(), Net()
    data.x = data.x * (data.x > 0)
    adversary = BuresAdversary(data, RANK, 1.0).attach(model)
    run = lambda: model(data.x.to_sparse(), data.edge_index)  # noqa: E731
    return against_dense(model, run, adversary, lambda phi: dense_correction(data, phi), data.x, data.edge_index)


def stale_spectrum() -> None:
    data = AddBuresSpectrum(RANK)(graph())
    data.edge_index = graph(1).edge_index
    BuresAdversary(data)


def hetero() -> HeteroData:
    rng = np.random.default_rng(0)
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(15, WIDTH), torch.randn(10, WIDTH)
    data["paper"].y, data["author"].y = torch.randint(CLASSES, (15,)), torch.randint(CLASSES, (10,))
    arcs = torch.tensor(rng.integers((10, 15), size=(40, 2)).T)
    data["author", "writes", "paper"].edge_index = arcs
    return T.ToUndirected()(data)


def homogeneous() -> tuple[Any, Callable[[], Tensor], nn.Module]:
    data = hetero().to_homogeneous()
    data.edge_index, model = data.edge_index.unique(dim=1), Net().float()
    return BuresAdversary(data, RANK, 1.0).attach(model), lambda: loss_of(model, data), model


def to_hetero() -> None:
    data = hetero()
    model = pyg.to_hetero(nn_sage(), data.metadata())
    plain = data.to_homogeneous()
    adversary = BuresAdversary(plain, RANK).attach(model)
    adversary.average(lambda: model(data.x_dict, data.edge_index_dict)["paper"].square().mean())


def nn_sage() -> nn.Module:
    class Sage(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.SAGEConv((-1, -1), CLASSES)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(x, edge_index)

    return Sage()


def blocks(graphs: list[Data], phi: Tensor) -> Tensor:
    return torch.block_diag(*(dense_correction(each, row) for each, row in zip(graphs, phi, strict=True)))


def several_graphs(loader: bool) -> Callable[[], float]:
    def find() -> float:
        graphs = [graph(seed, 10 + 3 * seed, 0.4) for seed in range(4)]
        model = Net()
        if not loader:
            batch = Batch.from_data_list(graphs)
            adversary = BuresAdversary(batch, RANK, 1.0).attach(model)
            phi = adversary.draw()[0].detach()
            with adversary.perturbed(phi):
                found = model(batch.x, batch.edge_index)
            adversary.detach()
            expected = dense_copy(model, blocks(graphs, phi))(batch.x, batch.edge_index)
            return float((found - expected).detach().abs().max())
        stored = [AddBuresSpectrum(RANK)(each) for each in graphs]
        adversary, worst = BuresAdversary(stored, radius=1.0), 0.0
        for batch in DataLoader(stored, batch_size=3, shuffle=True):
            phi = 0.3 * torch.randn(batch.num_graphs, RANK, dtype=torch.float64)
            with adversary.attach(model), adversary.perturbed(phi, batch):
                found = model(batch.x, batch.edge_index)
            expected = dense_copy(model, blocks(batch.to_data_list(), phi))(batch.x, batch.edge_index)
            worst = max(worst, float((found - expected).detach().abs().max()))
        return worst

    return find


def random_nodes(of_batch: bool, by_number: bool = False) -> Callable[[], float]:
    def find() -> float:
        graphs = [graph(seed, 12 + seed, 0.4) for seed in range(3)] if of_batch else [graph()]
        data = Batch.from_data_list(graphs) if of_batch else graphs[0]
        data = AddBuresSpectrum(RANK)(data)
        data.number = torch.arange(data.num_nodes)
        adversary, model, worst = BuresAdversary(data, radius=1.0), Net(), 0.0
        phi = adversary.draw()[0].detach()
        whole = blocks(graphs, phi if of_batch else phi[None])
        for part in RandomNodeLoader(data, num_parts=3, shuffle=True):
            with adversary.attach(model), adversary.perturbed(phi, part.number if by_number else part):
                found = model(part.x, part.edge_index)
            expected = dense_copy(model, whole[part.number][:, part.number])(part.x, part.edge_index)
            worst = max(worst, float((found - expected).detach().abs().max()))
        return worst

    return find
