"""What the report reads: every run in its cell, failed ones apart."""

from __future__ import annotations

import numpy as np
import pytest

from fishergcn.drawing._palette import looks
from fishergcn.errors import DataFileError
from fishergcn.report._curves import PANELS, curves_chart
from fishergcn.report._outcome import read_outcome
from fishergcn.studies._statistics import compare, summarize
from fishergcn.studies._store import RunStore, open_runs


@pytest.fixture
def outcome_of():
    def read(folder):
        with open_runs(folder) as source:
            return read_outcome(source), list(source.entries()), summarize(source), compare(source)

    return read


def test_runs_and_statistics_are_those_of_the_database(hostile_report, outcome_of):
    outcome, entries, summaries, comparisons = outcome_of(hostile_report)
    assert len(outcome.records) == len(entries) == 60
    assert [run.status for _, run in outcome.failed] == ["failed: <b onclick=x>boom</b>"]
    for cell, records in outcome.runs.items():
        expected = [
            run for name, run in entries if (name, run.dataset) == (cell.name, cell.dataset) and run.status == "ok"
        ]
        assert [run.identity for run in records] == [run.identity for run in expected]
    assert list(outcome.summaries.values()) == summaries
    assert outcome.comparisons == comparisons


def test_curves_are_the_mean_of_the_runs_that_are_left(plain_report, outcome_of):
    outcome, entries, _, _ = outcome_of(plain_report)
    chosen = looks(cell.name for cell in outcome.plan.cells)
    chart = curves_chart("cora", outcome.curves("cora"), chosen, points=400)
    assert [panel.title for panel in chart.panels] == [title for _, title, _ in PANELS]
    curves = [run.curves["val_loss"] for name, run in entries if name == "gcn"]
    layers = {(each["kind"], each["series"]): each for each in chart.panels[1].layers}
    line, band = layers["line", "gcn"], layers["band", "gcn"]
    lasting = [epoch for epoch in range(1, 13) if 2 * sum(len(curve) >= epoch for curve in curves) >= len(curves)]
    assert line["x"] == band["x"] == lasting
    for place, epoch in enumerate(lasting):
        alive = [curve[epoch - 1] for curve in curves if len(curve) >= epoch]
        assert line["y"][place] == pytest.approx(np.mean(alive), rel=1e-5)
        assert band["low"][place] == pytest.approx(np.quantile(alive, 0.1), rel=1e-5)
        assert band["high"][place] == pytest.approx(np.quantile(alive, 0.9), rel=1e-5)


def test_many_long_curves_are_thinned(plain_report, outcome_of):
    outcome, *_ = outcome_of(plain_report)
    chosen = looks(cell.name for cell in outcome.plan.cells)
    chart = curves_chart("cora", outcome.curves("cora"), chosen, points=5)
    lengths = [len(each["x"]) for panel in chart.panels for each in panel.layers]
    assert max(lengths) == 5


def test_a_plan_without_runs_is_refused(tmp_path, make_plan):
    with RunStore(tmp_path, writable=True) as store:
        store.begin(make_plan(["cora"]))
        with pytest.raises(DataFileError, match="no run of the study 'made-up' is finished"):
            read_outcome(store)
