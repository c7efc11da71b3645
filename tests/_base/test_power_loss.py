"""After a power loss at any moment there is the old or the new, whole; and what was promised is there."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import fishergcn
from fishergcn import Graph
from fishergcn._base import files

from .power_loss import Disk, record, states

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(fishergcn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


def replay(script, folder, tmp_path):
    disk = Disk(folder)
    calls = record(script, folder, tmp_path / "log", env=ENVIRONMENT)
    place = tmp_path / "after"
    count = 0
    for marks, _ in states(calls, disk, place):
        count += 1
        yield place, marks
    assert count > 4, "nothing was recorded"


def test_a_file(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    (folder / "a.txt").write_text("old")
    script = """
import os, sys; from fishergcn._base.files import write_text
write_text(sys.argv[1] + "/a.txt", "new" * 9000); os.mkdir(sys.argv[1] + "/mark-1")
"""
    seen = set()
    for place, marks in replay(script, folder, tmp_path):
        found = (place / "a.txt").read_text()
        assert found in ("old", "new" * 9000)
        assert not marks or found == "new" * 9000
        seen.add(found)
    assert len(seen) == 2


def test_a_folder_that_takes_the_place_of_another(tmp_path):
    folder = tmp_path / "disk"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "a").write_text("old")
    (folder / "model" / "b").write_text("old")
    script = """
import os, sys; from pathlib import Path; from fishergcn._base.files import atomic_folder
with atomic_folder(Path(sys.argv[1], "model"), replaces=lambda _: True) as new:
    for name in "ab":
        (new / name).write_text("new")
os.mkdir(sys.argv[1] + "/mark-1")
"""
    seen = set()
    for place, marks in replay(script, folder, tmp_path):
        found = tuple((place / "model" / name).read_text() for name in "ab")
        assert found in (("old", "old"), ("new", "new"))
        assert not marks or found == ("new", "new")
        seen.add(found)
    assert len(seen) == 2


def test_a_new_folder_of_folders(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    script = """
import os, sys; from pathlib import Path; from fishergcn._base.files import atomic_folder
with atomic_folder(Path(sys.argv[1], "deep", "models")) as new:
    for name in "ab":
        (new / name).mkdir()
        (new / name / "file").write_text(name)
os.mkdir(sys.argv[1] + "/mark-1")
"""
    for place, marks in replay(script, folder, tmp_path):
        models = place / "deep" / "models"
        assert bool(marks) <= models.exists()
        assert not models.exists() or all((models / name / "file").read_text() == name for name in "ab")


def test_a_graph(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    old, new = (Graph.from_edges([(0, 1)], features=np.eye(2) * size) for size in (1, 2))
    old.save(folder / "g.npz")
    script = """
import os, sys; import numpy as np; from fishergcn import Graph
Graph.from_edges([(0, 1)], features=np.eye(2) * 2).save(sys.argv[1] + "/g.npz"); os.mkdir(sys.argv[1] + "/mark-1")
"""
    for place, marks in replay(script, folder, tmp_path):
        assert Graph.load(place / "g.npz").digest in ({new.digest} if marks else {old.digest, new.digest})


def test_committed_runs(tmp_path):
    """Every run of which the store said that it is written is there, and the database is whole, at every moment."""
    folder = tmp_path / "disk"
    folder.mkdir()
    script = """
import dataclasses, os, sys; from pathlib import Path
from fishergcn import studies
from fishergcn.execution import Listener
from fishergcn.studies import run
class Mark(Listener):
    def __init__(self): self.done = 0
    def finished(self, name, records):
        self.done += len(records); os.mkdir(f"{sys.argv[1]}/mark-{self.done}")
plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=4, epochs=1)
run(plan, Path(sys.argv[1], "a", "runs"), device="cpu", workers=1, listener=Mark()).close()
"""
    most = 0
    for place, marks in replay(script, folder, tmp_path):
        promised = max(marks, default=0)
        path = place / "a" / "runs" / "runs.sqlite"
        if not promised and not path.exists():
            continue
        connection = sqlite3.connect(path)
        try:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            if promised:
                [[found]] = connection.execute("SELECT count(*) FROM runs")
                assert found >= promised
        finally:
            connection.close()
        most = max(most, promised)
    assert most == 4


def test_the_order_of_what_makes_a_write_durable(tmp_path, monkeypatch):
    """The same without strace: the file is synced, then renamed, then its folder is synced."""
    done = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(
        os, "fsync", lambda number: done.append("folder" if is_folder(number) else "file") or sync(number)
    )
    monkeypatch.setattr(Path, "replace", lambda *paths: done.append("rename") or replace(*paths))
    files.write_text(tmp_path / "a.txt", "text")
    assert done == ["file", "rename", "folder"]


def is_folder(number):
    import stat

    return stat.S_ISDIR(os.fstat(number).st_mode)


def test_without_an_exchange_of_names_a_folder_is_replaced_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "exchange_names", lambda *_: False)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a").write_text("old")
    with files.atomic_folder(tmp_path / "model", replaces=lambda _: True) as new:
        (new / "a").write_text("new")
    assert (tmp_path / "model" / "a").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("number", ["EINVAL", "ENOTSUP"])
def test_a_file_system_that_cannot_sync_folders_is_used_all_the_same(tmp_path, monkeypatch, number):
    import errno

    def fail(_):
        raise OSError(getattr(errno, number), "cannot")

    monkeypatch.setattr(os, "fsync", fail)
    files.write_text(tmp_path / "a.txt", "text")
    assert (tmp_path / "a.txt").read_text() == "text"
