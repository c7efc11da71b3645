"""What version 0.1 wrote is opened, with defaults for what it did not know; what comes later is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import shutil
import sqlite3
import zlib
from pathlib import Path

import pytest

from fishergcn.errors import DataFileError
from fishergcn.studies import DATABASE, RunStore, compare, make_plan, open_runs, run, summarize, write_archive

RESULTS = Path(__file__).resolve().parents[2] / "results"


def sealed(value):
    """A fact as the database keeps it."""
    text = json.dumps(value)
    return f"{hashlib.sha256(text.encode()).hexdigest()} {text}"


def checksum(key, blob):
    """The checksum of a record."""
    return hashlib.sha256(json.dumps(key).encode() + b"\n" + blob).hexdigest()


def old_plan(plan):
    """The plain values of a plan as version 0.1 wrote them."""
    values = plan.to_dict()
    for name in ("measure", "config"):
        del values[name]
    cells = [
        {**{name: getattr(cell, name) for name in ("dataset", "name", "method", "variant", "control")},
         "config": cell.config.to_dict(), "digest": "0123456789abcdef"}
        for cell in plan.cells
    ]  # fmt: skip
    made = {"command": "fishergcn reproduce quick", "created": "2026-01-01T00:00:00+00:00"}
    return {**values, "datasets": list(plan.datasets), "methods": list(plan.methods), "cells": cells, **made}


@pytest.fixture
def old(filled, plan):
    """A database as version 0.1 wrote it: schema 1, the command in the plan, records without extra."""
    with sqlite3.connect(filled / DATABASE) as connection:
        connection.execute("DELETE FROM facts")
        rows = connection.execute("SELECT * FROM runs").fetchall()
        connection.execute("DELETE FROM runs")
        for *key, blob, _ in rows:
            values = json.loads(zlib.decompress(blob))
            del values["extra"]
            blob = zlib.compress(json.dumps(values).encode(), 6)
            row = (*key, blob, checksum(tuple(key), blob))
            connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        for name, value in (("schema", 1), ("plan", old_plan(plan)), ("fact chunk", 7)):
            connection.execute("INSERT INTO facts VALUES (?, ?)", (name, sealed(value)))
    return filled


def test_a_database_is_opened(old, plan, make_record):
    with open_runs(old) as runs:
        assert runs.plan == plan
        assert runs.plan.measure == "training"
        assert runs.facts == {
            "command": "fishergcn reproduce quick",
            "created": "2026-01-01T00:00:00+00:00",
            "chunk": 7,
        }
        assert list(runs.records()) == [make_record(cell, *key) for cell in plan.cells for key in plan.runs()]
        assert len(compare(runs)) == 3
        assert runs.spectrum(plan.cells[2]) is None


def test_a_database_is_completed(old, plan, make_record):
    with RunStore(old, writable=True) as writable:
        writable.begin(plan, command="now")
        writable.add(plan.cells[0], [make_record(plan.cells[0], *plan.runs()[0])])
        assert writable.counts() == {"ok": 24}
        assert writable.facts["command"] == "fishergcn reproduce quick"
    with sqlite3.connect(old / DATABASE) as connection:
        [(sealed,)] = connection.execute("SELECT value FROM facts WHERE name = 'schema'")
    assert sealed.endswith(" 3")  # version 0.1 could not read what is added
    # The fixture's plan is not quite that of the preset, whose settings its `changed` would tell of.
    with run(make_plan("quick", splits=4, seeds=2, epochs=6), old, device="cpu", workers=1) as runs:
        assert runs.counts() == {"ok": 24}


def test_an_archive_is_opened(filled, plan, tmp_path):
    with open_runs(filled) as runs:
        write_archive(tmp_path / "a", runs)
        expected = summarize(runs), [dataclasses.replace(each, curves={}, shape=[]) for each in runs.records()]
    path = tmp_path / "a" / "plan.json"
    made = json.loads(path.read_text())["made"]
    path.write_text(json.dumps({**old_plan(plan), "format": 1, "made": made}))
    lines = (tmp_path / "a" / "runs.csv").read_text().splitlines()
    (tmp_path / "a" / "runs.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    with open_runs(tmp_path / "a") as runs:
        assert runs.plan == plan
        assert runs.facts["command"] == "fishergcn reproduce quick"
        assert (summarize(runs), [dataclasses.replace(each, shape=[]) for each in runs.records()]) == expected


@pytest.mark.parametrize("name", ["curves", "table2", "table3", "three-layers"])
def test_the_archives_that_are_kept_are_opened(name):
    plan = json.loads((RESULTS / name / "plan.json").read_text(encoding="utf-8"))
    assert plan["format"] == 1
    with open_runs(RESULTS / name) as runs:
        assert make_plan(name).differences(runs.plan) == []  # whatever settings were called then
        assert len(list(runs.records())) == len(runs.plan)
        assert all(math.isnan(record.test_macro_f1) for record in runs.records())
        for cell in runs.plan.cells:
            assert (cell.method, cell.control) in {(each["method"], each["control"]) for each in plan["cells"]}
            if cell.method.startswith("fishergcn"):
                assert len(runs.spectrum(cell)) == 30


def _without_bound(options):
    return {name: value for name, value in options.items() if name != "bound"}


@pytest.mark.parametrize("name", ["robustness", "gnn"])
def test_the_archives_of_other_measures_are_in_the_same_form(name):
    with open_runs(RESULTS / name) as runs:
        assert runs.counts() == {"ok": len(runs.plan)}
        assert runs.plan.measure == {"robustness": "attack", "gnn": "networks"}[name]
    if name == "robustness":
        # The ball of the archive has no bound on the spectrum, which the preset has by now.
        now = make_plan("robustness")
        cells = [dataclasses.replace(cell, options=_without_bound(cell.options)) for cell in now.cells]
        assert runs.plan == dataclasses.replace(now, cells=tuple(cells), notes=runs.plan.notes)


def test_what_a_later_version_made_is_refused(filled, tmp_path):
    with sqlite3.connect(filled / DATABASE) as connection:
        connection.execute("UPDATE facts SET value = ? WHERE name = 'schema'", (sealed(4),))
    later = r"has schema version 4, and fishergcn .* reads up to 3: it was written by a later version; update fishergcn"
    with pytest.raises(DataFileError, match=later):
        open_runs(filled)
    shutil.copytree(RESULTS / "gnn", tmp_path / "gnn")
    text = (tmp_path / "gnn" / "plan.json").read_text(encoding="utf-8")
    (tmp_path / "gnn" / "plan.json").write_text(text.replace('"format": 2', '"format": 5'), encoding="utf-8")
    with pytest.raises(DataFileError, match=r"archive format 5, .* was written by a later version; update fishergcn"):
        open_runs(tmp_path / "gnn")
