"""What is shown while runs are trained."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fishergcn import RunRecord, TrainConfig, datasets, train
from fishergcn._base.text import duration
from fishergcn.execution import Display, Listener
from fishergcn.training import Progress

GCN = ("cora", "gcn")
NAN = float("nan")


def record(test=0.5, val=0.25, status="ok", split="s"):
    scores = {"test_accuracy": test, "val_accuracy": val}
    return RunRecord("cora", "gcn", split, 1, status, 7, scores, {}, [], 1.0, "cpu", {}, {}, "")


def test_a_line_for_each_of_few_runs(capsys):
    with Display() as display:
        display.begin("gcn", {GCN: 3})
        display.started(GCN, 3)
        display.epoch(Progress(1, 1, 0, 0.5))
        for each in (record(0.5), record(NAN, NAN, "diverged"), record(0.7)):
            display.finished(GCN, [each])
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "fishergcn: gcn: 3 runs."
    assert [line.partition("; ")[2] for line in lines] == [
        "gcn on cora: 7 epochs, validation 25.00%, test so far 50.00%",
        "gcn on cora: 7 epochs, diverged, test so far 50.00%",
        "gcn on cora: 7 epochs, validation 25.00%, test so far 60.00%",
    ]
    assert lines[0].startswith("fishergcn: 1/3 runs done, 2 in progress, 0 failed, about ")
    assert lines[-1].startswith("fishergcn: 3/3 runs done, 0 in progress, 0 failed;")


@pytest.mark.parametrize("chunk", [1, 7, 200])
def test_few_lines_for_many_runs(capsys, chunk):
    with Display() as display:
        display.begin("gcn", {GCN: 200})
        for start in range(0, 200, chunk):
            display.finished(GCN, [record()] * min(chunk, 200 - start))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) <= 21
    assert lines[-1].startswith("fishergcn: 200/200 runs done")


def test_without_test_nodes_validation_is_shown(capsys):
    display = Display()
    display.begin("gcn", {GCN: 2})
    display.finished(GCN, [record(NAN, 0.5), record(NAN, 1.0)])
    assert capsys.readouterr().err.endswith("validation so far 75.00%\n")


def test_without_validation_nodes_nothing_is_said_of_them(capsys):
    display = Display()
    display.begin("gcn", {GCN: 1})
    display._shown -= 60  # a minute ago, so that a line is due
    display.epoch(Progress(3, 1, 0, NAN))
    display.finished(GCN, [record(NAN, NAN)])
    told = capsys.readouterr().err
    assert "epoch 3" in told
    assert "7 epochs" in told
    assert "validation" not in told
    assert "nan" not in told


def test_nothing_is_counted_where_no_runs_are_planned(monkeypatch):
    out = io.StringIO()
    shown = Console(file=out, force_terminal=True, width=80, highlight=False, color_system=None)
    monkeypatch.setattr("fishergcn.execution._progress.console", lambda **_: shown)
    with Display() as display:
        display.begin("gcn", {})
        display.epoch(Progress(3, 1, 0, 0.5))
        shown.print(display._picture())
    assert "epoch 3" in out.getvalue()
    assert "0/0" not in out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_runs_of_before_and_failed_ones(monkeypatch, capsys, terminal):
    stream = io.StringIO()
    shown = Console(file=stream, force_terminal=terminal, width=110, highlight=False, markup=False, color_system=None)
    monkeypatch.setattr("fishergcn.execution._progress.console", lambda **_: shown)
    before = [(GCN, record(0.8)), (GCN, record(NAN, NAN, "failed: full disk"))]
    with Display() as display:
        display.begin("quick", {GCN: 4, ("cora", "gcn-x5"): 1}, before)
        display.started(GCN, 3)
        display.epoch(Progress(12, 1, 1, 0.5))
        display.finished(GCN, [record(0.5)])
        if terminal:
            display._live.refresh()
        assert "2/5 runs done, 2 in progress, 0 failed, about" in display._line()
        display.finished(GCN, [record(NAN, NAN, "failed: no luck", "shuffled:2020"), record(0.2)])
    text = stream.getvalue() + capsys.readouterr().err
    assert "quick: 5 runs, 1 already done." in text
    assert "gcn on cora, split shuffled:2020, seed 1: failed: no luck" in text
    assert "3/5 runs done, 0 in progress, 1 failed" in text
    if terminal:
        assert "epoch 12, validation 50.0%, 1 training, 1 stopped" in text
        assert "50.00%" in text  # the mean of 0.8, 0.5 and 0.2
    assert ("\x1b[" in text) == terminal


def test_a_single_run_says_how_long_it_still_takes_at_most(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr("fishergcn.execution._progress.time.monotonic", lambda: now[0])
    display = Display()
    display.begin("gcn", {GCN: 1})
    display.started(GCN, 1)
    for epoch in range(1, 8):
        now[0] += 2.0
        display.epoch(Progress(epoch, 1, 0, 0.5, 50))
    lines = capsys.readouterr().err.splitlines()
    # A line once ten seconds have passed; five epochs since the first took 2 s each, 44 are left.
    assert lines[1:] == [
        "fishergcn: 0/1 runs done, 1 in progress, 0 failed, epoch 6 of at most 50, validation 50.0%, at most 88 s left "
        "in this run"
    ]


class Notes(Listener):
    """Writes down what it is told."""

    def __init__(self):
        self.told = []

    def begin(self, title, planned, before=()):
        self.told.append(("begin", title, dict(planned), list(before)))

    def started(self, name, runs):
        self.told.append(("started", name, runs))

    def epoch(self, progress):
        self.told.append(("epoch", progress.epoch))

    def finished(self, name, records):
        self.told.append(("finished", name, [each.seed for each in records]))


def test_a_listener_is_told_everything_in_order(capsys):
    notes = Notes()
    train(datasets.load("cora"), "gcn", seeds=2, config=TrainConfig(max_epochs=1), device="cpu", progress=notes)
    each = [[("started", GCN, 1), ("epoch", 1), ("finished", GCN, [seed])] for seed in (2019, 2020)]
    assert notes.told == [("begin", "gcn", {GCN: 2}, []), *each[0], *each[1]]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("seconds", "text"), [(5.2, "5.2 s"), (600, "10 min"), (7200, "2 h")])
def test_durations(seconds, text):
    assert duration(seconds) == text
