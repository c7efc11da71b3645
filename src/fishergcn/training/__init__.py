"""Training: methods, settings, stopping rules, the engine, and records of what came out."""

from __future__ import annotations

from fishergcn._base.backend import backend
from fishergcn._settings.config import TrainConfig
from fishergcn.training._batch_problem import prepare_batches
from fishergcn.training._chunk import Progress, train_chunk
from fishergcn.training._distributed import is_first_process, process_count, process_group
from fishergcn.training._memory import held_bytes
from fishergcn.training._methods import METHODS, Method, control_of, graph_free_of, parse_method, samples_of
from fishergcn.training._minibatch import train_prepared
from fishergcn.training._objective import Targets, scores
from fishergcn.training._problem import (
    Problem,
    Run,
    check_runs,
    learnable,
    prepare,
)
from fishergcn.training._records import SCORES, RunRecord
from fishergcn.training._sampling import BatchSettings, check_fanout
from fishergcn.training._sizes import Sizes
from fishergcn.training._steps import plan_step
from fishergcn.training._timing import time_epochs
from fishergcn.training._travel import problem_arrays, problem_from_arrays, problem_key

__all__ = [
    "METHODS", "SCORES", "BatchSettings", "Method", "Problem", "Progress", "Run", "RunRecord", "Sizes", "Targets",
    "TrainConfig", "backend", "check_fanout", "check_runs", "control_of", "graph_free_of", "held_bytes",
    "is_first_process", "learnable", "parse_method", "plan_step", "prepare", "prepare_batches", "problem_arrays",
    "problem_from_arrays", "problem_key", "process_count", "process_group", "samples_of", "scores", "time_epochs",
    "train_chunk", "train_prepared",
]  # fmt: skip
