"""The examples run from the command line, for a few epochs, and say what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


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
