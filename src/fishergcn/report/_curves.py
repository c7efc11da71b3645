"""Learning curves of many runs as a chart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fishergcn._base.types import FloatArray, IntArray
from fishergcn.drawing import Look
from fishergcn.report._chart import Chart, Panel, Series, layer
from fishergcn.report._markup import slug
from fishergcn.studies import Band

# Name in the record, title, whether it is shown in percent.
PANELS = (
    ("train_loss", "Training loss", False),
    ("val_loss", "Validation loss", False),
    ("train_accuracy", "Training accuracy", True),
    ("val_accuracy", "Validation accuracy", True),
)
# Methods switched on when the page opens; more would hide each other.
FIRST_SHOWN = 8
# Methods whose curves are on the page at all.
MOST_SERIES = 24
# Epochs of a curve: a screen has no more pixels; and numbers of all curves of a page, which is to stay small.
_MOST_POINTS, _FEWEST_POINTS, _MOST_NUMBERS = 400, 30, 90_000


def points_of_a_curve(curves: int) -> int:
    """Return how many epochs each of so many curves shows, so that the page stays small.

    Examples
    --------
    >>> points_of_a_curve(24), points_of_a_curve(1000)
    (400, 30)
    """
    return int(np.clip(_MOST_NUMBERS / (3 * max(curves, 1)), _FEWEST_POINTS, _MOST_POINTS))


def curves_chart(
    dataset: str, bands: Mapping[str, Mapping[str, Band]], looks: Mapping[str, Look], points: int
) -> Chart:
    """Draw loss and accuracy over epochs of the methods of one data set, each at no more than so many epochs."""
    shown = dict(list(bands.items())[:MOST_SERIES])
    longest = max(band.mean.size for curves in shown.values() for band in curves.values())
    steps = np.unique(np.linspace(0, longest - 1, min(longest, points)).round().astype(np.int64))
    panels = []
    for key, title, percent in PANELS:
        layers = []
        own = {name: curves[key] for name, curves in shown.items() if key in curves}
        for name, band in own.items():
            here = steps[steps < band.mean.size]
            x, low, high = (here + 1).tolist(), _at(band.low, here), _at(band.high, here)
            layers.append(layer("band", series=name, x=x, low=low, high=high))
        # Solid lines first: where curves coincide, dashes on top leave both to be seen.
        for name, band in sorted(own.items(), key=lambda item: bool(looks[item[0]].dash)):
            here = steps[steps < band.mean.size]
            layers.append(layer("line", series=name, x=(here + 1).tolist(), y=_at(band.mean, here)))
        if layers:
            panels.append(Panel(title, "epoch", "", layers, percent="y" if percent else "", height=250))
    series = [Series(name, looks[name], place < FIRST_SHOWN) for place, name in enumerate(shown)]
    label = f"Learning curves, {dataset}"
    return Chart(f"curves-{slug(dataset)}", label, panels, series, switches=True, zoom=True, readout=True)


def _at(values: FloatArray, steps: IntArray) -> list[float]:
    return [float(value) for value in values[steps]]
