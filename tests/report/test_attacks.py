"""The page of a study of attacks: its curves, tables and files hold what was measured."""

from __future__ import annotations

import csv
import html
import re

import numpy as np
import pytest

from fishergcn.errors import InputError
from fishergcn.report import write_report
from fishergcn.studies import Cell, Plan, RunStore, open_runs, paired_difference, summarize
from fishergcn.training import RunRecord, TrainConfig

NAME = "<b>mine</b>"


def fill(folder, methods=("gcn", "gcn-x5", "fishergcn"), samples=5, **changes):
    config = TrainConfig(samples=samples)
    cells = [
        Cell(NAME, f"{method} {attack} {level}", method, "", config, {"attack": attack, "level": level, **changes})
        for method in methods
        for attack in ("links-added", "bures-ball")
        for level in (0.0, 0.25, 0.5)
    ]
    splits = ("shuffled:1", "shuffled:2", "shuffled:3")
    plan = Plan(
        "robustness", "Robustness", "Here", (), tuple(cells), splits, (2019,), {NAME: "ab" * 32}, measure="attack"
    )
    rng = np.random.default_rng(0)
    with RunStore(folder, writable=True) as store:
        store.begin(plan)
        for cell in cells:
            extra = {**cell.options, "size": 0.04 * cell.options.get("level", 0)}
            store.add(cell, [
                RunRecord(NAME, cell.method, split, seed, "ok", 9, {"test_accuracy": float(rng.random())}, {}, [], 0.1,
                          "cpu", {"torch": "2"}, config.to_dict(), "ab" * 32, extra)
                for split, seed in plan.runs()
            ])  # fmt: skip
    return folder


@pytest.fixture
def folder(tmp_path):
    return fill(tmp_path)


def points_of(folder):
    """Return the rows of tables.csv, numbers as numbers."""
    with (folder / "tables.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    words = ("dataset", "attack", "method", "control")
    return [
        {key: value if key in words else float(value) if value else None for key, value in row.items()} for row in rows
    ]


def values_of(folder):
    """Return the accuracies of each cell by split and seed."""
    found = {}
    with open_runs(folder) as source:
        for cell, run in source.entries():
            found.setdefault(cell, {})[run.split, run.seed] = run.test_accuracy
        intervals = {each.cell: each.accuracy for each in summarize(source)}
    return found, intervals


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = fill(tmp_path_factory.mktemp("attacks"))
    write_report(folder)
    return folder


PANELS = {"links-added": "random links added", "bures-ball": "worst operator in a Bures ball"}


def test_points_are_means_and_paired_differences_of_the_runs(report):
    points, (accuracies, intervals) = points_of(report), values_of(report)
    assert len(points) == 18
    assert [point["method"] for point in points[:3]] == ["gcn", "gcn-x5", "fishergcn"]
    assert [point["attack"] for point in points] == ["links-added"] * 9 + ["bures-ball"] * 9
    for point in points:
        level = f"{point['attack']} {point['level']}"
        ours = accuracies[f"{point['method']} {level}"]
        found = intervals[f"{point['method']} {level}"]
        assert point["accuracy"] == pytest.approx(np.mean(list(ours.values())), abs=1e-14)
        assert (point["low"], point["high"]) == (found.low, found.high)
        assert point["size"] == pytest.approx(0.04 * point["level"])
        assert (point["difference"] is None) == (point["method"] != "fishergcn")
        if point["difference"] is not None:
            gap, *_ = paired_difference(ours, accuracies[f"gcn-x5 {level}"])
            assert point["control"] == "gcn-x5"
            assert point["difference"] == pytest.approx(gap.mean, abs=1e-14)


@pytest.mark.parametrize(("samples", "control"), [(1, "gcn"), (3, "gcn-x3"), (5, "gcn-x5")])
def test_the_control_follows_the_number_of_samples(tmp_path, samples, control):
    fill(tmp_path, ("gcn", "gcn-x3", "gcn-x5", "fishergcn"), samples)
    write_report(tmp_path)
    with (tmp_path / "tables.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row["control"] for row in rows if row["method"] == "fishergcn"} == {control}
    assert all(row["difference"] for row in rows if row["method"] == "fishergcn")
    assert f"fishergcn − {control}" in (tmp_path / "figures" / "robustness-b-mine-b-difference.svg").read_text()


def test_the_page(folder):
    page = write_report(folder).read_text()
    stems = {"robustness-b-mine-b-accuracy", "robustness-b-mine-b-difference"}
    assert {path.name for path in (folder / "figures").iterdir()} == {
        f"{stem}{suffix}" for stem in stems for suffix in (".svg", ".png", ".csv")
    }
    assert re.findall(r'<section id="([a-z]+)"', page) == ["headline", "robustness", "protocol"]
    assert "54 finished runs of 3 methods on &lt;b&gt;mine&lt;/b&gt;." in page
    assert "<b>mine" not in page
    ends = [point for point in points_of(folder) if point["level"] == 0.5]
    rows = re.findall(r'<tr>(<th scope="row">.*?)</tr>', page)
    assert len(rows) == len(ends) == 6
    for row, point in zip(rows, ends, strict=True):
        texts = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        assert texts[1:5] == [PANELS[point["attack"]], point["method"], "50%", f"{100 * point['accuracy']:.2f}"]
        assert texts[5] == f"{100 * point['low']:.2f} – {100 * point['high']:.2f}"
        assert (texts[6] == "–") == (point["method"] != "fishergcn")


def test_the_verdict_names_the_most_harmful_change_and_counts_the_comparisons(report):
    page, points = html.unescape((report / "report.html").read_text()), points_of(report)
    starts, ends = (
        {(point["attack"], point["method"]): point for point in points if point["level"] == level}
        for level in (0.0, 0.5)
    )
    worst = max(ends, key=lambda curve: starts[curve]["accuracy"] - ends[curve]["accuracy"])
    assert f"The most harmful change is “{PANELS[worst[0]]}”: at its strongest setting (50%)" in page
    fall = f"falls from {starts[worst]['accuracy']:.1%} to {ends[worst]['accuracy']:.1%}."
    assert f"the accuracy of {worst[1]} on {NAME} {fall}" in page
    gaps = [point for point in ends.values() if point["difference"] is not None]
    better = sum(gap["difference_low"] > 0 for gap in gaps)
    worse = sum(gap["difference_high"] < 0 for gap in gaps)
    assert f"better in {better}, worse in {worse} and not measurably different in {2 - better - worse} of 2" in page


def test_charts_hold_the_points(report, charts_of):
    points, charts = points_of(report), charts_of(report)
    for panel in charts["robustness-b-mine-b-accuracy"]["panels"]:
        lines = [each for each in panel["layers"] if each["kind"] == "line"]
        assert len(lines) == 3
        for line in lines:
            own = [
                each for each in points if (PANELS[each["attack"]], each["method"]) == (panel["title"], line["series"])
            ]
            assert line["y"] == pytest.approx([each["accuracy"] for each in own], rel=1e-5)
    difference = charts["robustness-b-mine-b-difference"]["panels"]
    assert {each["series"] for panel in difference for each in panel["layers"] if "series" in each} == {
        "fishergcn − gcn-x5"
    }


def test_the_tables_in_markdown(report):
    text = (report / "tables.md").read_text()
    assert "**Random links added**, accuracy % (share of the links; 3 runs a point)" in text
    assert "share of the farthest distance, D_B = 0.0400 for gcn, gcn-x5, fishergcn" in text
    assert text.count("| *fishergcn − gcn-x5* |") == 2


def test_an_unknown_attack_is_one_sentence(tmp_path):
    fill(tmp_path, attack="storm")
    with pytest.raises(InputError, match=r"must be one of 'links-added', .*, got 'storm'"):
        write_report(tmp_path)
