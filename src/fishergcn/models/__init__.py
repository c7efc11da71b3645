"""Trained models: a network with its graph, to predict with, to save and to load."""

from __future__ import annotations

from fishergcn.models._saved import (
    SavedModel,
    best_run,
    check_model_target,
    load_model,
    save_model,
    write_model,
    write_runs,
)

__all__ = ["SavedModel", "best_run", "check_model_target", "load_model", "save_model", "write_model", "write_runs"]
