"""What a training does, counted from sizes: sums of each kind in an epoch, and the arrays that it holds.

A machine has a pace for each kind of work, which is measured where the time is wanted; how many bytes an array takes
for each number in it is a matter of the code, and stands here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from fishergcn._base.backend import usable
from fishergcn._kernels.choice import DENSE_SHARE, NEARLY_ALL
from fishergcn.training._methods import samples_of

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig
    from fishergcn.training._methods import Method
    from fishergcn.training._sampling import BatchSettings
    from fishergcn.training._sizes import Sizes

#: Kinds of work of an epoch, each with a pace of its own; the first three are calls, the others sums or entries.
WORK = (
    "epoch", "perturbation", "best epoch", "features", "stored", "dense features", "masks", "entries", "links",
    "far links", "full entries", "full rows", "far full rows", "layers", "activations", "far activations", "biased",
    "low rank", "parameters",
)  # fmt: skip
_ENTERING = 0.4  # how much of the time that activations take is that of those that enter a product with the graph
_USUAL = {1: 225, 2: 155}  # epochs at which the paper's rule stops, by hidden layers: means over the three data sets


@dataclass(frozen=True)
class _Layer:
    """One product with the graph: rows, entries and columns of the block, for a batch of networks of some width."""

    rows: float
    entries: float
    columns: float
    batch: int
    width: int
    before: int  # the width of what enters
    passes: int  # 1 for validation; 2 for a step, which goes back too

    @property
    def numbers(self) -> float:
        """How many activations come out."""
        return self.rows * self.batch * self.width

    @property
    def entering(self) -> float:
        """How many activations the graph is multiplied with."""
        return self.columns * self.batch * self.width


def _layers(sizes: Sizes, method: Method, config: TrainConfig, runs: int) -> Iterator[list[_Layer]]:
    """Yield the layers of a step, then of a validation."""
    samples, depth = samples_of(method, config), len(config.hidden) + 1
    widths = (sizes.features, *config.hidden, sizes.classes)
    for nodes, batch, passes, whole in (
        (sizes.train, runs * samples, 2, sees_all(method, config)),
        (sizes.val, runs, 1, False),
    ):
        reached = [(float(sizes.nodes), sizes.entries)] * (depth + 1) if whole else sizes.reached(nodes, depth)
        yield [
            _Layer(
                rows, entries if method.uses_graph else rows, reached[at][0], batch, widths[at + 1], widths[at], passes
            )
            for at, (rows, entries) in enumerate(reached[1:])
        ]


def epoch_work(
    sizes: Sizes, method: Method, config: TrainConfig, runs: int, cache: float, *, gpu: bool = False
) -> dict[str, float]:
    """Return how much of each kind of work an epoch of some runs side by side has, validation included.

    Parameters
    ----------
    sizes, method, config
        What is trained.
    runs
        R.
    cache
        Bytes of the cache that a core (or a GPU) has: what is read from a larger array often comes from afar.
    gpu
        Whether a GPU does it, which multiplies with full matrices in another way.
    """
    number, found = 4 if config.dtype == "float32" else 8, dict.fromkeys(WORK, 0.0)
    found["epoch"], found["best epoch"] = 1.0, float(config.test_at == "best-val")
    for view in _layers(sizes, method, config, runs):
        first = view[0]
        stored = first.passes * first.columns / sizes.nodes * sizes.stored * first.batch
        found["dense features" if sizes.dense else "features"] += stored * first.width
        found["stored"] += stored
        for at, layer in enumerate(view):
            read = layer.entering * number
            far = _far_share(read, cache)
            # Those that enter and those that come out are as many where all nodes are seen.
            numbers = layer.passes * (_ENTERING * layer.entering + (1.0 - _ENTERING) * layer.numbers)
            sums = layer.passes * layer.entries * layer.batch * layer.width
            if gpu and _tiled(sizes):
                share = sizes.tile_share
                found["full rows"] += share * layer.passes * layer.rows * layer.columns * layer.batch * layer.width
            elif sizes.full_rows and not gpu:
                # Those that follow each other in a row need not be looked for.
                found["full entries"] += layer.passes * layer.entries * (1.0 - sizes.entries / sizes.nodes**2)
                found["full rows"] += sums
                # Tiles are cut for the cache that a core has for itself, which is about a sixteenth of the other.
                found["far full rows"] += (max(0.0, 1.0 - cache / 16 / read) if read else 0.0) * sums
            else:
                found["entries"] += layer.passes * layer.entries
                found["links"] += sums
                found["far links"] += far * sums
            found["activations"] += numbers
            found["far activations"] += far * numbers
            if gpu and config.bias:  # on the CPU another step, with a pace of its own
                found["biased"] += layer.passes * layer.numbers
            if at:
                found["layers"] += (2 * layer.passes - 1) * layer.columns * layer.batch * layer.before * layer.width
    samples, widths = samples_of(method, config), (*config.hidden, sizes.classes)
    if method.perturbed and config.radius > 0:
        found["perturbation"] = 1.0
        if draws_spectrum(method, config):
            found["low rank"] = 4.0 * config.rank * sizes.nodes * runs * samples * sum(widths)
    if config.dropout > 0:
        found["masks"] = float(runs * samples * (sizes.stored + sizes.nodes * sum(config.hidden)))
    found["parameters"] = float(runs * parameter_count(sizes, config))
    return found


def _tiled(sizes: Sizes) -> bool:
    """Whether a GPU multiplies with tiles of Ã in half precision."""
    return sizes.entries > DENSE_SHARE * sizes.nodes**2


def _far_share(read: float, cache: float) -> float:
    """Return how much of what is gathered from an array comes from beyond the cache; from very large ones, later."""
    if read <= cache:
        return 0.0
    return 1.0 - cache / read + 0.4 * max(0.0, math.log10(read / (16 * cache)))


def parameter_count(sizes: Sizes, config: TrainConfig) -> int:
    """Return how many weights a network has."""
    widths = (sizes.features, *config.hidden, sizes.classes)
    return sum(before * after for before, after in pairwise(widths))


def sees_all(method: Method, config: TrainConfig) -> bool:
    """Whether a step computes all nodes, and not only those that the labeled ones depend on."""
    return (method.perturbed and config.radius > 0) or method.consistent


def draws_spectrum(method: Method, config: TrainConfig) -> bool:
    """Whether eigenpairs are computed, along which the graph is perturbed."""
    return method.perturbed and config.radius > 0 and config.perturbation == "spectral" and not config.congruent


def compiles(sizes: Sizes, method: Method, config: TrainConfig) -> bool:
    """Whether a step on the CPU is the compiled one, which holds fewer arrays than autograd does."""
    drawn = method.perturbed and config.radius > 0
    return (
        method.uses_graph
        and not config.bias
        and config.dropout > 0
        and not sizes.dense
        and not (method.consistent and config.consistency > 0)
        and not (drawn and (config.perturbation != "spectral" or config.congruent or config.noise == "mean"))
    )


def fuses(sizes: Sizes, method: Method, config: TrainConfig) -> bool:
    """Whether a step on a GPU is one of fused kernels, which hold fewer arrays than torch's own."""
    drawn = method.perturbed and config.radius > 0
    others = drawn and (config.perturbation != "spectral" or config.congruent)
    return method.uses_graph and not sizes.dense and config.dtype == "float32" and not others and usable("triton")


def usual_epochs(config: TrainConfig) -> float:
    """Return after how many epochs a run usually ends: all, or what a stopping rule leaves of them.

    The paper's rule ends after about 225 epochs with one hidden layer and after 155 with more. With patience a run has
    at least so many epochs and one, and between that and all of them nothing is known: the geometric mean is taken.

    Examples
    --------
    >>> from fishergcn import TrainConfig
    >>> usual_epochs(TrainConfig()), usual_epochs(TrainConfig(stopping="none"))
    (225.0, 500.0)
    """
    if config.stopping == "none":
        return float(config.max_epochs)
    if config.stopping == "paper":
        return float(min(config.max_epochs, _USUAL[min(len(config.hidden), 2) or 1]))
    return math.sqrt(min(config.patience + 1, config.max_epochs) * config.max_epochs)


# Arrays

#: Kinds of numbers that a training holds.
HELD = (
    "links", "entries", "view entries", "full entries", "stored", "nodes", "basis", "activations", "one sample",
    "outputs", "biased", "tested", "masks", "parameters", "square",
)  # fmt: skip

# Bytes at the peak for each number of a kind, as `benchmarks/cost.py` finds them: of a link those of A; of an entry
# those of Ã, of its copies in other precision, and what is needed to make them; of an activation those of all arrays
# that are as large, in float32, and more of one that comes out of a layer: autograd keeps it for the way back. Fused
# kernels of a GPU hold a quarter of that, more with a bias; a test, which sees more nodes than a step may, counts too.
_EVERYWHERE = {"entries": 43.0, "full entries": 51.0, "stored": 27.0, "nodes": 16.0, "basis": 24.0, "masks": 4.0,
               "parameters": 24.0}  # fmt: skip
_ON_GPU = {"entries": 8.0, "view entries": 8.0, "full entries": 56.0, "stored": 20.0, "basis": 4.0, "masks": 4.0,
           "parameters": 27.0, "square": 2.0}  # fmt: skip
COMPILED_BYTES, PLAIN_BYTES, FUSED_GPU_BYTES, GPU_BYTES = (
    dict.fromkeys(HELD, 0.0) | each
    for each in (
        _EVERYWHERE | {"activations": 2.3, "one sample": 2.5},  # which goes through all layers before the next one
        _EVERYWHERE | {"activations": 9.0, "outputs": 9.0},
        _ON_GPU | {"activations": 2.6, "outputs": 2.5, "biased": 2.7, "tested": 2.0, "stored": 8.0, "masks": 2.0},
        _ON_GPU | {"activations": 21.0},
    )
)


def held_numbers(
    sizes: Sizes, method: Method, config: TrainConfig, runs: int, *, gpu: bool = False
) -> dict[str, float]:
    """Return how many numbers of each kind a training holds at its peak, of some runs side by side."""
    step, check = _layers(sizes, method, config, runs)
    found = dict.fromkeys(HELD, 0.0)
    found["links"], found["entries"], found["stored"] = float(sizes.links), sizes.entries, float(sizes.stored)
    found["nodes"] = float(sizes.nodes)
    found["basis"] = float(sizes.nodes * config.rank) if draws_spectrum(method, config) else 0.0
    if gpu and _tiled(sizes):
        found["full entries"], found["square"] = sizes.entries, sizes.tile_share * float(sizes.nodes) ** 2
    else:
        layers = [*([] if sees_all(method, config) else step), *check]
        own = [layer for layer in layers if min(layer.rows, layer.columns) < NEARLY_ALL * sizes.nodes]
        shared = sizes.entries if sees_all(method, config) or len(own) < len(layers) else 0.0
        kind = "full entries" if sizes.full_rows and not gpu else "view entries"
        found[kind] = shared + sum(layer.entries for layer in own)
    wide = 1.0 if config.dtype == "float32" else 2.0
    copies = wide * _copies(sizes, method, config)
    found["outputs"] = copies * sum(layer.numbers for layer in step)
    found["activations"] = found["outputs"] + copies * step[0].entering
    if gpu:
        _, test = _layers(dataclasses.replace(sizes, val=sizes.test), method, config, runs)
        found["biased"] = found["outputs"] if config.bias else 0.0
        found["tested"] = wide * (test[0].entering + sum(layer.numbers for layer in test))
    found["one sample"] = found["activations"] / samples_of(method, config)
    batch = runs * samples_of(method, config)
    if config.dropout > 0:
        found["masks"] = batch * (sizes.stored + sizes.nodes * sum(config.hidden)) / 32
    if sizes.dense:
        found["masks"] += wide * batch * float(sizes.stored)  # unpacked
    found["parameters"] = wide * runs * parameter_count(sizes, config)
    return found


def activation_bytes(sizes: Sizes, method: Method, config: TrainConfig) -> float:
    """Return the bytes of all activations of a run on the CPU, which a step writes to memory that is new to it."""
    bytes_each = COMPILED_BYTES if compiles(sizes, method, config) else PLAIN_BYTES
    numbers = held_numbers(sizes, method, config, 1)
    return sum(bytes_each[name] * numbers[name] for name in ("activations", "one sample", "outputs"))


def _copies(sizes: Sizes, method: Method, config: TrainConfig) -> float:
    """Return how many times the arrays of a plain step are held: factors on both sides of L keep what they multiply."""
    if not (method.perturbed and config.perturbation == "spectral" and config.congruent):
        return 1.0
    more = {"nodes": 0.8, "polynomial": 0.8 * config.degree}.get(config.directions, 1.2)
    return 1.0 + more + (0.4 * sizes.links / sizes.nodes if config.directions == "links" else 0.0)


def held_bytes(
    sizes: Sizes,
    method: Method,
    config: TrainConfig,
    runs: int,
    *,
    batches: bool = False,
    gpu: bool = False,
) -> float:
    """Return the bytes that a training, of the whole graph or in mini-batches, holds at its peak.

    Those of the libraries come on top.

    Examples
    --------
    >>> from fishergcn import TrainConfig
    >>> from fishergcn.training import Sizes, parse_method
    >>> million = Sizes(10**6, 10**7, 1.1e7, 100, 10**7, 10, train=10**4, val=5000, test=5000)
    >>> round(held_bytes(million, parse_method("fishergcn"), TrainConfig(), 1) / 1e9)
    3
    """
    if gpu:
        bytes_each = FUSED_GPU_BYTES if fuses(sizes, method, config) and not batches else GPU_BYTES
    else:
        bytes_each = COMPILED_BYTES if compiles(sizes, method, config) else PLAIN_BYTES
    numbers = batch_numbers(sizes, method, config) if batches else held_numbers(sizes, method, config, runs, gpu=gpu)
    return sum(bytes_each[name] * count for name, count in numbers.items())


# Mini-batches

#: Kinds of work around the sums of mini-batches: steps, drawn entries, and entries that a validation reads.
BATCH_WORK = ("step", "drawn", "checked")


def batch_work(
    sizes: Sizes, method: Method, config: TrainConfig, settings: BatchSettings, cache: float, *, gpu: bool = False
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the work of an epoch in mini-batches, as :func:`epoch_work` counts it, and that around it.

    A step is one of a small graph: what a batch draws, all of whose nodes are seen.
    """
    size = min(settings.batch_size, sizes.train)
    steps = -(-sizes.train // max(size, 1))
    rows, drawn, mean = float(size), 0.0, sizes.entries / sizes.nodes
    for fanout in settings.fanout:
        per_row = mean if fanout < 0 else min(mean, fanout + 1.0)
        drawn += rows * per_row
        rows += (sizes.nodes - rows) * -math.expm1(-max(rows * (per_row - 1.0), 0.0) / sizes.nodes)
    whole = epoch_work(sizes, method, config, 1, cache, gpu=gpu)
    share = min(rows / sizes.nodes, 1.0)
    small = dataclasses.replace(
        sizes,
        nodes=max(int(rows), 2),
        entries=max(drawn, rows),
        stored=max(int(share * sizes.stored), 1),
        train=size,
        val=0,
    )
    step = epoch_work(small, method, config, 1, cache, gpu=gpu)
    check = epoch_work(
        dataclasses.replace(sizes, train=0), dataclasses.replace(method, perturbed=False), config, 1, cache, gpu=gpu
    )
    calls = ("epoch", "perturbation", "masks", "parameters")
    found = {name: steps * step[name] + (0.0 if name in calls else check[name]) for name in whole}
    found["best epoch"] = whole["best epoch"]
    checked = sum(entries for _, entries in sizes.reached(sizes.val, len(config.hidden) + 1)[1:])
    return found, {"step": float(steps), "drawn": steps * drawn, "checked": checked}


def batch_numbers(sizes: Sizes, method: Method, config: TrainConfig) -> dict[str, float]:
    """Return how many numbers of each kind training in mini-batches holds: two layers of a validation, and no more."""
    found = held_numbers(sizes, method, config, 1)
    reached = sizes.reached(max(sizes.val, sizes.test), len(config.hidden) + 1)
    widths = (*config.hidden, sizes.classes)
    found |= dict.fromkeys(("view entries", "full entries", "square", "masks", "outputs"), 0.0)  # no way back
    layers = [rows * width for (rows, _), width in zip(reached, (*widths, widths[-1]), strict=False)]
    found["activations"] = max(map(sum, pairwise(layers)))
    found["one sample"] = 2 * found["activations"]  # a layer and what it is made of are there at a time, and a copy
    return found
