"""The examples run from the command line, for a few epochs, and say what they promise."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@functools.cache
def run(name: str, *arguments: str) -> str:
    """Return what an example prints; it runs in this process, which has imported most of what it needs."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [str(EXAMPLES / name), *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return printed.getvalue()


def test_an_example_is_a_program() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "own_loop.py", "--epochs", "5"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == run("own_loop.py", "--epochs", "5")


@pytest.mark.parametrize("name", ["pyg_gcn.py", "pyg_gat.py"])
def test_pyg_models_need_at_most_five_more_lines(name: str) -> None:
    pytest.importorskip("torch_geometric")
    lines = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
    added = [line for line in lines if line.endswith("# +")]
    assert 1 <= len(added) <= 5
    without = [line for line in lines if "dversar" in line and line not in added]
    assert not [line for line in without if "(" in line or "=" in line], "a line of code that is not counted"

    printed = run(name, "--epochs", "3")
    losses = [float(loss) for loss in re.findall(r"loss (\d\.\d+)", printed)]
    assert len(losses) == 2
    assert losses[-1] < losses[0] < 2.0  # log 7 = 1.9459 at the start


def test_digits_are_compared_on_the_same_labels() -> None:
    pytest.importorskip("sklearn")
    printed = run("sklearn_digits.py", "--draws", "1", "--epochs", "3")
    rows = re.findall(r"^(\S.*?)\s+(\d+\.\d\d)\s", printed, flags=re.MULTILINE)
    assert len(rows) == 8
    accuracies = {name: float(value) for name, value in rows}
    assert all(30 < value <= 100 for value in accuracies.values())
    assert "of 1" in printed


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("own_loop.py", "torch"),
        ("pyg_lightning.py", "lightning"),
        ("pyg_hetero.py", "torch_geometric"),
        ("pyg_batches.py", "torch_geometric"),
    ],
)
def test_the_loss_goes_down(name: str, needs: str) -> None:
    pytest.importorskip(needs)
    printed = run(name, "--epochs", "5")
    losses = [float(loss) for loss in re.findall(r"loss (\d\.\d+)", printed)]
    assert len(losses) in (2, 4)
    for first, last in zip(losses[::2], losses[1::2], strict=True):
        assert last < first


def test_models_of_several_types_of_links_are_refused_in_one_sentence() -> None:
    pytest.importorskip("torch_geometric")
    printed = run("pyg_hetero.py", "--epochs", "5")
    assert re.search(r"^to_hetero is refused: conv has a layer for each of 2 relations", printed, re.MULTILINE)


def test_epochs_are_logged_to_tensorboard(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run("log_epochs.py", "--epochs", "3", "--to", "tensorboard", "--out", str(tmp_path))
    log = events.EventAccumulator(str(tmp_path))
    log.Reload()
    for name in ("train/val_accuracy", "own/loss", "own/shape"):
        assert [event.step for event in log.Scalars(name)] == [1, 2, 3]
    assert log.Scalars("own/loss")[-1].value < log.Scalars("own/loss")[0].value


@pytest.mark.parametrize(
    ("kind", "module"),
    [
        ("mlflow", "def set_tracking_uri(uri): pass\ndef start_run(): pass\n"
                   "def log_metrics(metrics, step=None): print('logged', step, *metrics)\n"),
        ("wandb", "class Run:\n    def log(self, data, step=None): print('logged', step, *data)\n"
                  "def init(project=None, dir=None, mode=None): return Run()\n"),
    ],
)  # fmt: skip
def test_epochs_are_logged_by_the_calls_of_other_services(tmp_path: Path, monkeypatch, kind: str, module: str) -> None:
    """With a stand-in that has the signatures of the service."""
    (tmp_path / f"{kind}.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, kind, raising=False)
    printed = run("log_epochs.py", "--epochs", "2", "--to", kind, "--out", str(tmp_path))
    del sys.modules[kind]
    assert re.findall(r"^logged (\d) (\S+)", printed, re.MULTILINE) == [
        ("1", "train/val_accuracy"), ("2", "train/val_accuracy"), ("1", "own/loss"), ("2", "own/loss"),
    ]  # fmt: skip
