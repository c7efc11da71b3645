"""The stacked engine: many runs of one method on one graph, trained side by side.

All runs of a chunk go through every kernel together, as batch entries run * M + sample; each has its own
weights, random streams, labeled nodes and moment to stop. Runs that have stopped leave the stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.nn import Dropout, View, full_view, local_view, moving_averages
from fishergcn.operators import Operator, as_operator
from fishergcn.perturbation import GraphPool, LinkNoise, Perturbation
from fishergcn.training._compiled import CompiledStep
from fishergcn.training._memory import check_fits
from fishergcn.training._metrics import measure, run_outputs, validation
from fishergcn.training._objective import Targets, consistency, penalty, scores, targets_on, training_shares
from fishergcn.training._problem import Problem, Run
from fishergcn.training._recorder import Recorder
from fishergcn.training._stack import Stack
from fishergcn.training._steps import plan_step


class Trainer:
    """One optimization step of all runs, and their scores on validation and test nodes."""

    def __init__(self, problem: Problem, runs: Sequence[Run], device: torch.device) -> None:
        self.problem, self.runs, self.device = problem, list(runs), device
        self.features = problem.features(device)
        self.stack = Stack(problem, runs, device)
        self.links = self._link_noise()
        self.mean = self._mean_operator()
        self.train_view = self._training_view()
        self.train_targets = self._targets("train", self.train_view)
        self.val_view = self._view("val")
        self.val_targets = self._targets("val", self.val_view)
        self.plan = plan_step(
            problem.method,
            problem.config,
            gpu=device.type == "cuda",
            dense=not sparse.issparse(problem.inputs),
            linked=problem.propagation.nnz > problem.graph.num_nodes,
            task=problem.task.name,
        )
        self.recorder = Recorder() if self.plan.kind == "recorded" else None
        self.compiled = CompiledStep(self) if self.plan.kind == "compiled" else None
        check_fits(self)

    @property
    def ahead(self) -> bool:
        """Whether an epoch may begin before the results of the one before it are read: a GPU does not wait then."""
        return self.recorder is not None

    def _link_noise(self) -> Perturbation | None:
        config, moved = self.problem.config, self.problem.moved
        if moved is not None:
            return GraphPool(self.problem.graph.adjacency, moved, self.device, self.problem.dtype)
        if not self.problem.method.perturbed or config.perturbation == "spectral" or config.link_rate == 0:
            return None
        flip = config.perturbation == "link-flip"
        return LinkNoise(self.problem.graph.adjacency, config.link_rate, flip, self.device, self.problem.dtype)

    def _mean_operator(self) -> Operator | None:
        """Return the mean of the graphs that would be drawn, where it takes their place."""
        around = self.links or self.problem.neighborhood
        if around is None or self.problem.config.noise != "mean":
            return None
        return around.mean_operator().to(self.device, self.problem.dtype)

    def _nodes(self, part: str) -> list[IntArray]:
        return [getattr(run.split, part) for run in self.runs]

    def _view(self, part: str) -> View:
        nodes = np.unique(np.concatenate(self._nodes(part)))
        problem = self.problem
        return local_view(
            self.features,
            problem.propagation,
            nodes,
            problem.depth,
            device=self.device,
            dtype=problem.dtype,
            whole=lambda: self._whole,
            itself=problem.method.network.sees_itself(problem.config),
        )

    @cached_property
    def _whole(self) -> Operator:
        """Ã of all nodes, which is made once."""
        problem, adversary = self.problem, self.stack.adversary
        if adversary is not None:
            return adversary.neighborhood.propagation
        if problem.operator is not None:
            return problem.operator.to(self.device, problem.dtype)
        return as_operator(problem.propagation, device=self.device, dtype=problem.dtype)

    def _training_view(self) -> View:
        """Show all nodes where a perturbation, consistency or a norm involves them, else the labeled ones' reach."""
        problem, adversary = self.problem, self.stack.adversary
        if self.mean is not None:
            return full_view(self.features, self.mean, problem.depth)
        involved = problem.method.consistent or problem.method.network.needs_all_nodes(problem.config)
        if adversary is None and self.links is None and not involved:
            return self._view("train")
        return full_view(self.features, self._whole, problem.depth)

    def _targets(self, part: str, view: View) -> Targets:
        graph, class_weight, shares = self.problem.graph, self.problem.config.class_weight, None
        if part == "train":  # only what is learned from is weighted
            known = self.problem.task.known(graph)
            shares = [training_shares(run.split, known, class_weight) for run in self.runs]
        splits = [run.split for run in self.runs]
        return targets_on(graph, splits, part, view, self.device, self.problem.dtype, shares=shares)

    def operator(self, epoch: int | Tensor, noise: Tensor | None) -> Operator | None:
        """Return the perturbed graphs of this step, or None for what the view has: the graph itself, or the mean."""
        if self.mean is not None:
            return None
        if self.links is not None:
            return self.links.draw(self.stack.keys, self.problem.samples, int(epoch))
        adversary = self.stack.adversary
        return None if adversary is None else adversary(None if noise is not None else int(epoch), noise)

    def objective(self, epoch: int | Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the loss and the training accuracy of each run in this step, two tensors of shape (R,).

        The noise of the perturbation is drawn for this epoch, unless it is given.
        """
        config, method = self.problem.config, self.problem.method
        dropout = Dropout(self.stack.keys, self.problem.samples, epoch, config.dropout)
        operator = self.operator(epoch, noise)
        view = self.train_view if operator is None else full_view(self.features, operator, self.problem.depth)
        out = self.problem.logits(self.stack.weights, view, dropout, once=True)
        cross_entropy, accuracy = scores(out, self.train_targets)
        loss = cross_entropy + self._penalty(self.stack.weights)
        if method.consistent and config.consistency > 0:
            apart = consistency(out, len(self.stack), config.temperature, self.problem.task)
            loss = loss + config.consistency * apart
        return loss, accuracy

    def step(self, epoch: int | Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Take one step of Adam for the weights (down) and ξ (up); return loss and accuracy before it."""
        if self.compiled is not None:
            found = self.compiled.gradients(self, int(epoch), noise)
            self.stack.step()
            return found
        with moving_averages():
            loss, accuracy = self.objective(epoch, noise)
        parameters = self.stack.parameters
        slopes = torch.autograd.grad(loss.sum(), parameters, allow_unused=True)
        for parameter, slope in zip(parameters, slopes, strict=True):
            parameter.grad = slope
        self.stack.step()
        return loss.detach(), accuracy

    def epoch(self, number: int) -> tuple[Tensor, ...]:
        """Take the one step of an epoch, and validate after it."""
        return self.epoch_now(number) if self.recorder is None else self.recorder.epoch(self, number)

    def epoch_now(self, number: int | Tensor, noise: Tensor | None = None) -> tuple[Tensor, ...]:
        """Do so kernel by kernel."""
        return *self.step(number, noise), *self.validate()

    def make_ready(self) -> None:
        """Compile all CUDA kernels of an epoch side by side, without running one: what they make is thrown away."""
        if self.recorder is None:
            return
        from fishergcn._kernels.launch import only_compiling

        adversary = self.stack.adversary
        noise = None if adversary is None else adversary.noise(0)
        with only_compiling():
            loss, _ = self.objective(0, noise)
            torch.autograd.grad(loss.sum(), self.stack.parameters, allow_unused=True)
            self.validate()

    @torch.inference_mode()
    def validate(self) -> tuple[Tensor, ...]:
        """Return validation loss (with weight decay), accuracy, … of each run, without noise or dropout."""
        if self.compiled is not None:
            out, decay = self.compiled.validate(self)
        else:
            out = self.problem.logits(self.stack.weights, self.val_view)
            decay = self._penalty(self.stack.weights)
        return validation(out, self.val_targets, decay, self.problem.watched)

    def _penalty(self, weights: Mapping[str, Tensor]) -> Tensor:
        return penalty([weights[name] for name in self.stack.decays], self.problem.config.weight_decay)

    def keep(self, runs: Tensor) -> None:
        """Let the other runs leave the stack."""
        self.stack.keep(runs)
        if self.recorder is not None:
            self.recorder.forget()
        self.train_targets, self.val_targets = self.train_targets.keep(runs), self.val_targets.keep(runs)

    @torch.inference_mode()
    def final_scores(
        self,
        weights: Mapping[str, Tensor],
        part: str,
        outputs: list[dict[str, AnyArray]] | None = None,
        thresholds: FloatArray | None = None,
    ) -> dict[str, FloatArray]:
        """Return the scores of all runs on val or test nodes by name, each of shape (R,); none without any nodes.

        The logits of these nodes are added to the ``outputs`` of each run, as ``outputs.val`` or ``outputs.test``.
        """
        if not any(len(nodes) for nodes in self._nodes(part)):
            return {}
        view = self._view(part)
        out, targets = self.problem.logits(weights, view), self._targets(part, view)
        for found, each in zip(outputs or (), run_outputs(out, targets, self._nodes(part)), strict=False):
            found[f"outputs.{part}"] = each
        return measure(out, targets, self._penalty(weights), part, thresholds)
