"""The spectrum on the page is what was noted of the graph; the shape is the mean over the runs."""

from __future__ import annotations

import csv

import numpy as np

from fishergcn.report import write_report
from fishergcn.studies import open_runs


def rows_of(folder, name):
    with (folder / "figures" / f"{name}.csv").open() as stream:
        return list(csv.DictReader(stream))


def stems(folder):
    return {path.stem for path in (folder / "figures").glob("s*.svg")}


def test_eigenvalues_and_the_perturbed_part(plain_report, charts_of):
    rows = rows_of(plain_report, "spectrum-cora-fishergcn")
    values = (1.8 * 0.97 ** np.arange(12)).tolist()
    assert [float(row["eigenvalue"]) for row in rows] == values
    assert [row["perturbed"] for row in rows] == ["1"] * 4 + ["0"] * 8
    layers = charts_of(plain_report)["spectrum-cora-fishergcn"]["panels"][0]["layers"]
    perturbed, left = (each["y"] for each in layers if each["kind"] == "dot")
    np.testing.assert_allclose([*perturbed, *left], values, rtol=1e-5)
    assert len(perturbed) == 4


def test_shape(plain_report):
    rows = rows_of(plain_report, "shape-cora-fishergcn")
    with open_runs(plain_report) as source:
        shapes = np.array([run.shape for _, run in source.entries("cora", "fishergcn")])
    np.testing.assert_allclose([float(row["mean"]) for row in rows], shapes.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose([float(row["high"]) for row in rows], np.quantile(shapes, 0.9, axis=0), rtol=1e-12)


def test_without_a_note_there_is_no_spectrum(tmp_path, make_plan, fill):
    write_report(fill(tmp_path, make_plan(["cora"], splits=2, seeds=1), spectra=False))
    assert stems(tmp_path) == {"shape-cora-fishergcn"}


def test_only_perturbed_methods_have_one(plain_report):
    assert stems(plain_report) == {"spectrum-cora-fishergcn", "shape-cora-fishergcn"}
