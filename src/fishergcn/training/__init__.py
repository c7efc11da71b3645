"""Training: methods, settings, stopping rules, the engine, and records of what came out."""

from __future__ import annotations

from fishergcn._base.backend import backend
from fishergcn._settings.config import TrainConfig
from fishergcn.training._adam import Adam
from fishergcn.training._batch_problem import prepare_batches
from fishergcn.training._chunk import Progress, make_record, train_chunk
from fishergcn.training._distributed import Group, is_first_process, process_count, process_group
from fishergcn.training._engine import Trainer
from fishergcn.training._memory import held_bytes
from fishergcn.training._methods import METHODS, Method, control_of, graph_free_of, parse_method, samples_of
from fishergcn.training._metrics import THRESHOLD, measure, score_of, temperature_of
from fishergcn.training._minibatch import MiniBatchTrainer, train_prepared
from fishergcn.training._objective import Targets, consistency, scores, targets_on
from fishergcn.training._problem import Problem, Run, check_runs, input_size, learnable, network_inputs, prepare
from fishergcn.training._records import RunRecord, main_score, rank
from fishergcn.training._sampling import BatchSettings, NeighborSampler, batches, check_fanout
from fishergcn.training._scores import (
    Score,
    Tally,
    find_score,
    outside_modules,
    register_score,
    registered_scores,
    score_field,
    score_fields,
    scores_shown,
    titled,
    unregister_score,
)
from fishergcn.training._sizes import Sizes
from fishergcn.training._steps import plan_step
from fishergcn.training._stopping import should_stop
from fishergcn.training._travel import problem_arrays, problem_from_arrays, problem_key
from fishergcn.training._work import work_of
from fishergcn.training.tasks import Standard, Task, find_task

__all__ = [
    "METHODS", "BatchSettings", "Run", "RunRecord", "Score", "Tally", "TrainConfig", "backend", "control_of",
    "graph_free_of", "parse_method", "prepare", "register_score", "unregister_score",
]  # fmt: skip

SHARED = (
    "Adam", "Group", "Method", "MiniBatchTrainer", "NeighborSampler", "Problem", "Progress", "Sizes", "Standard",
    "THRESHOLD", "Targets", "Task", "Trainer", "find_task", "main_score", "targets_on",
    "batches", "check_fanout", "check_runs", "consistency", "find_score", "held_bytes", "input_size",
    "is_first_process", "learnable", "make_record", "measure", "network_inputs", "outside_modules", "plan_step",
    "prepare_batches", "problem_arrays",
    "problem_from_arrays", "problem_key", "process_count", "process_group", "rank", "registered_scores", "samples_of",
    "score_field", "score_fields", "score_of", "scores", "scores_shown", "should_stop", "temperature_of", "titled",
    "train_chunk", "train_prepared", "work_of",
)  # fmt: skip
