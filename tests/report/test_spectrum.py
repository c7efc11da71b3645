"""The spectrum on the page is that of the graph; the shape is the mean over the runs."""

from __future__ import annotations

import csv
import dataclasses

import numpy as np

import fishergcn
from fishergcn import datasets
from fishergcn.report._spectrum import top_eigenvalues
from fishergcn.studies._store import open_runs


def rows_of(path):
    with path.open() as stream:
        return list(csv.DictReader(stream))


def test_eigenvalues_and_the_perturbed_part(plain_report):
    rows = rows_of(plain_report / "figures" / "spectrum-cora-fishergcn.csv")
    expected = fishergcn.top_spectrum(fishergcn.renormalized(datasets.load("cora").adjacency), rank=12).eigenvalues
    np.testing.assert_allclose([float(row["eigenvalue"]) for row in rows], expected, rtol=1e-10)
    assert [row["perturbed"] for row in rows] == ["1"] * 4 + ["0"] * 8


def test_shape(plain_report):
    rows = rows_of(plain_report / "figures" / "shape-cora-fishergcn.csv")
    source = open_runs(plain_report)
    shapes = np.array([run.shape for _, run in source.entries("cora", "fishergcn")])
    source.close()
    np.testing.assert_allclose([float(row["mean"]) for row in rows], shapes.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose([float(row["high"]) for row in rows], np.quantile(shapes, 0.9, axis=0), rtol=1e-12)


def test_no_spectrum_of_another_or_an_unknown_graph(make_plan):
    cell = make_plan(["cora"]).cells[2]
    assert top_eigenvalues(cell, "00" * 32) is None
    assert top_eigenvalues(dataclasses.replace(cell, dataset="mine"), None) is None


def test_only_perturbed_methods_have_one(plain_report):
    stems = {path.stem for path in (plain_report / "figures").glob("s*.svg")}
    assert stems == {"spectrum-cora-fishergcn", "shape-cora-fishergcn"}
