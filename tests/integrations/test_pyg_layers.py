"""Each layer's perturbed pass against the same mathematics on the dense perturbed matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fishergcn

pytest.importorskip("torch_geometric")
from torch_geometric import nn as pyg
from torch_geometric.data import Data

from fishergcn.integrations.pyg import BuresAdversary

NODES, WIDTH = 25, 4


@pytest.fixture
def data() -> Data:
    rng = np.random.default_rng(11)
    links = np.triu(rng.random((NODES, NODES)) < 0.2, 1)
    graph = fishergcn.Graph(links + links.T, features=rng.standard_normal((NODES, WIDTH)))
    data = graph.to_pyg()
    data.x = data.x.double()
    return data


def full(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A dense symmetric matrix as arcs and weights."""
    pairs = torch.cartesian_prod(torch.arange(NODES), torch.arange(NODES)).T
    return pairs, matrix.flatten()


def on_dense_graph(kind: type[Any], *arguments: Any, **options: Any) -> tuple[Any, Callable[..., torch.Tensor]]:
    """A layer that normalizes its graph, and the same layer on a matrix taken as it is."""
    layer = kind(*arguments, **options).double()
    bare = kind(*arguments, normalize=False, **options).double()
    bare.load_state_dict(layer.state_dict())
    return layer, lambda *x, matrix: bare(*x, *full(matrix))


def powers(layer: Any) -> Callable[..., torch.Tensor]:
    return lambda x, matrix: layer.lin(torch.linalg.matrix_power(matrix, layer.K) @ x)


def mixed(layer: Any) -> Callable[..., torch.Tensor]:
    return lambda x, matrix: (
        torch.cat([layer.lins[p](torch.linalg.matrix_power(matrix, p) @ x) for p in layer.powers], -1) + layer.bias
    )


def simple_spectral(layer: Any) -> Callable[..., torch.Tensor]:
    def run(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        total = layer.alpha * x
        for power in range(1, layer.K + 1):
            total = total + (1 - layer.alpha) / layer.K * torch.linalg.matrix_power(matrix, power) @ x
        return layer.lin(total)

    return run


def cases() -> list[Any]:
    torch.manual_seed(0)
    found = [
        ("GCNConv", 1, *on_dense_graph(pyg.GCNConv, WIDTH, 3)),
        ("GCNConv-improved", 2, pyg.GCNConv(WIDTH, 3, improved=True, cached=True).double(), None),
        ("GCNConv-no-loops", 0, pyg.GCNConv(WIDTH, 3, add_self_loops=False).double(), None),
        ("APPNP", 1, *on_dense_graph(pyg.APPNP, K=3, alpha=0.2)),
        ("TAGConv", 0, *on_dense_graph(pyg.TAGConv, WIDTH, 3, K=3)),
        ("LGConv", 0, pyg.LGConv(), lambda x, matrix: matrix @ x),
    ]
    found = [(name, loops, layer, run or (lambda x, matrix, layer=layer: matrix @ layer.lin(x) + layer.bias))
             for name, loops, layer, run in found]  # fmt: skip
    for kind, reference, options in (
        (pyg.SGConv, powers, {"K": 3}),
        (pyg.SSGConv, simple_spectral, {"K": 3, "alpha": 0.1}),
        (pyg.MixHopConv, mixed, {"powers": [0, 1, 2]}),
    ):
        layer = kind(WIDTH, out_channels=3, **options).double()
        found.append((kind.__name__, 1, layer, reference(layer)))
    return [pytest.param(*case[1:], id=case[0]) for case in found]


@pytest.mark.parametrize(("self_links", "layer", "reference"), cases())
def test_a_layer_that_multiplies_with_the_normalized_graph(data, self_links, layer, reference) -> None:
    adversary = BuresAdversary(data, rank=5, radius=1.0, self_links=self_links)
    layer(data.x, data.edge_index)  # fills a cache, which must not keep a perturbation
    phi = adversary.draw()[0]
    with adversary.attach(layer), adversary.perturbed(phi):
        result = layer(data.x, data.edge_index)
    operator = adversary.neighborhood.operator(phi)
    torch.testing.assert_close(result, reference(data.x, matrix=operator.to_dense()), rtol=0, atol=1e-12)
    plain = adversary.neighborhood.operator().to_dense()
    torch.testing.assert_close(layer(data.x, data.edge_index), reference(data.x, matrix=plain), rtol=0, atol=1e-12)
    assert (result - layer(data.x, data.edge_index)).abs().max() > 1e-3


def test_gcn2_on_the_dense_matrix(data) -> None:
    layer, reference = on_dense_graph(pyg.GCN2Conv, WIDTH, alpha=0.3, theta=0.5, layer=2)
    adversary = BuresAdversary(data, rank=5, radius=1.0).attach(layer)
    phi, start = adversary.draw()[0].requires_grad_(), torch.flip(data.x, (0,))
    with adversary.perturbed(phi):
        result = layer(data.x, start, data.edge_index)
    expected = reference(data.x, start, matrix=adversary.neighborhood.operator(phi).to_dense())
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)
    got, want = (torch.autograd.grad(each.square().sum(), phi)[0] for each in (result, expected))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


OTHERS = {
    "SAGEConv": (lambda: pyg.SAGEConv(WIDTH, 3), lambda layer, z: layer.lin_l.weight @ z.T),
    "SAGEConv-sum": (lambda: pyg.SAGEConv(WIDTH, 3, aggr="sum"), lambda layer, z: layer.lin_l.weight @ z.T),
    "GraphConv": (lambda: pyg.GraphConv(WIDTH, 3), lambda layer, z: layer.lin_rel.weight @ z.T),
    "GINConv": (lambda: pyg.GINConv(torch.nn.Linear(WIDTH, 3)), lambda layer, z: layer.nn.weight @ z.T),
    "ClusterGCNConv": (lambda: pyg.ClusterGCNConv(WIDTH, 3), lambda layer, z: layer.lin_out.weight @ z.T),
    "FAConv": (lambda: pyg.FAConv(WIDTH), lambda layer, z: z.T),
    "AGNNConv": (pyg.AGNNConv, lambda layer, z: z.T),
    "SimpleConv": (lambda: pyg.SimpleConv(aggr="mean"), lambda layer, z: z.T),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_same_correction_is_added_to_other_sums_and_means(data, name) -> None:
    """The layer's output moves by the image of -Ū diag(c) Ūᵀ x, whatever its own weights are."""
    torch.manual_seed(0)
    make, image = OTHERS[name]
    layer = make().double()
    adversary = BuresAdversary(data, rank=5, radius=1.0).attach(layer)
    phi = adversary.draw()[0]
    inputs = (data.x, data.x, data.edge_index) if name == "FAConv" else (data.x, data.edge_index)
    with adversary.perturbed(phi):
        result = layer(*inputs)
    basis, c = adversary.neighborhood.operator().basis, adversary.neighborhood.coefficients(phi)
    moved = -image(layer, basis @ torch.diag(c) @ basis.T @ data.x).T
    torch.testing.assert_close(result - layer(*inputs), moved, rtol=0, atol=1e-12)
    assert moved.abs().max() > 1e-3


@pytest.mark.parametrize("kind", [pyg.GATConv, pyg.GATv2Conv, pyg.SuperGATConv, pyg.TransformerConv])
@pytest.mark.parametrize("heads", [1, 3])
def test_attention_is_corrected_head_by_head(data, kind, heads) -> None:
    torch.manual_seed(0)
    layer = kind(WIDTH, 2, heads=heads).double()
    projection = {pyg.GATv2Conv: "lin_l", pyg.TransformerConv: "lin_value"}.get(kind, "lin")
    adversary = BuresAdversary(data, rank=5, radius=1.0).attach(layer)
    phi = adversary.draw()[0]
    with adversary.perturbed(phi):
        result = layer(data.x, data.edge_index)
    basis, c = adversary.neighborhood.operator().basis, adversary.neighborhood.coefficients(phi)
    moved = -(basis @ torch.diag(c) @ basis.T @ getattr(layer, projection)(data.x))
    torch.testing.assert_close(result - layer(data.x, data.edge_index), moved, rtol=0, atol=1e-12)
    assert moved.abs().max() > 1e-3


def test_attention_with_all_weights_of_the_normalized_graph_is_gcn(data) -> None:
    """With the attention replaced by ã_ij, a perturbed GATConv is a perturbed GCNConv."""
    layer, gcn = pyg.GATConv(WIDTH, 3, bias=False).double(), pyg.GCNConv(WIDTH, 3, bias=False).double()
    gcn.lin.weight = layer.lin.weight
    adversary = BuresAdversary(data, rank=5, radius=1.0).attach(layer, gcn)
    weights = adversary.neighborhood.propagation.to_dense()
    layer.edge_updater = lambda edge_index, **_: weights[edge_index[1], edge_index[0]].unsqueeze(-1)
    with adversary.perturbed(adversary.draw()[0]):
        torch.testing.assert_close(layer(data.x, data.edge_index), gcn(data.x, data.edge_index))


@pytest.mark.parametrize("form", ["coo", "csr"])
def test_sparse_adjacencies_take_the_fused_path_with_the_same_result(data, form) -> None:
    layer = pyg.GCNConv(WIDTH, 3).double()
    adversary = BuresAdversary(data, rank=5, radius=1.0).attach(layer)
    adjacency = torch.sparse_coo_tensor(data.edge_index, torch.ones(data.num_edges).double(), (NODES, NODES)).coalesce()
    if form == "csr":
        adjacency = adjacency.to_sparse_csr()
    with adversary.perturbed(adversary.draw()[0]):
        torch.testing.assert_close(layer(data.x, adjacency), layer(data.x, data.edge_index))


@pytest.mark.parametrize(
    "layer", [pyg.ARMAConv(WIDTH, 3, num_stacks=2), pyg.GatedGraphConv(WIDTH, 2), pyg.MFConv(WIDTH, 3)]
)
def test_the_remaining_layers_run_and_reach_xi(data, layer) -> None:
    loops = 0 if isinstance(layer, pyg.ARMAConv) else 1
    adversary = BuresAdversary(data, rank=5, radius=1.0, self_links=loops).attach(layer.double())
    adversary.average(lambda: layer(data.x, data.edge_index).square().mean()).backward()
    assert adversary.xi.grad.abs().max() > 0
