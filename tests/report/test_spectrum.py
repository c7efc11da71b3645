"""The spectrum on the page is what was noted of the graph; the shape is the mean over the runs."""

from __future__ import annotations

import csv
import dataclasses

import numpy as np
import pytest

from fishergcn.drawing import looks
from fishergcn.report._outcome import read_outcome
from fishergcn.report._sections import spectra
from fishergcn.studies import open_runs


@pytest.fixture
def outcome(plain_report):
    with open_runs(plain_report) as source:
        return read_outcome(source)


def pictures(outcome, **changes):
    section = spectra(dataclasses.replace(outcome, **changes), looks(cell.name for cell in outcome.plan.cells))
    return {} if section is None else {picture.name: picture for picture in section.pictures}


def rows_of(picture):
    return list(csv.DictReader(picture.data.splitlines()))


def test_eigenvalues_and_the_perturbed_part(outcome):
    rows = rows_of(pictures(outcome)["spectrum-cora-fishergcn"])
    assert [float(row["eigenvalue"]) for row in rows] == (1.8 * 0.97 ** np.arange(12)).tolist()
    assert [row["perturbed"] for row in rows] == ["1"] * 4 + ["0"] * 8


def test_shape(outcome):
    rows = rows_of(pictures(outcome)["shape-cora-fishergcn"])
    shapes = np.array([run.shape for run in outcome.runs[outcome.cells("cora")["fishergcn"]]])
    np.testing.assert_allclose([float(row["mean"]) for row in rows], shapes.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose([float(row["high"]) for row in rows], np.quantile(shapes, 0.9, axis=0), rtol=1e-12)


def test_without_a_note_there_is_no_spectrum(outcome):
    assert set(pictures(outcome, spectra={})) == {"shape-cora-fishergcn"}


def test_only_perturbed_methods_have_one(plain_report):
    stems = {path.stem for path in (plain_report / "figures").glob("s*.svg")}
    assert stems == {"spectrum-cora-fishergcn", "shape-cora-fishergcn"}
