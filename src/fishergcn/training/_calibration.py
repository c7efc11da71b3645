"""How fast this machine trains: some small trainings of very different shapes, and the paces that explain their times.

Started by ``measured_pace`` as a program with the name of a device as its argument; prints a JSON object. In a process
of its own, so that its kernels, its threads and its memory are those of a worker, and leave nothing behind.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from fishergcn._base.backend import usable
from fishergcn._base.memory import resident_memory
from fishergcn._settings.config import TrainConfig
from fishergcn.graph import Graph
from fishergcn.spectrum import Spectrum, top_spectrum
from fishergcn.splits import Split
from fishergcn.training._batch_problem import prepare_batches
from fishergcn.training._chunk import Progress, train_chunk
from fishergcn.training._methods import Method, parse_method
from fishergcn.training._minibatch import train_prepared
from fishergcn.training._pace import BATCHES, COMPILED, GPU, PLAIN, SETUP, fitted, setup_work, spectrum_work
from fishergcn.training._problem import Run, prepare
from fishergcn.training._sampling import BatchSettings
from fishergcn.training._sizes import Sizes
from fishergcn.training._work import batch_work, compiles, epoch_work

_USUAL_CACHE = 16e6  # bytes, where the system says nothing
_RANK = 10


@dataclass(frozen=True)
class _Trial:
    """A training to be timed, on a random graph."""

    nodes: int
    degree: float
    stored: int  # feature numbers of a node
    features: int
    hidden: int
    classes: int
    method: str
    bias: bool = False
    dense: bool = False
    runs: int = 1
    epochs: int = 5


# Each kind of work is the larger part of some trial, and there are tables smaller and larger than the cache.
_CPU = (
    *(_Trial(*each) for each in (
        (300, 4, 10, 100, 16, 3, "gcn", False, False, 1, 20),
        (300, 4, 10, 100, 16, 3, "fishergcn", False, False, 1, 20),
        (2000, 5, 50, 1500, 64, 7, "gcn-x5", False, False, 1, 8),
        (2500, 300, 5, 50, 64, 5, "gcn-x5"),
        (3000, 60, 5, 50, 64, 5, "gcn", False, False, 1, 8),
        (10000, 10, 10, 100, 64, 10, "gcn-x5"),
        (10000, 300, 5, 50, 64, 5, "gcn", False, False, 1, 3),
        (25000, 10, 10, 100, 64, 10, "fishergcn", False, False, 1, 4),
        (200000, 10, 10, 100, 64, 10, "gcn", False, False, 1, 4),
        (200000, 10, 10, 100, 64, 10, "fishergcn", False, False, 1, 3),
        (20000, 4, 50, 500, 16, 3, "gcn", False, False, 1, 6),
        (300, 4, 10, 100, 16, 3, "gcn", True, False, 1, 20),
        (300, 4, 10, 100, 16, 3, "fishergcn", True, False, 1, 20),
        (2000, 5, 50, 1500, 64, 7, "gcn-x5", True, False, 1, 8),
        (2500, 300, 5, 50, 64, 5, "gcn-x5", True),
        (3000, 60, 5, 50, 64, 5, "gcn", True, False, 1, 8),
        (2000, 5, 100, 100, 64, 5, "gcn-x5", True, True),
        (10000, 10, 10, 100, 64, 10, "gcn-x5", True),
        (10000, 300, 5, 50, 64, 5, "gcn", True, False, 1, 3),
        (25000, 10, 10, 100, 64, 10, "fishergcn", True, False, 1, 4),
        (200000, 10, 10, 100, 64, 10, "gcn", True, False, 1, 4),
        (200000, 10, 10, 100, 64, 10, "fishergcn", True, False, 1, 3),
        (5000, 10, 10, 100, 64, 10, "gcn-x5-c", False, False, 1, 4),
    )),
)  # fmt: skip
# A GPU trains runs side by side, and its caches are larger: the same shapes with more runs and more nodes.
_GPU = (
    *(_Trial(*each, 12) for each in (
        (300, 4, 10, 100, 16, 3, "gcn", False, False, 1),
        (300, 4, 10, 100, 16, 3, "fishergcn", False, False, 1),
        (300, 4, 10, 100, 16, 3, "fishergcn", False, False, 64),
        (300, 4, 10, 100, 16, 3, "gcn-x5", True, False, 32),
        (2000, 5, 60, 3000, 64, 7, "gcn", False, False, 64),
        (2000, 5, 60, 3000, 64, 7, "fishergcn", False, False, 32),
        (4000, 16, 5, 50, 64, 20, "gcn-x5", True, False, 16),
        (2500, 300, 5, 50, 64, 5, "gcn-x5", False, False, 32),
        (2000, 5, 100, 100, 64, 5, "gcn-x5", True, True, 4),
        (20000, 5, 20, 500, 64, 3, "gcn", False, False, 64),
        (20000, 5, 20, 500, 64, 3, "fishergcn", False, False, 32),
        (20000, 5, 20, 500, 64, 3, "fishergcn", True, False, 16),
        (200000, 10, 10, 100, 64, 10, "gcn", False, False, 1),
        (200000, 10, 10, 100, 64, 10, "fishergcn", False, False, 1),
        (200000, 10, 10, 100, 64, 10, "fishergcn", True, False, 4),
        (200000, 4, 40, 1000, 16, 3, "gcn-x5", False, False, 4),
    )),
)  # fmt: skip


def main() -> None:
    """Measure the device that the first argument names; or only compile, if the second one is ``compile``."""
    device = torch.device(sys.argv[1])
    usable("triton" if device.type == "cuda" else "numba")  # is imported by that
    imported = time.process_time()
    torch.set_num_threads(1)
    cache, gpu = cache_bytes(device), device.type == "cuda"
    trials = _GPU if gpu else _CPU
    if sys.argv[2] == "compile":
        _timed(trials[0], device)
        return
    began = _now(device)
    _timed(trials[0], device)  # loads what is compiled
    loaded, base = _now(device), resident_memory() or 0
    _timed(trials[0], device)
    kernels = max(2 * loaded - began - _now(device), 0.0)  # the first less the second
    # Twice: a GPU compiles the first time, and a core is slower while others use the memory.
    rounds = [[_timed(trial, device) for trial in trials] for _ in range(2)]
    found = [_quicker(one, other) for one, other in zip(*rounds, strict=True)]
    fast = [not gpu and usable("numba") and compiles(each.sizes, each.method, each.config) for each in found]
    work = [epoch_work(each.sizes, each.method, each.config, each.runs, cache, gpu=gpu) for each in found]
    paces = {}
    for name, chosen, usual in (("compiled", True, COMPILED), ("plain", False, GPU if gpu else PLAIN)):
        rows = [at for at, each in enumerate(fast) if each == chosen] or range(len(found))
        paces[name] = fitted([work[at] for at in rows], [found[at].epoch for at in rows], usual)
    pace: dict[str, Any] = {
        "cache": cache,
        **paces,
        "batches": _batches(paces["plain"], cache, device),
        "setup": fitted([setup_work(each.sizes) for each in found], [each.around for each in found], SETUP),
        "process": imported,
        "kernels": kernels,
        "base": base,
        "prepare": _preparation(),
    }
    print(json.dumps(pace))


def cache_bytes(device: torch.device) -> float:
    """Return what of the largest cache one array can have: half of it, since others are in use beside it."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).L2_cache_size / 2
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    found = [
        each.read_text(encoding="ascii").strip()
        for each in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    ]
    sizes = [int(text[:-1]) * units[text[-1]] for text in found if text[-1:] in units and text[:-1].isdigit()]
    return max(sizes) / 2 if sizes else _USUAL_CACHE


def _now(device: torch.device) -> float:
    """Return seconds that this process has worked: others who use the machine do not count, where a core does it."""
    return time.perf_counter() if device.type == "cuda" else time.process_time()


def _config(trial: _Trial) -> TrainConfig:
    """Return the paper's settings or, where there is a bias, what matters for time in the general ones."""
    return TrainConfig(
        hidden=(trial.hidden,),
        bias=trial.bias,
        test_at="best-val" if trial.bias else "last",
        max_epochs=trial.epochs,
        stopping="none",
        rank=_RANK,
    )


# Seconds around the epochs at least: less is a median that was too high.
_LEAST = 1e-3


@dataclass(frozen=True)
class _Timed:
    """What a trial took: the seconds of an epoch, and those around the epochs."""

    sizes: Sizes
    method: Method
    config: TrainConfig
    runs: int
    epoch: float
    around: float


def _timed(trial: _Trial, device: torch.device) -> _Timed:
    graph, split = _graph(trial)
    method, config = parse_method(trial.method), _config(trial)
    problem = prepare(graph, method, config, spectrum=_some_spectrum(trial.nodes) if method.perturbed else None)
    ends: list[float] = []
    began = _now(device)
    runs = [Run(split, seed) for seed in range(trial.runs)]
    train_chunk(problem, runs, device, on_epoch=lambda _: ends.append(_now(device)))
    ended = _now(device)
    epoch = float(np.median(np.diff(ends[len(ends) // 3 :])))
    sizes = Sizes.of(graph, method, config, [split])
    return _Timed(sizes, method, config, trial.runs, epoch, max(ended - began - trial.epochs * epoch, _LEAST))


def _quicker(one: _Timed, other: _Timed) -> _Timed:
    return dataclasses.replace(one, epoch=min(one.epoch, other.epoch), around=min(one.around, other.around))


def _graph(trial: _Trial) -> tuple[Graph, Split]:
    rng = np.random.default_rng(0)
    pairs = rng.integers(trial.nodes, size=(2, int(trial.nodes * trial.degree / 2)))
    half = sparse.csr_array((np.ones(pairs.shape[1]), tuple(pairs)), shape=(trial.nodes, trial.nodes))
    labels = np.arange(trial.nodes, dtype=np.int32) % trial.classes
    features: Any = rng.random((trial.nodes, trial.features))
    if not trial.dense:
        # Some columns are used much more often than others, as words are, and each class has its own: the validation
        # loss falls from epoch to epoch, as it does on real data.
        columns = (trial.features * rng.random(trial.nodes * trial.stored) ** 2).astype(np.int32)
        columns = (columns + np.repeat(labels, trial.stored) * trial.features // trial.classes) % trial.features
        pointers = np.arange(0, len(columns) + 1, trial.stored)
        features = sparse.csr_array((np.ones(len(columns)), columns, pointers), shape=features.shape)
    order, part = rng.permutation(trial.nodes), max(trial.nodes // 40, 5)
    split = Split("trial", order[: 2 * part], order[2 * part : 3 * part], order[3 * part : 4 * part])
    return Graph(half + half.T, features, labels, name="trial"), split


def _some_spectrum(nodes: int) -> Spectrum:
    """Return directions without an eigensolver: time does not depend on what they are."""
    vectors, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((nodes, _RANK)))
    return Spectrum(np.linspace(1.5, 1.4, _RANK), vectors, float(nodes), 0.0)


def _note(ends: list[float], device: torch.device, _: Progress) -> None:
    ends.append(_now(device))


def _batches(plain: Mapping[str, float], cache: float, device: torch.device) -> dict[str, float]:
    """Return the seconds around the sums of mini-batches: of a step, of a drawn entry, of one in a validation."""
    counts, times = [], []
    config = TrainConfig(max_epochs=3, stopping="none", rank=_RANK)
    for trial, size in (
        (_Trial(2000, 8, 10, 100, 64, 5, "gcn"), 10),
        (_Trial(30000, 10, 10, 100, 64, 5, "gcn-x5"), 512),
    ):
        graph, split = _graph(trial)
        method, settings, ends = parse_method(trial.method), BatchSettings(size, (10, 10)), list[float]()
        problem, basis = prepare_batches(graph, method, config)
        train_prepared(problem, basis, Run(split, 0), settings, device, on_epoch=partial(_note, ends, device))
        sizes = Sizes.of(graph, method, config, [split])
        work, around = batch_work(sizes, method, config, settings, cache, gpu=device.type == "cuda")
        times.append(max(ends[-1] - ends[-2] - sum(plain[name] * count for name, count in work.items()), 1e-4))
        counts.append(around)
    return fitted(counts, times, BATCHES)


def _preparation() -> dict[str, float]:
    """Return the seconds of what is prepared: see ``Pace``."""
    trial = _Trial(40000, 10, 1, 10, 16, 3, "gcn")
    graph, _ = _graph(trial)
    config = TrainConfig(rank=_RANK)
    began = time.process_time()
    prepare(graph, parse_method("gcn"), config)
    links = (time.process_time() - began) / graph.adjacency.nnz
    small, split = _graph(_Trial(3000, 6, 1, 10, 16, 3, "gcn"))
    walks, left = _walks(small, split)
    middle, split = _graph(_Trial(10000, 10, 1, 10, 16, 3, "gcn"))
    problem = prepare(middle, parse_method("gcn"), config)
    top_spectrum(prepare(small, parse_method("gcn"), config).propagation, _RANK)
    began = time.process_time()
    top_spectrum(problem.propagation, _RANK)
    sizes = Sizes.of(middle, parse_method("gcn"), config, [split])
    spectrum = (time.process_time() - began) / spectrum_work(sizes, _RANK)
    return {"links": links, "walks": walks, "left": left, "spectrum": spectrum}


def _walks(graph: Graph, split: Split) -> tuple[float, float]:
    """Return the seconds of a step of a walk and of an entry that walks leave, from two thresholds."""
    method = parse_method("gcn-t")
    prepare(_graph(_Trial(100, 4, 1, 10, 16, 3, "gcn"))[0], method, TrainConfig())  # compiles
    times, sizes = [], []
    for threshold in (0.02, 1e-4):
        config = TrainConfig(threshold=threshold)
        began = time.process_time()
        prepare(graph, method, config)
        times.append(time.process_time() - began)
        sizes.append(Sizes.of(graph, method, config, [split]))
    few, many = sizes
    left = max((times[1] - times[0]) / max(many.entries - few.entries, 1.0), 1e-9)
    return max((times[0] - left * few.entries) / few.walks, 1e-10), left


if __name__ == "__main__":
    main()
