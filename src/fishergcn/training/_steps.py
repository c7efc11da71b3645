"""Which step a training takes, decided once: the trainer, the prediction of memory and ``doctor`` read it here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from fishergcn._base.backend import chosen_backend, kernels_on
from fishergcn.errors import InputError
from fishergcn.graph import Task as TaskName

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig
    from fishergcn.training._methods import Method

_WORDS = {
    "compiled": "forward and backward pass are compiled kernels",
    "recorded": "an epoch is recorded as one CUDA graph",
}


@dataclass(frozen=True)
class StepPlan:
    """How the steps of a training run: see :func:`plan_step`."""

    kind: Literal["compiled", "recorded", "autograd"]
    fused: bool
    reason: str


def plan_step(
    method: Method,
    config: TrainConfig,
    *,
    gpu: bool,
    dense: bool = False,
    linked: bool = True,
    batches: bool = False,
    task: TaskName = "classification",
) -> StepPlan:
    """Decide how the steps of a training run, or refuse a backend that was chosen and cannot run.

    ``linked`` says whether the propagation matrix has entries beside its diagonal. The plan has its ``kind``, as
    :func:`backend` has it; whether layers on a GPU are ``fused`` Triton kernels, which hold fewer arrays than torch's
    own; and the ``reason``, in words.
    """
    moved = method.perturbed and config.radius > 0 and (config.perturbation != "spectral" or config.congruent)
    kernels = kernels_on("cuda" if gpu else "cpu", getattr(torch, config.dtype))
    fused = kernels == "triton" and method.uses_graph and not dense and not moved
    obstacles = {
        "compiled": _not_compiled(method, config, kernels, gpu=gpu, dense=dense, linked=linked),
        "recorded": _not_recorded(method, config, kernels, gpu=gpu),
    }
    if task != "classification":
        obstacles["compiled"] = obstacles["compiled"] or f"the kernels are for classes, and the task is {task!r}"
    if batches:
        obstacles = dict.fromkeys(obstacles, "the steps of mini-batches differ in size")
    chosen = chosen_backend()
    if chosen in ("autograd", "reference"):
        return StepPlan("autograd", fused, f"backend {chosen!r} was chosen")
    kind: Literal["compiled", "recorded"] = "recorded" if gpu else "compiled"
    if obstacles.get(chosen):
        raise InputError(f"backend {chosen!r} cannot train {method.name!r} here: {obstacles[chosen]}.")
    if obstacles[kind]:
        return StepPlan("autograd", fused, obstacles[kind])
    return StepPlan(kind, fused, _WORDS[kind])


def draws_links(method: Method, config: TrainConfig) -> bool:
    """Whether each step draws links, and not a perturbation of the spectrum."""
    moved = config.perturbation == "spatial" or config.link_rate > 0
    return method.perturbed and config.perturbation != "spectral" and moved


def _not_compiled(method: Method, config: TrainConfig, kernels: str, *, gpu: bool, dense: bool, linked: bool) -> str:
    """Say why a step cannot be the compiled one; nothing if it can."""
    drawn = method.perturbed and config.perturbation == "spectral" and config.radius > 0
    mean_is_sparse = config.noise == "mean" and config.directions in ("nodes", "links")
    of_low_rank = config.noise != "mean" and not config.congruent
    reasons = {
        "a GPU trains": gpu,
        "numba cannot be imported": kernels != "numba",
        "the network has a bias": config.bias,
        f"{method.name!r} has no compiled step with these settings": not method.network.has_compiled_step(config),
        "there is no dropout": config.dropout == 0,
        "the features are dense": dense,
        "there are no links": not (linked and method.uses_graph),
        "each step draws links": draws_links(method, config),
        "the perturbed graph is not of the form that kernels know": drawn and not (mean_is_sparse or of_low_rank),
        "the loss has a consistency term": method.consistent and config.consistency > 0,
    }
    return next((words for words, holds in reasons.items() if holds), "")


def _not_recorded(method: Method, config: TrainConfig, kernels: str, *, gpu: bool) -> str:
    """Say why an epoch is not the same sequence of CUDA kernels each time; nothing if it is."""
    reasons = {
        "no GPU trains": not gpu,
        "Triton's kernels need float32": config.dtype != "float32",
        "triton cannot be imported": kernels != "triton",
        "each step draws links": draws_links(method, config) or config.directions == "links",
    }
    return next((words for words, holds in reasons.items() if holds), "")
