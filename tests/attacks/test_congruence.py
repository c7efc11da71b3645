"""The worst congruence: inside all bounds, worse than random points, exact for the linear problem."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fishergcn import renormalized
from fishergcn.attacks import worst_congruence
from fishergcn.errors import InputError
from fishergcn.perturbation import CongruenceNeighborhood
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
