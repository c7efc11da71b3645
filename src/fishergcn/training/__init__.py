"""Training: configuration, stopping rules, the stacked engine, and records of what came out."""

from __future__ import annotations

from fishergcn.training.api import train
from fishergcn.training.config import TrainConfig
from fishergcn.training.methods import METHODS
from fishergcn.training.records import RunRecord
from fishergcn.training.saved import SavedModel, best_run, load_model, save_model

__all__ = [
    "METHODS",
    "RunRecord",
    "SavedModel",
    "TrainConfig",
    "best_run",
    "load_model",
    "save_model",
    "train",
]
