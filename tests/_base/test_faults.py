"""Whatever file operation fails while something is saved: the old or the new is whole, and others' files are left."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fishergcn
from fishergcn import Graph, TrainConfig, studies
from fishergcn.errors import FisherGCNError
from fishergcn.report import write_report

from .faults import content, failing

pytestmark = pytest.mark.skipif(os.name != "posix", reason="operations of POSIX")
STRANGER = "thesis.txt"


def ring(scale):
    links = [(at, (at + step) % 24) for at in range(24) for step in (1, 3)]
    features = np.random.default_rng(0).random((24, 3)) * scale
    return Graph.from_edges(links, features=features, labels=np.arange(24) % 2, name="ring")


@pytest.fixture(scope="module")
def models():
    made = []
    for scale in (1.0, 2.0):
        graph, split = ring(scale), "held-out:50%:0"
        [record] = fishergcn.train(graph, "gcn", split, config=TrainConfig(max_epochs=1), keep_weights=True)
        made.append((fishergcn.models.TrainedModel.from_records(graph, record, split), record))
    return made


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two studies, open for reading: one with twice the runs of the other."""
    made = []
    for seeds in (1, 2):
        plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=seeds, epochs=1)
        made.append(studies.run(plan, tmp_path_factory.mktemp("study"), device="cpu", workers=1))
    yield made
    for each in made:
        each.close()


def save_model(models, _, folder, which):
    model, record = models[which]
    model.save(folder / "out", runs=[record], overwrite=True)


def save_archive(_, runs, folder, which):
    studies.write_archive(folder / "out", runs[which], curves="all")


def save_mapped(_, __, folder, which):
    ring(1.0 + which).save(folder / "out", mapped=True)


WRITERS = {"model": save_model, "archive": save_archive, "mapped graph": save_mapped}


def check(whole, place, writer, number):
    """Nothing but the old or the new, without a temporary file; and the stranger's file beside it as it was."""
    found = content(place)
    assert found.pop(STRANGER) == b"mine", (writer, number)
    assert found in whole, (writer, number, sorted(found))


CASES = [
    (writer, over, forever)
    for writer in WRITERS
    for over, forever in ((False, False), (True, False), (True, True))
    if not over or writer != "mapped graph"  # which replaces nothing
]


@pytest.mark.parametrize(("writer", "over", "forever"), CASES)
def test_every_operation_of_a_writer(tmp_path, models, runs, writer, over, forever):
    save = WRITERS[writer]
    save(models, runs, tmp_path / "a", 0)
    save(models, runs, tmp_path / "b", 1)
    old, new = content(tmp_path / "a"), content(tmp_path / "b")
    assert old != new
    number = 0
    while True:
        number += 1
        place = tmp_path / "place"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(tmp_path / "a", place) if over else place.mkdir()
        (place / STRANGER).write_text("mine")
        said = ""
        with failing(number, forever=forever) as done:
            try:
                save(models, runs, place, 1)
            except FisherGCNError as error:
                said = str(error)
        assert "\n" not in said
        if done[0] < number:
            break
        if forever:  # it could not remove its temporary files either: they are hidden, and nothing takes them for ours
            for path in place.glob(".*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        check((old if over else {}, new), place, writer, number)
    assert number > 10
    assert content(place) == new | {STRANGER: b"mine"}


@pytest.mark.parametrize("numbers", [(1, 3, 8), pytest.param(range(1, 10_000), marks=pytest.mark.slow)], ids=len)
def test_every_operation_of_a_report(tmp_path, runs, numbers):
    """A page, tables and pictures: each of them is the old or the new, and whatever else is there stays."""
    for name, which in (("a", 0), ("b", 1)):
        studies.write_archive(tmp_path / name, runs[which])
        write_report(tmp_path / name)
    old, new = content(tmp_path / "a"), content(tmp_path / "b")
    for number in numbers:
        place = tmp_path / "place"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(tmp_path / "a", place)
        studies.write_archive(place, runs[1])
        (place / "figures" / STRANGER).write_text("mine")
        with failing(number) as done, contextlib.suppress(FisherGCNError):
            write_report(place)
        if done[0] < number:
            break
        found = content(place)
        assert found.pop(f"figures/{STRANGER}") == b"mine"
        for path, data in found.items():
            assert data in (old.get(path), new.get(path)), (number, path)
        assert {*found} <= {*old} | {*new}
    assert len(numbers) < 10 or 100 < number < 9_999


def test_every_size_at_which_a_study_can_write_no_more(tmp_path):
    """SQLite writes by itself; a limit on the size of its files fails its n-th write: what was committed stays."""
    script = """
import resource, signal, sys
from pathlib import Path
from fishergcn import studies
from fishergcn.errors import FisherGCNError
from fishergcn.studies import RunStore
plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=6, epochs=1)
with studies.open_runs(sys.argv[1]) as source:
    records = [(plan.cells[0], record) for record in source.records()]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for size in range(4096, 120000, 4096):
    folder = Path(sys.argv[2], str(size))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    promised = 0
    folder.mkdir()
    try:
        with RunStore(folder, writable=True) as store:
            store.begin(plan)
            for cell, record in records:
                store.add(cell, [record])
                promised += 1
    except FisherGCNError:
        pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(size, promised)
"""
    plan = studies.make_plan("quick", methods=["gcn"], splits=1, seeds=6, epochs=1)
    studies.run(plan, tmp_path / "source", device="cpu", workers=1).close()
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "source"), str(tmp_path)],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(fishergcn.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcomes = set()
    for line in done.stdout.splitlines():
        size, promised = map(int, line.split())
        path = tmp_path / str(size) / "runs.sqlite"
        if not promised and not path.exists():
            continue
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if promised:
            assert connection.execute("SELECT count(*) FROM runs").fetchone()[0] >= promised
        connection.close()
        outcomes.add(promised)
    assert {0, 6} <= outcomes
    assert len(outcomes) > 2
