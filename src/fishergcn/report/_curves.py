"""Learning curves of many runs for the page's script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fishergcn._base.types import FloatArray, IntArray
from fishergcn.drawing import Look
from fishergcn.report._outcome import Outcome
from fishergcn.studies import Band

# Name in the record, title, whether it is shown in percent.
PANELS = (
    ("train_loss", "Training loss", False),
    ("val_loss", "Validation loss", False),
    ("train_accuracy", "Training accuracy", True),
    ("val_accuracy", "Validation accuracy", True),
)
# A page shows no more epochs of a curve than this; a screen has no more pixels.
MOST_POINTS = 500
# Methods switched on when the page opens; more would hide each other.
FIRST_SHOWN = 8


def curves_json(outcome: Outcome, looks: Mapping[str, Look]) -> dict[str, Any]:
    """Return what the script of the page draws, in plain numbers rounded to five digits."""
    curves = {dataset: outcome.curves(dataset) for dataset in outcome.datasets}
    present = list(dict.fromkeys(name for bands in curves.values() for name in bands))
    methods = [
        {"name": name, "color": looks[name].color, "dash": list(looks[name].dash), "shown": at < FIRST_SHOWN}
        for at, name in enumerate(present)
    ]
    panels = [{"key": key, "title": title, "percent": percent} for key, title, percent in PANELS]
    datasets = [_dataset_json(dataset, bands) for dataset, bands in curves.items() if bands]
    return {"methods": methods, "panels": panels, "datasets": datasets}


def _dataset_json(dataset: str, bands: Mapping[str, Mapping[str, Band]]) -> dict[str, Any]:
    longest = max(band.mean.size for curves in bands.values() for band in curves.values())
    steps = np.unique(np.linspace(0, longest - 1, min(longest, MOST_POINTS)).round().astype(np.int64))
    series = {
        name: {
            key: {part: _points(getattr(curves[key], part), steps) for part in ("mean", "low", "high")}
            for key, _, _ in PANELS
            if key in curves
        }
        for name, curves in bands.items()
    }
    return {"name": dataset, "epochs": (steps + 1).tolist(), "series": series}


def _points(values: FloatArray, steps: IntArray) -> list[float | None]:
    return [
        float(f"{values[step]:.5g}") if step < values.size and np.isfinite(values[step]) else None for step in steps
    ]
