"""``fishergcn train`` and ``predict`` for several labels and for numbers."""

from __future__ import annotations

import csv
import functools
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import studies
from fishergcn.cli import app
from fishergcn.errors import InputError

NODES = 60


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    features, member = rng.normal(size=(NODES, 2)), rng.random((NODES, 2)) < 0.5
    features += 2 * member
    links = np.argwhere(np.triu(rng.random((NODES, NODES)) < 0.05, 1))
    (folder / "links.csv").write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in links))
    rows = ["id,x,z,price,topics,db,ml"]
    for at in range(NODES):
        topics = "|".join(name for name, has in zip(("db", "ml"), member[at], strict=True) if has) or "|"
        price = "" if at % 10 == 0 else f"{50 + 9 * features[at, 0]:.3f}"
        rows.append(f"n{at},{features[at, 0]},{features[at, 1]},{price},{topics},{member[at, 0]:d},{member[at, 1]:d}")
    (folder / "nodes.csv").write_text("\n".join(rows) + "\n")
    return folder


def run(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def data(files, *more):
    return ["--edges", files / "links.csv", "--features", files / "nodes.csv", *more]


FAST = ["--method", "gcn", "--epochs", "20", "--scaling", "none", "--device", "cpu", "--workers", "1", "--quiet"]


def test_numbers(files, tmp_path):
    others = [option for name in ("topics", "db", "ml") for option in ("--drop", name)]
    shown = run(
        "train", *data(files, "--label", "price", "--task", "regression", *others), *FAST, "--out", tmp_path / "m"
    )
    assert "R²" in shown.stdout
    assert "accuracy" not in shown.stdout
    head, *rows = csv.reader(run("predict", tmp_path / "m").stdout.splitlines())
    assert head == ["node", "value", "low", "high"]
    assert all(float(row[2]) < float(row[1]) < float(row[3]) for row in rows)
    wider = [*csv.reader(run("predict", tmp_path / "m", "--coverage", "0.5").stdout.splitlines())][1]
    assert float(wider[2]) > float(rows[0][2])
    again = run("predict", tmp_path / "m", "--edges", files / "links.csv", "--features", files / "nodes.csv")
    assert [*csv.reader(again.stdout.splitlines())][1:] == rows
    page = run("report", tmp_path / "m")
    assert "report.html" in page.output


@pytest.mark.parametrize("labels", [["--label", "topics", "--drop", "db", "--drop", "ml"],
                                    ["--label", "db", "--label", "ml", "--drop", "topics"]])  # fmt: skip
def test_several_labels(files, tmp_path, labels):
    options = data(files, *labels, "--drop", "price")
    task = ["--task", "multilabel"] if "topics" in labels[:2] else []
    shown = run("train", *options, *task, *FAST, "--out", tmp_path / "m", "--json")
    [record] = json.loads(shown.stdout)["runs"]
    assert record["val_micro_f1"] > 0
    assert record["val_accuracy"] is None
    rows = json.loads(run("predict", tmp_path / "m", "--json").stdout)
    assert rows[0]["probabilities"].keys() == {"db", "ml"}
    assert {name for name, p in rows[0]["probabilities"].items() if p > 0.5} == set(rows[0]["labels"])


def refused(*arguments):
    with pytest.raises(InputError) as error:
        CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    return str(error.value)


def test_bad_input(files):
    numbers = data(files, "--label", "topics", "--task", "regression")
    assert "is not a number, which --task regression needs" in refused("train", *numbers, *FAST)
    both = data(files, "--label", "db", "--label", "ml", "--task", "regression")
    assert "several columns of labels are for --task multilabel" in refused("train", *both, *FAST)
    assert "task 'multilabel' does not fit the labels" in refused("train", "cora", "--task", "multilabel", *FAST)
    others = [option for name in ("topics", "db", "ml") for option in ("--drop", name)]
    wrong = data(files, "--label", "price", "--task", "regression", *others, "--score", "accuracy", "--quiet")
    assert "score 'accuracy' does not fit the task 'regression', which has" in refused("train", *wrong)


@pytest.mark.parametrize(("task", "labels", "words"), [
    ("regression", ["--label", "price", "--drop", "topics", "--drop", "db", "--drop", "ml"], "predict_interval"),
    ("multilabel", ["--label", "topics", "--drop", "db", "--drop", "ml", "--drop", "price"], "A label is predicted"),
])  # fmt: skip
@pytest.mark.parametrize("refit", [[], ["--refit"]])
def test_a_choice_between_candidates(files, tmp_path, monkeypatch, task, labels, words, refit):
    monkeypatch.setattr(studies, "fit", functools.partial(studies.fit, methods=["lp", "linear"]))
    place = ["--scaling", "none", "--device", "cpu", "--workers", "1", "--quiet"]
    options = [*data(files, *labels, "--task", task), *place, *refit, "--out", tmp_path / "m"]
    assert words in run("train", *options).stdout
    assert len(run("predict", tmp_path / "m").stdout.splitlines()) == NODES + 1
    assert words.split("_")[0] in (tmp_path / "m" / "README.md").read_text()
    again = json.loads(run("train", *options, "--overwrite", "--json").stdout)
    assert ("threshold" in again[0]) == (task == "multilabel")
    assert "report.html" in run("report", tmp_path / "m").output
