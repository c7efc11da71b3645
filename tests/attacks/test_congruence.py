"""The worst congruence: inside all bounds, worse than random points, exact for the linear problem."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fishergcn import Graph, TrainConfig, TrainedModel, renormalized, train
from fishergcn.attacks import worst_congruence
from fishergcn.errors import InputError
from fishergcn.perturbation import CongruenceNeighborhood
from fishergcn.splits import Split
from fishergcn.training import scores

KINDS = ("nodes", "links", "polynomial")


def measure(model, around, x):
    """Loss and accuracy of each network on its own graph, and the gradient of the loss."""
    x = x.detach().requires_grad_()
    loss, accuracy = scores(model.logits(around.operator(x)), model.targets)
    return loss.detach(), accuracy, torch.autograd.grad(loss.sum(), x)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [0.02, 0.2])
def test_inside_and_worse_than_random_points(graph, trained, kind, radius):
    model = trained("gcn")[2]
    around = CongruenceNeighborhood(renormalized(graph.adjacency), kind)
    found = worst_congruence(model, around, radius)
    assert (found.distance <= radius * (1 + 1e-9)).all()
    assert (around.largest_eigenvalue(found.phi) <= 2 + 1e-6).all()
    loss, accuracy, _ = measure(model, around, found.phi)
    torch.testing.assert_close(found.loss, loss)
    torch.testing.assert_close(found.accuracy, accuracy)
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        x = around.sample(1, generator, radius).expand(len(model), -1)
        x = x * min(1.0, 0.999 * radius / float(around.tangent(x)[0]))
        if float(around.smallest_factor(x[:1])) >= 0 and float(around.largest_eigenvalue(x[:1])) <= 2:
            assert (measure(model, around, x)[0] <= found.loss + 1e-12).all()


def test_node_weights_are_the_closed_optimum_for_small_moves(graph, trained):
    """The gain of one step is κ ‖g/ρ - Σg‖_ρ to first order, and no direction of the same length gains more."""
    model = trained("gcn")[2]
    around = CongruenceNeighborhood(renormalized(graph.adjacency), "nodes")
    zero = torch.zeros(len(model), around.rank, dtype=torch.float64)
    start, _, gradient = measure(model, around, zero)
    shares = around.diagonal_metric()
    slope = torch.where(shares > 0, gradient / shares.clamp(min=1e-300), 0.0) - gradient.sum(-1, keepdim=True)
    norm = (shares * slope.square()).sum(-1).sqrt()
    small = 1e-5
    found = worst_congruence(model, around, small, steps=1)
    np.testing.assert_allclose((found.loss - start).numpy(), small * norm.numpy(), rtol=1e-2)


def test_radius_zero_and_bad_input(graph, trained):
    _, records, model = trained("gcn")
    around = CongruenceNeighborhood(renormalized(graph.adjacency), "nodes")
    plain = worst_congruence(model, around, 0.0)
    assert plain.accuracy.tolist() == [record.test_accuracy for record in records]
    assert (plain.phi == 0).all()
    for wrong in ({"radius": -0.1}, {"radius": 1.5}, {"radius": 0.1, "steps": 0}, {"radius": 0.1, "bound": 0.0}):
        with pytest.raises(InputError, match="must be"):
            worst_congruence(model, around, **wrong)


def test_without_the_bound_it_is_worse(graph, trained):
    model = trained("gcn")[2]
    around = CongruenceNeighborhood(renormalized(graph.adjacency), "nodes")
    free, kept = (worst_congruence(model, around, 0.6, bound=bound) for bound in (None, 2.0))
    assert (free.loss >= kept.loss - 1e-12).all()
    assert float(around.largest_eigenvalue(free.phi).max()) > 2


def path_of_three(seed):
    """A network on a path of three nodes and one without links: two weights of nodes that a grid can go through."""
    graph = Graph.from_edges([(0, 1), (1, 2)], features=np.eye(4), labels=[0, 1, 0, 1], num_nodes=4)
    split = Split("mine", train=[0, 1], val=[3], test=[2])
    config = TrainConfig(max_epochs=100, hidden=4, dtype="float64")
    records = train(graph, "gcn", split, seeds=[seed], config=config, keep_weights=True, device="cpu")
    return TrainedModel.from_records(graph, records, split)


@pytest.mark.parametrize("seed", [1, 2])
def test_as_high_as_a_grid_and_never_lower_in_a_larger_ball(seed):
    """A single ascent on the largest sphere fell far short of the grid, and found less in larger balls."""
    model = path_of_three(seed)
    around = CongruenceNeighborhood(model.propagation, "nodes")
    axis = torch.linspace(-1.0, 4.0, 16, dtype=torch.float64)
    # A common factor of all 1 + x changes nothing, so the first node may keep its voice.
    points = torch.cartesian_prod(torch.zeros(1, dtype=torch.float64), axis, axis, torch.zeros(1, dtype=torch.float64))
    distances = around.distance(points)
    losses = torch.tensor([float(measure(model, around, each[None])[0][0]) for each in points])
    radii = [0.1, 0.25, 0.4, 0.7, 1.0, 1.2]
    found = [float(worst_congruence(model, around, radius, bound=None).loss[0]) for radius in radii]
    assert found == sorted(found)
    for radius, loss in zip(radii, found, strict=True):
        assert loss >= float(losses[distances <= radius].max()) - 1e-3
