"""What the report reads: every run in its cell, failed ones apart."""

from __future__ import annotations

import numpy as np
import pytest

from fishergcn.drawing._palette import looks
from fishergcn.errors import DataFileError
from fishergcn.report._curves import curves_json
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
    values = curves_json(outcome, looks(cell.name for cell in outcome.plan.cells))
    (dataset,) = values["datasets"]
    curves = [run.curves["val_loss"] for name, run in entries if name == "gcn"]
    shown = dataset["series"]["gcn"]["val_loss"]
    for place, epoch in enumerate(dataset["epochs"]):
        alive = [curve[epoch - 1] for curve in curves if len(curve) >= epoch]
        if 2 * len(alive) < len(curves):
            assert shown["mean"][place] is None
            continue
        assert shown["mean"][place] == pytest.approx(np.mean(alive), rel=1e-4)
        assert shown["low"][place] == pytest.approx(np.quantile(alive, 0.1), rel=1e-4)
        assert shown["high"][place] == pytest.approx(np.quantile(alive, 0.9), rel=1e-4)


def test_a_plan_without_runs_is_refused(tmp_path, make_plan):
    with RunStore(tmp_path, writable=True) as store:
        store.begin(make_plan(["cora"]))
        with pytest.raises(DataFileError, match="no run of the study 'made-up' is finished"):
            read_outcome(store)
