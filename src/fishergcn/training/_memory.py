"""What a training holds at its peak, counted from sizes: how many numbers of each kind, and the bytes of each."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from fishergcn._base.memory import free_memory
from fishergcn._kernels.choice import DENSE_SHARE, NEARLY_ALL
from fishergcn.errors import InputError
from fishergcn.training._methods import samples_of
from fishergcn.training._steps import plan_step

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig
    from fishergcn.training._engine import Trainer
    from fishergcn.training._methods import Method
    from fishergcn.training._sizes import Sizes

_PROCESS = 4e8  # bytes of a process that has trained something small
_HELD = (
    "links", "entries", "view entries", "full entries", "stored", "nodes", "basis", "activations", "one sample",
    "outputs", "biased", "tested", "masks", "parameters", "square",
)  # fmt: skip

# Bytes at the peak for each number of a kind, as `benchmarks/cost.py` finds them: of a link those of A; of an entry
# those of Ã, of its copies in other precision, and what is needed to make them; of an activation those of all arrays
# of its size, in float32, and more of one that comes out of a layer: autograd keeps it for the backward pass. Fused
# kernels of a GPU hold a quarter of that, more with a bias; a test, which may see more nodes than a step, counts too.
_EVERYWHERE = {"entries": 43.0, "full entries": 51.0, "stored": 27.0, "nodes": 16.0, "basis": 24.0, "masks": 4.0,
               "parameters": 24.0}  # fmt: skip
_ON_GPU = {"entries": 8.0, "view entries": 8.0, "full entries": 56.0, "stored": 20.0, "basis": 4.0, "masks": 4.0,
           "parameters": 27.0, "square": 2.0}  # fmt: skip
_COMPILED, _PLAIN, _FUSED_GPU, _GPU = (
    dict.fromkeys(_HELD, 0.0) | each
    for each in (
        _EVERYWHERE | {"activations": 2.3, "one sample": 2.5},  # which goes through all layers before the next one
        _EVERYWHERE | {"activations": 9.0, "outputs": 9.0},
        _ON_GPU | {"activations": 2.6, "outputs": 2.5, "biased": 2.7, "tested": 2.0, "stored": 8.0, "masks": 2.0},
        _ON_GPU | {"activations": 21.0},
    )
)


def held_bytes(
    sizes: Sizes, method: Method, config: TrainConfig, runs: int, *, batches: bool = False, gpu: bool = False
) -> float:
    """Return the bytes at the peak of a training of the whole graph, or in mini-batches.

    Of a process all its bytes, libraries included; of a GPU those that torch allocates.
    """
    if not method.trained:  # one product or a few with the graph
        return _PROCESS + 60.0 * sizes.entries
    if method.solved:  # in float64, and without masks
        config = dataclasses.replace(config, dtype="float64", dropout=0.0)
    plan = plan_step(method, config, gpu=gpu, dense=sizes.dense, linked=sizes.entries > sizes.nodes, task=sizes.task)
    if gpu:
        bytes_each = _FUSED_GPU if plan.fused and not batches else _GPU
    else:
        bytes_each = _COMPILED if plan.kind == "compiled" else _PLAIN
    numbers = _batch_numbers(sizes, method, config) if batches else _numbers(sizes, method, config, runs, gpu=gpu)
    return (0.0 if gpu else _PROCESS) + sum(bytes_each[name] * count for name, count in numbers.items())


def check_fits(trainer: Trainer) -> None:
    """Raise where a step on the CPU needs more memory than is free, with the settings that would fit."""
    free = free_memory() if trainer.device.type == "cpu" else None
    if free is None:
        return
    problem, runs = trainer.problem, len(trainer.stack)
    bytes_each = _COMPILED if trainer.plan.kind == "compiled" else _PLAIN
    rows = max(operator.shape[1] for operator in trainer.train_view.operators)
    number = (bytes_each["activations"] + bytes_each["outputs"] / 2) * problem.dtype.itemsize / 4
    width = max(problem.method.network.widths(problem.graph.num_classes, problem.config))

    def needed(samples: int, width: int) -> int:
        return int(number * rows * runs * samples * 2 * width)  # Z and H of the widest layer

    if needed(problem.samples, width) <= free:
        return
    fits = list[str]()
    fewer = free // max(needed(1, width), 1)
    if 1 <= fewer < problem.samples:
        fits.append(f"samples={fewer}")
    narrower = free // max(needed(problem.samples, 1), 1)
    if 1 <= narrower < width and problem.method.has_epochs:
        fits.append(f"hidden={narrower}")
    if problem.method.has_epochs:
        fits.append("mini-batches (--batch-size 512 --fanout 10,10)")
    size, have = needed(problem.samples, width) / 1e9, free / 1e9
    raise InputError(
        f"a step of {problem.method.name} on {rows:,} nodes needs about {size:.1f} GB for activations, and "
        f"{have:.1f} GB are free{'; ' * bool(fits)}{' or '.join(fits)}{' would fit' * bool(fits)}."
    )


class _Layer(NamedTuple):
    """One product with the graph: rows, entries and columns of the block, and activations that enter and come out."""

    rows: float
    entries: float
    columns: float
    entering: float
    outputs: float


def _layers(sizes: Sizes, method: Method, config: TrainConfig, nodes: int, batch: int, *, whole: bool) -> list[_Layer]:
    """Return the layers of a batch of networks: for all nodes, or for what some depend on."""
    network = method.network
    wide, own = network.widths(sizes.classes, config), 1 + network.sees_itself(config)
    everything = [(float(sizes.nodes), sizes.entries)] * (len(wide) + 1)
    return [
        _Layer(
            rows, entries if method.uses_graph else rows, columns, own * columns * batch * width, rows * batch * width
        )
        for ((columns, _), (rows, entries)), width in zip(
            pairwise(everything if whole else sizes.reached(nodes, len(wide))), wide, strict=True
        )
    ]


def _numbers(sizes: Sizes, method: Method, config: TrainConfig, runs: int, *, gpu: bool = False) -> dict[str, float]:
    """Return how many numbers of each kind a training holds at its peak, of some runs side by side."""
    batch, whole = runs * samples_of(method, config), method.steps_on_all(config)
    step = _layers(sizes, method, config, sizes.train, batch, whole=whole)
    check = _layers(sizes, method, config, sizes.val, runs, whole=False)
    found = dict.fromkeys(_HELD, 0.0)
    found["links"], found["entries"], found["stored"] = float(sizes.links), sizes.entries, float(sizes.stored)
    found["nodes"] = float(sizes.nodes)
    if method.perturbed and config.radius > 0 and config.perturbation == "spectral" and not config.congruent:
        found["basis"] = float(sizes.nodes * config.rank)
    if gpu and sizes.entries > DENSE_SHARE * sizes.nodes**2:  # it multiplies with tiles of Ã in half precision
        found["full entries"], found["square"] = sizes.entries, sizes.tile_share * float(sizes.nodes) ** 2
    else:
        layers = [*([] if whole else step), *check]
        own = [layer for layer in layers if min(layer.rows, layer.columns) < NEARLY_ALL * sizes.nodes]
        shared = sizes.entries if whole or len(own) < len(layers) else 0.0
        kind = "full entries" if sizes.full_rows and not gpu else "view entries"
        found[kind] = shared + sum(layer.entries for layer in own)
    wide = 1.0 if config.dtype == "float32" else 2.0
    copies = wide * _copies(sizes, method, config)
    found["outputs"] = copies * sum(layer.outputs for layer in step)
    found["activations"] = found["outputs"] + copies * step[0].entering
    if gpu:
        test = _layers(sizes, method, config, sizes.test, runs, whole=False)
        found["biased"] = found["outputs"] if config.bias else 0.0
        found["tested"] = wide * (test[0].entering + sum(layer.outputs for layer in test))
    found["one sample"] = found["activations"] / samples_of(method, config)
    between = method.network.widths(sizes.classes, config)
    if config.dropout > 0:
        found["masks"] = batch * (sizes.stored + sizes.nodes * sum(between[:-1])) / 32
    if sizes.dense:
        found["masks"] += wide * batch * float(sizes.stored)  # unpacked
    tensors = method.network.tensors(sizes.features, sizes.classes, config).values()
    found["parameters"] = wide * runs * sum(math.prod(each.shape) for each in tensors if each.decayed)
    return found


def _copies(sizes: Sizes, method: Method, config: TrainConfig) -> float:
    """Return how many times the arrays of a plain step are held: factors on both sides of L keep what they multiply."""
    if not (method.perturbed and config.perturbation == "spectral" and config.congruent):
        return 1.0
    more = {"nodes": 0.8, "polynomial": 0.8 * config.degree}.get(config.directions, 1.2)
    return 1.0 + more + (0.4 * sizes.links / sizes.nodes if config.directions == "links" else 0.0)


def _batch_numbers(sizes: Sizes, method: Method, config: TrainConfig) -> dict[str, float]:
    """Return how many numbers of each kind mini-batches hold: two layers of a validation, and no backward pass."""
    found, wide = _numbers(sizes, method, config, 1), method.network.widths(sizes.classes, config)
    reached = sizes.reached(max(sizes.val, sizes.test), len(wide))
    found |= dict.fromkeys(("view entries", "full entries", "square", "masks", "outputs"), 0.0)
    layers = [rows * width for (rows, _), width in zip(reached, (*wide, wide[-1]), strict=False)]
    found["activations"] = max(map(sum, pairwise(layers)))
    found["one sample"] = 2 * found["activations"]  # a layer, what it is made of, and a copy are held at a time
    return found
