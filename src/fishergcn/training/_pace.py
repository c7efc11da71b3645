"""How long each kind of work takes on a machine: fitted to a few trials, and kept in a file for the next time."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.optimize import nnls

from fishergcn._base.backend import usable
from fishergcn._base.files import write_text
from fishergcn._base.process import start_python
from fishergcn._base.provenance import device_name, versions
from fishergcn._base.types import FloatArray
from fishergcn._kernels.choice import LARGE_GRAPH
from fishergcn._kernels.threads import many_rows
from fishergcn.errors import DataFileError, FisherGCNError
from fishergcn.training._work import (
    activation_bytes,
    batch_work,
    compiles,
    draws_spectrum,
    epoch_work,
    held_bytes,
    sees_all,
)

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig
    from fishergcn.training._methods import Method
    from fishergcn.training._sampling import BatchSettings
    from fishergcn.training._sizes import Sizes

# Seconds of a unit of each kind of work on a usual machine: what a few trials cannot tell apart is drawn towards these,
# times a factor that they have in common. From profiles of single kernels.
COMPILED = {
    "epoch": 8e-4, "perturbation": 4e-4, "best epoch": 5e-5, "features": 1e-11, "stored": 1.7e-9,
    "dense features": 1e-10, "masks": 1e-10, "entries": 8e-9, "links": 1.5e-10, "far links": 2.2e-10,
    "full entries": 2e-9, "full rows": 4e-11, "far full rows": 5e-11, "layers": 7e-11, "activations": 5e-10,
    "far activations": 5e-10, "biased": 1e-12, "low rank": 3e-11, "parameters": 1e-9,
}  # fmt: skip
PLAIN = COMPILED | {"epoch": 1.6e-3, "stored": 2.2e-9, "activations": 2.4e-9, "far activations": 2e-9}
GPU = {
    "epoch": 5e-4, "perturbation": 2e-4, "best epoch": 2e-4, "features": 5e-13, "stored": 5e-12,
    "dense features": 1e-12, "masks": 1e-13, "entries": 1e-12, "links": 5e-13, "far links": 1e-12,
    "full entries": 1e-14, "full rows": 1e-14, "far full rows": 1e-14, "layers": 2e-13, "activations": 1e-11,
    "far activations": 1e-11, "biased": 5e-12, "low rank": 2e-13, "parameters": 1e-11,
}  # fmt: skip
BATCHES = {"step": 4e-3, "drawn": 2e-7, "checked": 1e-7}
SETUP = {"chunk": 1e-2, "entries": 8e-8, "full entries": 1.6e-7, "stored": 1e-8}
PREPARE = {"links": 4e-8, "walks": 3e-9, "left": 6e-8, "spectrum": 7e-9}
_RANDOM = 12  # entries of A that take as long as a number of random directions
_OWN_CACHE = 4e6  # bytes, of a core
_FAR_VECTORS, _COARSE_SHARE = 1.5, 0.2  # further time of vectors beyond it; that of a spectrum that is less precise
_CLUSTERED = 0.14  # time of an entry of a high-order matrix: its rows are full, and its spectrum has a thinner edge
_LINK_BYTES, _FAR_LINKS = 12, 1.5  # of an entry of A; further time of those beyond the cache
# Seconds of a byte that a process has not had before; trials in one process cannot tell, and a virtual machine may have
# to ask for it: 0.6e-9 and 2.8e-9 were measured on the same one.
_NEW_BYTE = 1e-9
_COMPILED_GAIN, _PLAIN_GAIN = 0.8, 0.4  # of a core for each further thread
_DRAWN = 0.2  # how strongly; a trial has the weight 1
_VERSION = 8  # of what is measured: another one is measured anew


def fitted(
    counts: Sequence[Mapping[str, float]], measured: Sequence[float], usual: Mapping[str, float]
) -> dict[str, float]:
    """Return the seconds of a unit of each kind of work, by least squares of the relative errors of some trials.

    Examples
    --------
    >>> found = fitted([{"call": 1, "sum": 1e6}, {"call": 1, "sum": 1e3}], [1.01, 0.0110], {"call": 1.0, "sum": 1e-4})
    >>> {name: float(f"{value:.1g}") for name, value in found.items()}
    {'call': 0.01, 'sum': 1e-06}
    """
    times: FloatArray = np.maximum(np.array(measured, dtype=np.float64), 1e-9)
    start: FloatArray = np.array(list(usual.values()))
    table: FloatArray = np.array([[each[name] for name in usual] for each in counts], dtype=np.float64) * start
    scale = float(np.median(times / table.sum(axis=1)))
    rows = np.vstack([scale * table / times[:, None], _DRAWN * np.eye(len(usual))])
    found, _ = nnls(rows, np.append(np.ones(len(times)), np.full(len(usual), _DRAWN)))
    return dict(zip(usual, (scale * found * start).tolist(), strict=True))


def setup_work(sizes: Sizes) -> dict[str, float]:
    """Return what is made ready before the first epoch of a run, and for its test."""
    full = sizes.entries if sizes.full_rows else 0.0
    return {"chunk": 1.0, "entries": sizes.entries - full, "full entries": full, "stored": float(sizes.stored)}


def spectrum_work(sizes: Sizes, rank: int) -> float:
    """Return what the time of eigenpairs grows with: entries, pairs, and steps, of which a larger graph needs more.

    The edge of a spectrum is the denser the more nodes there are: steps grow like the cube root of n. The vectors of a
    large graph come from beyond a core's own cache, and those of a very large one need not be as precise.
    """
    held = 8.0 * (2 * rank + 12) * sizes.nodes  # bytes of Lanczos vectors
    far = max(0.0, 1.0 - _OWN_CACHE / held)
    share = (_COARSE_SHARE if sizes.nodes > LARGE_GRAPH else 1.0) * (_CLUSTERED if sizes.clustered else 1.0)
    return float(sizes.entries * rank * sizes.nodes ** (1 / 3)) * (1.0 + _FAR_VECTORS * far) * share


@dataclass(frozen=True)
class Pace:
    """What a machine was measured to do.

    Attributes
    ----------
    machine
        Which one, and with which versions.
    cache
        Bytes of a cache that one array can have.
    compiled, plain
        Seconds of each kind of work in an epoch: of the compiled step, and of the one by autograd.
    batches
        Seconds of a step, of a drawn entry and of an entry in a validation, around the sums of mini-batches.
    setup
        Seconds of each kind of work before the first epoch of a chunk of runs.
    prepare
        Seconds of an entry of A in Ã, of a step of a walk and of an entry that walks leave, and of a unit of
        :func:`spectrum_work`.
    process, kernels
        Seconds that a process takes to import what it needs, and to load kernels.
    base
        Bytes of a process that has trained something small.

    Examples
    --------
    >>> import torch
    >>> from fishergcn import TrainConfig
    >>> from fishergcn.training import Sizes, parse_method
    >>> million = Sizes(10**6, 10**7, 1.1e7, 100, 10**7, 10, train=10**4, val=5000, test=5000)
    >>> pace, config = Pace.usual(torch.device("cpu")), TrainConfig()
    >>> pace.epoch(million, parse_method("gcn"), config) < pace.epoch(million, parse_method("fishergcn"), config)
    True
    """

    machine: Mapping[str, Any]
    cache: float
    compiled: Mapping[str, float]
    plain: Mapping[str, float]
    batches: Mapping[str, float]
    setup: Mapping[str, float]
    prepare: Mapping[str, float]
    process: float
    kernels: float
    base: float

    @classmethod
    def usual(cls, device: torch.device) -> Pace:
        """Return what a usual machine does, which says how much longer one training takes than another."""
        paces = GPU if device.type == "cuda" else PLAIN
        machine = {"device": device.type}
        return cls(machine, 16e6, COMPILED, paces, BATCHES, SETUP, PREPARE, process=1.5, kernels=0.5, base=4e8)

    @property
    def gpu(self) -> bool:
        """Whether this is a GPU."""
        return str(self.machine["device"]).startswith("cuda")

    def epoch(
        self,
        sizes: Sizes,
        method: Method,
        config: TrainConfig,
        runs: int = 1,
        batches: BatchSettings | None = None,
        threads: int = 1,
    ) -> float:
        """Return the seconds of an epoch: of some runs side by side, or of one in mini-batches.

        Rows of a large graph are dealt to threads, where there are several.
        """
        if batches is not None:
            work, around = batch_work(sizes, method, config, batches, self.cache, gpu=self.gpu)
            return _seconds(self.plain, work) + _seconds(self.batches, around)
        work = epoch_work(sizes, method, config, runs, self.cache, gpu=self.gpu)
        fast = not self.gpu and compiles(sizes, method, config)
        dealt = sees_all(method, config) and many_rows(sizes.nodes)
        gain = (_COMPILED_GAIN if fast else _PLAIN_GAIN) if dealt else 0.0
        return _seconds(self.compiled if fast else self.plain, work) / (1.0 + gain * (threads - 1))

    def chunk(self, sizes: Sizes, method: Method, config: TrainConfig) -> float:
        """Return the seconds around the epochs of runs side by side: what is made ready, and the test."""
        new = 0.0 if self.gpu else activation_bytes(sizes, method, config)
        return _seconds(self.setup, setup_work(sizes)) + _NEW_BYTE * new

    def preparation(self, sizes: Sizes, method: Method, config: TrainConfig) -> float:
        """Return the seconds of what all runs of a method share: Ã and, where it is perturbed, its spectrum."""
        far = max(0.0, 1.0 - self.cache / (_LINK_BYTES * max(sizes.links, 1)))
        found = self.prepare["links"] * sizes.links * (1.0 + _FAR_LINKS * far)
        if sizes.walks:
            found += self.prepare["walks"] * sizes.walks + self.prepare["left"] * sizes.entries
        if draws_spectrum(method, config) and config.directions == "random":
            found += _RANDOM * self.prepare["links"] * sizes.nodes * config.rank
        elif draws_spectrum(method, config):
            found += self.prepare["spectrum"] * spectrum_work(sizes, config.rank)
        return found

    def bytes(
        self, sizes: Sizes, method: Method, config: TrainConfig, runs: int = 1, batches: BatchSettings | None = None
    ) -> float:
        """Return the bytes of a process at its peak, or of a GPU."""
        held = held_bytes(sizes, method, config, runs, batches=batches is not None, gpu=self.gpu)
        return held if self.gpu else self.base + held


def _seconds(paces: Mapping[str, float], work: Mapping[str, float]) -> float:
    return sum(paces[name] * count for name, count in work.items())


def pace_of(device: torch.device) -> Pace:
    """Return what this machine was measured to do: from a file, or measured now, which takes some seconds.

    The file is ``pace-….json`` in ``$XDG_CACHE_HOME/fishergcn`` (``~/.cache/fishergcn``); it names the machine and the
    versions, and others do not use it. Where it cannot be written, the next call measures again.

    Examples
    --------
    >>> pace_of(torch.device("cpu")).base > 10**8
    True
    """
    machine = _machine(device)
    name = hashlib.sha256(json.dumps(machine, sort_keys=True).encode()).hexdigest()[:16]
    path = _folder() / f"pace-{name}.json"
    try:
        return _read(json.loads(path.read_text(encoding="utf-8")), machine)
    except (OSError, ValueError, TypeError, KeyError):
        found = measured_pace(device, machine)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(dataclasses.asdict(found), indent=1))
    except (OSError, DataFileError):  # a cache is a convenience
        pass
    return found


def measured_pace(device: torch.device, machine: Mapping[str, Any]) -> Pace:
    """Measure a device in a process of its own."""
    threads = dict.fromkeys((f"{name}_NUM_THREADS" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")), "1")
    for what in ("compile", "measure"):  # what is compiled is kept on disk: what the second process does is usual
        worker = start_python(
            "fishergcn.training._calibration", str(device), what, environment=threads, stdout=subprocess.PIPE, text=True
        )
        printed, _ = worker.communicate()
        if worker.returncode != 0:
            status = f"the process ended with status {worker.returncode}"
            raise FisherGCNError(f"this machine could not be measured: {status}.")
    return _read({"machine": machine, **json.loads(printed.splitlines()[-1])}, machine)


def _read(values: Mapping[str, Any], machine: Mapping[str, Any]) -> Pace:
    """Return a pace of this machine, or raise ValueError, TypeError or KeyError."""
    found = Pace(**values)
    parts = ((found.plain, PLAIN), (found.compiled, COMPILED), (found.setup, SETUP), (found.prepare, PREPARE))
    if found.machine != machine or any(set(some) != set(usual) for some, usual in parts):
        raise ValueError("of another machine")
    return found


def _machine(device: torch.device) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "device": device_name(device),
        "cores": os.cpu_count(),
        "kernels": usable("triton" if device.type == "cuda" else "numba"),
        **versions(),
    }


def _folder() -> Path:
    told = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(told) if os.path.isabs(told) else Path.home() / ".cache") / "fishergcn"
