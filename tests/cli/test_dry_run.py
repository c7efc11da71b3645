"""``--dry-run``: what a command would take, and nothing else."""

from __future__ import annotations

import json

import pytest

from fishergcn.execution import _cost, _train
from fishergcn.studies import _runner
from fishergcn.training import Pace


@pytest.fixture(autouse=True)
def usual_machine(monkeypatch):
    """Measure nothing, and train nothing."""
    monkeypatch.setattr(_cost, "pace_of", Pace.usual)
    for module, name in ((_train, "prepare"), (_runner, "choose_executor")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("it began"))


def run(capsys, *words: str) -> tuple[int, str, str]:
    from fishergcn.cli import _explain, app

    try:
        status = app(list(words), standalone_mode=False) or 0
    except Exception as error:
        status = _explain(error)
    return status, *capsys.readouterr()


def test_train(capsys, tmp_path):
    words = ("train", "--dataset", "cora", "--method", "gcn", "--method", "fishergcn", "--seeds", "3", "--dry-run")
    status, out, _ = run(capsys, *words, "--out", str(tmp_path / "model"), "--device", "cpu")
    assert status == 0
    assert "All runs: about" in out
    assert "GB of memory" in out
    assert not list(tmp_path.iterdir())
    status, out, _ = run(capsys, *words, "--json", "--device", "cpu")
    found = json.loads(out)
    assert [(part["name"], part["runs"]) for part in found["parts"]] == [("gcn", 3), ("fishergcn", 3)]
    assert 0 < found["seconds"] <= found["most_seconds"]


def test_mini_batches_need_less(capsys):
    words = ("train", "--dataset", "pubmed", "--method", "gcn-x5", "--dry-run", "--json", "--device", "cpu")
    whole, batches = (
        json.loads(run(capsys, *words, *more)[1]) for more in ((), ("--batch-size", "30", "--fanout", "5,5"))
    )
    assert batches["memory_bytes"] < whole["memory_bytes"]


@pytest.mark.parametrize("command", [("reproduce", "quick"), ("compare", "--dataset", "cora"), ("robustness",)])
def test_studies(capsys, tmp_path, command):
    status, out, _ = run(capsys, *command, "--out", str(tmp_path / "study"), "--dry-run", "--json", "--device", "cpu")
    assert status == 0
    assert json.loads(out)["seconds"] > 0
    assert not list(tmp_path.iterdir())


def test_what_will_not_fit_ends_with_what_would(capsys, monkeypatch):
    monkeypatch.setattr(_cost, "free_memory", lambda: 10**9)
    words = ("train", "--dataset", "pubmed", "--method", "fishergcn", "--dry-run", "--device", "cpu")
    status, _, err = run(capsys, *words, "--samples", "100")
    assert status == 2
    [line] = [each for each in err.splitlines() if each.startswith("fishergcn: error:")]
    assert "GB are free; samples=" in line
    assert line.endswith("would fit.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "--dataset", "cora"), "--dry-run needs a --method"),
        (("reproduce", "quick", "--out", "x", "--cluster", "auto"), "cannot be used with --cluster"),
    ],
)
def test_what_cannot_be_predicted_is_refused(capsys, words, message):
    status, _, err = run(capsys, *words, "--dry-run")
    assert status == 2
    assert message in err
