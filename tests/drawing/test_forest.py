"""The forest plot shows the comparisons it was given."""

from __future__ import annotations

import csv
import io

import pytest

from fishergcn.drawing._forest import draw_forest
from fishergcn.drawing._palette import looks
from fishergcn.studies._statistics import Comparison, Estimate


@pytest.mark.parametrize("cell", ["fishergcn", "fishergcn directions=random radius=1"])
def test_the_data_of_the_picture_are_the_comparisons(cell):
    difference = Estimate(0.0005, -0.001, 0.002, 0.001, 0.01, 20, 10, "splits")
    one = Comparison("cora", cell, "gcn-x5", "control", "test_accuracy", difference, 0.04, 6, 1, 3)
    picture = draw_forest("cora", [one], looks([cell]), "forest")
    (row,) = csv.DictReader(io.StringIO(picture.data))
    assert (float(row["difference"]), float(row["low"]), float(row["high"])) == (0.0005, -0.001, 0.002)
    assert (row["cell"], row["reference"], row["won"], row["lost"]) == (cell, "gcn-x5", "6", "3")
    assert f"{cell} − gcn-x5" in picture.svg
