"""Studies: what is to be run, the runs that were made of it, and what they say.

A study has a plan: cells (a method with its settings on a data set) times splits and seeds. A *measure* turns each of
these into a record: training a network is one, attacking a trained one another. Plan, database, runner, statistics and
archive are the same for all.
"""

from __future__ import annotations

from fishergcn.studies._archive import write_archive
from fishergcn.studies._attack import ATTACK_SCORES
from fishergcn.studies._attacks import ATTACKS, UNITS, title_of
from fishergcn.studies._auto import fit
from fishergcn.studies._candidates import CANDIDATES, PREPARATIONS
from fishergcn.studies._cost import tuning_cost
from fishergcn.studies._data_table import write_data_table
from fishergcn.studies._decisions import OtherChoiceError, counting_from, forget_choice, load_selection
from fishergcn.studies._equivalence import Equivalence, control_equivalence, equivalence
from fishergcn.studies._export import export
from fishergcn.studies._honest import Honest, on_nodes
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._planning import make_comparison, make_plan
from fishergcn.studies._preset import Preset, Published, available_presets, load_preset
from fishergcn.studies._resampling import (
    Estimate,
    cluster_bootstrap,
    crossed_error,
    estimate,
    estimate_groups,
    interval_source,
    paired_difference,
    student,
    units_of,
)
from fishergcn.studies._runner import run
from fishergcn.studies._runs import Band, Runs, join
from fishergcn.studies._saved_models import ModelsCompared, compare_models
from fishergcn.studies._statistics import SPLITS_TO_JUDGE, CellSummary, Comparison, compare, scores_of, summarize
from fishergcn.studies._store import DATABASE, RunStore, open_runs
from fishergcn.studies._tuned import Trial, Tuning, load_tuning, write_tuning
from fishergcn.studies._tuning import PAPER_GRID, tunable, tune
from fishergcn.studies._verify import in_words
from fishergcn.studies._verify import verify as verify_folder

__all__ = [
    "CANDIDATES", "PREPARATIONS", "Cell", "Plan", "Runs", "compare", "export", "fit", "load_preset", "load_tuning",
    "make_comparison", "make_plan", "open_runs", "paired_difference", "run", "summarize", "tune", "write_archive",
]  # fmt: skip

# What the functions take or return, and what commands, pages and tables stand on.
SHARED = (
    "ATTACKS", "ATTACK_SCORES", "DATABASE", "PAPER_GRID", "SPLITS_TO_JUDGE", "UNITS", "Band", "CellSummary",
    "Comparison", "Equivalence", "Estimate", "Honest", "ModelsCompared", "OtherChoiceError", "Preset", "Published",
    "RunStore", "Trial", "Tuning", "available_presets", "cluster_bootstrap", "compare_models", "control_equivalence",
    "counting_from", "crossed_error", "equivalence", "estimate", "estimate_groups", "forget_choice", "in_words",
    "interval_source", "join", "load_selection", "on_nodes", "scores_of", "student", "title_of", "tunable",
    "tuning_cost", "units_of", "verify_folder", "write_data_table", "write_tuning",
)  # fmt: skip
