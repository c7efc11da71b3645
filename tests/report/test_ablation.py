"""A curve is made of the cells that differ in one number."""

from __future__ import annotations

import csv

import numpy as np

from fishergcn.studies import open_runs


def test_the_sweep_holds_the_plain_cell_and_the_radii_in_order(ablation_report):
    with (ablation_report / "figures" / "ablation-cora-fishergcn-radius.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["value"] for row in rows] == ["0.1", "0.5", "1.0", "2.0", ""]
    assert rows[-1]["setting"] == "gcn-x5"
    source = open_runs(ablation_report)
    names = ["fishergcn", "fishergcn radius=0.5", "fishergcn radius=1", "fishergcn radius=2", "gcn-x5"]
    for row, name in zip(rows, names, strict=True):
        accuracies = [run.test_accuracy for _, run in source.entries("cora", name)]
        assert abs(float(row["accuracy"]) - np.mean(accuracies)) < 1e-12
    source.close()


def test_what_is_no_number_or_not_alone_has_no_curve_but_a_difference(ablation_report):
    assert len(list((ablation_report / "figures").glob("ablation-*.svg"))) == 1
    with (ablation_report / "figures" / "variants-cora.csv").open() as stream:
        cells = {row["cell"]: row["reference"] for row in csv.DictReader(stream)}
    assert cells["fishergcn noise=gaussian"] == cells["fishergcn rank=3 radius=2"] == "gcn-x5"
    assert "fishergcn" not in cells
