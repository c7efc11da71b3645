"""``fishergcn tune``: the best settings are printed, test scores never."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from fishergcn.cli import app
from fishergcn.errors import InputError, MissingExtraError

pytest.importorskip("optuna")
QUICK = ["--dataset", "cora", "--method", "gcn", "--epochs", "2", "--trials", "2"]


def run(*arguments):
    result = CliRunner().invoke(app, ["tune", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_table_notes_and_file(tmp_path):
    result = run(*QUICK, "--grid", "paper", "--out", tmp_path / "study")
    told = result.stderr.splitlines()
    assert [line.partition(":")[2].partition(":")[0] for line in told[:2]] == [" trial 1 of 2", " trial 2 of 2"]
    assert "test" not in result.output.replace(str(tmp_path), "").lower()
    stored = json.loads((tmp_path / "study" / "tuning.json").read_text(encoding="utf-8"))
    assert len(stored["trials"]) == 2
    assert f"{stored['best']['val_accuracy']:.2%}" in result.stdout
    assert f"--set hidden={stored['best']['settings']['hidden']}" in told[-1]


def test_json_and_resume(tmp_path):
    first = json.loads(run(*QUICK, "--quiet", "--json", "--out", tmp_path).stdout)
    again = json.loads(run(*QUICK, "--quiet", "--json", "--out", tmp_path).stdout)
    assert first == again
    assert first["trials"] == 2
    assert first["config"]["max_epochs"] == 2
    assert first["config"]["hidden"] == [first["settings"]["hidden"]]


def test_refusals(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="grid must be one of 'paper'"):
        run(*QUICK, "--grid", "fine", "--out", tmp_path)
    with pytest.raises(InputError, match="exactly one of --dataset"):
        run("--out", tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"fishergcn\[tune\]"):
        run(*QUICK, "--out", tmp_path)
