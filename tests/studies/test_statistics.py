"""The results table and the comparisons, against numbers computed by hand from the same records."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fishergcn import studies
from fishergcn.errors import DataFileError, InputError
from fishergcn.studies import RunStore, make_plan, open_runs
from fishergcn.training import RunRecord


def test_summary(filled):
    runs = open_runs(filled)
    cells = {each.cell: each for each in studies.summarize(runs)}
    assert list(cells) == ["gcn", "gcn-x5", "fishergcn"]
    accuracies = [record.test_accuracy for _, record in runs.entries("cora", "gcn")]
    found = cells["gcn"]
    assert found.accuracy.mean == pytest.approx(np.mean(accuracies), abs=1e-15)
    assert found.accuracy.std == pytest.approx(np.std(accuracies, ddof=1), rel=1e-12)
    assert (found.ok, found.diverged, found.failed, found.planned) == (8, 0, 0, 8)
    assert found.published.accuracy == 0.8052
    assert cells["gcn-x5"].published is None


@pytest.mark.parametrize("splits", [9, 10])
def test_the_gap_to_a_published_number_needs_ten_splits(tmp_path, make_record, splits):
    plan = make_plan(studies.load_preset("quick"), splits=splits, seeds=1)
    with RunStore(tmp_path, writable=True) as store:
        store.begin(plan)
        for cell in plan.cells:
            store.add(cell, [make_record(cell, split, seed) for split, seed in plan.runs()])
    cells = {each.cell: each for each in studies.summarize(open_runs(tmp_path))}
    found = cells["gcn"]
    assert found.published.accuracy == 0.8052
    if splits < 10:
        assert (found.accuracy_gap, found.loss_gap) == (None, None)
        return
    expected = (found.accuracy.mean - 0.8052) / found.accuracy.standard_error
    assert found.accuracy_gap == pytest.approx(expected, rel=1e-12)
    assert found.loss_gap == pytest.approx((found.loss.mean - 1.07) / found.loss.standard_error, rel=1e-12)
    assert cells["gcn-x5"].accuracy_gap is None


def test_published_numbers_have_no_gap_to_other_settings(tmp_path, plan, make_record):
    asked = make_plan(studies.load_preset("quick"), splits=4, seeds=2, epochs=6)
    assert asked.changed == ("max_epochs 6 instead of 500",)
    assert make_plan(studies.load_preset("quick"), splits=2, epochs=500).changed == ()  # fewer runs, of the same kind
    with RunStore(tmp_path, writable=True) as store:
        store.begin(asked)
        for cell in asked.cells:
            store.add(cell, [make_record(cell, split, seed) for split, seed in asked.runs()])
    for found in studies.summarize(open_runs(tmp_path)):
        assert (found.comparable, found.accuracy_gap, found.loss_gap) == (False, None, None)
        assert found.cell == "gcn-x5" or found.published.accuracy > 0.8


def test_every_cell_has_its_two_references(filled):
    found = [(each.cell, each.reference, each.role) for each in studies.compare(open_runs(filled))]
    assert found == [
        ("gcn-x5", "gcn", "baseline"),
        ("fishergcn", "gcn", "baseline"),
        ("fishergcn", "gcn-x5", "control"),
    ]


def test_differences_are_paired(filled):
    runs = open_runs(filled)
    values = {
        name: {(record.split, record.seed): record.test_loss for _, record in runs.entries("cora", name)}
        for name in ("fishergcn", "gcn-x5")
    }
    [found] = [each for each in studies.compare(runs, "test_loss") if each.role == "control"]
    by_hand = [values["fishergcn"][key] - values["gcn-x5"][key] for key in values["gcn-x5"]]
    assert found.difference.mean == pytest.approx(np.mean(by_hand), abs=1e-14)
    assert (found.metric, found.difference.unit, found.difference.groups) == ("test_loss", "splits", 4)
    assert found.won + found.tied + found.lost == 4


def test_runs_that_went_wrong_are_counted_and_left_out(tmp_path, plan, make_record):
    gcn, _, fisher = plan.cells
    statuses = ["ok", "diverged", "failed: x", "ok"]
    with RunStore(tmp_path, writable=True) as store:
        store.begin(plan)
        keys = list(plan.runs())[:4]
        store.add(gcn, [make_record(gcn, *key) for key in keys])
        store.add(fisher, [make_record(fisher, *key, status) for key, status in zip(keys, statuses, strict=True)])
    runs = open_runs(tmp_path)
    cells = {each.cell: each for each in studies.summarize(runs)}
    found = cells["fishergcn"]
    assert (found.ok, found.diverged, found.failed, found.planned) == (2, 1, 1, 8)
    assert found.accuracy.runs == 2
    assert cells["gcn-x5"].accuracy is None
    assert np.isnan(cells["gcn-x5"].epochs)
    [compared] = studies.compare(runs)
    assert (compared.cell, compared.reference, compared.difference.runs) == ("fishergcn", "gcn", 2)


def test_one_sample_has_gcn_as_control_and_variants_no_published_number(tmp_path, make_record):
    ablation = make_plan(studies.load_preset("ablation"), splits=2, seeds=1)
    with RunStore(tmp_path, writable=True) as store:
        store.begin(ablation)
        for cell in ablation.cells:
            store.add(cell, [make_record(cell, *key) for key in ablation.runs()])
    runs = open_runs(tmp_path)
    roles = {(each.cell, each.reference): each.role for each in studies.compare(runs)}
    assert roles["fishergcn samples=1", "gcn"] == "control"
    assert ("fishergcn samples=1", "gcn-x5") not in roles
    assert roles["fishergcn radius=4", "gcn-x5"] == "control"
    assert all(each.published is None for each in studies.summarize(runs))


def test_an_unknown_metric(filled):
    with pytest.raises(InputError, match="score must be one of accuracy, "):
        studies.compare(open_runs(filled), "epochs")


def test_plain_values(filled):
    import dataclasses

    runs = open_runs(filled)
    found = [dataclasses.asdict(each) for each in [*studies.summarize(runs), *studies.compare(runs)]]
    assert json.loads(json.dumps(found)) == found


@pytest.fixture
def extras(tmp_path, make_record):
    """Return the summary of a cell whose runs noted these values, each as JSON would keep it."""

    def summarized(*values):
        plan = make_plan("quick", methods=["gcn"], splits=len(values), seeds=1)
        [cell] = plan.cells
        plain = [make_record(cell, *key).to_dict() for key in plan.runs()]
        made = [RunRecord.from_dict({**each, "extra": extra}) for each, extra in zip(plain, values, strict=True)]
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        with RunStore(folder, writable=True) as store:
            store.begin(plan)
            store.add(cell, made)
            [summary] = studies.summarize(store)
        return summary.extra

    return summarized


def test_numbers_besides_the_scores_are_averaged_over_the_runs_that_have_them(extras):
    assert extras({"size": 1.0}, {"size": 2.0, "other": 5.0}) == {"size": 1.5, "other": 5.0}
    assert np.isnan(extras({"size": None}, {"size": 2.0})["size"])


def test_what_is_no_number_besides_the_scores_is_refused(extras):
    with pytest.raises(DataFileError, match=r"'size' of gcn on cora, split .* must be a number, got 'big'"):
        extras({"size": "big"})
    with pytest.raises(DataFileError, match=r"extra of a run record must be numbers and text, got \[1\] for 'size'"):
        extras({"size": [1]})
    with pytest.raises(DataFileError, match=r"must be numbers, got '\.\./x' for 'val_threshold'"):
        extras({"val_threshold": "../x"})
