"""Methods without links or features, through every command that takes ``--method``."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

from fishergcn.cli import app
from fishergcn.errors import InputError
from fishergcn.models import load_model
from fishergcn.studies import compare, open_runs, summarize
from fishergcn.training import score_fields

NEW = ("mlp", "mlp-x2-c", "lp", "majority")
METHODS = [word for name in NEW for word in ("--method", name)]
CPU = ["--device", "cpu", "--workers", "1", "--epochs", "2"]


def run(*arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_train(tmp_path):
    settings = ["--scaling", "columns", "--bias", "--class-weight", "balanced", "--hidden", "4"]
    result = run("train", "--dataset", "cora", *METHODS, *CPU, *settings, "--json", "--quiet", "--out", tmp_path / "m")
    facts = json.loads(result.stdout)
    assert [each["method"] for each in facts["methods"]] == list(NEW)
    assert {"method": "mlp-x2-c", "reference": "mlp"}.items() <= facts["differences"][0].items()
    for each in facts["runs"]:
        assert all(each[name] >= 0 for name in score_fields())
        chosen = {name: each["config"][name] for name in ("scaling", "bias", "class_weight")}
        assert chosen == {"scaling": "columns", "bias": True, "class_weight": "balanced"}
    for name in NEW:
        model = load_model(tmp_path / "m" / name)
        assert model.probabilities().shape == (2708, 7)
        card = (tmp_path / "m" / name / "README.md").read_text(encoding="utf-8")
        assert "| balanced accuracy | macro F1 |" in card
        out = tmp_path / f"{name}.csv"
        run("predict", tmp_path / "m" / name, "--out", out)
        with out.open(encoding="utf-8") as stream:
            assert len(list(csv.reader(stream))) == 2709


def test_own_weights_and_norm():
    given = ["train", "--dataset", "cora", *CPU, "--hidden", "4,4", "--json", "--quiet"]
    for words, own, norm in (
        ([], False, "none"),
        (["--own-weights", "--norm", "layer"], True, "layer"),
        (["--norm", "batch"], False, "batch"),
        (["--no-own-weights", "--norm", "none"], False, "none"),
    ):
        facts = json.loads(run(*given, "--method", "gcn", "--method", "sage", *words).stdout)
        assert [(each["config"]["own_weights"], each["config"]["norm"]) for each in facts["runs"]] == [(own, norm)] * 2
    refused = CliRunner().invoke(app, [*given, "--method", "gcn", "--norm", "group"])
    assert refused.exit_code == 2
    shown = " ".join(run("train", "--help").stdout.replace("│", " ").split())
    for text in ("weights of its own beside those of its neighbors.", "Normalize hidden units,", "sage or sage-xM"):
        assert text in shown


def test_a_study_and_what_is_made_of_it(tmp_path):
    run("reproduce", "quick", "--out", tmp_path / "s", *METHODS, "--splits", 2, "--seeds", 1, *CPU)
    shown = run("runs", "show", tmp_path / "s").stdout
    for text in ("majority", "lp", "bal.", "F1"):
        assert text in shown
    listed = json.loads(run("runs", "list", tmp_path / "s", "--json").stdout)
    assert {each["method"] for each in listed} == {"gcn", "mlp-x2", *NEW}  # with baseline and control
    assert all(each["test_balanced_accuracy"] is not None for each in listed)
    run("runs", "export", tmp_path / "s", "--out", tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open(encoding="utf-8") as stream:
        assert all(float(row["val_macro_f1"]) >= 0 for row in csv.DictReader(stream))
    run("runs", "archive", tmp_path / "s", "--out", tmp_path / "a")
    with open_runs(tmp_path / "s") as runs, open_runs(tmp_path / "a") as archive:
        assert archive.plan == runs.plan
        assert summarize(archive) == summarize(runs)
        found = {(each.cell, each.reference): each.role for each in compare(archive, "test_macro_f1")}
        assert found["mlp-x2-c", "mlp-x2"] == "control"
        assert found["lp", "gcn"] == "baseline"
    run("report", tmp_path / "s")
    page = (tmp_path / "s" / "report.html").read_text(encoding="utf-8")
    assert 'data-column="balanced_accuracy"' in page
    assert 'data-column="macro_f1"' in page


def test_tune(tmp_path):
    pytest.importorskip("optuna")
    run("tune", "--dataset", "cora", "--method", "mlp-x2", "--trials", 1, *CPU, "--out", tmp_path / "mlp")
    with pytest.raises(InputError, match="method 'lp' trains nothing, so there is nothing to tune"):
        run("tune", "--dataset", "cora", "--method", "lp", "--trials", 1, *CPU, "--out", tmp_path / "lp")


@pytest.mark.parametrize("name", ["mlp", "lp", "majority"])
def test_attacks_need_networks_that_read_links(name, tmp_path):
    with pytest.raises(InputError, match=f"a study of attacks needs networks that read the links, got '{name}'"):
        run("robustness", "--preset", "robustness-quick", "--method", name, "--out", tmp_path / "r")
    assert not (tmp_path / "r").exists()
