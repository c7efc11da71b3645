"""What the runs of a chunk learn: weights, adversaries, and the optimizer of both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from fishergcn.nn import layer_sizes
from fishergcn.perturbation import SpectralAdversary
from fishergcn.streams import initial_weights
from fishergcn.training._adam import Adam
from fishergcn.training._problem import Problem, Run


class Stack:
    """Weights, adversaries and optimizer of the runs that are still training."""

    def __init__(self, problem: Problem, runs: Sequence[Run], device: torch.device) -> None:
        config, around = problem.config, problem.neighborhood
        sizes = layer_sizes(problem.graph.num_features, config.hidden, problem.graph.num_classes)
        self.keys = problem.keys(runs).to(device)
        self.weights = [
            nn.Parameter(initial_weights(self.keys, layer, fan_in, fan_out, problem.dtype))
            for layer, (fan_in, fan_out) in enumerate(pairwise(sizes))
        ]
        widths = sizes[1:] if config.bias else ()
        place: dict[str, Any] = {"dtype": problem.dtype, "device": device}
        self.biases = [nn.Parameter(torch.zeros(len(runs), width, **place)) for width in widths]
        self.adversary: SpectralAdversary | None = None
        if around is not None and config.noise != "mean":
            around = around.to(device, problem.dtype)
            self.adversary = SpectralAdversary(around, problem.samples, adversarial=config.adversarial, keys=self.keys)
        self.down = Adam(self.network, config.learning_rate)
        self.up = Adam([] if self.xi is None else [self.xi], config.learning_rate, maximize=True)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def xi(self) -> nn.Parameter | None:
        """ξ of each run, shape (R, k); None where none is learned."""
        return self.adversary.xi if self.adversary is not None and self.adversary.adversarial else None

    @property
    def shape(self) -> Tensor | None:
        """ϕ of each run, shape (R, k); None without a neighborhood, or with one direction a node or link."""
        if self.adversary is None or self.adversary.neighborhood.directions in ("nodes", "links"):
            return None
        return self.adversary.shape.detach()

    @property
    def network(self) -> list[nn.Parameter]:
        """W^l of each layer, then with a bias b^l of each layer: what minimizes the loss."""
        return [*self.weights, *self.biases]

    @property
    def parameters(self) -> list[nn.Parameter]:
        """All that is learned: what minimizes the loss, then what maximizes it."""
        return [*self.network, *([] if self.xi is None else [self.xi])]

    def step(self) -> None:
        """Move along the gradients: what minimizes the loss down, what maximizes it up."""
        self.down.step()
        self.up.step()

    def keep(self, runs: Tensor) -> None:
        """Let the other runs leave; the optimizer goes on where it was."""
        self.keys = self.keys[runs]
        self.weights, self.biases = (
            [nn.Parameter(each.detach()[runs]) for each in part] for part in (self.weights, self.biases)
        )
        if self.adversary is not None:
            self.adversary.keep(runs)
        self.down = self.down.keep(self.network, runs)
        self.up = self.up.keep([] if self.xi is None else [self.xi], runs)
