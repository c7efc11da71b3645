"""Where runs are trained: in this process, in several, or on a cluster."""

from __future__ import annotations

from fishergcn.execution._arguments import check_graph, check_records, chosen_config
from fishergcn.execution._choice import choose_executor
from fishergcn.execution._cost import Cost, Part, PartCost, cost_of, time_epochs
from fishergcn.execution._devices import count_cores, find_device
from fishergcn.execution._doctor import diagnose
from fishergcn.execution._executors import LocalExecutor, ProcessExecutor, StopWork
from fishergcn.execution._jobs import Executor, Job, Measure, cut, load_problem, measure_name, save_problem
from fishergcn.execution._progress import Display, Listener
from fishergcn.execution._ray import join_cluster
from fishergcn.execution._sharing import shared_arrays, shared_graph
from fishergcn.execution._train import train
from fishergcn.execution._training import train_job

__all__ = ["Job", "Listener", "Measure", "choose_executor", "diagnose", "train"]

SHARED = (
    "Cost", "Display", "Executor", "LocalExecutor", "Part", "PartCost", "ProcessExecutor", "StopWork", "check_graph",
    "check_records", "chosen_config", "cost_of", "count_cores", "cut", "find_device", "join_cluster",
    "load_problem", "measure_name",
    "save_problem", "shared_arrays", "shared_graph", "time_epochs", "train_job",
)  # fmt: skip
