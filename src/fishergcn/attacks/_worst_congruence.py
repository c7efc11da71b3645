"""The worst congruence within a Bures distance: how nodes, links or a filter would have to speak to harm a network.

It maximizes the loss on the test nodes as :mod:`fishergcn.attacks._bures_ball` does. For node weights the linear
problem has a closed solution, x ∝ g/ρ_ii less its mean, with g the gradient of the loss from one backward pass; it is
solved anew at each point, and the next point lies on the way to it (Frank and Wolfe). For the others a step goes along
the gradient over the diagonal of the metric.

The loss has many local maxima and need not grow along a ray, so that a single ascent on the largest sphere may end
below what a smaller ball has. The search therefore goes through smaller balls first, of fixed radii; each begins where
the last has ended, and at random points.
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

_CUTS = 10  # of the way to the graph, where a bound is left: by the rule of false position and by halves in turn
_RADII = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0)  # balls to search before a larger one
_TRIALS = 4  # random points among which each start is the worst
_ROUNDING = 1e-9


def worst_congruence(
    model: TrainedModel,
    neighborhood: CongruenceNeighborhood,
    radius: float,
    *,
    steps: int = 10,
    bound: float | None = 2.0,
    restarts: int = 3,
    seed: int = 0,
) -> Worst:
    """Look for the x within a Bures distance that harms each network most on its test nodes.

    ``radius`` is r, not squared, below √2. Of the balls of radius 1/64, 1/16, 1/4, 1/2 and 1, those smaller are
    searched first, then that of r, each with ``restarts`` ascents of ``steps`` gradients, the first from the graph, the
    others from random points drawn from the ``seed``, and if there are several with one more from the worst point so
    far. That point is kept from ball to ball: the loss is never below that of any of the smaller ones. With node
    weights, ``steps=1`` and ``restarts=1`` give the closed optimum of the linear problem in a small ball. A point
    beyond the ``bound`` is moved back towards the graph. The rest, and the result, in which ``phi`` is x, are those of
    :func:`worst_in_ball`.

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
    restarts = check_integer("restarts", restarts, minimum=1)
    around = neighborhood.to(model.device, model.dtype)
    found = _Search(model, around, steps, bound)
    for number, ball in enumerate([each for each in _RADII if each < radius] + [radius] * (radius > 0)):
        kappa = math.tan(2.0 * math.asin(ball / 2.0))
        # Its own draws for each ball, so that a larger radius begins with the very search of a smaller one.
        generator = torch.Generator().manual_seed(check_integer("seed", seed, minimum=0) + number)
        for restart in range(restarts):
            found.climb(torch.zeros_like(found.x) if restart == 0 else found.start(kappa, generator), kappa)
        if restarts > 1:
            found.refine(kappa)
    return Worst(found.x, around.distance(found.x), found.loss, found.accuracy)


class _Search:
    """The worst x of each network so far, and its loss and accuracy."""

    def __init__(self, model: TrainedModel, around: CongruenceNeighborhood, steps: int, bound: float | None) -> None:
        self.model, self.around, self.steps, self.bound = model, around, steps, bound
        self.x = torch.zeros(len(model), around.rank, dtype=torch.float64, device=model.device)
        self.loss, self.accuracy, _ = _measure(model, around, self.x)

    def climb(self, x: Tensor, kappa: float) -> None:
        """Go up from x within the ball, and keep what is worse than all before."""
        _, _, gradient = self._note(x)
        for step in range(self.steps):
            before = x
            x = _inside(self.around, _next(self.around, x, gradient, kappa, step, self.steps), kappa, self.bound)
            if self.around.directions == "nodes" and step > 0:
                # The closed optimum is always on the sphere; the ball is convex, and the loss may be higher within.
                self._note(x)
                x = _inside(self.around, before + (x - before) * (2.0 / (step + 2.0)), kappa, self.bound)
            if torch.equal(x, before):
                break
            _, _, gradient = self._note(x)

    def refine(self, kappa: float) -> None:
        """Go up from the worst point so far in steps that are halved where they do not help."""
        length = torch.full_like(self.loss, kappa / 2.0)
        _, _, gradient = self._note(self.x)
        for _ in range(self.steps):
            before = self.loss
            moved = _inside(self.around, _along(self.around, self.x, gradient, length, kappa), kappa, self.bound)
            _, _, slope = self._note(moved)
            better = self.loss > before
            gradient = torch.where(better.unsqueeze(-1), slope, gradient)
            length = torch.where(better, length, length / 2.0)

    def _note(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        loss, accuracy, gradient = _measure(self.model, self.around, x)
        higher = loss > self.loss
        self.x = torch.where(higher.unsqueeze(-1), x, self.x)
        self.loss, self.accuracy = torch.where(higher, loss, self.loss), torch.where(higher, accuracy, self.accuracy)
        return loss, accuracy, gradient

    def start(self, kappa: float, generator: torch.Generator) -> Tensor:
        """Return the worst of a few random points, at most as far as κ."""
        found, highest = torch.zeros_like(self.x), torch.full_like(self.loss, -math.inf)
        for _ in range(_TRIALS):
            drawn = self.around.sample(len(self.x), generator, kappa).to(self.x.device)
            drawn = drawn * (kappa / self.around.tangent(drawn).abs().clamp(min=1e-300)).clamp(max=1.0).unsqueeze(-1)
            loss, _, _ = _measure(self.model, self.around, drawn)
            found = torch.where((loss > highest).unsqueeze(-1), drawn, found)
            highest = torch.maximum(loss, highest)
        return _inside(self.around, found, kappa, self.bound)


def _measure(model: TrainedModel, around: CongruenceNeighborhood, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return loss and accuracy of each network on its own graph, both (R,), and the gradient of the loss, (R, k)."""
    x = x.detach().requires_grad_()
    view = full_view(model.features, around.operator(x), model.depth)
    loss, accuracy = scores(model.over(view), model.targets)
    (gradient,) = torch.autograd.grad(loss.sum(), x)
    return loss.detach(), accuracy, gradient.detach()


def _next(around: CongruenceNeighborhood, x: Tensor, gradient: Tensor, kappa: float, step: int, steps: int) -> Tensor:
    """Return the point to go to, of length κ at most."""
    if around.directions == "nodes":
        shares = around.diagonal_metric().cpu().numpy()
        rows = [torch.from_numpy(best_weights(each.cpu().numpy(), shares, kappa)) for each in gradient]
        return torch.stack(rows).to(x.device)
    return _along(around, x, gradient, torch.full_like(gradient[:, 0], kappa * (1.0 - step / steps)), kappa)


def _along(around: CongruenceNeighborhood, x: Tensor, gradient: Tensor, length: Tensor, kappa: float) -> Tensor:
    """Return the point at a length (R,) along the gradient over the diagonal of the metric, of length κ at most."""
    metric = around.diagonal_metric()
    natural = torch.where(metric > 0, gradient / metric.clamp(min=1e-300), 0.0)
    size = around.tangent(natural).abs().clamp(min=1e-300)
    moved = x + natural * (length / size).unsqueeze(-1)
    moved = moved.clamp(min=-1.0) if around.directions == "nodes" else moved  # silent is as quiet as a node can be
    # t spread / (1 + t mean) = κ, where a larger t would leave the ball.
    whole = around.tangent(moved)
    return moved * torch.where(whole > kappa, kappa / whole.clamp(min=1e-300), 1.0).unsqueeze(-1)


def _inside(around: CongruenceNeighborhood, x: Tensor, kappa: float, bound: float | None) -> Tensor:
    """Move each x towards 0 until it keeps the distance, I + X ⪰ 0 and the bound; what keeps them stays."""

    def excess(point: Tensor) -> float:
        """Return by how much the point is outside, at most 0 inside."""
        over = [float(around.tangent(point)) / kappa - 1.0, -float(around.smallest_factor(point))]
        if max(over) <= _ROUNDING and bound is not None:
            over.append(float(around.largest_eigenvalue(point)) / bound - 1.0)
        return max(over) - _ROUNDING

    found = x.clone()
    for row, each in enumerate(x):
        beyond = excess(each)
        low, high, least = 0.0, 1.0, excess(0.0 * each) if beyond > 0 else 0.0
        for _ in range(_CUTS if beyond > 0 else 0):
            # At least a tenth from either end, so that a bend of the bound does not stop it.
            middle = (
                low + (high - low) * min(max(least / (least - beyond), 0.1), 0.9) if least < 0 else (low + high) / 2
            )
            now = excess(middle * each)
            low, high, least, beyond = (middle, high, now, beyond) if now <= 0 else (low, middle, least, now)
        found[row] = each if high == 1.0 and beyond <= 0 else low * each
    return found
