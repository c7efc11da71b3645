"""Training in mini-batches, for graphs whose activations do not fit in memory.

A step takes a batch of labeled nodes and the sampled neighborhoods that its layers read (see ``sampling``). The
perturbation reuses the rows of the global basis Ū: a layer that reads nodes C and outputs nodes R multiplies with

    Ã_RC - Ū_R diag(c) Ū_Cᵀ

and with directions="nodes" with Ã′_RC = I_RC - s M_R (I_RC - Ã_RC) M_C for node weights M, in which a node needs its
own weight and nothing of the rest of the graph but s.

Where the blocks cover what the whole graph would give, so do loss and gradient, with the same dropout masks, since
these belong to the nodes and stored features of the whole graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.nn import Dropout, LocalDropout, View, blockwise_view
from fishergcn.operators import BlockOperator, NodeBlockOperator, Operator, SparseMatrix
from fishergcn.training._chunk import Progress, train_epochs, untrained
from fishergcn.training._distributed import Group
from fishergcn.training._metrics import confusion, gathered, measured
from fishergcn.training._objective import penalty, training_shares
from fishergcn.training._problem import Problem, Run, check_runs
from fishergcn.training._records import RunRecord
from fishergcn.training._sampling import BatchSettings, Block, NeighborSampler, batches, check_fanout
from fishergcn.training._scores import Tally, find_score
from fishergcn.training._stack import Stack
from fishergcn.training._steps import plan_step


@dataclass(frozen=True)
class NodeWeights:
    """What a step draws for directions="nodes": m = 1 + x of all nodes, shape (M, n), and s, shape (M,)."""

    weights: Tensor
    scale: Tensor


class MiniBatchTrainer:
    """One run on a large graph: epochs of mini-batches, and scores of nodes by exact inference.

    The arguments are those of :func:`train_prepared`.
    """

    def __init__(
        self,
        problem: Problem,
        basis: FloatArray | None,
        run: Run,
        settings: BatchSettings,
        device: torch.device,
        group: Group | None = None,
    ) -> None:
        check_fanout(settings.fanout, problem.depth)
        if problem.method.network.needs_all_nodes(problem.config):
            raise InputError(
                f"mini-batches cannot train {problem.method.name!r} with norm={problem.config.norm!r}, which takes "
                "means over all nodes; norm='layer' can."
            )
        plan_step(problem.method, problem.config, gpu=device.type == "cuda", batches=True)  # refuses what cannot run
        self.problem, self.runs, self.settings, self.device = problem, [run], settings, device
        self.group = Group() if group is None else group
        self.batch_count = -(-len(run.split.train) // settings.batch_size)
        if len(run.split.train) // self.batch_count < self.group.size:
            raise InputError(
                f"each of the {self.group.size} processes needs a node of every batch, but the smallest batch has "
                f"{len(run.split.train) // self.batch_count}; choose a larger --batch-size."
            )
        self.stack = Stack(problem, self.runs, device)
        self.key = int(problem.keys(self.runs).numpy().view(np.uint64)[0])
        self.itself = problem.method.network.sees_itself(problem.config)
        self.sampler = NeighborSampler(problem.propagation, settings.fanout, self.key, itself=self.itself)
        self.basis = None if basis is None else torch.tensor(basis, dtype=problem.dtype)
        self.labels = torch.from_numpy(np.array(problem.graph.labels))
        self.node_weights = self._node_weights()
        self._views: dict[str, View] = {}

    def _node_weights(self) -> Tensor:
        """Return N times the share of each node in the loss of all N training nodes, shape (n,)."""
        split = self.runs[0].split
        weights = np.zeros(self.problem.graph.num_nodes)
        shares = training_shares(split, self.labels.numpy(), self.problem.config.class_weight)
        weights[split.train] = len(split.train) * shares
        return torch.as_tensor(weights, dtype=self.problem.dtype)

    def draw(self, step: int) -> Tensor | NodeWeights | None:
        """Return c of this step, shape (M, k), or the weights of nodes, or None without a perturbation."""
        adversary = self.stack.adversary
        if adversary is None:
            return None
        drawn = [each.to(self.problem.dtype) for each in adversary.neighborhood.for_batch(adversary.draw(step)[0])]
        return drawn[0] if adversary.neighborhood.low_rank else NodeWeights(*drawn)

    def view(self, blocks: Sequence[Block], drawn: Tensor | NodeWeights | None) -> View:
        """Return what a batch sees of the graph, its nodes numbered within each layer."""
        operators = tuple(self._operator(block, drawn) for block in blocks)
        features = self.problem.features(self.device, blocks[0].columns)
        places = (torch.from_numpy(np.searchsorted(block.columns, block.rows)).to(self.device) for block in blocks)
        return View(features, operators, (None,) * len(blocks), tuple(places) if self.itself else ())

    def _operator(self, block: Block, drawn: Tensor | NodeWeights | None) -> Operator:
        matrix = SparseMatrix.from_scipy(block.matrix, device=self.device, dtype=self.problem.dtype)
        if isinstance(drawn, NodeWeights):
            at = np.minimum(np.searchsorted(block.columns, block.rows), len(block.columns) - 1)
            if (block.columns[at] != block.rows).any():
                raise InputError("directions='nodes' needs a propagation matrix with every node linked to itself.")
            place = torch.from_numpy(at).to(self.device)
            right = drawn.weights[:, torch.from_numpy(block.columns).to(self.device)].T
            return NodeBlockOperator(matrix, place, right[place], right, drawn.scale)
        if drawn is None or self.basis is None:
            return matrix
        right = self.basis[block.columns]
        if self.group.size > 1:
            holders = self.group.holders(block.columns, self.problem.graph.num_nodes)
            right = right / torch.as_tensor(holders, dtype=self.problem.dtype).unsqueeze(1)
        left = self.basis[block.rows]
        add = self.group.add_with_gradient if self.group.size > 1 else None
        return BlockOperator(matrix, left.to(self.device), right.to(self.device), drawn, add)

    def dropout(self, blocks: Sequence[Block], step: int) -> LocalDropout:
        """Return the masks of a batch: those that the whole graph has at these nodes."""
        problem, config = self.problem, self.problem.config
        whole = Dropout(self.stack.keys, problem.samples, step, config.dropout)
        widths = problem.method.network.widths(1, config)[:-1]
        hidden = ((block.rows, width) for block, width in zip(blocks, widths, strict=False))
        return LocalDropout.of(whole, problem.inputs, blocks[0].columns, hidden)

    def objective(self, batch: IntArray, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return this process's share of a batch's loss, of its cross entropy, and of its accuracy."""
        nodes = np.sort(self.group.share(batch))
        blocks = self.sampler.blocks(nodes, step)
        view = self.view(blocks, self.draw(step))
        out = self.problem.logits(self.stack.weights, view, self.dropout(blocks, step))
        labels = self.labels[nodes].to(self.device).unsqueeze(1).expand(out.shape[:2])
        count = len(batch) * out.shape[1]
        errors = functional.cross_entropy(out.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape)
        cross_entropy = (errors.sum(1) * self.node_weights[nodes].to(self.device)).sum() / count
        hits = (out.detach().argmax(-1) == labels).sum().double() / count
        decay = self._penalty(self.stack.weights) / self.group.size
        return cross_entropy + decay, cross_entropy.detach(), hits

    def step(self, batch: IntArray, step: int) -> tuple[float, float]:
        """Take one step of Adam; return loss and accuracy of the whole batch before it."""
        for parameter in self.stack.parameters:
            parameter.grad = None
        loss, _, hits = self.objective(batch, step)
        loss.backward()  # type: ignore[no-untyped-call]
        parameters = self.stack.parameters
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        *sums, total, accuracy = self.group.add([*gradients, loss.detach(), hits])
        for parameter, gradient in zip(parameters, sums, strict=True):
            parameter.grad = gradient
        self.stack.step()
        return float(total), float(accuracy)

    @property
    def ahead(self) -> bool:
        """False: a discarded epoch is too expensive here."""
        return False

    def make_ready(self) -> None:
        """No-op: batch sizes vary."""

    def epoch(self, number: int) -> tuple[Tensor, ...]:
        """Take a step for every batch, and validate after them.

        Returns mean loss and accuracy over the labeled nodes, then over the validation nodes, each of shape (1,), and
        what a score that is watched is computed from.
        """
        nodes = self.runs[0].split.train
        dealt = batches(nodes, self.settings.batch_size, self.key, number)
        sums = np.zeros(2)
        for index, batch in enumerate(dealt):
            sums += len(batch) * np.array(self.step(batch, number * len(dealt) + index))
        loss, accuracy = torch.from_numpy(sums / len(nodes)).unsqueeze(1)
        tally, out = self._tally(self.stack.weights, "val")
        right = find_score("accuracy").measure(tally, ())
        found, watched = (loss, accuracy, torch.from_numpy(tally.loss), torch.from_numpy(right)), self.problem.watched
        if watched is None:
            return found
        facts = [torch.from_numpy(tally.confusion).flatten(1).T]
        if watched.gathers:
            out, labels = self._gathered(out, "val")
            facts = [each.cpu() for each in gathered(out[None], labels[None])]
        return *found, torch.from_numpy(tally.cross_entropy), *facts

    def keep(self, runs: Tensor) -> None:
        """Let the other runs leave the stack."""
        self.stack.keep(runs)

    def final_scores(
        self,
        weights: Mapping[str, Tensor],
        part: str,
        outputs: list[dict[str, AnyArray]] | None = None,
        thresholds: FloatArray | None = None,
    ) -> dict[str, FloatArray]:
        """Return the scores on val or test nodes by name, each of shape (1,), all neighbors read; {} without any."""
        if len(getattr(self.runs[0].split, part)) == 0:
            return {}
        tally, out = self._tally(weights, part)
        every = self._gathered(out, part)
        return measured(tally, lambda: [every])

    def _gathered(self, out: Tensor, part: str) -> tuple[Tensor, Tensor]:
        """Return the logits of all nodes from those of each process's share, and their classes."""
        nodes = np.sort(getattr(self.runs[0].split, part))
        if self.group.size > 1:
            whole = out.new_zeros(len(nodes), out.shape[1])
            whole[torch.from_numpy(self.group.share(np.arange(len(nodes)))).to(out.device)] = out
            [out] = self.group.add([whole])
        return out, self.labels[nodes].to(self.device)

    @torch.no_grad()
    def _tally(self, weights: Mapping[str, Tensor], part: str) -> tuple[Tally, Tensor]:
        """Return what adds up over the processes, and the logits of this process's share of the nodes."""
        nodes = getattr(self.runs[0].split, part)
        out = self.problem.logits(weights, self._view_of(part, nodes))[:, 0]
        labels = self.labels[self.group.share(np.sort(nodes))].to(self.device)
        loss_sum = functional.cross_entropy(out, labels, reduction="sum").double()
        total, counts = self.group.add([loss_sum, confusion(out.argmax(-1)[None], labels[None], out.shape[1])])
        cross_entropy = np.array([float(total) / len(nodes)])
        decay = float(self._penalty(weights))
        return Tally(counts.cpu().numpy(), cross_entropy, cross_entropy + decay), out

    def _penalty(self, weights: Mapping[str, Tensor]) -> Tensor:
        return penalty([weights[name] for name in self.stack.decays], self.problem.config.weight_decay).sum()

    def _view_of(self, part: str, nodes: IntArray) -> View:
        """Return what this process's share of the nodes sees of the graph, without sampling."""
        if part not in self._views:
            problem, own = self.problem, self.group.share(np.sort(nodes))
            prepare = partial(problem.features, self.device)
            where: dict[str, Any] = {"device": self.device, "dtype": problem.dtype, "itself": self.itself}
            self._views[part] = blockwise_view(prepare, problem.propagation, own, problem.depth, **where)
        return self._views[part]


def train_prepared(
    problem: Problem,
    basis: FloatArray | None,
    run: Run,
    settings: BatchSettings,
    device: torch.device,
    group: Group | None = None,
    *,
    keep_weights: bool = False,
    on_epoch: Callable[[Progress], None] | None = None,
) -> RunRecord:
    """Train one run in mini-batches; an epoch visits every training node once.

    ``problem`` and ``basis`` are from :func:`prepare_batches`; the processes of ``group`` share each batch.
    """
    check_runs(problem, [run])
    if not problem.method.trained:
        return untrained(problem, [run], device, keep_weights=keep_weights)[0]
    trainer = MiniBatchTrainer(problem, basis, run, settings, device, group)
    [record] = train_epochs(trainer, time.perf_counter(), keep_weights=keep_weights, on_epoch=on_epoch)
    return record
