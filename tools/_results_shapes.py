"""What the adversary learned in the runs of Table 2: final shapes beside their random start."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from _study import NAMES, PAIRS, RESULTS, TABLES, markdown

from fishergcn._base.types import FloatArray
from fishergcn.drawing import Chart, Look, draw_panels
from fishergcn.streams import initial_xi, keys_of
from fishergcn.studies import Estimate, open_runs

__all__ = ["Shapes", "draw_shapes", "shapes", "shapes_of"]

LOOKS = {"start": Look("#8a929c", (1.5, 2.5), "^"), "end": Look("#1f7fc4", (), "o")}


class Shapes(NamedTuple):
    """ϕ/ε of R runs in k directions, shape (R, k), before and after training, and the split of each run."""

    start: FloatArray
    end: FloatArray
    splits: list[str]


@cache
def shapes_of(name: str = "table2") -> dict[tuple[str, str], Shapes]:
    """Return the shapes of each (data set, method); the start follows from a run's key."""
    found = {}
    with open_runs(RESULTS / name) as runs:
        for dataset in NAMES:
            for method, _, _ in PAIRS:
                records = [record for _, record in runs.entries(dataset, method) if record.status == "ok"]
                radius, rank = records[0].config["radius"], records[0].config["rank"]
                keys = keys_of(dataset, [(record.split, record.seed) for record in records])
                start = torch.sigmoid(initial_xi(keys, rank)).numpy()
                end = np.array([record.shape for record in records]) / radius
                found[dataset, method] = Shapes(start, end, [record.split for record in records])
    return found


def explained(change: FloatArray, groups: list[str]) -> float:
    """Return the share of the squared change that the mean over a group of runs accounts for, direction by direction.

    Unbiased: as in the analysis of variance, the spread that means of few runs have by chance is taken off.
    """
    kinds, place = np.unique(groups, return_inverse=True)
    sizes = np.bincount(place)
    means = np.stack([np.bincount(place, weights=column) / sizes for column in change.T], axis=1)
    within = ((change - means[place]) ** 2).sum(axis=0) / (len(change) - len(kinds))
    between = (sizes[:, None] * means**2).sum(axis=0) - len(kinds) * within
    return float(between.sum() / (change**2).sum())


def shapes() -> str:
    """Start and end in numbers."""
    rows = []
    for (dataset, method), (start, end, splits) in shapes_of().items():
        change = end - start
        common, by_split = explained(change, [""] * len(end)), explained(change, splits)
        rows.append([NAMES[dataset], f"`{method}`", f"{start.mean():.2f}", f"{end.mean():.2f}",
                     f"{math.sqrt(np.mean(end**2)):.2f}", f"{start.std():.2f}", f"{end.std():.2f}",
                     f"{np.corrcoef(start.ravel(), end.ravel())[0, 1]:.2f}", f"{common:.0%}",
                     f"{by_split:.0%}"])  # fmt: skip
    header = ["data", "method", "mean ϕ/ε, start", "end", "root mean square, end", "spread, start", "end",
              "correlation of end and start", "change shared by all runs", "by the runs of a split"]  # fmt: skip
    every = [each for name in TABLES for each in shapes_of(name).values()]
    links = [np.corrcoef(each.start.ravel(), each.end.ravel())[0, 1] for each in every]
    means, lows, highs = ([getattr(each.end, part)() for each in every] for part in ("mean", "min", "max"))
    words = (
        f"Over the {len(every)} cells of all three tables the correlation of end and start is between {min(links):.2f} "
        f"and {max(links):.2f}, and the mean of the final ϕ between {min(means):.2f} ε and {max(means):.2f} ε. The "
        f"smallest ϕ of any run is {min(lows):.2f} ε, the largest {max(highs):.2f} ε."
    )
    return f"{markdown(header, rows).replace('%', ' %')}\n\n{words}"


def draw_shapes() -> Chart:
    """Draw means and the middle 80 % of the runs for each direction."""
    panels = {}
    for (dataset, method), each in sorted(shapes_of().items(), key=lambda item: item[0][1]):
        panels[f"{NAMES[dataset]}: {method}", "direction, largest eigenvalue first"] = {
            name: list(enumerate(map(band, values.T), 1)) for name, values in (("start", each.start), ("end", each.end))
        }
    label = "Scale of each perturbed direction before and after training, in percent of the radius"
    return draw_panels(label, panels, LOOKS, "shapes", ylabel="ϕ, % of ε")


def band(values: FloatArray) -> Estimate:
    """Return mean, 10 % and 90 % quantile in the place of an interval."""
    low, high = np.quantile(values, (0.1, 0.9))
    return Estimate(float(values.mean()), float(low), float(high), math.nan, math.nan, len(values), 20, "splits")
