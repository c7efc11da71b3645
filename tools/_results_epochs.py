"""Differences at every epoch, from the learning curves in results/curves."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from _study import NAMES, PAIRS, RESULTS, markdown

from fishergcn._base.text import signed_points
from fishergcn._base.types import FloatArray
from fishergcn.drawing import Chart, Look, draw_panels
from fishergcn.studies import Estimate, open_runs

__all__ = ["differences", "draw_epochs", "epochs"]

# Solid below dashed, so that both are seen where they agree.
LOOKS = {
    "method − plain": Look("#1f7fc4", (), ""),
    "control − plain": Look("#e69f00", (5.0, 4.0), ""),
    "method − control": Look("#009e73", (), ""),
}
Curves = dict[tuple[str, str], dict[str, FloatArray]]  # (data set, method) -> differences by the names in LOOKS


@cache
def differences(curve: str) -> Curves:
    """Return the differences of the mean curves, epoch by epoch; all runs train for all epochs, so they are paired."""
    found = {}
    with open_runs(RESULTS / "curves") as runs:
        for dataset in NAMES:
            for pair in PAIRS:
                means = [runs.bands(dataset, name)[curve].mean for name in pair]
                method, control, plain = means
                gaps = (method - plain, control - plain, method - control)
                found[dataset, pair[0]] = dict(zip(LOOKS, gaps, strict=True))
    return found


def epochs() -> str:
    """The largest differences on the way, and where."""
    rows, most = [], {}
    for curve in ("val_accuracy", "train_accuracy"):
        for (dataset, method), gaps in differences(curve).items():
            ours, control, rest = gaps.values()
            peak = int(ours.argmax())
            worst = int(np.abs(rest).argmax())
            most[curve] = max(most.get(curve, 0.0), float(np.abs(rest).max()))
            if curve == "val_accuracy":
                where = [f"{signed_points(ours[peak])} (epoch {peak + 1})", signed_points(control[peak])]
                where += [signed_points(rest[worst]), signed_points(ours[-1]), signed_points(control[-1])]
                rows.append([NAMES[dataset], f"`{method}`", *where])
    header = ["data", "method", "method − plain, largest", "control − plain, same epoch",
              "method − control, largest of all epochs", "method − plain, epoch 100",
              "control − plain, epoch 100"]  # fmt: skip
    return (
        f"{markdown(header, rows)}\n\n"
        "Validation accuracy in percentage points, means over 200 runs; the archive keeps four digits of each mean, so "
        "a difference may be off by 0.01. Between method and control the largest difference at any of the 100 epochs "
        f"is {100 * most['val_accuracy']:.2f} points in validation accuracy and {100 * most['train_accuracy']:.2f} in "
        "training accuracy. Made by `fishergcn reproduce curves --device cuda --out curves`."
    )


def draw_epochs() -> Chart:
    """Draw all three differences over the epochs."""
    panels = {}
    for (dataset, method), gaps in sorted(differences("val_accuracy").items(), key=lambda item: item[0][1]):
        panels[f"{NAMES[dataset]}: {method}", "epoch"] = {
            name: [(epoch, point(value)) for epoch, value in enumerate(gap.tolist(), 1)] for name, gap in gaps.items()
        }
    label = "Differences in validation accuracy at every epoch: the control follows the perturbed method throughout"
    return draw_panels(label, panels, LOOKS, "epochs", ylabel="points", zero=True)


def point(value: float) -> Estimate:
    """Return a mean that comes without an interval."""
    return Estimate(value, math.nan, math.nan, math.nan, math.nan, 200, 20, "splits")
