"""``fishergcn runs``: list, show, export, archive."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.studies import control_equivalence, open_runs


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    options = ["--splits", "2", "--seeds", "1", "--epochs", "2", "--workers", "1", "--device", "cpu"]
    done = run("reproduce", "quick", "--out", out, *options)
    assert done.exit_code == 0, done.output
    return out


def test_list(folder):
    done = run("runs", "list", folder)
    assert done.exit_code == 0
    assert "6 runs in" in done.stdout
    assert done.stdout.count("shuffled:2020") == 3
    rows = json.loads(run("runs", "list", folder, "--json").stdout)
    assert [row["test_loss"] for row in rows] == [record.test_loss for record in open_runs(folder).records()]


def test_show(folder):
    shown = run("runs", "show", folder).stdout
    assert "from Student's t over splits." in shown
    assert control_equivalence(open_runs(folder)).sentence in shown
    found = json.loads(run("runs", "show", folder, "--json").stdout)
    assert found["plan"]["preset"] == "quick"
    assert [cell["cell"] for cell in found["cells"]] == ["gcn", "gcn-x5", "fishergcn"]
    assert [each["role"] for each in found["comparisons"]] == ["baseline", "baseline", "control"]
    assert found["equivalence"]["margin"] == control_equivalence(open_runs(folder)).margin


def test_one_split_is_said(tmp_path):
    options = ["--seeds", "2", "--epochs", "1", "--workers", "1", "--device", "cpu", "--dataset", "cora"]
    done = run("reproduce", "table3", "--method", "gcn", "--out", tmp_path, *options)
    assert done.exit_code == 0, done.output
    assert "from Student's t over seeds (for this one split only)" in done.stdout


def test_export(folder, tmp_path):
    done = run("runs", "export", folder, "--out", tmp_path / "r.csv")
    assert done.stdout == f"{tmp_path / 'r.csv'}: 6 runs\n"
    with (tmp_path / "r.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["method"] for row in rows] == ["gcn"] * 2 + ["gcn-x5"] * 2 + ["fishergcn"] * 2
    done = run("runs", "export", folder, "--out", tmp_path / "r.txt")
    assert isinstance(done.exception, InputError)


def test_an_archive_shows_the_same(folder, tmp_path):
    assert run("runs", "archive", folder, "--out", tmp_path / "a").exit_code == 0
    assert run("runs", "show", tmp_path / "a").stdout == run("runs", "show", folder).stdout


def test_nothing_there(tmp_path):
    done = run("runs", "show", tmp_path)
    assert isinstance(done.exception, DataFileError)
    assert "contains no runs" in str(done.exception)
