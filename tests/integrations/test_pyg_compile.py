"""Compiled models with the adversary: whole graphs without breaks, no recompilation, the same numbers."""

from __future__ import annotations

import warnings

import pytest
import torch

pytest.importorskip("torch_geometric")
from pyg_cases import Net, dense_net, loss_of, random_data
from torch._dynamo.backends.debugging import aot_eager
from torch_geometric.data import Batch
from torch_geometric.nn import APPNP, GATConv, GCNConv, SAGEConv

from fishergcn.integrations.pyg import BuresAdversary
from fishergcn.perturbation import PerturbationWarning


class Counting:
    """A backend that counts the graphs it is given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph, inputs):
        self.graphs += 1
        return aot_eager(graph, inputs)


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def data():
    return random_data(2)


def test_a_compiled_model_is_perturbed_without_graph_breaks(data) -> None:
    model, backend = Net(), Counting()
    adversary = BuresAdversary(data, rank=4, radius=1.0, samples=3).attach(model)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    for _ in range(3):
        state = adversary.get_generator_state()
        loss = adversary.average(lambda: loss_of(compiled, data))
        loss.backward()
        found = [each.grad.clone() for each in (*model.parameters(), adversary.xi)]
        model.zero_grad()
        adversary.zero_grad()
        adversary.set_generator_state(state)
        expected = adversary.average(lambda: loss_of(model, data))
        expected.backward()
        torch.testing.assert_close(loss, expected, rtol=0, atol=1e-14)
        for one, other in zip(found, (*model.parameters(), adversary.xi), strict=True):
            torch.testing.assert_close(one, other.grad, rtol=0, atol=1e-14)
        model.zero_grad()
        adversary.zero_grad()
    assert backend.graphs == 1
    phi = adversary.draw()[0]
    with adversary.perturbed(phi):
        result = compiled(data.x, data.edge_index)
    expected = dense_net(model, data.x, adversary.neighborhood.operator(phi).to_dense())
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


def test_a_model_compiled_and_run_before_it_is_attached(data) -> None:
    model = Net()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    plain = compiled(data.x, data.edge_index)
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(compiled)
    assert [layer.name for layer in adversary._layers] == ["first (GCNConv)", "second (GCNConv)"]
    for _ in range(2):
        phi = adversary.draw()[0]
        with adversary.perturbed(phi):
            result = compiled(data.x, data.edge_index)
        expected = dense_net(model, data.x, adversary.neighborhood.operator(phi).to_dense())
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)
    assert torch.equal(compiled(data.x, data.edge_index), plain)
    adversary.detach()
    assert torch.equal(compiled(data.x, data.edge_index), plain)


@pytest.mark.parametrize("part", ["first", "second"])
def test_one_compiled_layer_does_not_hide_the_others(data, part) -> None:
    model, reference = Net(), Net()
    reference.load_state_dict(model.state_dict())
    setattr(model, part, torch.compile(getattr(model, part), fullgraph=True, backend="aot_eager"))
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    for _ in range(2):
        phi = adversary.draw()[0]
        with adversary.perturbed(phi):
            result = model(data.x, data.edge_index)
        expected = dense_net(reference, data.x, adversary.neighborhood.operator(phi).to_dense())
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [SAGEConv, GATConv, GCNConv])
def test_other_layers_and_the_call_in_place(data, kind) -> None:
    model = Net(kind)
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    phi = adversary.draw()[0]
    with adversary.perturbed(phi):
        expected = model(data.x, data.edge_index)
    model.compile(fullgraph=True, backend="aot_eager")
    with adversary.perturbed(phi):
        torch.testing.assert_close(model(data.x, data.edge_index), expected, rtol=0, atol=1e-13)


def test_a_layer_of_many_steps(data) -> None:
    layer = APPNP(K=4, alpha=0.1)
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(layer)
    phi = adversary.draw()[0]
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        with adversary.perturbed(phi):
            result = compiled(data.x, data.edge_index)
    matrix = adversary.neighborhood.operator(phi).to_dense()
    expected = data.x
    for _ in range(4):
        expected = 0.9 * matrix @ expected + 0.1 * data.x
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


def test_a_compiled_model_on_a_batch_of_graphs() -> None:
    graphs = [random_data(seed, size, 0.3) for seed, size in enumerate((8, 15, 11))]
    batch, model = Batch.from_data_list(graphs), Net()
    adversary = BuresAdversary(batch, rank=3, radius=1.0).attach(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        phi = adversary.draw()[0]
        with adversary.perturbed(phi):
            result = compiled(batch.x, batch.edge_index)
        expected = dense_net(model, batch.x, adversary.neighborhood.operator(phi).to_dense())
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


def test_the_matrix_of_a_compiled_layer_is_compared_too(data) -> None:
    model = Net()
    adversary = BuresAdversary(data, rank=4).attach(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    weights = torch.rand(data.num_edges).double()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PerturbationWarning)
        for _ in range(3):
            adversary.average(lambda: compiled(data.x, data.edge_index, weights).square().mean())
    said = [str(each.message) for each in caught if issubclass(each.category, PerturbationWarning)]
    assert [text.split(" multiplies")[0] for text in said] == ["first (GCNConv)", "second (GCNConv)"]


@pytest.mark.slow
def test_the_default_backend_gives_the_same_numbers(data) -> None:
    model = Net()
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    compiled = torch.compile(model, fullgraph=True)
    for _ in range(2):
        phi = adversary.draw()[0]
        with adversary.perturbed(phi):
            result = compiled(data.x, data.edge_index)
        expected = dense_net(model, data.x, adversary.neighborhood.operator(phi).to_dense())
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)
        result.square().mean().backward()
