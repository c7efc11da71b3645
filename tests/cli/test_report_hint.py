"""Commands that save something end with the command that makes a page of it, and that command works."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import Graph
from fishergcn.cli import app

HINT = "For a page with tables and charts: "
FEW = ["--epochs", "2", "--quiet", "--workers", "1", "--device", "cpu"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Be in a folder with two small graphs."""
    monkeypatch.chdir(tmp_path)
    links = [(node, (node + step) % 24) for node in range(24) for step in (1, 2)]
    labels, features = np.arange(24) // 12, np.eye(24)
    for name in ("one", "two"):
        Graph.from_edges(links, features=features, labels=labels, name=name).save(tmp_path / f"{name}.npz")
    return tmp_path


def run(*words):
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


ONE, BOTH = ["--dataset", "one.npz"], ["--dataset", "one.npz", "--dataset", "two.npz"]
COMMANDS = {
    "a model": ["train", *ONE, "--method", "gcn"],
    "several models": ["train", *BOTH, "--method", "gcn", "--method", "lp"],
    "a choice": ["train", *ONE, "--time-limit", "1"],
    "choices": ["train", *BOTH, "--time-limit", "1"],
    "a search": ["tune", *ONE, "--method", "gcn", "--trials", "1"],
    "searches": ["tune", *BOTH, "--method", "gcn", "--method", "gcn-x2", "--trials", "1"],
    "a comparison": ["compare", *ONE, "--method", "gcn", "--splits", "2"],
    "a robustness study": [
        "robustness", *ONE, "--method", "gcn", "--splits", "2", "--attack", "links-removed", "--seeds", "1",
    ],
}  # fmt: skip


@pytest.mark.parametrize("what", COMMANDS)
def test_the_last_line_is_a_command_that_works(here, what):
    if "search" in what:
        pytest.importorskip("optuna")
    *_, last = run(*COMMANDS[what], *FEW, "--out", "my results").splitlines()
    assert last == f"{HINT}fishergcn report 'my results'"
    assert not (here / "my results" / "report.html").exists()
    run(*shlex.split(last.removeprefix(HINT))[1:])
    assert (here / "my results" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("what", ["a model", "a choice", "a comparison"])
def test_programs_get_nothing_but_json(here, what):
    json.loads(run(*COMMANDS[what], *FEW, "--out", "results", "--json"))


@pytest.mark.parametrize("what", ["a model", "a choice"])
def test_where_nothing_is_saved_there_is_no_page(here, what):
    assert HINT not in run(*COMMANDS[what], *FEW)
