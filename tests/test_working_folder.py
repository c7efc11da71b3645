"""Whatever lies in the working folder, no command imports or runs it, and neither do the processes that it starts."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

import fishergcn
from fishergcn import Graph
from fishergcn._base.process import safe_environment, start_python
from fishergcn._base.temporary import elsewhere, temporary_folder
from fishergcn.cli import app

SOURCE = Path(fishergcn.__file__).parents[1]
HOSTILE = ("random", "numpy", "fishergcn", "sitecustomize", "usercustomize", "runpy", "typing", "__future__", "json")
SMALL = ["--epochs", "2", "--device", "cpu"]
COMMANDS = {
    "data list": [],
    "data info": ["pair.npz"],
    "data import": ["--edges", "links.csv", "--out", "imported.npz"],
    "spectrum": ["pair.npz", "--rank", "2"],
    "train": ["--graph", "pair.npz", "--method", "gcn", "--workers", "2", "--seeds", "2", *SMALL],
    "tune": ["--graph", "pair.npz", "--method", "gcn", "--trials", "1", "--out", "tuned", "--workers", "1", *SMALL],
    "predict": ["model"],
    "leaderboard": ["chosen"],
    "verify": ["model"],
    "fit-large": ["mapped", "--out", "large", "--dry-run"],
    "compare": ["--graph", "pair.npz", "--method", "gcn", "--splits", "1", "--out", "compared", "--workers", "2",
                *SMALL],
    "report": ["runs"],
    "reproduce": ["quick", "--method", "gcn", "--splits", "1", "--seeds", "2", "--out", "reproduced", "--workers", "2",
                  *SMALL],
    "robustness": ["--dataset", "pair.npz", "--method", "gcn", "--attack", "links-removed", "--splits", "1", "--seeds",
                   "1", "--out", "robust", "--workers", "2", *SMALL],
    "doctor": [],
    "runs list": ["runs"],
    "runs show": ["runs"],
    "runs export": ["runs", "--out", "exported.csv"],
    "runs archive": ["runs", "--out", "archived"],
    "explain": ["model", "--node", "0"],
    "graphs info": ["pairs"],
    "graphs distances": ["pairs", "--out", "distances"],
    "graphs mean": ["pairs", "--out", "mean"],
    "graphs test": ["pairs", "--groups", "groups.csv"],
    "graphs changes": ["pairs"],
    "graphs cluster": ["pairs"],
    "graphs pca": ["pairs"],
    "graphs line": ["pairs", "--permutations", "99"],
    "graphs embed": ["pairs"],
    "graphs spectra": ["pairs"],
    "certify": ["model"],
    "geometry fisher": ["model"],
    "geometry links": ["model", "--node", "0"],
    "geometry embed": ["pair.npz", "--out", "embedded.csv"],
    "geometry distance": ["pair.npz", "pair.npz"],
    "geometry neighborhood": ["pair.npz"],
}  # fmt: skip
QUICK = {"data list", "train", "reproduce"}  # the others take minutes in all


def known(command, name=""):
    inner = getattr(command, "commands", None)
    return {name} if inner is None else {each for key, sub in inner.items() for each in known(sub, f"{name} {key}")}


def test_every_command_is_tried():
    assert set(COMMANDS) == {name.strip() for name in known(typer.main.get_command(app))}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with data, a model and runs, in which modules lie that write down that they were run."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    links = [(i, j) for i in range(24) for j in range(i) if rng.random() < 0.2]
    graph = Graph.from_edges(links, num_nodes=24, features=np.eye(24), labels=[i % 2 for i in range(24)], name="pair")
    graph.save(folder / "pair.npz")
    graph.save(folder / "mapped", mapped=True)
    (folder / "links.csv").write_text("a,b\nb,c\n")
    (folder / "pairs").mkdir()
    for number in range(6):
        (folder / "pairs" / f"{number}.csv").write_text(f"source,target\na,b\nb,c\nc,{'ade'[number % 3]}\n")
    (folder / "groups.csv").write_text("graph,group\n" + "".join(f"{number},{number % 2}\n" for number in range(6)))
    from fishergcn import studies
    from fishergcn.execution import train
    from fishergcn.models import Candidate, Selection, save_models
    from fishergcn.splits import choose

    [split] = choose(graph, None)
    [record] = train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=2), keep_weights=True)
    [model] = save_models(folder / "model", graph, [record], split).values()
    candidate = Candidate("gcn", "gcn", {}, "graph convolutions", value=0.5, low=0.4, high=0.6, runs=1, share=1.0)
    dataclasses.replace(model, selection=Selection((candidate,), "gcn")).save(folder / "chosen")
    plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=1, epochs=1)
    studies.run(plan, folder / "runs", device="cpu", workers=1).close()
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(
            f"import sys\nopen({str(folder / 'was-run')!r}, 'a').write(__name__ + '\\n')\nsys.exit('hostile: {name}')\n"
        )
    (folder / ".numba_config.yaml").write_text(f"cache_dir: {folder / 'cache'}\n")
    return folder


def outcome(command, place, **environment):
    done = subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", **environment},
    )  # fmt: skip
    ran = (place / "was-run").read_text() if (place / "was-run").exists() else ""
    return done.returncode, done.stderr, ran


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]
)
def test_a_command_runs_nothing_that_lies_in_the_working_folder(place, tmp_path, name):
    script = tmp_path / "fishergcn-command"  # what an installer makes
    script.write_text("from fishergcn.cli import main\nmain()\n")
    status, errors, ran = outcome([sys.executable, str(script), *name.split(), *COMMANDS[name]], place)
    assert (status, ran) == (0, ""), errors
    assert not (place / "cache").exists()


@pytest.mark.parametrize("hostile", ["random", "numpy", "sitecustomize", "json", "typing", "__future__"])
def test_started_as_a_module_too(tmp_path, hostile):
    """Of ``python -m fishergcn`` only what Python imports before it reaches this package is out of our hands."""
    (tmp_path / f"{hostile}.py").write_text("open('was-run', 'w').write('x')\n")
    status, errors, ran = outcome([sys.executable, "-m", "fishergcn", "--version"], tmp_path)
    assert (status, ran) == (0, ""), errors


@pytest.mark.parametrize("entry", ["", ".", "sub"])
def test_a_started_process_ignores_the_working_folder_on_pythonpath(tmp_path, monkeypatch, entry):
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        for name in HOSTILE:
            (folder / f"{name}.py").write_text("open('was-run', 'w').write('x')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{entry}{os.pathsep}{SOURCE}")
    monkeypatch.syspath_prepend("")
    assert safe_environment()["PYTHONPATH"] == str(SOURCE)
    process = start_python("fishergcn", "--version", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, errors = process.communicate(timeout=120)
    assert (process.returncode, (tmp_path / "was-run").exists()) == (0, False), errors
    assert out.startswith("fishergcn ")


def test_a_started_process_finds_what_its_parent_finds_but_last(tmp_path, monkeypatch):
    """A measure of one's own is found in a folder of ``sys.path``; a ``random.py`` beside it is not preferred."""
    (tmp_path / "mine.py").write_text("import random\nprint(random.__file__)\n")
    (tmp_path / "random.py").write_text("raise SystemExit('hostile')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    process = start_python("mine", stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert Path(out.strip()).parent != tmp_path


def test_a_library_that_hands_on_the_working_folder_sees_an_empty_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random.py").touch()
    with elsewhere():
        assert os.listdir() == []
    assert Path.cwd() == tmp_path


def test_a_temporary_folder_is_gone_after_its_use(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with contextlib.suppress(ZeroDivisionError), temporary_folder() as folder:
        (folder / "file").write_text("x")
        assert [*tmp_path.iterdir()] == [folder]
        raise ZeroDivisionError
    assert [*tmp_path.iterdir()] == []


def test_processes_are_started_in_one_place():
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "fishergcn").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "subprocess.Popen(" in line or "subprocess.run(" in line or "os.spawn" in line or "multiprocessing" in line
    }
    assert found == {"fishergcn/_base/process.py"}
