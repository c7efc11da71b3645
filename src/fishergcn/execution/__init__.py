"""Where runs are trained: in this process, in several, or on a cluster."""

from __future__ import annotations

from fishergcn.execution._arguments import as_split, as_splits, check_config, check_graph, check_record, check_records
from fishergcn.execution._executors import LocalExecutor, ProcessExecutor, StopWork
from fishergcn.execution._jobs import Executor, Job, Measure
from fishergcn.execution._progress import make_display
from fishergcn.execution._ray import RayExecutor
from fishergcn.execution._train import chunk_size, find_device, train
from fishergcn.execution._training import train_job

__all__ = [
    "Executor",
    "Job",
    "LocalExecutor",
    "Measure",
    "ProcessExecutor",
    "RayExecutor",
    "StopWork",
    "as_split",
    "as_splits",
    "check_config",
    "check_graph",
    "check_record",
    "check_records",
    "chunk_size",
    "find_device",
    "make_display",
    "train",
    "train_job",
]
