"""Networks without links, trained on rows that hold what links say: X, ÃX, …, Ã^K X and X - ÃX.

Rows of labeled nodes are collected in files and read in mini-batches. Every task works with one thread, so that the
same numbers come out in any process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fishergcn._base.types import AnyArray, IntArray
from fishergcn.large._into_blocks import judged
from fishergcn.large._plan import Context
from fishergcn.large._spread import place_of
from fishergcn.large._store import Facts
from fishergcn.training import Adam

#: Networks by the number of their block: name, whether it is linear, whether it reads X alone.
NETWORKS = (
    ("linear, no links", True, True),
    ("linear", True, False),
    ("mlp, no links", False, True),
    ("mlp", False, False),
)
_BATCH, _AT_ONCE = 1024, 8192  # rows of a step, and of a pass without one
_EPOCH, _PATIENCE = 1 << 20, 5  # the most rows between two looks at validation nodes; looks without a better score
_RATE, _DECAY, _DROPOUT = 3e-3, 1e-5, 0.3
_RIDGES, _SHARPNESS = (1e-5, 1e-3, 1e-1), (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def collect(context: Context, block: int, counts: list[int]) -> tuple[dict[str, AnyArray], Facts]:
    """Write the rows of labeled nodes, with classes and parts."""
    labels, parts = judged(context, block, counts)
    chosen = np.flatnonzero(parts)
    lines = _lines(context, block)
    inputs = np.concatenate([each[chosen] for each in lines], axis=1)
    return {"inputs": inputs, "labels": labels[chosen], "parts": parts[chosen]}, {
        "train": int((parts == 1).sum()),
        "rows": len(chosen),
    }


def train(context: Context, block: int) -> tuple[dict[str, AnyArray], Facts]:
    """Train a network and count how many validation and test nodes it gets right."""
    torch.set_num_threads(1)
    _, is_linear, is_alone = NETWORKS[block]
    rows = _Rows(context, is_alone)
    mean, size = rows.moments()
    weights = _solved(rows, mean, size) if is_linear else _trained(rows, mean, size)
    facts: Facts = {}
    for name, part in (("val", 2), ("test", 3)):
        right = total = 0
        for inputs, labels in rows.part(part):
            right += int((_logits(inputs, weights).argmax(1) == labels).sum())
            total += len(labels)
        facts[name] = [right, total]
    return {name: each.numpy() for name, each in weights.items()}, facts


def predict(context: Context, block: int, network: int) -> tuple[dict[str, AnyArray], Facts]:
    """Write the probabilities of a network for all nodes of a block."""
    torch.set_num_threads(1)
    plan, is_alone = context.plan, NETWORKS[network][2]
    names = ["weight0", "bias0"] if NETWORKS[network][1] else ["weight0", "bias0", "weight1", "bias1"]
    stored = context.store.arrays("train", network, *names)
    weights = {name: torch.from_numpy(np.array(each)) for name, each in zip(names, stored, strict=True)}
    lines, (first, last) = _lines(context, block), plan.rows(block)
    found = np.empty((last - first, plan.classes), dtype=np.float16)
    with torch.no_grad():
        for start in range(0, last - first, _AT_ONCE):
            span = slice(start, start + _AT_ONCE)
            raw = np.concatenate([each[span] for each in lines], axis=1)
            found[span] = _logits(_expanded(raw, plan.columns, is_alone), weights).softmax(1).numpy()
    return {"values": found}, {}


def _lines(context: Context, block: int) -> list[AnyArray]:
    """Return X, ÃX, …, Ã^K X of a block, mapped, slab by slab."""
    slabs, steps = range(len(context.plan.slabs(context.plan.columns))), range(context.plan.hops + 1)
    places = [place_of("hop", step, slab) for step in steps for slab in slabs]
    return [context.store.arrays(stage, block, name)[0] for stage, name in places]


def _expanded(raw: AnyArray, columns: int, is_alone: bool) -> Tensor:
    """Return inputs in single precision: X, or X, ÃX, …, Ã^K X and X - ÃX."""
    if is_alone:
        return torch.from_numpy(raw[:, :columns].astype(np.float32))
    found = torch.from_numpy(raw.astype(np.float32))
    if raw.shape[1] == columns:
        return found
    return torch.cat([found, found[:, :columns] - found[:, columns : 2 * columns]], dim=1)


def _logits(inputs: Tensor, weights: dict[str, Tensor]) -> Tensor:
    found = torch.addmm(weights["bias0"], inputs, weights["weight0"])
    if "weight1" in weights:
        found = torch.addmm(weights["bias1"], found.relu(), weights["weight1"])
    return found


@dataclass
class _Rows:
    """The rows of labeled nodes."""

    context: Context
    is_alone: bool

    def __post_init__(self) -> None:
        plan, store = self.context.plan, self.context.store
        facts = [store.facts("collect", block) or {} for block in range(plan.blocks)]
        self.blocks = [block for block, each in enumerate(facts) if each.get("rows")]
        self.counts = {block: int(facts[block]["train"]) for block in self.blocks}
        self.train = sum(self.counts.values())
        wide = plan.columns * (plan.hops + 1)
        self.room = max(plan.memory // 8 // (2 * wide), _BATCH)  # rows that are shuffled at once
        self.width = plan.columns if self.is_alone else plan.inputs
        self._kept: tuple[list[int], AnyArray, IntArray] | None = None

    def part(self, part: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs and classes of all rows of a part."""
        for block in self.blocks:
            inputs, labels, parts = self.context.store.arrays("collect", block, "inputs", "labels", "parts")
            chosen = np.flatnonzero(parts == part)
            for start in range(0, len(chosen), _AT_ONCE):
                span = chosen[start : start + _AT_ONCE]
                yield self._read(inputs[span]), torch.from_numpy(labels[span].astype(np.int64))

    def batches(self, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield mini-batches of training rows without end, in random order within what fits into memory."""
        while True:
            order, used = [int(block) for block in rng.permutation(self.blocks)], 0
            while used < len(order):
                group = [order[used]]
                while (
                    used + len(group) < len(order)
                    and self._size(group) + self.counts[order[used + len(group)]] <= self.room
                ):
                    group.append(order[used + len(group)])
                used += len(group)
                inputs, labels = self._loaded(sorted(group))
                shuffled = rng.permutation(len(labels))
                for start in range(0, len(labels), _BATCH):
                    rows = shuffled[start : start + _BATCH]
                    yield self._read(inputs[rows]), torch.from_numpy(labels[rows])

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation of each input over the training rows."""
        total, square = np.zeros(self.width), np.zeros(self.width)
        for inputs, _ in self.part(1):
            values = inputs.numpy()
            total += values.sum(axis=0, dtype=np.float64)
            square += np.einsum("nd,nd->d", values, values, dtype=np.float64, casting="same_kind")
        mean = total / self.train
        variance = np.maximum(square / self.train - mean**2, 0)
        size = np.where(variance > 1e-10, np.sqrt(variance), 1)
        return torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(size.astype(np.float32))

    def _read(self, raw: AnyArray) -> Tensor:
        return _expanded(raw, self.context.plan.columns, self.is_alone)

    def _size(self, group: list[int]) -> int:
        return sum(self.counts[block] for block in group)

    def _loaded(self, group: list[int]) -> tuple[AnyArray, IntArray]:
        if self._kept is None or self._kept[0] != group:
            self._kept = None
            found = [self.context.store.arrays("collect", block, "inputs", "labels", "parts") for block in group]
            inputs = np.concatenate([each[parts == 1] for each, _, parts in found])
            labels = np.concatenate([labels[parts == 1] for _, labels, parts in found]).astype(np.int64)
            self._kept = group, inputs, labels
        return self._kept[1], self._kept[2]


def _folded(weight: Tensor, bias: Tensor, mean: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights that take inputs as they are, of weights for (x - mean) / size."""
    scaled = weight / size.unsqueeze(1)
    return scaled, bias - mean @ scaled


def _solved(rows: _Rows, mean: Tensor, size: Tensor) -> dict[str, Tensor]:
    """Return the linear model with the least squared error, ridge and sharpness by validation cross-entropy.

    minimize ‖Z W + b - Y‖² + λ ‖W‖² over training rows, where the columns of Z have mean 0 and variance 1.
    """
    classes = rows.context.plan.classes
    gram, image = np.zeros((rows.width, rows.width)), np.zeros((rows.width, classes))
    shares = np.zeros(classes)
    for inputs, labels in rows.part(1):
        values = ((inputs - mean) / size).double()
        known = functional.one_hot(labels, classes).double()
        gram += (values.T @ values).numpy()
        image += (values.T @ known).numpy()
        shares += known.sum(0).numpy()
    best: tuple[float, dict[str, Tensor]] = float("inf"), {}
    for ridge in _RIDGES:
        weight = np.linalg.solve(gram + ridge * rows.train * np.eye(rows.width), image)
        solved, share = (torch.from_numpy(each.astype(np.float32)) for each in (weight, shares / rows.train))
        folded = _folded(solved, share, mean, size)
        for sharpness in _SHARPNESS:
            found = {"weight0": sharpness * folded[0], "bias0": sharpness * folded[1]}
            loss = _loss(rows, found)
            if loss < best[0]:
                best = loss, found
    return best[1]


def _loss(rows: _Rows, weights: dict[str, Tensor]) -> float:
    total = sum(
        float(functional.cross_entropy(_logits(inputs, weights), labels, reduction="sum").double())
        for inputs, labels in rows.part(2)
    )
    return float(total)


def _trained(rows: _Rows, mean: Tensor, size: Tensor) -> dict[str, Tensor]:
    """Return an MLP with one hidden layer after the epoch with the best validation accuracy."""
    plan = rows.context.plan
    rng = np.random.default_rng([plan.seed, rows.is_alone])
    chance = torch.Generator().manual_seed(plan.seed + rows.is_alone)
    shapes = {"weight0": (rows.width, plan.hidden), "bias0": (plan.hidden,), "weight1": (plan.hidden, plan.classes),
              "bias1": (plan.classes,)}  # fmt: skip
    weights = {
        name: (torch.randn(shape, generator=chance) * (2 / shape[0]) ** 0.5 if len(shape) == 2 else torch.zeros(shape))
        for name, shape in shapes.items()
    }
    for each in weights.values():
        each.requires_grad_()
    optimizer = Adam([*weights.values()], _RATE, decay=_DECAY)
    batches, best, since = rows.batches(rng), (-1, _detached(weights, mean, size)), 0
    for _ in range(plan.epochs):
        seen = 0
        while seen < min(rows.train, _EPOCH):
            inputs, labels = next(batches)
            hidden = torch.addmm(weights["bias0"], (inputs - mean) / size, weights["weight0"]).relu()
            kept = torch.rand(hidden.shape, generator=chance) >= _DROPOUT
            logits = torch.addmm(weights["bias1"], hidden * kept / (1 - _DROPOUT), weights["weight1"])
            for each in weights.values():
                each.grad = None
            functional.cross_entropy(logits, labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            seen += len(labels)
        found = _detached(weights, mean, size)
        right = sum(int((_logits(inputs, found).argmax(1) == labels).sum()) for inputs, labels in rows.part(2))
        since = 0 if right > best[0] else since + 1
        if right > best[0]:
            best = right, found
        if since == _PATIENCE:
            break
    return best[1]


def _detached(weights: dict[str, Tensor], mean: Tensor, size: Tensor) -> dict[str, Any]:
    plain = {name: each.detach().clone() for name, each in weights.items()}
    plain["weight0"], plain["bias0"] = _folded(plain["weight0"], plain["bias0"], mean, size)
    return plain
