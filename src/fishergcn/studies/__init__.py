"""Studies: what is to be run, the runs that were made of it, and what they say.

A study has a plan: cells (a method with its settings on a data set) times splits and seeds. A *measure* turns each of
these into a record: training a network is one, attacking a trained one another. Plan, database, runner, statistics and
archive are the same for all.
"""

from __future__ import annotations

from fishergcn.studies._archive import write_archive
from fishergcn.studies._attacks import ATTACKS, TITLES, UNITS, title_of
from fishergcn.studies._auto import fit
from fishergcn.studies._candidates import CANDIDATES, PREPARATIONS
from fishergcn.studies._cost import tuning_cost
from fishergcn.studies._data_table import write_data_table
from fishergcn.studies._decisions import load_selection
from fishergcn.studies._equivalence import Equivalence, control_equivalence
from fishergcn.studies._export import export
from fishergcn.studies._joined import join
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._planning import make_comparison, make_plan
from fishergcn.studies._preset import Preset, Published, available_presets, load_preset
from fishergcn.studies._resampling import Estimate, cluster_bootstrap, estimate, interval_source, paired_difference
from fishergcn.studies._runner import run
from fishergcn.studies._runs import Band, Runs
from fishergcn.studies._search import PAPER_GRID
from fishergcn.studies._statistics import SPLITS_TO_JUDGE, CellSummary, Comparison, compare, summarize
from fishergcn.studies._store import open_runs
from fishergcn.studies._tuned import Trial, Tuning, load_tuning
from fishergcn.studies._tuning import tune

__all__ = [
    "ATTACKS", "CANDIDATES", "PAPER_GRID", "PREPARATIONS", "SPLITS_TO_JUDGE", "TITLES", "UNITS", "Band", "Cell",
    "CellSummary", "Comparison", "Equivalence", "Estimate", "Plan", "Preset", "Published", "Runs", "Trial", "Tuning",
    "available_presets", "cluster_bootstrap", "compare", "control_equivalence", "estimate", "export", "fit",
    "interval_source", "join", "load_preset", "load_selection", "load_tuning", "make_comparison", "make_plan",
    "open_runs", "paired_difference", "run", "summarize", "title_of", "tune", "tuning_cost", "write_archive",
    "write_data_table",
]  # fmt: skip
