"""Where to compute: devices by name, and how many runs a device holds at once."""

from __future__ import annotations

import os

import numpy as np
import torch

from fishergcn.errors import InputError
from fishergcn.training import Method, Problem, Sizes, TrainConfig, held_bytes

# How much of the free memory runs side by side are predicted to take: predictions err, and arrays leave gaps.
_SHARE = 0.5


def find_device(device: str) -> torch.device:
    """Return the torch device of a name; ``"auto"`` is a GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = torch.device("meta")  # not supported either
    if found.type not in ("cpu", "cuda"):
        raise InputError(f"device must be 'cpu', 'cuda', 'cuda:N' or 'auto', got {device!r}.")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {device!r} is not available: torch sees {torch.cuda.device_count()} CUDA devices.")
    return found


def chunk_size(problem: Problem, device: torch.device, workers: int = 0) -> int:
    """Return how many runs are trained side by side: one on the CPU, as many as fit in memory on a GPU.

    Worker processes, if there are any, have equal parts of a GPU's memory, however much they hold at the moment.
    """
    if device.type == "cpu":
        return 1
    free, whole = torch.cuda.mem_get_info(device)
    sizes = Sizes.of(problem.graph, problem.method, problem.config, entries=problem.propagation.nnz)
    return runs_side_by_side(sizes, problem.method, problem.config, whole / workers if workers else free)


def runs_side_by_side(sizes: Sizes, method: Method, config: TrainConfig, free: float) -> int:
    """Return how many runs are trained at once on a GPU with ``free`` bytes, at least one and at most 1024."""
    one, two = (held_bytes(sizes, method, config, runs, gpu=True) for runs in (1, 2))
    return int(np.clip((_SHARE * free - one) / max(two - one, 1.0) + 1, 1, 1024))


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
