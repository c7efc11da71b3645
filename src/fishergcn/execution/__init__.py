"""Where runs are trained: in this process, in several, or on a cluster."""

from __future__ import annotations

from fishergcn.execution._arguments import check_config, check_graph, check_record, check_records
from fishergcn.execution._choice import choose_executor
from fishergcn.execution._devices import chunk_size, find_device
from fishergcn.execution._executors import LocalExecutor, ProcessExecutor, StopWork
from fishergcn.execution._jobs import Executor, Job, Measure
from fishergcn.execution._progress import Display, Listener
from fishergcn.execution._ray import RayExecutor
from fishergcn.execution._train import train, train_methods
from fishergcn.execution._training import train_job

__all__ = [
    "Display",
    "Executor",
    "Job",
    "Listener",
    "LocalExecutor",
    "Measure",
    "ProcessExecutor",
    "RayExecutor",
    "StopWork",
    "check_config",
    "check_graph",
    "check_record",
    "check_records",
    "choose_executor",
    "chunk_size",
    "find_device",
    "train",
    "train_job",
    "train_methods",
]
