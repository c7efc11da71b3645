"""Five people who have never seen the package go from their file to a page, each in an empty folder.

They type commands, or a few lines of Python, and know nothing but what messages tell them: where something is refused,
the option that they add stands in the refusal. Nobody sees a traceback. What the first of them types to get a model and
predictions, and all programs, run in processes of their own; the rest, in this one, which has imported everything.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fishergcn.cli import app, main

FEW = [
    "--splits",
    "per-class:6+4:0",
    "--splits",
    "per-class:6+4:1",
    "--set",
    "max_epochs=15",
    "--workers",
    "1",
    "--quiet",
]
TEAMS = ("blue", "green", "red")


class Newcomer:
    """Somebody with a shell in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "80", "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done

    def types(self, *words: object) -> str:
        """Give a command that works; return what it prints, notes included."""
        done = self.run("-m", "fishergcn", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def is_refused(self, *words: object) -> str:
        """Give a command that does not work; return the one sentence about it."""
        shown = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(shown):
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["fishergcn", *map(str, words)])
            with pytest.raises(SystemExit) as done:
                main()
        said = [line for line in shown.getvalue().splitlines() if line.startswith("fishergcn: error: ")]
        assert (done.value.code, len(said)) == (2, 1), shown.getvalue()
        return said[0]

    def writes(self, program: str) -> str:
        """Run a program of a few lines; return what it prints."""
        (self.folder / "mine.py").write_text(program, encoding="utf-8")
        done = self.run("mine.py")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def opens(self, page: str, *expected: str) -> None:
        """Look at a page: it is there, speaks of what was done, and loads nothing from elsewhere."""
        text = (self.folder / page).read_text(encoding="utf-8")
        assert [word for word in expected if word not in text] == []
        assert not re.search(r'<(script|img|link)[^>]+(src|href)="(https?:)?//', text)


class Another(Newcomer):
    """Somebody whose commands run in this process."""

    def types(self, *words: object) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            done = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*map(str, words)])
        assert done.exit_code == 0, done.output
        return done.output


@pytest.fixture
def newcomer(tmp_path):
    return Newcomer(tmp_path)


@pytest.fixture
def another(tmp_path):
    return Another(tmp_path)


def people(random):
    """Return 60 people with a city, an age that some keep to themselves, and a team; and who knows whom."""
    team = np.repeat(TEAMS, 20)
    likely = np.where(team[:, None] == team, 0.25, 0.02)
    links = np.argwhere(np.triu(random.random((60, 60)) < likely, 1))
    names = [f"P{number:02d}" for number in range(60)]
    ages = 20 + 10 * np.unique(team, return_inverse=True)[1] + random.integers(0, 12, 60)
    rows = [
        {
            "name": name,
            "city": ("Oslo", "Rome", "Bonn")[number % 3],
            "age": None if number % 13 == 0 else int(ages[number]),
            "team": None if number % 7 == 0 else str(team[number]),
        }
        for number, name in enumerate(names)
    ]
    return rows, [(names[one], names[other]) for one, other in links]


@pytest.fixture
def rows():
    return people(np.random.default_rng(7))


def test_csv_with_titles_and_text(newcomer, rows):
    members, links = rows
    table = [",".join("" if cell is None else str(cell) for cell in row.values()) for row in members]
    (newcomer.folder / "people.csv").write_text("\n".join([",".join(members[0]), *table]) + "\n", encoding="utf-8")
    pairs = [f"{one},{other}" for one, other in links]
    (newcomer.folder / "friends.csv").write_text("\n".join(["who,whom", *pairs]) + "\n", encoding="utf-8")

    files = ["--edges", "friends.csv", "--features", "people.csv"]
    assert "--label" in newcomer.is_refused("train", *files, "--out", "model")
    files += ["--label", "team"]
    assert "--text drop" in (said := newcomer.is_refused("train", *files, "--out", "model"))
    assert "one-hot" in said
    assert "people.csv: 2 columns" in said
    assert "in line 2" in said
    assert "--empty fill" in said  # all at once
    files += ["--text", "one-hot", "--empty", "fill"]
    said = newcomer.types("train", *files, "--method", "gcn", "--epochs", 30, "--quiet", "--out", "model")
    assert "friends.csv line 1 names the columns (who, whom)" in said
    newcomer.types("predict", "model", "--out", "predictions.csv")
    predicted = (newcomer.folder / "predictions.csv").read_text(encoding="utf-8").splitlines()
    assert predicted[0] == "node,class,p:blue,p:green,p:red"
    assert len(predicted) == 61
    another = Another(newcomer.folder)
    another.types("report", "model")
    another.opens("model/report.html", "friends", "blue", "gcn")
    said = another.types("compare", *files, "--method", "gcn-x2", *FEW, "--out", "study")
    assert "fishergcn report study" in said
    another.types("report", "study")
    another.opens("study/report.html", "friends", "gcn-x2", "mlp")


@pytest.mark.slow
def test_pandas(another, rows):
    pytest.importorskip("pandas")
    printed = another.writes(
        f"""
import pandas as pd
from fishergcn import Graph, fit, splits, studies, TrainConfig

if __name__ == "__main__":
    people, links = {rows!r}
    people, links = pd.DataFrame(people), pd.DataFrame(links, columns=["who", "whom"])
    graph = Graph.from_frames(links, people, id="name", label="team", text="one-hot", empty="fill", name="staff")
    print(graph)
    model = fit(graph, methods=["majority", "lp"], device="cpu", workers=1)
    print(*model.selection.sentences, sep="\\n")
    model.save("model")
    table = pd.DataFrame(model.probabilities(), index=model.node_names, columns=model.class_names)
    print(table.idxmax(axis=1)["P07"])
    chosen = [splits.per_class(graph, 6, 4, seed=seed) for seed in (0, 1)]
    plan = studies.make_comparison([graph], ["gcn-x2"], splits=chosen, config=TrainConfig(max_epochs=15))
    with studies.run(plan, "study", workers=1) as runs:
        print(len(studies.compare(runs)), "comparisons")
"""
    )
    assert "<Graph 'staff': 60 nodes" in printed
    assert "was chosen from 2 candidates" in printed
    assert "comparisons" in printed
    another.types("report", "model")
    another.opens("model/report.html", "staff", "majority")
    another.types("report", "study")
    another.opens("study/report.html", "staff", "gcn-x2")


def test_networkx_with_attributes(another):
    pytest.importorskip("networkx")
    printed = another.writes(
        """
import networkx
from fishergcn import Graph

club = networkx.karate_club_graph()
for node in club:
    club.nodes[node]["age"] = 20 + node
    club.nodes[node]["belt"] = "black" if node % 3 else "white"
try:
    Graph.from_networkx(club, label="club", attributes=["age", "belt"])
except ValueError as error:
    print(error)
graph = Graph.from_networkx(club, label="club", attributes=["age", "belt"], text="one-hot")
graph.save("karate.npz")
print(graph.class_names, graph.feature_names)
"""
    )
    assert "text='drop'" in printed
    assert "one-hot" in printed
    assert "('Mr. Hi', 'Officer') ('age', 'belt=black', 'belt=white')" in printed
    another.types("compare", "--graph", "karate.npz", "--method", "gcn-x2", *FEW, "--out", "study")
    another.types("report", "study")
    another.opens("study/report.html", "karate", "gcn-x2")


@pytest.mark.slow
def test_parquet(another, rows):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    members, links = rows
    parquet.write_table(pyarrow.Table.from_pylist(members), another.folder / "people.parquet")
    pairs = [{"source": one, "target": other, "hours": 1.0 + index % 3} for index, (one, other) in enumerate(links)]
    parquet.write_table(pyarrow.Table.from_pylist(pairs), another.folder / "calls.parquet")
    later = [{key: cell for key, cell in row.items() if key != "team"} for row in members]
    later.append({"name": "New", "city": "Oslo", "age": None})
    parquet.write_table(pyarrow.Table.from_pylist(later), another.folder / "later.parquet")

    files = ["--edges", "calls.parquet", "--weight", "hours", "--features", "people.parquet", "--label", "team"]
    files += ["--drop", "city", "--empty", "fill"]
    another.types("data", "import", *files, "--out", "calls.npz")
    another.types("train", "--graph", "calls.npz", "--method", "gcn", "--epochs", 20, "--quiet", "--out", "model")
    now = ["--edges", "calls.parquet", "--weight", "hours", "--features", "later.parquet", "--drop", "city"]
    said = another.types("predict", "model", *now, "--empty", "fill", "--out", "later.csv")
    assert "61 nodes: 60 known from training, 1 new." in said
    assert "are filled with its mean in training" in said
    another.types("compare", "--graph", "calls.npz", "--method", "fishergcn", *FEW, "--out", "study")
    another.types("report", "study")
    another.opens("study/report.html", "calls", "fishergcn", "gcn-x5")


def test_a_researcher(another):
    few = ["--splits", 2, "--seeds", 1, "--epochs", 10, "--device", "cpu", "--workers", 1, "--quiet"]
    assert "fishergcn report quick" in another.types("reproduce", "quick", *few, "--out", "quick")
    shown = another.types("runs", "show", "quick")
    assert re.search(r"fishergcn\s+gcn-x5", shown)
    another.types("report", "quick")
    another.opens("quick/report.html", "gcn-x5", "fishergcn", "cora")
    another.types("runs", "export", "quick", "--out", "runs.csv")
    assert len((another.folder / "runs.csv").read_text(encoding="utf-8").splitlines()) == 7
