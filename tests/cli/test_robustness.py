"""``fishergcn robustness``: its files, its refusals, and the pictures on the report page."""

from __future__ import annotations

import csv
import os
import signal
import sys

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

from fishergcn import Graph
from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError
from fishergcn.report._geometry import geometry_figures


def run(*arguments):
    return CliRunner().invoke(app, ["robustness", *map(str, arguments)])


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    links = np.triu(rng.random((40, 40)) < np.where(labels[:, None] == labels, 0.3, 0.05), 1)
    words = sparse.csr_array((rng.random((40, 12)) < 0.2).astype(np.float32))
    graph = Graph((links | links.T).astype(float), words, labels, name="../two classes")
    graph.save(tmp_path / "two.npz")
    return tmp_path / "two.npz"


TINY = ["--preset", "quick", "--epochs", "3", "--device", "cpu"]
TINY += ["--splits", "per-class:3+5:1", "--splits", "per-class:3+5:2"]


def test_files_of_a_study(path, tmp_path):
    out = tmp_path / "out"
    attacks = ["--attack", "links-added", "--attack", "features"]
    arguments = ["--dataset", path, "--method", "gcn", "--method", "gcn-t", *attacks, "--out", out, *TINY]
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    assert "24 points; curves and tables in" in done.stdout
    # Both graphs have a folder, named so that it stays inside.
    assert {each.name for each in out.iterdir()} == {
        "---two-classes", "---two-classes-t", "points.csv", "study.json", "summary.csv", "robustness-tables.md",
        "figures",
    }  # fmt: skip
    with (out / "points.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 24
    assert {row["method"] for row in rows} == {"gcn", "gcn-t"}
    before = (out / "points.csv").read_bytes()
    again = run(*arguments)
    assert again.exit_code == 0
    assert again.stdout == done.stdout
    assert "trained" not in again.stderr
    assert (out / "points.csv").read_bytes() == before
    [figure] = geometry_figures(out / "figures", "robustness")
    assert "Robustness, ../two classes" in str(figure)


def test_a_report_keeps_the_files_of_a_study(path, tmp_path):
    out = tmp_path / "out"
    arguments = ["--dataset", path, "--method", "fishergcn", "--attack", "links-added", "--out", out, *TINY]
    assert run(*arguments).exit_code == 0
    alone = CliRunner().invoke(app, ["report", str(out)])
    assert alone.exit_code == 0, alone.output
    assert "When the graph changes" in (out / "report.html").read_text()
    before = {each.name: each.read_bytes() for each in out.iterdir() if each.is_file() and each.name != "report.html"}
    options = [
        "--method",
        "gcn",
        "--splits",
        "1",
        "--seeds",
        "1",
        "--epochs",
        "1",
        "--workers",
        "1",
        "--device",
        "cpu",
    ]
    assert CliRunner().invoke(app, ["reproduce", "quick", "--out", str(out), *options]).exit_code == 0
    assert CliRunner().invoke(app, ["report", str(out)]).exit_code == 0
    assert {name: (out / name).read_bytes() for name in before} == before
    page = (out / "report.html").read_text()
    assert "When the graph changes" in page
    assert "What was run" in page


def test_dense_features_and_the_way_out(path, tmp_path):
    graph = Graph.load(path)
    dense = Graph(2 * graph.adjacency, graph.features.toarray(), graph.labels, name="dense")
    dense.save(tmp_path / "dense.npz")
    arguments = ["--dataset", tmp_path / "dense.npz", "--method", "gcn", "--out", tmp_path / "out", *TINY]
    refused = run(*arguments, "--attack", "features", "--attack", "prbcd")
    assert isinstance(refused.exception, InputError)
    assert str(refused.exception).endswith("--attack features")
    assert not (tmp_path / "out").exists()
    done = run(*arguments, "--attack", "features")
    assert done.exit_code == 0, done.output
    with (tmp_path / "out" / "points.csv").open() as stream:
        sizes = {row["level"]: row["size"] for row in csv.DictReader(stream)}
    assert sizes == {"0": "0", "0.25": "120", "0.5": "240"}  # of 40 x 12 entries


def test_a_signal_ends_it_with_the_command_to_go_on(path, tmp_path, monkeypatch):
    from fishergcn.studies._robustness_points import PointFile

    append = PointFile.append

    def stop(self, points):
        append(self, points)
        os.kill(os.getpid(), signal.SIGINT)

    arguments = ["--dataset", path, "--method", "gcn", "--attack", "links-added", "--out", tmp_path / "out", *TINY]
    monkeypatch.setattr(PointFile, "append", stop)
    monkeypatch.setattr(sys, "argv", ["fishergcn", "robustness", "--out", "my folder"])
    stopped = run(*arguments)
    assert stopped.exit_code == 130
    command = "fishergcn robustness --out 'my folder'"
    assert f"stopped by SIGINT; measured points are kept, go on with: {command}\n" in stopped.stderr
    monkeypatch.undo()
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    assert "6 points" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["--dataset", "coro"], InputError, "did you mean"),
        (["--method", "gnc"], InputError, "method must be one of"),
        (["--attack", "fire"], InputError, "attack must be one of"),
        (["--device", "tpu"], InputError, "device must be"),
        (["--splits", "0"], InputError, "split"),
        (["--seeds", "0"], InputError, "seeds must be at least 1"),
        (["--epochs", "0"], InputError, "max_epochs must be at least 1"),
    ],
)
def test_refusals(arguments, error, words, tmp_path):
    device = [] if "--device" in arguments else ["--device", "cpu"]
    done = run("--out", tmp_path / "out", "--preset", "quick", *device, *arguments)
    assert isinstance(done.exception, error)
    assert words in str(done.exception)
    assert not list(tmp_path.rglob("points*"))


def test_a_file_in_the_way(path, tmp_path):
    (tmp_path / "out").write_text("")
    done = run("--dataset", path, "--out", tmp_path / "out", "--attack", "links-added", *TINY)
    assert isinstance(done.exception, DataFileError)
