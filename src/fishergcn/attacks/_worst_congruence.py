"""The worst congruence within a Bures distance: how nodes, links or a filter would have to speak to harm a network.

It maximizes the loss on the test nodes as :mod:`fishergcn.attacks._bures_ball` does. For node weights the linear
problem has a closed solution, x ∝ g/ρ_ii less its mean, with g the gradient of the loss from one backward pass; it is
solved anew at each point. For the others a step goes along the gradient over the diagonal of the metric.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fishergcn._base.checks import check_integer, check_real
from fishergcn.attacks._bures_ball import Worst
from fishergcn.models import TrainedModel
from fishergcn.nn import full_view
from fishergcn.perturbation import CongruenceNeighborhood, best_weights
from fishergcn.training import scores

_HALVINGS = 12  # of the distance to the graph, where a bound is left
_ROUNDING = 1e-9


def worst_congruence(
    model: TrainedModel,
    neighborhood: CongruenceNeighborhood,
    radius: float,
    *,
    steps: int = 10,
    bound: float | None = 2.0,
) -> Worst:
    """Look for the x within a Bures distance that harms each network most on its test nodes.

    ``radius`` is r, not squared, below √2. ``steps`` gradients are taken; with node weights, 1 gives the closed optimum
    of the linear problem. A point beyond the ``bound`` is moved back towards the graph. The rest, and the result, in
    which ``phi`` is x, are those of :func:`worst_in_ball`.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> from fishergcn.perturbation import CongruenceNeighborhood
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> records = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=50), keep_weights=True)
    >>> model = fishergcn.TrainedModel.from_records(graph, records, split)
    >>> around = CongruenceNeighborhood(model.propagation, "nodes")
    >>> plain, found = (worst_congruence(model, around, radius) for radius in (0.0, 0.2))
    >>> bool(found.distance <= 0.2), bool(found.loss > plain.loss)
    (True, True)
    """
    model.check_network(links=True, weights=True, symmetric=True)
    radius = check_real("radius", radius, minimum=0.0, below=math.sqrt(2.0))
    steps = check_integer("steps", steps, minimum=1)
    bound = None if bound is None else check_real("bound", bound, above=0.0)
    around = neighborhood.to(model.device, model.dtype)
    kappa = math.tan(2.0 * math.asin(radius / 2.0))
    x = torch.zeros(len(model), around.rank, dtype=torch.float64, device=model.device)
    best, (loss, accuracy, gradient) = x, _measure(model, around, x)
    for step in range(steps if radius > 0 else 0):
        x = _inside(around, _next(around, x, gradient, kappa, step, steps), kappa, bound)
        now, right, gradient = _measure(model, around, x)
        higher = now > loss
        best = torch.where(higher.unsqueeze(-1), x, best)
        loss, accuracy = torch.where(higher, now, loss), torch.where(higher, right, accuracy)
    return Worst(best, around.distance(best), loss, accuracy)


def _measure(model: TrainedModel, around: CongruenceNeighborhood, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss and accuracy of each network on its own graph, both (R,), and the gradient of the loss, (R, k)."""
    x = x.detach().requires_grad_()
    view = full_view(model.features, around.operator(x), model.depth)
    loss, accuracy = scores(model.over(view), model.targets)
    (gradient,) = torch.autograd.grad(loss.sum(), x)
    return loss.detach(), accuracy, gradient.detach()


def _next(around: CongruenceNeighborhood, x: Tensor, gradient: Tensor, kappa: float, step: int, steps: int) -> Tensor:
    """Return the point to go to, of length κ at most."""
    metric = around.diagonal_metric()
    if around.directions == "nodes":
        shares = metric.cpu().numpy()
        rows = [torch.from_numpy(best_weights(each.cpu().numpy(), shares, kappa)) for each in gradient]
        return torch.stack(rows).to(x.device)
    natural = gradient / metric
    length = around.tangent(natural).abs().clamp(min=1e-300).unsqueeze(-1)
    moved = x + natural * (kappa * (1.0 - step / steps) / length)
    # t spread / (1 + t mean) = κ, where a larger t would leave the ball.
    whole = around.tangent(moved)
    return moved * torch.where(whole > kappa, kappa / whole.clamp(min=1e-300), 1.0).unsqueeze(-1)


def _inside(around: CongruenceNeighborhood, x: Tensor, kappa: float, bound: float | None) -> Tensor:
    """Move each x towards 0 until it keeps the distance, I + X ⪰ 0 and the bound; what keeps them stays."""

    def fits(point: Tensor) -> bool:
        return (
            float(around.tangent(point)) <= kappa * (1.0 + _ROUNDING)
            and float(around.smallest_factor(point)) >= -_ROUNDING
            and (bound is None or float(around.largest_eigenvalue(point)) <= bound * (1.0 + _ROUNDING))
        )

    found = x.clone()
    for row, each in enumerate(x):
        if fits(each):
            continue
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle * each) else (low, middle)
        found[row] = low * each
    return found
