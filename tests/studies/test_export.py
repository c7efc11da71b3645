"""Exports, read back by other programs."""

from __future__ import annotations

import csv
import dataclasses
import json

import pytest

from fishergcn.errors import InputError
from fishergcn.studies import RunStore, export, open_runs
from fishergcn.training import RunRecord, score_fields

FIELDS = [field.name for field in dataclasses.fields(RunRecord) if field.name not in ("weights", "outputs")]
COLUMNS = ["cell", *FIELDS[:6], *score_fields(), *FIELDS[7:]]


@pytest.fixture
def expected(filled):
    return [(name, record) for name, record in open_runs(filled).entries()]


def test_csv(filled, expected, tmp_path):
    assert export(open_runs(filled), tmp_path / "r.csv") == len(expected)
    with (tmp_path / "r.csv").open(newline="") as stream:
        reader = csv.DictReader(stream)
        rows = list(reader)
    assert reader.fieldnames == COLUMNS
    for row, (cell, record) in zip(rows, expected, strict=True):
        assert row["cell"] == cell
        assert float(row["test_loss"]) == record.test_loss
        assert json.loads(row["curves"]) == record.curves
        assert json.loads(row["config"]) == record.config


def test_json(filled, expected, tmp_path):
    export(open_runs(filled), tmp_path / "r.json")
    rows = json.loads((tmp_path / "r.json").read_text())
    assert [(row.pop("cell"), RunRecord.from_dict(row)) for row in rows] == expected


def test_parquet(filled, expected, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    export(open_runs(filled), tmp_path / "r.parquet")
    table = parquet.read_table(tmp_path / "r.parquet")
    assert table.column_names == COLUMNS
    for row, (cell, record) in zip(table.to_pylist(), expected, strict=True):
        row |= {name: json.loads(row[name]) for name in ("versions", "config", "extra")}
        assert (row.pop("cell"), RunRecord.from_dict(row)) == (cell, record)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_failed_run(tmp_path, plan, make_record, ending):
    cell = plan.cells[0]
    with RunStore(tmp_path, writable=True) as store:
        store.begin(plan)
        store.add(cell, [make_record(cell, "shuffled:2019", 1, "failed: x")])
        assert export(store, tmp_path / f"r.{ending}") == 1
    if ending == "csv":
        [row] = csv.DictReader((tmp_path / "r.csv").open())
        assert row["test_accuracy"] == ""
    elif ending == "json":
        assert json.loads((tmp_path / "r.json").read_text())[0]["test_accuracy"] is None
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        assert parquet.read_table(tmp_path / "r.parquet").to_pylist()[0]["test_accuracy"] is None


def test_an_unknown_ending(filled, tmp_path):
    with pytest.raises(InputError, match=r"must end in \.csv, \.json, \.parquet, got 'r.xlsx'"):
        export(open_runs(filled), tmp_path / "r.xlsx")
    assert not (tmp_path / "r.xlsx").exists()
