"""Studies: plan, database, runner, statistics and archive of many runs."""

from __future__ import annotations

from fishergcn.studies._archive import write_archive
from fishergcn.studies._data_table import data_table, write_data_table
from fishergcn.studies._export import export_runs
from fishergcn.studies._folders import holds_robustness, holds_runs
from fishergcn.studies._plan import Cell, Plan, make_plan
from fishergcn.studies._preset import Preset, available_presets, load_preset
from fishergcn.studies._resampling import Estimate, interval_source
from fishergcn.studies._robustness_feasible import check_study
from fishergcn.studies._robustness_points import Point, points_csv, read_points, read_study
from fishergcn.studies._robustness_settings import ATTACKS, Settings, file_name, load_settings
from fishergcn.studies._robustness_study import run_study
from fishergcn.studies._runner import run
from fishergcn.studies._runs import Band, Runs
from fishergcn.studies._signals import Signals, Stopped
from fishergcn.studies._statistics import (
    CellSummary,
    Comparison,
    cluster_bootstrap,
    compare,
    estimate,
    paired_difference,
    summarize,
)
from fishergcn.studies._store import RunStore, open_runs
from fishergcn.studies._tuning import PAPER_GRID, Trial, Tuning, tune

__all__ = [
    "ATTACKS",
    "PAPER_GRID",
    "Band",
    "Cell",
    "CellSummary",
    "Comparison",
    "Estimate",
    "Plan",
    "Point",
    "Preset",
    "RunStore",
    "Runs",
    "Settings",
    "Signals",
    "Stopped",
    "Trial",
    "Tuning",
    "available_presets",
    "check_study",
    "cluster_bootstrap",
    "compare",
    "data_table",
    "estimate",
    "export_runs",
    "file_name",
    "holds_robustness",
    "holds_runs",
    "interval_source",
    "load_preset",
    "load_settings",
    "make_plan",
    "open_runs",
    "paired_difference",
    "points_csv",
    "read_points",
    "read_study",
    "run",
    "run_study",
    "summarize",
    "tune",
    "write_archive",
    "write_data_table",
]
