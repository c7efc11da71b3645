"""The database: what goes in comes out, and damage, other settings and a full disk are named."""

from __future__ import annotations

import os
import shutil
import sqlite3

import pytest

from fishergcn import studies
from fishergcn.errors import DataFileError
from fishergcn.studies import DATABASE, RunStore, make_plan, open_runs


def test_what_goes_in_comes_out(filled, plan, make_record):
    expected = [(cell.name, make_record(cell, split, seed)) for cell in plan.cells for split, seed in plan.runs()]
    runs = open_runs(filled)
    assert list(runs.entries()) == expected
    assert list(runs.records()) == [record for _, record in expected]
    assert runs.plan == plan
    assert runs.facts["command"] == "fishergcn reproduce quick"
    assert {name for name, _ in runs.entries("cora", "gcn-x5")} == {"gcn-x5"}
    assert list(runs.entries("pubmed")) == []
    runs.close()


def test_variants_of_one_method_are_kept_apart(tmp_path, make_record):
    ablation = make_plan(studies.load_preset("ablation"), splits=1, seeds=1)
    near, far = (cell for cell in ablation.cells if cell.name in ("fishergcn radius=0.5", "fishergcn radius=4"))
    with RunStore(tmp_path, writable=True) as store:
        store.begin(ablation)
        store.add(near, [make_record(near, "shuffled:2019", 2019)])
        assert store.finished(near) == {("shuffled:2019", 2019)}
        assert store.finished(far) == set()


def test_failed_runs_are_to_be_done_again(tmp_path, plan, make_record):
    cell = plan.cells[0]
    with RunStore(tmp_path, writable=True) as store:
        store.begin(plan)
        store.add(
            cell, [make_record(cell, "shuffled:2019", seed, status) for seed, status in ((1, "ok"), (2, "diverged"))]
        )
        store.add(cell, [make_record(cell, "shuffled:2019", 3, "failed: no luck")])
        assert store.finished(cell) == {("shuffled:2019", 1), ("shuffled:2019", 2)}
        assert store.counts() == {"ok": 1, "diverged": 1, "failed": 1}
        store.add(cell, [make_record(cell, "shuffled:2019", 3)])
        assert store.counts() == {"ok": 2, "diverged": 1}


def test_a_transaction_is_all_or_nothing(tmp_path, plan, make_record):
    cell = plan.cells[0]

    def breaking():
        yield make_record(cell, "shuffled:2019", 1)
        raise KeyboardInterrupt

    with RunStore(tmp_path, writable=True) as store:
        store.begin(plan)
        with pytest.raises(KeyboardInterrupt):
            store.add(cell, breaking())
        assert store.counts() == {}


def test_other_settings_are_refused(filled):
    other = make_plan(studies.load_preset("quick"), splits=3, seeds=2, epochs=8)
    with RunStore(filled, writable=True) as store, pytest.raises(DataFileError) as caught:
        store.begin(other)
    for part in ("splits", "max_epochs 8 instead of 6", str(filled)):
        assert part in str(caught.value)


def test_the_same_settings_go_on_with_the_first_command(filled, plan):
    with RunStore(filled, writable=True) as store:
        store.begin(plan, command="another")
        assert store.facts["command"] == "fishergcn reproduce quick"


def test_facts_are_kept(tmp_path, plan):
    with RunStore(tmp_path, writable=True) as store:
        store.begin(plan)
        assert store.remember("chunk", lambda: 7) == 7
        assert store.remember("nothing", lambda: None) is None
    with RunStore(tmp_path, writable=True) as store:
        assert store.remember("chunk", lambda: 9) == 7
        assert store.facts == {"chunk": 7}


def test_write_ahead_and_durable(tmp_path):
    with RunStore(tmp_path, writable=True) as store:
        assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_bands_are_those_of_the_curves(filled):
    runs = open_runs(filled)
    records = [record for _, record in runs.entries("cora", "gcn")]
    band = runs.bands("cora", "gcn")["val_loss"]
    last = max(record.epochs for record in records)
    assert len(band.mean) == last
    assert band.runs.tolist() == [sum(record.epochs > epoch for record in records) for epoch in range(last)]
    first = [record.curves["val_loss"][0] for record in records]
    assert band.mean[0] == pytest.approx(sum(first) / len(first), abs=1e-15)
    assert len(runs.bands("cora", "gcn", epochs=2)["val_loss"].mean) == 2
    assert runs.bands("cora", "nothing") == {}


# Damage


def test_a_changed_record_is_named(filled):
    with sqlite3.connect(filled / DATABASE) as connection:
        connection.execute(
            "UPDATE runs SET seed = 99 WHERE cell = 'gcn-x5' AND split = 'shuffled:2020' AND seed = 2020"
        )
    message = "gcn-x5 on cora, split shuffled:2020, seed 99 fails its checksum"
    with pytest.raises(DataFileError, match=message):
        list(open_runs(filled).records())


def test_a_changed_plan_is_named(filled):
    with sqlite3.connect(filled / DATABASE) as connection:
        connection.execute("UPDATE facts SET value = replace(value, '2019', '2018') WHERE name = 'plan'")
    with pytest.raises(DataFileError, match="the entry 'plan' fails its checksum"):
        open_runs(filled).plan


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("start", [0, 100, 4096])
def test_overwritten_bytes_are_recognized(filled, start, writable):
    path = filled / DATABASE
    with path.open("r+b") as stream:
        stream.seek(start)
        stream.write(b"\xa5" * 3000)
    message = r"runs\.sqlite is damaged .*; restore a backup, or move it away"
    with pytest.raises(DataFileError, match=message), RunStore(filled, writable=writable) as store:
        list(store.records())


def test_a_cut_file_is_recognized(filled):
    path = filled / DATABASE
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DataFileError, match=r"runs\.sqlite is damaged"):
        list(open_runs(filled).records())


def test_another_database_is_not_taken(tmp_path):
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("CREATE TABLE other (x)")
    with pytest.raises(DataFileError, match="which no study of ours makes"):
        open_runs(tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(DataFileError, match="contains no runs"):
        open_runs(tmp_path)


class FullDisk:
    """A connection to a disk that is full from now on."""

    def __init__(self, connection):
        self.connection = connection

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def __enter__(self):
        return self.connection.__enter__()

    def __exit__(self, *details):
        return self.connection.__exit__(*details)

    def executemany(self, *_):
        raise sqlite3.OperationalError("database or disk is full")


def test_a_full_disk_is_named_and_nothing_is_lost(tmp_path, plan, make_record):
    cell = plan.cells[0]
    with RunStore(tmp_path, writable=True) as store:
        store.begin(plan)
        store.add(cell, [make_record(cell, "shuffled:2019", 2019)])
        store._connection = FullDisk(store._connection)
        with pytest.raises(DataFileError, match=r"disk is full \(\d+ MB free\); finished runs are saved"):
            store.add(cell, [make_record(cell, "shuffled:2019", 2020)])
    assert [record.seed for record in open_runs(tmp_path).records()] == [2019]


def test_a_file_that_may_not_grow(tmp_path, plan, make_record):
    """SQLite's own report of a full disk, provoked by a limit on the number of pages."""
    cell = plan.cells[0]
    with RunStore(tmp_path, writable=True) as store:
        store.begin(plan)
        store.add(cell, [make_record(cell, "shuffled:2019", 2019)])
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DataFileError, match="database or disk is full"):
            store.add(cell, [make_record(cell, split, seed) for split, seed in plan.runs()])
        store._connection.execute("PRAGMA max_page_count = 100000")
        assert store.counts() == {"ok": 1}
        store.add(cell, [make_record(cell, split, seed) for split, seed in plan.runs()])
        assert store.counts() == {"ok": len(plan.splits) * len(plan.seeds)}


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_folder_that_may_not_be_written(filled, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    assert len(list(open_runs(filled).records())) == 24


def test_a_copy_made_while_the_log_is_open(filled, tmp_path):
    """After kill -9 the log stays beside the database; it belongs to it."""
    copy = tmp_path / "copy"
    copy.mkdir()
    store = RunStore(filled, writable=True)
    store.remember("late", lambda: 1)
    for path in filled.iterdir():
        shutil.copy(path, copy)
    store.close()
    assert (copy / f"{DATABASE}-wal").stat().st_size > 0
    with RunStore(copy, writable=True) as recovered:
        assert recovered.remember("late", lambda: 2) == 1
        assert recovered.counts() == {"ok": 24}
