"""The measure of most jobs: train their runs side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch

from fishergcn.execution._cost import explain_out_of_memory
from fishergcn.training import Progress, RunRecord, train_chunk

if TYPE_CHECKING:
    from fishergcn.execution._jobs import Job


def train_job(
    job: Job, device: torch.device, on_epoch: Callable[[Progress], None] | None = None
) -> Iterator[list[RunRecord]]:
    """Yield the records of a job once; where the GPU's memory does not suffice, it is done in two halves."""
    problem = job.problem
    with explain_out_of_memory(problem.graph, problem.method, problem.config, device):
        records = _records(job, device, on_epoch)
    yield records


def _records(job: Job, device: torch.device, on_epoch: Callable[[Progress], None] | None) -> list[RunRecord]:
    try:
        return train_chunk(job.problem, job.runs, device, keep_weights=job.keep_weights, on_epoch=on_epoch)
    except torch.OutOfMemoryError:
        if len(job.runs) == 1:
            raise
    torch.cuda.empty_cache()  # outside the handler, where the error no longer keeps the tensors alive
    half = len(job.runs) // 2
    parts = (dataclasses.replace(job, runs=runs) for runs in (job.runs[:half], job.runs[half:]))
    return [record for part in parts for record in _records(part, device, on_epoch)]
