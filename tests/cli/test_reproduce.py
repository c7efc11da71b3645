"""``fishergcn reproduce``: its output, its refusals, and what it shows while it works."""

from __future__ import annotations

import contextlib
import csv

import pytest
from typer.testing import CliRunner

from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.studies import open_runs

TINY = ["--splits", "2", "--seeds", "1", "--epochs", "2", "--workers", "1", "--device", "cpu"]


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_results_beside_the_published_ones(tmp_path):
    done = run("reproduce", "quick", "--out", tmp_path, "--method", "fishergcn", *TINY)
    assert done.exit_code == 0, done.output
    for text in ("80.52", "80.70", "gcn-x5", "control", "baseline", "won:tied:lost", f"fishergcn report {tmp_path}"):
        assert text in done.stdout
    assert "6/6 runs done, 0 in progress, 0 failed" in done.stderr
    again = run("reproduce", "quick", "--out", tmp_path, "--method", "fishergcn", *TINY)
    assert again.stdout == done.stdout
    assert "quick: 6 runs, 6 already done." in again.stderr


def test_other_settings_than_the_preset_have_no_gap(tmp_path):
    done = run("reproduce", "quick", "--out", tmp_path, "--method", "gcn", *TINY)
    [row] = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("gcn ")]
    assert row[-4:-1] == ["80.52", row[-3], "(1.07)"]
    assert "Gap" not in done.stdout
    assert "settings differ from the preset's (max_epochs 2 instead of 500)." in done.stdout
    assert run("report", tmp_path).exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "settings other than the preset’s (max_epochs 2 instead of 500)" in page
    with (tmp_path / "tables.csv").open() as stream:
        [row] = csv.DictReader(stream)
    assert (row["published_accuracy"], row["accuracy_difference"], row["accuracy_gap"]) == ("0.8052", "", "")


def test_a_single_run_has_no_interval(tmp_path):
    done = run("reproduce", "quick", "--out", tmp_path, "--splits", "1", *TINY[2:])
    assert done.exit_code == 0, done.output
    assert "nan" not in done.stdout


def test_other_settings_are_refused(tmp_path):
    assert run("reproduce", "quick", "--out", tmp_path, "--method", "gcn", *TINY).exit_code == 0
    done = run("reproduce", "quick", "--out", tmp_path, "--method", "gcn", *TINY, "--seeds", "2")
    assert isinstance(done.exception, DataFileError)
    assert "seeds 2019 … 2020 (2) instead of 2019" in str(done.exception)


@pytest.mark.parametrize("preset", ["quick", "table1"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model.json", "holds a model; use another folder"),
        ("tuning.json", "holds a search by fishergcn tune; use another folder"),
        ("plan.json", "is an archive of runs and cannot be added to; use another folder"),
    ],
)
def test_folders_of_others_are_refused(tmp_path, preset, name, words):
    (tmp_path / name).write_text("{}")
    done = run("reproduce", preset, "--out", tmp_path, *TINY)
    assert isinstance(done.exception, DataFileError)
    assert words in str(done.exception)
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_failed_runs_are_reported(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no luck")

    monkeypatch.setattr("fishergcn.execution._training.train_chunk", broken)
    done = run("reproduce", "quick", "--out", tmp_path, "--method", "gcn", *TINY)
    assert done.exit_code == 1
    assert "gcn on cora, split shuffled:2019, seed 2019: failed: RuntimeError: no luck" in done.stderr
    assert "2 runs failed; run the same command to try them again." in done.stderr


def test_table1(tmp_path):
    done = run("reproduce", "table1", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    with (tmp_path / "table1.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 24
    assert all(row["equal"] == "True" for row in rows), [row for row in rows if row["equal"] != "True"]
    assert "| citeseer | links | 4,552 | 4,552 |" in (tmp_path / "table1.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel2"], "did you mean 'table2'"),
        (["quick", "--dataset", "coar"], "did you mean 'cora'"),
        (["quick", "--method", "gnc"], "method must be one of"),
        (["quick", "--splits", "0"], "splits must be at least 1"),
        (["quick", "--device", "tpu"], "device must be"),
        (["table3", "--splits", "2"], "splits must be 1, since there is one public split, got 2"),
        (["quick", "--cluster", "auto", "--workers", "2"], "workers applies to this machine"),
    ],
)
def test_bad_options(tmp_path, arguments, message):
    done = run("reproduce", *arguments, "--out", tmp_path / "new")
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert not (tmp_path / "new").exists()


def test_splits_by_name_and_several_data_sets(tmp_path):
    options = ["--dataset", "cora", "--dataset", "citeseer", "--method", "gcn", *TINY[2:]]
    done = run("reproduce", "quick", "--out", tmp_path, *options, "--splits", "public", "--splits", "1")
    assert done.exit_code == 0, done.output
    with contextlib.closing(open_runs(tmp_path)) as runs:
        found = {(record.dataset, record.split) for record in runs.records()}
    assert found == {(data, split) for data in ("cora", "citeseer") for split in ("public", "shuffled:2019")}


@pytest.mark.parametrize(("samples", "control"), [(1, "gcn"), (3, "gcn-x3"), (5, "gcn-x5")])
def test_the_difference_follows_the_number_of_samples(tmp_path, samples, control):
    preset = "title = 'Few'\nsource = 'none'\ndatasets = ['cora']\nmethods = ['fishergcn']\n"
    settings = f"splits = {{rule = 'shuffled', count = 2}}\nconfig = {{samples = {samples}, max_epochs = 1}}\n"
    (tmp_path / "few.toml").write_text(preset + settings)
    out = tmp_path / "out"
    done = run("reproduce", tmp_path / "few.toml", "--out", out, "--workers", 1, "--device", "cpu")
    assert done.exit_code == 0, done.output
    for shown in (done, run("runs", "show", out)):
        rows = [line.split()[:3] for line in shown.stdout.splitlines()]
        assert ["fishergcn", control, "(control)"] in rows
