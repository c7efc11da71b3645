"""What the runs of a chunk learn: named tensors, adversaries, and the optimizer of both."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fishergcn.nn import by_layer
from fishergcn.perturbation import SpectralAdversary
from fishergcn.training._adam import Adam
from fishergcn.training._problem import Problem, Run


class Stack:
    """Weights, adversaries and optimizer of the runs that are still training."""

    def __init__(self, problem: Problem, runs: Sequence[Run], device: torch.device) -> None:
        config, around = problem.config, problem.neighborhood
        self.keys = problem.keys(runs).to(device)
        described = problem.tensors
        self.weights = {
            name: nn.Parameter(each.start(self.keys, problem.dtype), requires_grad=each.learned)
            for name, each in described.items()
        }
        self.decays = tuple(name for name, each in described.items() if each.decayed)
        self.adversary: SpectralAdversary | None = None
        if around is not None and config.noise != "mean":
            around = around.to(device, problem.dtype)
            self.adversary = SpectralAdversary(around, problem.samples, adversarial=config.adversarial, keys=self.keys)
        self.down = Adam(self._learned, config.learning_rate)
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
    def layers(self) -> list[Tensor]:
        """W^l of each layer, for steps that know a network of these alone."""
        return by_layer(self.weights, "weights")

    @property
    def parameters(self) -> list[nn.Parameter]:
        """All that is learned: what minimizes the loss, then what maximizes it."""
        return [*self._learned, *([] if self.xi is None else [self.xi])]

    @property
    def _learned(self) -> list[nn.Parameter]:
        return [each for each in self.weights.values() if each.requires_grad]

    def step(self) -> None:
        """Move along the gradients: what minimizes the loss down, what maximizes it up."""
        self.down.step()
        self.up.step()

    def keep(self, runs: Tensor) -> None:
        """Let the other runs leave; the optimizer goes on where it was."""
        self.keys = self.keys[runs]
        self.weights = {
            name: nn.Parameter(each.detach()[runs], requires_grad=each.requires_grad)
            for name, each in self.weights.items()
        }
        if self.adversary is not None:
            self.adversary.keep(runs)
        self.down = self.down.keep(self._learned, runs)
        self.up = self.up.keep([] if self.xi is None else [self.xi], runs)
