"""What the report reads: every run in its cell, failed ones apart."""

from __future__ import annotations

import contextlib
import csv
import html
import sqlite3

import numpy as np
import pytest

from fishergcn.errors import DataFileError
from fishergcn.report import write_report
from fishergcn.studies import compare, open_runs, summarize

TITLES = ["Training loss", "Validation loss", "Training accuracy", "Validation accuracy"]


def rows_of(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_runs_and_statistics_are_those_of_the_database(hostile_report):
    with open_runs(hostile_report) as source:
        entries, summaries, comparisons = list(source.entries()), summarize(source), compare(source)
    failed = [run for _, run in entries if run.status != "ok"]
    assert [run.status for run in failed] == ["failed: <b onclick=x>boom</b>"]
    page = html.unescape((hostile_report / "report.html").read_text())
    assert "59 finished of 60 planned, 1 failed" in page
    assert failed[0].status in page
    rows = rows_of(hostile_report / "tables.csv")
    assert [row["cell"] for row in rows] == [each.cell for each in summaries]
    for row, summary in zip(rows, summaries, strict=True):
        own = [run for cell, run in entries if (cell, run.dataset) == (summary.cell, summary.dataset)]
        assert int(row["runs"]) == summary.ok == sum(run.status == "ok" for run in own)
        assert float(row["accuracy"]) == summary.accuracy.mean
        assert (float(row["accuracy_low"]), float(row["accuracy_high"])) == (
            summary.accuracy.low,
            summary.accuracy.high,
        )
        assert float(row["loss"]) == summary.loss.mean
    drawn = [row for path in (hostile_report / "figures").glob("forest-*.csv") for row in rows_of(path)]
    expected = {(one.cell, one.reference): set() for one in comparisons}
    for one in comparisons:
        expected[one.cell, one.reference].add((one.difference.mean, one.p_value, one.won))
    found = {key: set() for key in expected}
    for row in drawn:
        values = (float(row["difference"]), float(row["p_value"]), int(row["won"]))
        found[row["cell"], row["reference"]].add(values)
    assert found == expected


def test_curves_are_the_mean_of_the_runs_that_are_left(plain_report, charts_of):
    chart = charts_of(plain_report)["curves-cora"]
    assert [panel["title"] for panel in chart["panels"]] == TITLES
    with open_runs(plain_report) as source:
        curves = [run.curves["val_loss"] for name, run in source.entries() if name == "gcn"]
    layers = {(each["kind"], each["series"]): each for each in chart["panels"][1]["layers"]}
    line, band = layers["line", "gcn"], layers["band", "gcn"]
    lasting = [epoch for epoch in range(1, 13) if 2 * sum(len(curve) >= epoch for curve in curves) >= len(curves)]
    assert line["x"] == band["x"] == lasting
    for place, epoch in enumerate(lasting):
        alive = [curve[epoch - 1] for curve in curves if len(curve) >= epoch]
        assert line["y"][place] == pytest.approx(np.mean(alive), rel=1e-5)
        assert band["low"][place] == pytest.approx(np.quantile(alive, 0.1), rel=1e-5)
        assert band["high"][place] == pytest.approx(np.quantile(alive, 0.9), rel=1e-5)


def test_files_and_page_hold_the_same_curves(plain_report, charts_of):
    panels = {panel["title"]: panel["layers"] for panel in charts_of(plain_report)["curves-cora"]["panels"]}
    for title in TITLES:
        stem = title.lower().replace("training", "train").replace("validation", "val").replace(" ", "-")
        rows = rows_of(plain_report / "figures" / f"curves-cora-{stem}.csv")
        for line in (each for each in panels[title] if each["kind"] == "line"):
            own = [float(row["mean"]) for row in rows if row["method"] == line["series"]]
            assert line["y"] == pytest.approx(own, rel=1e-5)


def test_a_plan_without_runs_is_refused(tmp_path, make_plan, fill):
    fill(tmp_path, make_plan(["mine"], splits=1, seeds=1))
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as connection, connection:
        connection.execute("DELETE FROM runs")
    with pytest.raises(DataFileError, match="no run of the study 'made-up' is finished"):
        write_report(tmp_path)
