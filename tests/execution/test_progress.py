"""What is shown while runs are trained."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fishergcn import RunRecord
from fishergcn.execution._progress import Bar, Display, Lines, make_display
from fishergcn.training import Progress


def record(test=0.5, val=0.25, status="ok"):
    scores = [test, 1.0, 1.0, val, 1.0, 1.0]
    return RunRecord("d", "gcn", "s", 1, status, 7, *scores, {}, [], 1.0, "cpu", {}, {}, "")


NAN = float("nan")


def test_a_line_for_each_of_few_runs(capsys):
    with Lines("gcn", 3) as display:
        display.epoch(Progress(1, 1, 0, 0.5))
        display.finished([record(0.5)])
        display.finished([record(NAN, NAN, "diverged")])
        display.finished([record(0.7)])
    assert capsys.readouterr().err.splitlines() == [
        "fishergcn: method gcn, run 1 of 3, 7 epochs, validation 25.00%, test so far 50.00%",
        "fishergcn: method gcn, run 2 of 3, 7 epochs, diverged, test so far 50.00%",
        "fishergcn: method gcn, run 3 of 3, 7 epochs, validation 25.00%, test so far 60.00%",
    ]


@pytest.mark.parametrize("chunk", [1, 7, 200])
def test_few_lines_for_many_runs(capsys, chunk):
    with Lines("gcn", 200) as display:
        for start in range(0, 200, chunk):
            display.finished([record()] * min(chunk, 200 - start))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) <= 20
    assert lines[-1].startswith("fishergcn: method gcn, run 200 of 200")


def test_without_test_nodes_validation_is_shown():
    display = Display("gcn", 2)
    assert display.so_far == ""
    display.finished([record(NAN, 0.5), record(NAN, 1.0)])
    assert display.so_far == "validation so far 75.00%"


def test_bar_on_a_terminal():
    text = io.StringIO()
    with Bar("gcn", 2, Console(file=text, force_terminal=True, width=120)) as display:
        display.epoch(Progress(12, 1, 0, 0.5))
        display._bar.refresh()
        display.finished([record(0.5), record(0.7)])
    shown = text.getvalue()
    assert "epoch 12, validation 50.0%" in shown
    assert "2/2" in shown
    assert "test so far 60.00%" in shown


def test_choice(capsys):
    assert type(make_display("gcn", 1, shown=False)) is Display
    assert type(make_display("gcn", 1, shown=True)) is Lines  # standard error is not a terminal here
    assert capsys.readouterr() == ("", "")
