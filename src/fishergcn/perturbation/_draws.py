"""What neighborhoods share when they draw: the noise e, the scale ϕ of each direction, coordinates that are given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.checks import check_integer
from fishergcn._base.tensors import ArrayOrTensor, as_tensor
from fishergcn._settings.choices import Noise
from fishergcn.errors import InputError


def draw_noise(kind: Noise, samples: int, rank: int, generator: torch.Generator) -> Tensor:
    """Draw e, shape (samples, rank), each entry of mean 0 and variance 1/12, on the device of the generator."""
    samples = check_integer("samples", samples, minimum=1)
    place: dict[str, Any] = {"dtype": torch.float64, "device": generator.device, "generator": generator}
    if kind == "uniform":
        return torch.rand(samples, rank, **place) - 0.5
    return torch.randn(samples, rank, **place) / math.sqrt(12.0)


def check_shape(shape: ArrayOrTensor | float, rank: int, device: torch.device) -> Tensor | float:
    """Return ϕ as a number or as a tensor of shape (rank,).

    A number stays one: its copy to a GPU could not be recorded in a CUDA graph.
    """
    if isinstance(shape, int | float):
        return float(shape)
    scale = torch.as_tensor(shape, dtype=torch.float64, device=device)
    if scale.ndim > 1 or (scale.ndim == 1 and scale.shape[0] != rank):
        raise InputError(f"shape must be a number or have shape ({rank},), got {tuple(scale.shape)}.")
    return scale


def check_coordinates(name: str, value: ArrayOrTensor, rank: int, device: torch.device) -> Tensor:
    """Return coordinates of perturbations in float64, shape (..., rank); an array must be finite."""
    if not isinstance(value, Tensor):
        value = np.asarray(value, dtype=np.float64)
        if not np.isfinite(value).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
            raise InputError(f"{name} must be finite, got {value[where]} at index {where}.")
    tensor = as_tensor(value, torch.float64, device)
    if tensor.ndim < 1 or tensor.shape[-1] != rank:
        raise InputError(f"{name} must have shape (..., {rank}), got {tuple(tensor.shape)}.")
    return tensor
