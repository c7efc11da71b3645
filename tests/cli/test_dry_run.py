"""``--dry-run``: what a command would take, and nothing else."""

from __future__ import annotations

import json
import re
import sys

import pytest

from fishergcn.cli import main


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    """Train nothing beyond the epochs that are timed."""
    for name in ("execution._train.prepare", "studies._runner.choose_executor"):
        monkeypatch.setattr(f"fishergcn.{name}", lambda *_, **__: pytest.fail("it began"))


def run(capsys, *words: str) -> tuple[int, str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fishergcn", *words])
        with pytest.raises(SystemExit) as done:
            main()
    return done.value.code, *capsys.readouterr()


def test_train(capsys, tmp_path):
    words = ("train", "--dataset", "cora", "--method", "gcn", "--method", "fishergcn", "--seeds", "3", "--dry-run")
    status, out, _ = run(capsys, *words, "--out", str(tmp_path / "model"), "--device", "cpu")
    assert status == 0
    assert "measured over" in out
    assert "All runs: at most" in out
    assert "GB of memory" in out
    assert not list(tmp_path.iterdir())
    status, out, _ = run(capsys, *words, "--json", "--device", "cpu")
    found = json.loads(out)
    assert [(part["name"], part["runs"]) for part in found["parts"]] == [("gcn", 3), ("fishergcn", 3)]
    for part in found["parts"]:
        assert 1 <= part["epochs_timed"] <= 20
        assert part["longest_run_seconds"] == pytest.approx(200 * part["epoch_seconds"])
        assert re.fullmatch(r"an epoch takes .*s, measured over \d+; at most 200 epochs", part["measured"])
    assert found["most_seconds"] > 3 * max(part["longest_run_seconds"] for part in found["parts"]) / found["workers"]


def test_one_method_is_told_in_words(capsys):
    words = ("train", "--dataset", "cora", "--method", "gcn", "--epochs", "30", "--settings", "paper", "--dry-run")
    _, out, _ = run(capsys, *words, "--device", "cpu")
    assert re.search(r"An epoch takes .*s, measured over \d+; at most 30 epochs\.", out)


def test_mini_batches_need_less(capsys):
    words = ("train", "--dataset", "pubmed", "--method", "gcn-x5", "--dry-run", "--json", "--device", "cpu")
    whole, batches = (
        json.loads(run(capsys, *words, *more)[1]) for more in ((), ("--batch-size", "30", "--fanout", "5,5"))
    )
    assert batches["memory_bytes"] < whole["memory_bytes"]


@pytest.mark.parametrize(
    "command", [("reproduce", "quick"), ("compare", "--dataset", "cora"), ("robustness", "--dataset", "cora")]
)
def test_studies(capsys, tmp_path, command):
    status, out, _ = run(capsys, *command, "--out", str(tmp_path / "study"), "--dry-run", "--json", "--device", "cpu")
    assert status == 0
    assert json.loads(out)["most_seconds"] > 0
    assert not list(tmp_path.iterdir())


def searched(capsys, tmp_path, *words: str):
    """Return what a search would take, and what is noted beside it."""
    place = str(tmp_path / "search")
    common = ("--out", place, "--dry-run", "--json", "--device", "cpu", "--workers", "2")
    status, out, err = run(capsys, "tune", "--dataset", "cora", *words, *common)
    assert status == 0
    assert not list(tmp_path.iterdir())
    return json.loads(out), err


def test_the_trials_of_a_grid_are_known_beforehand(capsys, tmp_path):
    found, err = searched(capsys, tmp_path, "--method", "fishergcn", "--grid", "paper", "--trials", "10")
    # The first ten points: hidden units change fastest.
    assert [(part["name"], part["runs"]) for part in found["parts"]] == [
        ("fishergcn hidden=16", 4), ("fishergcn hidden=32", 3), ("fishergcn hidden=64", 3),
    ]  # fmt: skip
    assert "bound" not in err
    assert found["workers"] == 1  # a trial has one run, and trials wait for each other
    first, *others = (part["preparation_seconds"] for part in found["parts"])
    assert first > 0
    assert not any(others)


def test_of_a_search_that_chooses_as_it_goes_a_bound_is_told(capsys, tmp_path):
    words = ("--method", "gcn", "--seeds", "2", "--trials", "6")
    found, err = searched(capsys, tmp_path, *words)
    assert "a bound: the search chooses as it goes" in err
    assert [(part["name"], part["runs"]) for part in found["parts"]] == [("gcn hidden=128", 12)]
    assert found["workers"] == 2
    grid, _ = searched(capsys, tmp_path, *words, "--grid", "paper")
    assert found["memory_bytes"] > grid["memory_bytes"]
    [part] = searched(capsys, tmp_path, "--method", "gcn-t", "--trials", "6")[0]["parts"]
    known = json.loads(run(capsys, "train", "--dataset", "cora", "--method", "gcn-t", "--hidden", "128",
                           "--set", "order=8", "--dry-run", "--json", "--device", "cpu")[1])["parts"][0]  # fmt: skip
    assert part["memory_bytes"] == known["memory_bytes"]
    assert part["preparation_seconds"] > 0


def test_the_remedies_for_a_search_are_those_it_has(capsys, monkeypatch):
    monkeypatch.setattr("fishergcn.execution._cost.free_memory", lambda: 10**9)
    words = ("tune", "--dataset", "pubmed", "--method", "fishergcn", "--set", "samples=100", "--dry-run", "--out", "x")
    status, _, err = run(capsys, *words, "--device", "cpu")
    assert status == 2
    assert "; samples=" in err
    assert "hidden" not in err.partition("GB are free")[2]
    assert "batch" not in err


def test_what_will_not_fit_ends_with_what_would(capsys, monkeypatch):
    monkeypatch.setattr("fishergcn.execution._cost.free_memory", lambda: 10**9)
    words = ("train", "--dataset", "pubmed", "--method", "fishergcn", "--dry-run", "--device", "cpu")
    status, _, err = run(capsys, *words, "--samples", "100")
    assert status == 2
    [line] = [each for each in err.splitlines() if each.startswith("fishergcn: error:")]
    assert "GB are free; --samples " in line
    assert line.endswith("would fit.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reproduce", "quick", "--out", "x", "--cluster", "auto"), "cannot be used with --cluster"),
    ],
)
def test_what_cannot_be_predicted_is_refused(capsys, words, message):
    status, _, err = run(capsys, *words, "--dry-run")
    assert status == 2
    assert message in err
