"""``fishergcn reproduce``: its output, its refusals, and what it shows while it works."""

from __future__ import annotations

import csv
import io

import pytest
from typer.testing import CliRunner

from fishergcn import studies
from fishergcn.cli import app
from fishergcn.cli._progress import Display, _duration
from fishergcn.errors import DataFileError, InputError
from fishergcn.execution import _executors as executors
from fishergcn.studies._plan import make_plan
from fishergcn.studies._store import RunStore, open_runs

TINY = ["--splits", "2", "--seeds", "1", "--epochs", "2", "--workers", "1", "--device", "cpu"]


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_results_beside_the_published_ones(tmp_path):
    done = run("reproduce", "quick", "--out", tmp_path, "--methods", "fishergcn", *TINY)
    assert done.exit_code == 0, done.output
    for text in ("80.52", "80.70", "gcn-x5", "control", "baseline", "won:tied:lost", f"fishergcn report {tmp_path}"):
        assert text in done.stdout
    assert "6/6 runs done, 0 in work, 0 failed" in done.stderr
    again = run("reproduce", "quick", "--out", tmp_path, "--methods", "fishergcn", *TINY)
    assert again.stdout == done.stdout
    assert "quick: 6 runs, 6 of them done before." in again.stderr


def test_other_settings_than_the_preset_have_no_gap(tmp_path):
    done = run("reproduce", "quick", "--out", tmp_path, "--methods", "gcn", *TINY)
    [row] = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("gcn ")]
    assert row[-5:-1] == ["80.52", "-", row[-3], "(1.07)"]
    assert "Gap: left out, since settings are not the preset's (max_epochs 2 instead of 500)." in done.stdout
    assert run("report", tmp_path).exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "settings that are not the preset’s (max_epochs 2 instead of 500)" in page
    with (tmp_path / "tables.csv").open() as stream:
        [row] = csv.DictReader(stream)
    assert (row["published_accuracy"], row["accuracy_difference"], row["accuracy_gap"]) == ("0.8052", "", "")


def test_a_single_run_has_no_interval(tmp_path):
    done = run("reproduce", "quick", "--out", tmp_path, *TINY, "--splits", "1")
    assert done.exit_code == 0, done.output
    assert "nan" not in done.stdout


def test_other_settings_are_refused(tmp_path):
    assert run("reproduce", "quick", "--out", tmp_path, "--methods", "gcn", *TINY).exit_code == 0
    done = run("reproduce", "quick", "--out", tmp_path, "--methods", "gcn", *TINY, "--seeds", "2")
    assert isinstance(done.exception, DataFileError)
    assert "seeds 2019 … 2020 (2) instead of 2019" in str(done.exception)


@pytest.mark.parametrize("preset", ["quick", "table1"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model.json", "holds a model; take another folder"),
        ("tuning.json", "holds a search by fishergcn tune; take another folder"),
        ("plan.json", "holds an archive of runs, to which none can be added; take another folder"),
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

    monkeypatch.setattr(executors, "train_chunk", broken)
    done = run("reproduce", "quick", "--out", tmp_path, "--methods", "gcn", *TINY)
    assert done.exit_code == 1
    assert "gcn on cora, split shuffled:2019, seed 2019: failed: RuntimeError: no luck" in done.stderr
    assert "2 runs failed; the same command tries them again." in done.stderr


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
        (["quick", "--datasets", "coar"], "did you mean 'cora'"),
        (["quick", "--methods", "gnc"], "method must be one of"),
        (["quick", "--splits", "0"], "splits must be at least 1"),
        (["quick", "--device", "tpu"], "device must be"),
        (["table3", "--splits", "2"], "public split"),
        (["quick", "--cluster", "auto", "--workers", "2"], "workers is for this machine"),
    ],
)
def test_bad_options(tmp_path, arguments, message):
    done = run("reproduce", *arguments, "--out", tmp_path / "new")
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert not (tmp_path / "new").exists()


class Terminal:
    """A display on a terminal, with what it wrote."""

    def __init__(self, terminal):
        from rich.console import Console

        self.stream = io.StringIO()
        self.display = Display()
        self.display._console = Console(
            file=self.stream, force_terminal=terminal, width=100, highlight=False, markup=False, color_system=None
        )

    @property
    def text(self):
        return self.stream.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_the_display(tmp_path, terminal):
    from dataclasses import replace

    plan = make_plan(studies.load_preset("quick"), methods=["gcn"], splits=2, seeds=2, epochs=1)
    source = run(
        "reproduce",
        "quick",
        "--out",
        tmp_path,
        "--methods",
        "gcn",
        *TINY[:1],
        "2",
        *TINY[2:3],
        "2",
        "--epochs",
        "1",
        *TINY[6:],
    )
    assert source.exit_code == 0, source.output
    records = list(open_runs(tmp_path).records())
    empty = tmp_path / "empty"
    empty.mkdir()
    shown = Terminal(terminal)
    with RunStore(empty, writable=True) as store, shown.display as display:
        store.begin(plan)
        display.begin(plan, store)
        [cell] = plan.cells
        display.started(cell, 4)
        display.finished(cell, [replace(records[0], test_accuracy=0.5), replace(records[1], test_accuracy=0.7)])
        assert "2/4 runs done, 2 in work, 0 failed, about" in display._line()
        display.finished(cell, [replace(records[2], status="failed: no luck"), replace(records[3], test_accuracy=0.6)])
    assert "split shuffled:2020, seed 2019: failed: no luck" in shown.text
    assert "3/4 runs done, 0 in work, 1 failed" in shown.text
    assert "60.00%" in shown.text
    assert ("\x1b[" in shown.text) == terminal


@pytest.mark.parametrize(("seconds", "text"), [(5.2, "5 s"), (600, "10 min"), (7200, "2.0 h")])
def test_durations(seconds, text):
    assert _duration(seconds) == text
