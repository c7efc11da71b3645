"""What ``fishergcn doctor`` finds on this machine, and on one where something is missing."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fishergcn import __version__
from fishergcn._base.backend import usable
from fishergcn.cli import app
from fishergcn.execution import _doctor, diagnose
from fishergcn.training import TrainConfig, parse_method, plan_step

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture(autouse=True)
def _ask_again():
    yield
    usable.cache_clear()


def run(*arguments):
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_as_json_and_as_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("--json")
    found = json.loads(done.stdout)
    assert done.exit_code == (1 if found["problems"] else 0)
    assert found["versions"]["fishergcn"] == __version__
    assert found["devices"][0]["device"] == "cpu"
    assert found["devices"][0]["step"] == plan_step(parse_method("gcn"), TrainConfig(), gpu=False).kind
    assert sum(each["auto"] for each in found["devices"]) == 1
    assert found["write_access"][0] == {"use": "results", "folder": str(tmp_path), "reason": None}
    text = run().stdout
    for words in ("Versions", "Devices", "Write access", "Extras", *found["versions"].values(), str(tmp_path)):
        assert words in text
    assert not list(tmp_path.iterdir())


def test_without_numba_and_extras(monkeypatch):
    real = importlib.util.find_spec
    gone = ("numba", "optuna")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in gone else real(name, *rest))
    found = diagnose()
    assert found["devices"][0]["kernels"] == "reference"
    assert found["devices"][0]["step"] == "autograd"
    assert found["problems"] == ["numba is not installed, so plain torch is used on cpu, which is slower."]
    [tune] = [each for each in found["extras"] if each["extra"] == "tune"]
    assert (tune["installed"], tune["packages"]) == (False, {"optuna": None})
    done = run()
    assert done.exit_code == 1
    assert "pip install 'fishergcn[tune]'" in done.stdout
    assert "Needs attention\n  numba is not installed" in done.stdout


def test_a_numba_that_cannot_be_imported_is_a_problem(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: object())
    [problem] = diagnose()["problems"]
    assert "numba is installed but cannot be imported" in problem


def test_a_folder_that_cannot_be_written(tmp_path):
    found = diagnose(tmp_path / "none")
    assert found["write_access"][0]["reason"] == "No such file or directory"
    assert any("cannot be written to: No such file or directory." in each for each in found["problems"])


def test_extras_are_those_of_the_project():
    text = PROJECT.read_text()
    table = text[text.index("[project.optional-dependencies]") : text.index("[project.scripts]")]
    declared = {
        name: {re.match(r"[A-Za-z0-9_-]+", each)[0] for each in re.findall(r'"([^"]+)"', packages)}
        for name, packages in re.findall(r"^(\w+) = \[(.*)\]$", table, re.MULTILINE)
        if name not in ("dev", "fuzz")
    }
    assert {name: set(packages.values()) for name, (_, packages) in _doctor.EXTRAS.items()} == declared
