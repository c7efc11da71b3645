"""Trained models: networks with their graph, to predict with, to look into, to save and to load."""

from __future__ import annotations

from fishergcn.models._ensemble import Ensemble
from fishergcn.models._folder import check_model_target, load_runs
from fishergcn.models._refit import refit
from fishergcn.models._saved import best_run, load_model, load_models, save_models
from fishergcn.models._selection import Candidate, Selection
from fishergcn.models._trained import TrainedModel

__all__ = [
    "Candidate", "Ensemble", "Selection", "TrainedModel", "best_run", "load_model", "load_models", "refit",
    "save_models",
]  # fmt: skip

SHARED = ("check_model_target", "load_runs")
