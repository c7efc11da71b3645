"""Whatever score a study is compared by: tables, charts and sentences name it, with its direction and its unit."""

from __future__ import annotations

import csv
import html
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.report import write_report
from fishergcn.studies import RunStore, compare, control_equivalence, open_runs
from fishergcn.training import RunRecord

METHODS = {"gcn": 0.0, "gcn-x5": 0.004, "fishergcn": 0.009}
SHARES = ("macro_f1", "roc_auc")
# What is drawn, said and counted; learning curves show loss and accuracy, whatever a study is compared by.
COMPARED = ("headline", "forest-cora")
TITLES = {"log-loss": "cross entropy", "macro-f1": "macro F1", "roc-auc": "ROC AUC"}


@pytest.fixture(scope="module")
def study(tmp_path_factory, make_plan):
    """Runs that have only scores which are not accuracy; better methods have higher shares and less entropy."""
    folder, plan = tmp_path_factory.mktemp("study"), make_plan(["cora"], splits=10, seeds=2, methods=METHODS)
    with RunStore(folder, writable=True) as store:
        store.begin(plan)
        for cell in plan.cells:
            store.add(cell, [record_of(plan, cell, *run) for run in plan.runs()])
    return folder


def record_of(plan, cell, split, seed):
    number = int(split.rpartition(":")[2])
    rng, luck = np.random.default_rng([number, seed, len(cell.name)]), number % 7
    gain = METHODS[cell.method] + rng.normal(0, 0.0005) + 0.001 * luck
    scores = {"macro_f1": 0.7 + gain, "roc_auc": 0.9 + gain, "cross_entropy": 0.6 - 2 * gain, "loss": 1.1 - 2 * gain}
    given = {f"{part}_{name}": value for part in ("test", "val") for name, value in scores.items()}
    return RunRecord("cora", cell.method, split, seed, "ok", 5, given, {}, [], 0.1, "cpu", {"fishergcn": "1"},
                     cell.config.to_dict(), plan.digests["cora"])  # fmt: skip


def words_of(folder):
    """Return the words of the page, tips of its charts included, and its charts by name."""
    page = (folder / "report.html").read_text()
    charts = json.loads(re.search(r'<script[^>]*id="charts-data"[^>]*>(.*?)</script>', page, re.S)[1])
    body = page[page.index("<main") : page.index("<footer")]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split()), {each["name"]: each for each in charts}


def texts(value):
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("score", list(TITLES))
def test_the_page_names_the_score(study, score):
    write_report(study, score=score)
    title, percent = TITLES[score], score != "log-loss"
    words, charts = words_of(study)
    said = " ".join(
        [words, (study / "tables.md").read_text(), *(text for name in COMPARED for text in texts(charts[name]))]
    )
    assert f"the {'highest' if percent else 'lowest'} mean test {title} of 3 methods" in said
    assert f"fishergcn has a mean test {title} of" in said
    better = re.search(
        rf"fishergcn is better than its control gcn-x5 on cora: ([+−])[\d.]+( points)? in test {title}", said
    )
    assert better
    assert (better[1], better[2]) == (("+", " points") if percent else ("−", None))
    assert re.search(rf"to the {'right' if percent else 'left'} of zero the first method is better", said, re.I)
    assert "10 / 0 / 0" in said
    # Accuracy is neither measured nor shown, points are differences of shares.
    assert "accuracy" not in re.sub(r"chose its hyperparameters by the test accuracy of GCN", "", said).lower()
    assert ("points" in said) == percent
    x = charts["forest-cora"]["panels"][0]["x"]
    unit = "percentage points, higher is better" if percent else "lower is better"
    assert x == f"difference in test {title} ({unit})"
    assert charts["headline"]["panels"][0].get("percent", "") == ("x" if percent else "")
    rows = list(csv.DictReader((study / "tables.csv").open()))
    assert {"cross_entropy", "cross_entropy_low"} <= set(rows[0]) if not percent else score.replace("-", "_") in rows[0]


@pytest.mark.parametrize("score", list(TITLES))
def test_the_terminal_names_the_score(study, score):
    result = CliRunner().invoke(app, ["runs", "show", str(study), "--score", score], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    title, percent = TITLES[score], score != "log-loss"
    assert f"Paired differences in test {title}: cora" in result.stdout
    assert title + " %" * percent in result.stdout
    assert f"{title[0].upper()}{title[1:]}: {'higher' if percent else 'lower'} is better." in result.stdout
    assert f"minus their controls in test {title}" in result.stdout
    assert "accuracy" not in result.stdout.lower()
    assert ("points" in result.stdout) == percent
    listed = CliRunner().invoke(app, ["runs", "list", str(study), "--score", score], env={"COLUMNS": "200"}).stdout
    assert title in listed.replace("…", "")
    facts = json.loads(CliRunner().invoke(app, ["runs", "show", str(study), "--score", score, "--json"]).stdout)
    assert {each["metric"] for each in facts["comparisons"]} == {facts["equivalence"]["metric"]}


def test_winning_is_being_better(study):
    with open_runs(study) as runs:
        by = {
            name: next(one for one in compare(runs, name) if one.role == "control") for name in ("macro-f1", "log-loss")
        }
        assert by["macro-f1"].difference.mean > 0 > by["log-loss"].difference.mean
        assert (by["macro-f1"].won, by["macro-f1"].lost) == (by["log-loss"].won, by["log-loss"].lost) == (10, 0)
        assert "points" not in control_equivalence(runs, "log-loss").sentence


def test_what_no_run_has_is_refused_in_one_sentence(study, tmp_path):
    with pytest.raises(DataFileError, match=r"^no run of the study 'made-up' has the score 'average_precision'\.$"):
        write_report(study, score="average-precision")
    with pytest.raises(InputError, match=r"^score must be one of accuracy, .*, log-loss, .*, got 'luck'\.$"):
        write_report(study, score="luck")
    result = CliRunner().invoke(app, ["runs", "show", str(study), "--score", "accuracy"])
    assert result.exit_code != 0
    with pytest.raises(InputError, match="score goes with the folder of a study"):
        write_report(tmp_path, score="macro-f1")
