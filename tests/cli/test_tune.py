"""``fishergcn tune``: the best settings are printed, test scores never."""

from __future__ import annotations

import json
import shlex
import sys

import pytest
from typer.testing import CliRunner

from fishergcn.cli import app
from fishergcn.errors import InputError, MissingExtraError

pytest.importorskip("optuna")
QUICK = ["--dataset", "cora", "--method", "gcn", "--epochs", "2", "--trials", "2"]


def run(*arguments):
    result = CliRunner().invoke(app, ["tune", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_table_notes_and_file(tmp_path):
    result = run(*QUICK, "--grid", "paper", "--out", tmp_path / "study")
    told = result.stderr.splitlines()
    assert [line.partition(":")[2].partition(":")[0] for line in told[:2]] == [" trial 1 of 2", " trial 2 of 2"]
    assert "test" not in result.output.replace(str(tmp_path), "").lower()
    stored = json.loads((tmp_path / "study" / "tuning.json").read_text(encoding="utf-8"))
    assert len(stored["trials"]) == 2
    assert f"{stored['best']['val_accuracy']:.2%}" in result.stdout
    assert f"--hidden {stored['best']['settings']['hidden']}" in told[-1]


def test_the_command_at_the_end_trains_the_best_trial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ring = [(f"n{node}", f"n{(node + step) % 24}") for node in range(24) for step in (1, 2)]
    (tmp_path / "my links.csv").write_text("one,other\n" + "".join(f"{one},{other}\n" for one, other in ring))
    (tmp_path / "l.csv").write_text("".join(f"n{node},{'ab'[node // 12]}\n" for node in range(24)))
    data = ["--edges", "my links.csv", "--labels", "l.csv", "--header", "edges", "--name", "a ring"]
    data += ["--directed", "symmetrize", "--self-links", "drop", "--splits", "per-class:3+3:0"]
    settings = ["--splits", "per-class:3+3:1", "--first-seed", 7, "--epochs", 3, "--set", "rank=4"]
    ignored = ["--set", "radius=0.5"]  # which is searched
    told = run(*data, *settings, *ignored, "--trials", 2, "--out", "study", "--workers", 1).stderr.splitlines()[-1]
    words = shlex.split(told.partition("to train with the best settings: ")[2])
    assert words[:2] == ["fishergcn", "train"]
    assert "fishergcn-t" in words
    result = CliRunner().invoke(app, [*words[1:], "--json", "--quiet", "--workers", "1"], catch_exceptions=False)
    best = json.loads((tmp_path / "study" / "tuning.json").read_text(encoding="utf-8"))["best"]
    runs = json.loads(result.stdout)["runs"]
    assert [each["dataset"] for each in runs] == ["a ring"] * 2
    assert sum(each["val_loss"] for each in runs) / 2 == pytest.approx(best["val_loss"], rel=1e-12)


def test_ctrl_c_is_one_line_and_finished_trials_are_kept(tmp_path, monkeypatch):
    from fishergcn.studies import _tuning as tuning

    calls = []
    real = tuning._Objective.__call__

    def stop_in_the_second(self, settings):
        calls.append(settings)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, settings)

    monkeypatch.setattr(tuning._Objective, "__call__", stop_in_the_second)
    monkeypatch.setattr(sys, "argv", ["fishergcn", "tune", "--out", "my study"])
    result = CliRunner().invoke(app, ["tune", *QUICK, "--out", str(tmp_path)])
    assert result.exit_code == 130
    first, last = result.output.splitlines()
    assert first.startswith("fishergcn: trial 1 of 2")
    command = "fishergcn tune --out 'my study'"
    assert last == f"fishergcn: stopped by SIGINT; finished trials are kept; continue with: {command}"
    assert len(calls) == 2
    trials = [
        line for line in run(*QUICK, "--out", tmp_path).stderr.splitlines() if line.startswith("fishergcn: trial")
    ]
    assert [line.split(":")[1] for line in trials] == [" trial 2 of 2"]  # a slow machine shows epochs as well
    assert len(calls) == 3


def test_json_and_resume(tmp_path):
    first = json.loads(run(*QUICK, "--quiet", "--json", "--out", tmp_path).stdout)
    again = json.loads(run(*QUICK, "--quiet", "--json", "--out", tmp_path).stdout)
    assert first == again
    [first] = first
    assert first["trials"] == 2
    assert first["config"]["max_epochs"] == 2
    assert first["config"]["hidden"] == [first["settings"]["hidden"]]


def test_another_score_is_named(tmp_path):
    shown = run(*QUICK, "--quiet", "--score", "macro-f1", "--out", tmp_path).stdout
    assert "mean validation macro F1" in shown
    assert "accuracy" not in shown
    [facts] = json.loads(run(*QUICK, "--quiet", "--score", "macro_f1", "--json", "--out", tmp_path).stdout)
    assert facts["score"] == "macro_f1"
    assert 0 <= facts["val_macro_f1"] <= 1


def test_refusals(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"^--score must be one of accuracy, .*, got 'luck'\.$"):
        run(*QUICK, "--score", "luck", "--out", tmp_path / "none")
    with pytest.raises(InputError, match="got 'gnc'"):
        run(*QUICK, "--method", "gnc", "--out", tmp_path / "none")  # the second of two methods
    with pytest.raises(InputError, match="lp"):
        run(*QUICK, "--method", "lp", "--out", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    done = CliRunner().invoke(app, ["tune", *QUICK, "--grid", "fine", "--out", str(tmp_path)])
    assert "'fine' is not" in done.stderr
    with pytest.raises(InputError, match="either a GRAPH"):
        run("--out", tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"fishergcn\[tune\]"):
        run(*QUICK, "--out", tmp_path)


def test_several_methods_have_a_folder_each(tmp_path):
    found = json.loads(run(*QUICK, "--method", "gcn-x2", "--quiet", "--json", "--out", tmp_path).stdout)
    assert [each["method"] for each in found] == ["gcn", "gcn-x2"]
    assert sorted(path.parent.name for path in tmp_path.glob("*/tuning.json")) == ["gcn", "gcn-x2"]
