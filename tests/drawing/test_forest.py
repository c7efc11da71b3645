"""The forest plot shows the comparisons it was given."""

from __future__ import annotations

import csv
import io

import pytest

from fishergcn.drawing import draw_forest, looks
from fishergcn.studies import Comparison, Estimate


@pytest.mark.parametrize("cell", ["fishergcn", "fishergcn directions=random radius=1"])
def test_the_data_of_the_picture_are_the_comparisons(cell):
    difference = Estimate(0.0005, -0.001, 0.002, 0.001, 0.01, 20, 10, "splits")
    one = Comparison("cora", cell, "gcn-x5", "control", "test_accuracy", difference, 0.04, 6, 1, 3)
    picture = draw_forest("cora", [one], looks([cell]), "forest")
    (row,) = csv.DictReader(io.StringIO(picture.data))
    assert (float(row["difference"]), float(row["low"]), float(row["high"])) == (0.0005, -0.001, 0.002)
    assert (row["cell"], row["reference"], row["won"], row["lost"]) == (cell, "gcn-x5", "6", "3")
    assert f"{cell} − gcn-x5" in picture.svg


def test_single_runs_are_dots_and_the_reference_decides_how_a_mark_is_filled():
    difference = Estimate(0.0005, -0.001, 0.002, 0.001, 0.01, 20, 10, "splits")
    rows = [
        Comparison("cora", "fishergcn", *against, "test_accuracy", difference, 0.04, 6, 1, 3)
        for against in (("gcn-x5", "control"), ("gcn", "baseline"))
    ]
    runs = [[-0.001, 0.002], [0.01 * step for step in range(60)]]
    [panel] = draw_forest("cora", rows, looks(["fishergcn"]), "forest", runs).panels
    marks = [each for each in panel.layers if each.kind == "dot" and each.size == 5.5]
    assert [mark.hollow for mark in marks] == [False, True]
    assert [mark.x for mark in marks] == [[0.05], [0.05]]
    small = [each for each in panel.layers if each.opacity and each.kind == "dot"]
    assert [len(each.x) for each in small] == [2, 60]
    assert small[0].x == [-0.1, 0.2]
    order = [panel.layers.index(each) for each in (*small, *marks)]
    assert order[1] < [each.color for each in panel.layers].index("paper") < order[3]  # many runs stay below the mark
