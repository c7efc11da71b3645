"""Node weights in models of PyTorch Geometric, against dense matrices."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

import fishergcn
from fishergcn.errors import InputError

pytest.importorskip("torch_geometric")
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import APPNP, GATConv, GCNConv, SAGEConv, SGConv

from fishergcn.integrations.pyg import BuresAdversary, NodeAdversary
from fishergcn.perturbation import PerturbationWarning

NODES = 30


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    links = np.triu(rng.random((NODES, NODES)) < 0.15, 1)
    graph = fishergcn.Graph(links + links.T, rng.standard_normal((NODES, 5)), rng.integers(3, size=NODES))
    found = graph.to_pyg()
    found.x = found.x.double()
    return found


def dense_graph(adversary, x):
    return adversary.neighborhood.operator(x.detach()).to_dense()


@pytest.mark.parametrize("layer", [GCNConv(5, 4, bias=False), SGConv(5, 4, K=2, bias=False), APPNP(K=3, alpha=0.2)])
def test_a_pass_is_that_of_the_dense_graph(data, layer):
    layer = layer.double().train()
    adversary = NodeAdversary(data, radius=0.4).attach(layer)
    x = adversary.draw()[0]
    with adversary.perturbed(x):
        found = layer(data.x, data.edge_index)
    matrix, values = dense_graph(adversary, x), data.x
    if isinstance(layer, APPNP):
        wanted = values
        for _ in range(3):
            wanted = 0.8 * matrix @ wanted + 0.2 * values
    else:
        weight = layer.lin.weight.T
        wanted = (matrix if isinstance(layer, GCNConv) else matrix @ matrix) @ values @ weight
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    plain = layer.eval()(data.x, data.edge_index)
    adversary.detach()
    assert torch.equal(plain, layer(data.x, data.edge_index))


def test_training_moves_weights_and_xi(data):
    model = GCNConv(5, 3).double()
    adversary = NodeAdversary(data, radius=0.3, samples=3).attach(model)
    optimizer = torch.optim.Adam([{"params": model.parameters()}, adversary.parameter_group()], lr=0.1)
    before = adversary.xi.detach().clone()
    loss = adversary.average(lambda: torch.nn.functional.cross_entropy(model(data.x, data.edge_index), data.y))
    loss.backward()
    optimizer.step()
    assert not torch.equal(before, adversary.xi)
    quiet = NodeAdversary(data, radius=0.0).attach(GCNConv(5, 3).double())
    plain = quiet._layers[0].module
    found = quiet.average(lambda: plain(data.x, data.edge_index).sum())
    torch.testing.assert_close(found, plain.eval()(data.x, data.edge_index).sum(), rtol=1e-10, atol=1e-10)


def test_a_batch_uses_its_own_weights(data):
    """A batch of all nodes in another order is the whole graph in that order."""
    layer = GCNConv(5, 4, bias=False).double().train()
    adversary = NodeAdversary(data, radius=0.4).attach(layer)
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(0))
    place = torch.argsort(order)
    x = adversary.draw()[0]
    with adversary.perturbed(x):
        whole = layer(data.x, data.edge_index)
    with adversary.perturbed(x, order):
        part = layer(data.x[order], place[data.edge_index])
    torch.testing.assert_close(part, whole[order], rtol=1e-10, atol=1e-12)


def test_what_is_refused(data):
    for layer in (SAGEConv(5, 4), GATConv(5, 4), GCNConv(5, 4, improved=True)):
        with pytest.raises(InputError, match="node weights need layers"):
            NodeAdversary(data).attach(layer)
    adversary, model = NodeAdversary(data), GCNConv(5, 3).double()
    with pytest.raises(InputError, match="attached to a model first"):
        adversary.average(lambda: torch.zeros(()))
    adversary.attach(model)
    with pytest.raises(InputError, match="attached already"):
        adversary.attach(model)
    with pytest.raises(InputError, match="no attached layer"):
        adversary.average(lambda: torch.zeros((), requires_grad=True))
    with pytest.raises(InputError, match="must return the loss"):
        adversary.average(lambda: float(model(data.x, data.edge_index).sum().detach()))
    with pytest.raises(InputError, match="x must have shape"), adversary.perturbed(torch.zeros(3)):
        pass
    with pytest.raises(InputError, match="n_id"), adversary.perturbed(adversary.draw()[0], batch=object()):
        pass


def expected(adversary, layer, data, x):
    return dense_graph(adversary, x) @ data.x @ layer.lin.weight.T


@pytest.fixture
def attached(data):
    layer = GCNConv(5, 4, bias=False).double()
    adversary = NodeAdversary(data, radius=0.4, samples=2).attach(layer)
    with adversary.perturbed(adversary.draw()[0].detach()):  # the first pass, in which matrices are compared
        layer(data.x, data.edge_index)
    return adversary, layer


def test_threads_nesting_and_evaluation_mode(data, attached):
    adversary, layer = attached
    layer.eval()
    draws, found = adversary.draw().detach(), {}
    both = threading.Barrier(2)

    def run(number):
        with adversary.perturbed(draws[number]):
            both.wait(10)
            found[number] = layer(data.x, data.edge_index)
            both.wait(10)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        torch.testing.assert_close(found[number], expected(adversary, layer, data, draws[number]), atol=1e-12, rtol=0)
    with adversary.perturbed(draws[0]):
        with adversary.perturbed(draws[1]):
            layer(data.x, data.edge_index)
        outer = layer(data.x, data.edge_index)
    torch.testing.assert_close(outer, expected(adversary, layer, data, draws[0]), atol=1e-12, rtol=0)


def test_a_compiled_layer_in_one_graph(data, attached):
    adversary, layer = attached
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = adversary.draw()[0].detach()
    with adversary.perturbed(x):
        found = compiled(data.x, data.edge_index)
    torch.testing.assert_close(found, expected(adversary, layer, data, x), atol=1e-12, rtol=0)
    torch._dynamo.reset()


def test_checkpoints(data, attached):
    adversary, layer = attached
    inputs = data.x.clone().requires_grad_()
    x = adversary.draw()[0].detach()
    with adversary.perturbed(x):
        checkpoint(layer, inputs, data.edge_index, use_reentrant=False).square().sum().backward()
    found, inputs.grad = inputs.grad, None
    (dense_graph(adversary, x) @ inputs @ layer.lin.weight.T).square().sum().backward()
    torch.testing.assert_close(found, inputs.grad, atol=1e-10, rtol=0)
    with adversary.perturbed(x), pytest.raises(InputError, match="reentrant checkpoint"):
        checkpoint(layer, inputs, data.edge_index, use_reentrant=True)


def test_the_gradient_of_the_mean_is_that_of_all_passes_kept(data, attached):
    adversary, layer = attached
    layer.train()
    state, parameters = adversary.get_generator_state(), [*layer.parameters(), adversary.xi]
    slopes = []
    for keep in (False, True):
        adversary.set_generator_state(state)
        adversary.average(lambda: layer(data.x, data.edge_index).square().mean(), keep=keep).backward()
        slopes.append([each.grad.clone() for each in parameters])
        for each in parameters:
            each.grad = None
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
    assert slopes[0][-1].abs().max() > 0


def test_another_matrix_than_the_layer_s_is_announced(data):
    layer = GCNConv(5, 4).double()
    adversary = NodeAdversary(data, samples=1).attach(layer)
    weights = torch.linspace(1.0, 3.0, data.edge_index.shape[1], dtype=torch.float64)
    with pytest.warns(PerturbationWarning, match="GCNConv"):
        adversary.average(lambda: layer(data.x, data.edge_index, weights).sum())


def test_two_kinds_of_adversary_in_one_layer_are_refused(data, attached):
    _, layer = attached
    with pytest.raises(InputError, match="an adversary of another kind"):
        BuresAdversary(data, rank=2).attach(layer)
