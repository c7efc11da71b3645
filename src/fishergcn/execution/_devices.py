"""Where to compute: devices by name, and how many runs a device holds at once."""

from __future__ import annotations

import os

import numpy as np
import torch

from fishergcn.errors import InputError
from fishergcn.training import Problem


def find_device(device: str) -> torch.device:
    """Return the torch device of a name; ``"auto"`` is a GPU if there is one.

    Examples
    --------
    >>> find_device("cpu")
    device(type='cpu')
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = torch.device("meta")  # which is none of ours either
    if found.type not in ("cpu", "cuda"):
        raise InputError(f"device must be 'cpu', 'cuda', 'cuda:N' or 'auto', got {device!r}.")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {device!r} is not available: torch sees {torch.cuda.device_count()} CUDA devices.")
    return found


def chunk_size(problem: Problem, device: torch.device) -> int:
    """Return how many runs are trained side by side: one on the CPU, as many as fit in memory on a GPU.

    Examples
    --------
    >>> import numpy as np, torch, fishergcn
    >>> from fishergcn.training import parse_method, prepare
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> chunk_size(prepare(graph, parse_method("gcn"), fishergcn.TrainConfig()), torch.device("cpu"))
    1
    """
    if device.type == "cpu":
        return 1
    free, _ = torch.cuda.mem_get_info(device)
    config, graph = problem.config, problem.graph
    bytes_each = 4 if config.dtype == "float32" else 8
    widths = sum(config.hidden) + graph.num_classes
    parameters = (graph.num_features + widths) * max(config.hidden, default=1)
    # About ten arrays of activations are alive in a step; weights, gradients, moments and copies make six.
    arrays = 10.0
    if problem.method.perturbed and config.perturbation == "spectral" and config.congruent:
        # The factors on both sides of L keep what they multiply, on links once for each end.
        arrays += {"nodes": 8, "polynomial": 8 * config.degree}.get(config.directions, 12)
        arrays += 8 * graph.num_links / graph.num_nodes if config.directions == "links" else 0
    each = bytes_each * (arrays * graph.num_nodes * widths * problem.samples + 6 * parameters)
    return int(np.clip(0.6 * free / each, 1, 1024))


def count_cores() -> int:
    """Return how many cores this process may use.

    Examples
    --------
    >>> count_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
