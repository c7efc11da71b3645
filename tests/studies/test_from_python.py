"""A study begun from Python is reported, taken up and archived exactly like one from the command line."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn import Graph, studies
from fishergcn.cli import app
from fishergcn.errors import DataFileError, InputError

TRAINING = ["reproduce", "quick", "--method", "gcn-x5", "--splits", "2", "--seeds", "1", "--epochs", "2"]
ATTACK = ["robustness", "--preset", "robustness-quick", "--method", "gcn", "--attack", "links-added", "--splits", "2"]
PLANS = {
    "training": (TRAINING, {"preset": "quick", "methods": ["gcn-x5"], "splits": 2, "seeds": 1, "epochs": 2}),
    "attack": (
        [*ATTACK, "--epochs", "2"],
        {"preset": "robustness-quick", "methods": ["gcn"], "attacks": ["links-added"], "splits": 2, "epochs": 2},
    ),
}


def command(*words):
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def content(folder):
    with studies.open_runs(folder) as runs:
        entries = [(name, dataclasses.replace(record, seconds=0.0)) for name, record in runs.entries()]
        facts = {name: value for name, value in runs.facts.items() if name not in ("command", "created")}
        return runs.plan, facts, entries


@pytest.mark.parametrize("measure", list(PLANS))
def test_the_same_from_both(tmp_path, measure):
    words, arguments = PLANS[measure]
    shell, python = tmp_path / "shell", tmp_path / "python"
    shown = command(*words, "--device", "cpu", "--workers", 1, "--out", shell)
    studies.run(studies.make_plan(**arguments), python, device="cpu", workers=1).close()
    assert content(shell) == content(python)
    assert command("runs", "show", python) in shown
    # Reported and archived ...
    for name in ("shell", "python"):
        command("report", tmp_path / name)
        command("runs", "archive", tmp_path / name, "--out", tmp_path / f"{name}-copy")
        command("report", tmp_path / f"{name}-copy")
    assert (shell / "tables.csv").read_bytes() == (python / "tables.csv").read_bytes()
    assert (tmp_path / "shell-copy" / "tables.csv").read_bytes() == (python / "tables.csv").read_bytes()
    # ... and taken up by the other, which finds nothing to do.
    again = command(*words, "--device", "cpu", "--workers", 1, "--out", python)
    assert again == shown.replace(str(shell), str(python))
    with studies.open_runs(shell) as runs:
        plan = runs.plan
    studies.run(plan, shell, device="cpu", workers=1).close()
    assert content(shell) == content(python)


def test_a_graph_of_ones_own(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    links = np.triu(rng.random((40, 40)) < np.where(labels[:, None] == labels, 0.3, 0.05), 1)
    graph = Graph((links | links.T).astype(float), rng.random((40, 6)), labels, name="mine")
    asked = {"methods": ["gcn"], "splits": ["per-class:3+5:1"], "seeds": 1, "epochs": 2}
    plan = studies.make_plan("quick", datasets=[graph], **asked)
    with studies.run(plan, tmp_path / "runs", device="cpu", workers=1) as runs:
        assert runs.counts() == {"ok": 1}
        kept = runs.plan
        assert runs.facts["data mine"] == {"nodes": 40, "links": graph.num_links, "features": 6, "classes": 2}
    assert kept == plan
    with pytest.raises(InputError, match="'mine' is not built in; pass it to the plan"):
        studies.run(kept, tmp_path / "runs", device="cpu", workers=1)
    changed = Graph(graph.adjacency, 2 * graph.features, labels, name="mine")
    with pytest.raises(DataFileError, match="you asked for: data of mine"):
        studies.run(studies.make_plan("quick", datasets=[changed], **asked), tmp_path / "runs", device="cpu")
    with pytest.raises(InputError, match="is not the one in the plan"):
        studies.run(dataclasses.replace(plan, graphs={"mine": changed}), tmp_path / "other", device="cpu", workers=1)
    with pytest.raises(InputError, match="different names, got 'mine' twice"):
        studies.make_plan("quick", datasets=[graph, changed], **asked)
    graph.save(tmp_path / "mine.npz")
    words = ["reproduce", "quick", "--dataset", tmp_path / "mine.npz", "--method", "gcn", "--splits", "per-class:3+5:1"]
    command(*words, "--seeds", 1, "--epochs", 2, "--device", "cpu", "--out", tmp_path / "runs")


def test_methods_are_compared_on_a_graph_in_one_call(tmp_path):
    """What the command computes, run by run, with or without a folder that keeps the runs."""
    labels = np.arange(40) % 2
    links = [(node, (node + step) % 40) for node in range(40) for step in (2, 3)]
    graph = Graph.from_edges(links, features=np.random.default_rng(0).random((40, 3)), labels=labels, name="ring")
    graph.save(tmp_path / "ring.npz")
    words = ["compare", "--graph", tmp_path / "ring.npz", "--method", "gcn-x5", "--splits", 2, "--epochs", 3]
    command(*words, "--set", "hidden=4", "--device", "cpu", "--workers", 1, "--quiet", "--out", tmp_path / "shell")
    with studies.open_runs(tmp_path / "shell") as runs:
        expected = studies.compare(runs, "macro_f1")
        assert studies.compare(runs, metric="macro_f1") == expected
        with pytest.raises(InputError, match="only a score goes with them"):
            studies.compare(runs, folder=tmp_path)
    here = {"splits": 2, "settings": {"max_epochs": 3, "hidden": 4}, "device": "cpu", "workers": 1}
    found = studies.compare(graph, ["gcn", "gcn-x5"], "macro_f1", folder=tmp_path / "python", **here)
    ours = [each for each in found if each.cell == "gcn-x5"]
    assert [each.role for each in ours] == ["baseline", "without links"]
    assert ours == [each for each in expected if each.cell == "gcn-x5"]
    with studies.open_runs(tmp_path / "python") as runs:
        assert studies.compare(runs, "macro_f1") == found
    assert studies.compare(graph, ["gcn", "gcn-x5"], "macro_f1", **here) == found
    with pytest.raises(InputError, match="methods must name at least one"):
        studies.compare(graph)
    with pytest.warns(UserWarning, match="of 6 runs diverged or failed and are left out"), np.errstate(all="ignore"):
        studies.compare(graph, "gcn-x5", **here | {"settings": {"max_epochs": 3, "learning_rate": 1e30}})
