"""An archive is small, exact in its scores, and read like the database."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from fishergcn import studies
from fishergcn.errors import DataFileError, InputError
from fishergcn.report import write_report
from fishergcn.studies import RunStore, export, open_runs, write_archive
from fishergcn.training import Score, register_score, unregister_score


def bare(record):
    return dataclasses.replace(record, curves={}, shape=[float(f"{value:.5g}") for value in record.shape])


def test_the_same_results_from_either(filled, tmp_path):
    runs = open_runs(filled)
    write_archive(tmp_path / "a", runs)
    archive = open_runs(tmp_path / "a")
    assert studies.summarize(archive) == studies.summarize(runs)
    assert studies.compare(archive) == studies.compare(runs)
    assert list(map(bare, archive.records())) == list(map(bare, runs.records()))
    assert [name for name, _ in archive.entries()] == [name for name, _ in runs.entries()]
    assert (archive.plan, archive.facts) == (runs.plan, runs.facts)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["curves.csv", "plan.json", "runs.csv"]


def test_scores_beyond_the_usual_ones(filled, plan, make_record, tmp_path):
    """Kept by database, archive and export, whether anybody registered them or not; in tables, if somebody did."""
    more = {"test_luck": 0.25, "test_roc_auc": 0.5}
    with RunStore(filled, writable=True) as store:
        for cell in plan.cells:
            records = [make_record(cell, *key) for key in plan.runs()]
            store.add(cell, [dataclasses.replace(each, scores=each.scores | more) for each in records])
    with open_runs(filled) as runs:
        write_archive(tmp_path / "a", runs)
        export(runs, tmp_path / "runs.csv")
    head = (tmp_path / "a" / "runs.csv").read_text().splitlines()[0]
    assert "test_cross_entropy,test_roc_auc,val_accuracy" in head  # the usual ones first, no columns without numbers
    assert "val_cross_entropy,test_luck,seconds" in head
    assert (tmp_path / "runs.csv").read_text().splitlines()[0].count("test_luck") == 1
    register_score(Score("luck", "pure luck", lambda tally: tally.loss))
    try:
        for folder in (filled, tmp_path / "a"):
            with open_runs(folder) as runs:
                assert all(record.test_luck == 0.25 for record in runs.records())
                [first, *_] = studies.summarize(runs)
                assert (first.luck.mean, first.roc_auc.mean, first.average_precision) == (0.25, 0.5, None)
                assert studies.compare(runs, "test_luck")[0].difference.mean == 0
            tables = write_report(folder).with_name("tables.md").read_text()
            assert "| pure luck |" in tables
    finally:
        unregister_score("luck")


def test_bands(filled, tmp_path):
    runs = open_runs(filled)
    write_archive(tmp_path / "a", runs, epochs=3)
    archive = open_runs(tmp_path / "a")
    for name, band in runs.bands("cora", "fishergcn", epochs=3).items():
        kept = archive.bands("cora", "fishergcn")[name]
        for part in ("mean", "low", "high"):
            np.testing.assert_allclose(getattr(kept, part), getattr(band, part), rtol=5e-4)
        np.testing.assert_array_equal(kept.runs, band.runs)
    assert len(archive.bands("cora", "fishergcn", epochs=2)["val_loss"].mean) == 2
    assert archive.bands("pubmed", "gcn") == {}
    assert [record.curves for record in archive.records()] == [{}] * 24


def test_all_curves(filled, tmp_path):
    runs = open_runs(filled)
    write_archive(tmp_path / "a", runs, curves="all")
    for kept, record in zip(open_runs(tmp_path / "a").records(), runs.records(), strict=True):
        assert kept.curves.keys() == record.curves.keys()
        for name, values in record.curves.items():
            np.testing.assert_array_equal(kept.curves[name], np.float32(values))


def test_no_curves_and_none_left_from_before(filled, tmp_path):
    runs = open_runs(filled)
    write_archive(tmp_path / "a", runs, curves="all")
    write_archive(tmp_path / "a", runs, curves="none")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["plan.json", "runs.csv"]
    assert open_runs(tmp_path / "a").bands("cora", "gcn") == {}


def test_runs_without_scores_survive(tmp_path, plan, make_record):
    cell = plan.cells[2]
    with RunStore(tmp_path, writable=True) as store:
        store.begin(plan)
        records = [
            make_record(cell, "shuffled:2019", 1, 'failed: a, "b"'),
            make_record(cell, "shuffled:2019", 2, "diverged"),
        ]
        store.add(cell, records)
        for curves in ("mean", "all"):
            write_archive(tmp_path / curves, store, curves=curves)
            kept = list(open_runs(tmp_path / curves).records())
            assert [record.status for record in kept] == ['failed: a, "b"', "diverged"]
            assert all(np.isnan(record.test_accuracy) for record in kept)


def test_a_line_is_small(filled, tmp_path):
    write_archive(tmp_path / "a", open_runs(filled))
    assert (tmp_path / "a" / "runs.csv").stat().st_size < 24 * 280


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("plan.json", '"format": 4', '"format": 9', "archive format 9, .* was written by a later version; update"),
        ("plan.json", "{", "", "not a readable archive"),
        ("runs.csv", "dataset,", "data,", "must have the columns"),
        ("runs.csv", "cora,gcn,", "cora,gnc,", "not a readable archive"),
        ("runs.csv", ",ok,", ",ok,x", "not a readable archive"),
        ("curves.csv", "train_loss,2,", "train_loss,3,", "in order"),
    ],
)
def test_damage_is_named(filled, tmp_path, name, old, new, message):
    write_archive(tmp_path / "a", open_runs(filled))
    path = tmp_path / "a" / name
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DataFileError, match=message):
        open_runs(tmp_path / "a")


def test_a_missing_part(filled, tmp_path):
    write_archive(tmp_path / "a", open_runs(filled))
    (tmp_path / "a" / "runs.csv").unlink()
    with pytest.raises(DataFileError, match="not a readable archive"):
        open_runs(tmp_path / "a")


def test_unknown_choice(filled, tmp_path):
    with pytest.raises(InputError, match="curves must be one of"):
        write_archive(tmp_path / "a", open_runs(filled), curves="some")


def test_the_plan_is_plain_json(filled, tmp_path):
    write_archive(tmp_path / "a", open_runs(filled))
    plan = json.loads((tmp_path / "a" / "plan.json").read_text())
    assert plan["made"] == [{"device": "cpu (made up)", "versions": {"fishergcn": "1", "torch": "2"}}]
