"""The add-on for PyTorch Geometric: its loop, its mini-batches and what it refuses."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fishergcn
from fishergcn.errors import InputError
from fishergcn.perturbation import PerturbationWarning

pytest.importorskip("torch_geometric")
from torch_geometric.data import Data
from torch_geometric.loader import RandomNodeLoader
from torch_geometric.nn import ChebConv, GATConv, GCNConv, SAGEConv, SGConv, TAGConv
from torch_geometric.nn.conv import MessagePassing

from fishergcn.integrations.pyg import AddBuresSpectrum, BuresAdversary

NODES, FEATURES, CLASSES = 40, 6, 3


@pytest.fixture
def data() -> Data:
    rng = np.random.default_rng(3)
    links = np.triu(rng.random((NODES, NODES)) < 0.12, 1)
    graph = fishergcn.Graph(
        links + links.T,
        features=rng.standard_normal((NODES, FEATURES)),
        labels=rng.integers(CLASSES, size=NODES),
    )
    return graph.to_pyg()


class Net(nn.Module):
    def __init__(self, layer: type[nn.Module] = GCNConv, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = layer(FEATURES, 8, bias=False)
        self.second = layer(8, CLASSES, bias=False)
        self.dropout = dropout

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(x, self.dropout, self.training)
        return self.second(self.first(x, edge_index).relu(), edge_index)


def loss_of(model: nn.Module, data: Data) -> torch.Tensor:
    return functional.cross_entropy(model(data.x, data.edge_index), data.y)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-6)])
def test_the_loss_and_its_gradients_equal_those_of_the_native_network(data, dtype, tolerance) -> None:
    data.x = data.x.to(dtype)
    model = Net().to(dtype)
    adversary = BuresAdversary(data, rank=4, radius=0.8, samples=5, seed=1).attach(model)
    loss = adversary.average(lambda: loss_of(model, data))
    loss.backward()

    graph = fishergcn.Graph.from_pyg(data)
    neighborhood = fishergcn.Neighborhood(fishergcn.renormalized(graph.adjacency), rank=4, radius=0.8, seed=1)
    native = fishergcn.GCN(FEATURES, 8, CLASSES, dropout=0.0, dtype=dtype)
    with torch.no_grad():
        for weight, layer in zip(native.weights, (model.first, model.second), strict=True):
            weight.copy_(layer.lin.weight.T)
    own = fishergcn.SpectralAdversary(neighborhood, samples=5, seed=1)
    logits = native(data.x, own())
    expected = functional.cross_entropy(logits.flatten(0, 1), data.y.repeat(5))
    expected.backward()

    assert loss.item() == pytest.approx(expected.item(), abs=tolerance)
    torch.testing.assert_close(model.first.lin.weight.grad.T, native.weights[0].grad, rtol=0, atol=tolerance)
    torch.testing.assert_close(adversary.xi.grad, own.xi.grad, rtol=0, atol=tolerance)
    assert adversary.xi.grad.abs().max() > 1e-5
    assert loss.item() != pytest.approx(loss_of(model, data).item(), abs=1e-5)


def test_a_radius_of_zero_leaves_the_model_as_it_is(data) -> None:
    model = Net()
    plain = loss_of(model, data)
    adversary = BuresAdversary(data, rank=4, radius=0.0, samples=5).attach(model)
    assert torch.equal(adversary.average(lambda: loss_of(model, data)), plain)
    with adversary.perturbed(adversary.draw()[0]):
        logits = model(data.x, data.edge_index)
    assert torch.equal(logits, model(data.x, data.edge_index))


def test_averages_in_evaluation_mode_and_plain_calls_are_not_perturbed(data) -> None:
    model = Net(dropout=0.5)
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    model.eval()
    plain = loss_of(model, data)
    state = adversary.get_generator_state()
    assert torch.equal(adversary.average(lambda: loss_of(model, data)), plain)
    assert torch.equal(adversary.get_generator_state(), state)
    with adversary.perturbed(adversary.draw()[0]):
        assert (loss_of(model, data) - plain).abs() > 1e-4  # asked for by name
    model.train()
    model.dropout = 0.0
    assert torch.equal(loss_of(model, data), plain)


def test_every_pass_has_its_own_dropout(data) -> None:
    model = Net(dropout=0.5)
    adversary = BuresAdversary(data, rank=4, radius=0.0, samples=3).attach(model)
    losses = []
    adversary.average(lambda: losses.append(loss_of(model, data)) or losses[-1])
    assert len({loss.item() for loss in losses}) == 3


def test_detaching_restores_the_model(data) -> None:
    model = Net()
    adversary = BuresAdversary(data, rank=4)
    with adversary.attach(model) as entered:
        assert entered is adversary
        assert isinstance(model.first, GCNConv)
        assert type(model.first) is not GCNConv
        assert repr(model.first) == "GCNConv(6, 8)"
        copied = copy.deepcopy(model)
        assert type(copied.first) is GCNConv
        assert torch.equal(copied(data.x, data.edge_index), model(data.x, data.edge_index))
        with pytest.raises(InputError, match=r"first \(GCNConv\) is attached already"):
            adversary.attach(model)
    assert all(type(layer) is GCNConv and "_perturbations" not in vars(layer) for layer in (model.first, model.second))
    with pytest.raises(InputError, match="must be attached to a model"):
        adversary.average(lambda: loss_of(model, data))


def test_one_optimizer_descends_in_the_weights_and_ascends_in_xi(data) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=5e-4)
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    optimizer.add_param_group(adversary.parameter_group(lr=10.0))
    adversary.average(lambda: loss_of(model, data)).backward()
    before, gradient = adversary.xi.detach().clone(), adversary.xi.grad.clone()
    optimizer.step()
    torch.testing.assert_close(adversary.xi.detach(), before + 10.0 * gradient)
    assert [name for name, _ in adversary.named_parameters()] == ["xi"]


def test_only_the_layers_given_are_perturbed(data) -> None:
    model = Net().double()
    data.x = data.x.double()
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model.second)
    phi = adversary.draw()[0]
    with adversary.perturbed(phi):
        result = model(data.x, data.edge_index)
    dense = adversary.neighborhood.operator(phi).to_dense()
    hidden = model.first(data.x, data.edge_index).relu()
    torch.testing.assert_close(result, dense @ model.second.lin(hidden))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_basis_belongs_to_the_matrix_of_the_layer_even_with_self_links(data, weighted) -> None:
    """PyG keeps the weight of a self-link where there is one, instead of adding to it."""
    loops = torch.tensor([[0, 5], [0, 5]])
    data.edge_index = torch.cat([data.edge_index, loops], dim=1)
    if weighted:
        index = data.edge_index
        data.edge_weight = 0.1 + (index[0] + index[1]).double() / 10
    adversary = BuresAdversary(data, rank=4)
    layer = GCNConv(NODES, NODES, bias=False).double()
    with torch.no_grad():
        layer.lin.weight.copy_(torch.eye(NODES))
    matrix = layer(torch.eye(NODES).double(), data.edge_index, data.edge_weight)
    torch.testing.assert_close(adversary.neighborhood.propagation.to_dense(), matrix.detach())


@pytest.mark.parametrize("order", [None, "shuffled"])
def test_a_batch_uses_its_rows_of_the_global_basis(data, order) -> None:
    data = AddBuresSpectrum(rank=4)(data)
    adversary = BuresAdversary(data, radius=1.0)
    nodes = torch.arange(0, NODES, 2)
    if order:
        nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))]
    data.n_id = torch.arange(NODES)
    batch = data.subgraph(nodes)
    assert torch.equal(batch.n_id, nodes)
    assert torch.equal(batch.bures_basis, data.bures_basis[nodes])
    layer = GCNConv(FEATURES, CLASSES).double()
    adversary.attach(layer)
    phi = adversary.draw()[0]
    x = batch.x.double()

    def run(given: object) -> torch.Tensor:
        with adversary.perturbed(phi, given):
            return layer(x, batch.edge_index)

    rows, c = data.bures_basis[nodes], adversary.neighborhood.coefficients(phi)
    expected = layer(x, batch.edge_index) - rows @ torch.diag(c) @ rows.T @ layer.lin(x)
    torch.testing.assert_close(run(batch), expected)
    torch.testing.assert_close(run(nodes), expected)
    del batch.n_id
    torch.testing.assert_close(run(batch), expected)
    del batch.bures_basis
    with pytest.raises(InputError, match="a batch must hold n_id"):
        run(batch)
    with pytest.raises(InputError, match="propagates from 20 to 20 nodes, but the basis has 40 rows"):
        run(None)


def test_layers_that_see_fewer_nodes_step_by_step_use_the_first_rows(data) -> None:
    """Samplers order nodes by hop, and a layer's targets come first among its sources."""
    adversary = BuresAdversary(data, rank=4, radius=1.0)
    layer = SAGEConv((FEATURES, FEATURES), CLASSES).double()
    adversary.attach(layer)
    nodes = torch.arange(NODES - 1, 9, -1)
    x, targets = data.x.double()[nodes], 7
    place = torch.full((NODES,), NODES)
    place[nodes] = torch.arange(len(nodes))
    arcs = place[data.edge_index]
    arcs = arcs[:, (arcs[0] < 20) & (arcs[1] < targets)]
    assert arcs.shape[1] > 3
    phi = adversary.draw()[0]
    with adversary.perturbed(phi, Data(n_id=nodes, num_nodes=len(nodes))):
        result = layer((x[:20], x[:targets]), arcs)
    rows = adversary.neighborhood.operator().basis[nodes[:20]]
    correction = rows[:targets] @ torch.diag(adversary.neighborhood.coefficients(phi)) @ rows.T @ x[:20]
    expected = layer((x[:20], x[:targets]), arcs) - correction @ layer.lin_l.weight.T
    torch.testing.assert_close(result, expected)


def test_the_transform_stores_the_spectrum_and_the_adversary_uses_it(data) -> None:
    stored = AddBuresSpectrum(rank=4, seed=0)(data)
    assert "bures_basis" not in data
    first, second = BuresAdversary(data, rank=4), BuresAdversary(stored)
    assert second.neighborhood.rank == 4
    for name in ("eigenvalues", "eigenvectors", "trace"):
        np.testing.assert_array_equal(
            getattr(first.neighborhood.spectrum, name), getattr(second.neighborhood.spectrum, name)
        )
    assert repr(AddBuresSpectrum(rank=4)) == "AddBuresSpectrum(rank=4, self_links=1)"


def test_refreshing_takes_the_basis_of_a_learned_graph_and_keeps_xi(data) -> None:
    layer = GATConv(FEATURES, 4, heads=2)
    adversary = BuresAdversary(AddBuresSpectrum(rank=4)(data), radius=0.7).attach(layer)
    xi, old = adversary.xi.detach().clone(), adversary.neighborhood.spectrum
    _, (arcs, attention) = layer(data.x, data.edge_index, return_attention_weights=True)
    adversary.refresh(arcs, attention)

    matrix = torch.zeros(NODES, NODES, dtype=torch.float64)
    matrix[arcs[0], arcs[1]] = attention.detach().double().mean(dim=1)
    matrix = (matrix + matrix.T) / 2  # GATConv adds self-links by itself
    degrees = matrix.sum(dim=1).rsqrt()
    expected = degrees[:, None] * matrix * degrees
    torch.testing.assert_close(adversary.neighborhood.propagation.to_dense(), expected)
    assert torch.equal(adversary.xi.detach(), xi)
    assert adversary.neighborhood.radius == 0.7
    assert np.abs(adversary.neighborhood.spectrum.eigenvalues - old.eigenvalues).max() > 1e-3
    adversary.average(lambda: layer(data.x, data.edge_index).square().mean()).backward()

    adversary.refresh(data.edge_index)
    np.testing.assert_allclose(adversary.neighborhood.spectrum.eigenvalues, old.eigenvalues, atol=1e-12)
    with pytest.raises(InputError, match="made its stored rows old"), adversary.perturbed(xi[:, 0], data):
        pass


class Largest(MessagePassing):
    def __init__(self) -> None:
        super().__init__(aggr="max")


class Tripled(GCNConv):
    def message(self, x_j: torch.Tensor, edge_weight: torch.Tensor) -> torch.Tensor:
        return 3 * edge_weight.view(-1, 1) * x_j


class Values(MessagePassing):
    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.propagate(edge_index, values=x)

    def message(self, values_j: torch.Tensor) -> torch.Tensor:
        return values_j


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (lambda: SAGEConv(2, 2, aggr="max"), r"0 \(SAGEConv\) aggregates by max"),
        (lambda: SAGEConv(2, 2, aggr=["mean", "max"]), r"0 \(SAGEConv\) aggregates by \['mean', 'max'\]"),
        (lambda: ChebConv(2, 2, K=2), r"0 \(ChebConv\) is not known"),
        (Largest, r"0 \(Largest\) is not known"),
        (lambda: Tripled(2, 2), r"0 \(Tripled\) overrides message of GCNConv"),
        (lambda: SGConv(2, 2, cached=True), r"0 \(SGConv\) caches propagated features"),
        (lambda: GCNConv(2, 2, decomposed_layers=2), r"0 \(GCNConv\) is decomposed"),
        (lambda: nn.Linear(2, 2), "must hold a MessagePassing layer"),
    ],
)
def test_layers_that_do_not_fit_are_named(data, layer, reason) -> None:
    model = nn.Sequential(layer())
    with pytest.raises(InputError, match=reason):
        BuresAdversary(data, rank=4).attach(model)
    assert "_perturbations" not in vars(model[0])


def test_the_sentence_names_all_layers_that_do_not_fit(data) -> None:
    model = nn.Sequential(ChebConv(2, 2, K=2), SAGEConv(2, 2, aggr="max"), GCNConv(2, 2))
    expected = (
        "the adversary cannot enter all layers, since 0 (ChebConv) is not known to send messages of the form a_ij x_j, "
        "and 1 (SAGEConv) aggregates by max, not by sum or mean; attach other layers by themselves, or name the tensor "
        "that a layer of your own multiplies with the graph in also=."
    )
    with pytest.raises(InputError) as caught:
        BuresAdversary(data, rank=4).attach(model)
    assert str(caught.value) == expected


@pytest.mark.parametrize("training", [True, False])
def test_a_loss_must_be_a_tensor(data, training) -> None:
    model = Net().train(training)
    adversary = BuresAdversary(data, rank=4).attach(model)
    with pytest.raises(InputError, match=r"closure must return the loss as a tensor \(without \.item\(\)\), got float"):
        adversary.average(lambda: loss_of(model, data).item())
    with pytest.raises(InputError, match="closure must be a function that returns the loss, got Tensor"):
        adversary.average(loss_of(model, data))


def test_the_code_of_the_guide_runs() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "guide_pyg.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    consistency, loop, diagnosis, both, batches, graphs, attention, nodes, features, encoding, module = blocks
    assert "refresh" in attention  # of a model that is not on the page
    found: dict[str, Any] = {}
    exec(consistency.replace("range(20)", "range(2)"), found)
    assert np.isfinite(found["loss"].item())
    assert all(each.grad.abs().sum() > 0 for each in found["model"].parameters())
    exec(loop.replace("range(200)", "range(2)") + diagnosis + both + batches + graphs, found)
    assert np.isfinite(found["loss"].item())
    assert len(found["passes"]) == 5
    assert found["adversary"].xi.grad.abs().sum() > 0
    assert found["many"].xi.grad.abs().sum() > 0
    exec(nodes + features + encoding, found)
    assert found["node_adversary"].xi.grad.abs().sum() > 0
    assert found["data"].encoding.shape == (2708, 4)
    exec(module, found)


def test_a_layer_of_ones_own_enters_by_the_name_of_its_tensor(data) -> None:
    layer = Values()
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(layer, also={Values: "values"})
    phi, x = adversary.draw()[0], data.x.double()
    with adversary.perturbed(phi):
        result = layer(x, data.edge_index)
    rows, c = adversary.neighborhood.operator().basis, adversary.neighborhood.coefficients(phi)
    torch.testing.assert_close(result, layer(x, data.edge_index) - rows @ torch.diag(c) @ rows.T @ x)


def test_a_model_whose_hooks_do_not_run_is_refused(data) -> None:
    model = Net()
    adversary = BuresAdversary(data, rank=4).attach(model)
    with pytest.raises(InputError, match="no attached layer multiplied"):
        adversary.average(lambda: data.x.sum())


def test_a_layer_with_another_normalization_is_announced(data) -> None:
    with pytest.warns(PerturbationWarning, match="self-links of weight 0, the adversary with 1"):
        BuresAdversary(data, rank=4).attach(TAGConv(2, 2))
    with pytest.warns(PerturbationWarning, match="Use self_links=2"):
        BuresAdversary(data, rank=4).attach(GCNConv(2, 2, improved=True))


def test_bad_graphs_are_refused(data) -> None:
    with pytest.raises(InputError, match="must list both arcs"):
        BuresAdversary(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3), rank=1)
    with pytest.raises(InputError, match="must have an edge_index"):
        BuresAdversary(Data(x=data.x))
    with pytest.raises(InputError, match=r"edge_index must hold whole numbers, of torch\.int64, got torch\.float32"):
        BuresAdversary(Data(edge_index=data.edge_index.float(), num_nodes=data.num_nodes))
    with pytest.raises(InputError, match="must say how many nodes"):
        BuresAdversary(Anonymous())
    adversary = BuresAdversary(data, rank=4)
    with pytest.raises(InputError, match="from 0 to 39, got 40"):
        adversary.refresh(torch.tensor([[0], [40]]))
    with pytest.raises(InputError, match=r"finite and not negative, got -1\.0"):
        adversary.refresh(data.edge_index, -torch.ones(data.num_edges))
    with (
        pytest.raises(InputError, match=r"phi must have shape \(4,\)"),
        adversary.perturbed(adversary.draw()),
    ):
        pass


class Anonymous:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    num_nodes = None


def test_a_loader_of_pyg_brings_the_rows_along(data) -> None:
    data = AddBuresSpectrum(rank=4)(data)
    data.number = torch.arange(NODES)
    model = Net()
    adversary = BuresAdversary(data, radius=1.0, samples=2).attach(model)
    for batch in RandomNodeLoader(data, num_parts=3, shuffle=True):
        assert torch.equal(batch.bures_basis, data.bures_basis[batch.number])
        state = adversary.get_generator_state()
        loss = adversary.average(lambda batch=batch: loss_of(model, batch), batch)
        loss.backward()
        adversary.set_generator_state(state)
        assert torch.equal(adversary.average(lambda batch=batch: loss_of(model, batch), batch.number), loss)
    assert adversary.xi.grad.abs().max() > 0
