"""A database that is removed, replaced or locked amid the work: noticed at the next commit, nothing lost."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sqlite3

import pytest

from fishergcn import studies
from fishergcn.errors import DataFileError
from fishergcn.execution import Listener
from fishergcn.studies import DATABASE, RunStore

RUNS = 4


@pytest.fixture
def plan():
    return studies.make_plan("quick", methods=["gcn"], splits=2, seeds=2, epochs=2)


def table(folder):
    with studies.open_runs(folder) as runs:
        return [(cell, dataclasses.replace(record, seconds=0.0)) for cell, record in runs.entries()]


class After(Listener):
    """Does something when so many runs are committed."""

    def __init__(self, runs, action):
        self.left, self.action = runs, action

    def finished(self, name, records):
        self.left -= len(records)
        if self.left == 0:
            self.action()


def remove_file(folder):
    (folder / DATABASE).unlink()


def remove_log(folder):
    (folder / f"{DATABASE}-wal").unlink()


def rename_folder(folder):
    folder.rename(folder.with_name("elsewhere"))


def replace_file(folder):
    shutil.copy(folder / DATABASE, folder / "copy")
    os.replace(folder / "copy", folder / DATABASE)


@pytest.mark.parametrize("action", [remove_file, remove_log, shutil.rmtree, rename_folder, replace_file])
def test_what_was_done_is_saved_beside_and_can_be_taken_up(tmp_path, plan, action):
    whole, folder, rescued = tmp_path / "whole", tmp_path / "runs", tmp_path / "runs-rescued"
    studies.run(plan, whole, device="cpu", workers=1).close()
    listener = After(1, lambda: action(folder))
    with pytest.raises(DataFileError) as caught:
        studies.run(plan, folder, device="cpu", workers=1, listener=listener)
    assert str(caught.value).startswith(f"{folder / DATABASE} was removed or replaced while running; all 2 runs are ")
    assert str(rescued) in str(caught.value)
    assert len(table(rescued)) == 2  # the one before, and the one with which it was noticed
    shutil.rmtree(folder, ignore_errors=True)
    rescued.rename(folder)
    studies.run(plan, folder, device="cpu", workers=1).close()
    assert table(folder) == table(whole)


def test_a_second_rescue_does_not_overwrite_the_first(tmp_path, plan):
    for _ in range(2):
        folder = tmp_path / "runs"
        with pytest.raises(DataFileError):
            studies.run(plan, folder, device="cpu", workers=1, listener=After(1, lambda: shutil.rmtree(folder)))  # noqa: B023
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs-rescued", "runs-rescued2"]


def test_a_lock_that_is_held_says_that_finished_runs_are_safe(tmp_path, plan, monkeypatch):
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **options: connect(*given, **options | {"timeout": 0.1}))
    studies.run(plan, tmp_path, device="cpu", workers=1).close()
    other = sqlite3.connect(tmp_path / DATABASE)
    with RunStore(tmp_path, writable=True) as store:
        [record] = list(store.of_cell(plan.cells[0]))[:1]
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DataFileError, match="finished runs are saved: close that program and run the same"):
            store.add(plan.cells[0], [record])
        other.rollback()
        store.add(plan.cells[0], [record])
    other.close()
    assert len(table(tmp_path)) == RUNS
