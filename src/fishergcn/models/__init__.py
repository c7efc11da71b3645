"""Trained models: networks with their graph, to predict with, to look into, to save and to load."""

from __future__ import annotations

from fishergcn.models._calibrated import Calibrated, calibrate
from fishergcn.models._card import words_of_trust
from fishergcn.models._class_shares import class_shares, class_weights, differs
from fishergcn.models._conformal import (
    adaptive_scores,
    check_coverage,
    conformal_quantile,
    nodes_needed,
    weighted_quantile,
)
from fishergcn.models._ensemble import Ensemble
from fishergcn.models._explanation import Evidence, Explanation, position
from fishergcn.models._facts import read_facts
from fishergcn.models._folder import MODEL_FILES, check_model_target, load_runs
from fishergcn.models._refit import refit
from fishergcn.models._saved import best_run, load_model, load_models, save_models
from fishergcn.models._selection import CALIBRATED, Candidate, Selection
from fishergcn.models._sets import node_draws, split_for, spread_of_coverage
from fishergcn.models._tape import LinkScores, Tape, entry_scores, raw_scores
from fishergcn.models._trained import TrainedModel

__all__ = [
    "Candidate", "Ensemble", "Explanation", "Selection", "TrainedModel", "best_run", "load_model", "load_models",
    "refit", "save_models",
]  # fmt: skip

SHARED = (
    "CALIBRATED", "MODEL_FILES", "Calibrated", "Evidence", "LinkScores", "Tape", "adaptive_scores", "calibrate",
    "check_coverage", "check_model_target", "class_shares", "class_weights", "conformal_quantile", "differs",
    "entry_scores", "load_runs", "node_draws", "nodes_needed", "position", "raw_scores", "read_facts", "split_for",
    "spread_of_coverage", "weighted_quantile", "words_of_trust",
)  # fmt: skip
