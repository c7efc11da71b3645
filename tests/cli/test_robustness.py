"""``fishergcn robustness``: a study of attacks, with its refusals and its page."""

from __future__ import annotations

import csv
import os
import re
import signal
import sys

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

from fishergcn import Graph
from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.studies import RunStore, open_runs


def run(*arguments, command="robustness"):
    return CliRunner().invoke(app, [command, *map(str, arguments)])


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    links = np.triu(rng.random((40, 40)) < np.where(labels[:, None] == labels, 0.3, 0.05), 1)
    words = sparse.csr_array((rng.random((40, 12)) < 0.2).astype(np.float32))
    graph = Graph((links | links.T).astype(float), words, labels, name="../two classes")
    graph.save(tmp_path / "two.npz")
    return tmp_path / "two.npz"


TINY = ["--preset", "robustness-quick", "--epochs", "3", "--device", "cpu", "--workers", "1"]
TINY += ["--splits", "per-class:3+5:1", "--splits", "per-class:3+5:2"]


def test_a_study_is_measured_once_and_exported(path, tmp_path):
    out = tmp_path / "out"
    attacks = ["--attack", "links-added", "--attack", "features"]
    arguments = ["--dataset", path, "--method", "gcn", "--method", "gcn-t", *attacks, "--out", out, *TINY]
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    assert "24 of 24 runs are done." in done.stdout
    assert f"fishergcn report {out}" in done.stdout
    assert run("export", out, "--out", tmp_path / "runs.csv", command="runs").exit_code == 0
    with (tmp_path / "runs.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 24
    assert {row["method"] for row in rows} == {"gcn", "gcn-t"}
    again = run(*arguments)
    assert again.exit_code == 0
    assert again.stdout == done.stdout
    assert "24 runs, 24 already done." in again.stderr


def test_its_page(path, tmp_path):
    out = tmp_path / "out"
    arguments = ["--dataset", path, "--method", "fishergcn", "--attack", "links-added", "--out", out, *TINY]
    assert run(*arguments).exit_code == 0
    done = run(out, command="report")
    assert done.exit_code == 0, done.output
    assert "When the graph changes" in (out / "report.html").read_text()


@pytest.mark.parametrize(("samples", "control"), [(1, "gcn"), (3, "gcn-x3"), (5, "gcn-x5")])
def test_the_difference_follows_the_number_of_samples(path, tmp_path, samples, control):
    out = tmp_path / "out"
    arguments = ["--dataset", path, "--method", "fishergcn", "--attack", "links-removed", "--out", out, *TINY]
    done = run(*arguments, "--samples", samples)
    assert done.exit_code == 0, done.output
    for shown in (done, run("show", out, command="runs")):
        [row] = [line.split() for line in shown.stdout.splitlines() if " links-removed   fishergcn " in line]
        assert row[row.index("fishergcn") + 4] == control


def test_dense_features_and_the_way_out(path, tmp_path):
    graph = Graph.load(path)
    dense = Graph(2 * graph.adjacency, graph.features.toarray(), graph.labels, name="dense")
    dense.save(tmp_path / "dense.npz")
    arguments = ["--dataset", tmp_path / "dense.npz", "--method", "gcn", "--out", tmp_path / "out", *TINY]
    refused = run(*arguments, "--attack", "features", "--attack", "prbcd")
    assert isinstance(refused.exception, InputError)
    assert "prbcd cannot be measured on dense" in str(refused.exception)
    assert "--attack features" in str(refused.exception)
    assert not (tmp_path / "out").exists()
    done = run(*arguments, "--attack", "features")
    assert done.exit_code == 0, done.output
    with open_runs(tmp_path / "out") as runs:
        sizes = {record.extra["level"]: record.extra["size"] for record in runs.records()}
    entries = np.count_nonzero(dense.features)  # of 40 x 12, so that the array counts as sparse
    assert sizes == {0.0: 0, 0.25: round(0.25 * entries), 0.5: round(0.5 * entries)}


def test_a_signal_ends_it_with_the_command_to_go_on(path, tmp_path, monkeypatch):
    add = RunStore.add

    def stop(self, cell, records):
        add(self, cell, records)
        os.kill(os.getpid(), signal.SIGINT)

    arguments = ["--dataset", path, "--method", "gcn", "--attack", "links-added", "--out", tmp_path / "out", *TINY]
    monkeypatch.setattr(RunStore, "add", stop)
    monkeypatch.setattr(sys, "argv", ["fishergcn", "robustness", "--out", "my folder"])
    stopped = run(*arguments)
    assert stopped.exit_code == 130
    command = "fishergcn robustness --out 'my folder'"
    assert f"stopped by SIGINT; finished runs are kept; continue with: {command}\n" in stopped.stderr
    monkeypatch.undo()
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    assert "6 of 6 runs are done." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dataset", "coro"], "did you mean"),
        (["--method", "gnc"], "method must be one of"),
        (["--attack", "fire"], "attack must be one of"),
        (["--preset", "fall"], "preset 'fall' is unknown"),
        (["--device", "tpu"], "device must be"),
        (["--splits", "0"], "splits must be at least 1"),
        (["--seeds", "0"], "seeds must be at least 1"),
        (["--epochs", "0"], "--epochs must be at least 1"),
    ],
)
def test_refusals(arguments, words, tmp_path):
    done = run("--out", tmp_path / "out", "--preset", "robustness-quick", *arguments)
    assert isinstance(done.exception, InputError)
    assert words in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way(path, tmp_path):
    (tmp_path / "out").write_text("")
    done = run("--dataset", path, "--out", tmp_path / "out", "--attack", "links-added", *TINY)
    assert isinstance(done.exception, DataFileError)


def test_another_score_is_named_on_the_terminal_and_on_the_page(path, tmp_path):
    few = [*TINY, "--dataset", path, "--method", "fishergcn", "--attack", "links-added", "--out", tmp_path / "out"]
    done = run(*few, "--score", "log-loss", "--quiet")
    assert done.exit_code == 0, done.output
    assert "Test cross entropy under the strongest setting of each attack" in done.stdout
    assert "Cross entropy: lower is better." in done.stdout
    assert "accuracy" not in done.stdout.lower()
    assert "points" not in done.stdout
    assert run(tmp_path / "out", "--score", "cross-entropy", command="report").exit_code == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    page = re.sub(r"<[^>]+>", " ", page[page.index("<main") : page.index('<section id="protocol"')])
    assert "test cross entropy" in page.lower()
    assert "accuracy" not in page.lower()
    assert "points" not in page
    with pytest.raises(
        InputError, match=r"^--score must be one of accuracy, cross_entropy under attack, got 'macro_f1'"
    ):
        CliRunner().invoke(app, ["robustness", *map(str, few), "--score", "macro-f1"], catch_exceptions=False)
