"""Blocks of the results page, against numbers computed in another way."""

from __future__ import annotations

import csv
import importlib
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from fishergcn import studies
from fishergcn.studies import RunStore, make_plan, open_runs, write_archive
from fishergcn.training import RunRecord

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
study, epochs, shapes, ablation, tables = (
    importlib.import_module(name)
    for name in ("_study", "_results_epochs", "_results_shapes", "_results_ablation", "results_tables")
)


def curve(cell):
    with (ROOT / "results" / "curves" / "curves.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if (row["dataset"], row["cell"]) == ("cora", cell)]
    return [float(row["mean"]) for row in rows if row["curve"] == "val_accuracy"]


def test_the_peak_of_the_paper_and_of_the_control():
    fisher, control, plain = (curve(name) for name in ("fishergcn", "gcn-x5", "gcn"))
    gains = [100 * (one - other) for one, other in zip(fisher, plain, strict=True)]
    at = max(range(100), key=gains.__getitem__)
    assert (at + 1, round(gains[at], 2), round(100 * (control[at] - plain[at]), 2)) == (26, 5.92, 5.92)
    assert "| Cora | `fishergcn` | +5.92 (epoch 26) | +5.92 |" in epochs.epochs()


def test_method_and_control_stay_together_at_every_epoch():
    gaps = [np.abs(each["method − control"]).max() for each in epochs.differences("val_accuracy").values()]
    assert len(gaps) == 6
    assert max(gaps) < 0.00031


def test_shapes_begin_where_training_begins():
    """ξ of a run that is trained for no more than one small step is the start that the page compares with."""
    from fishergcn import TrainConfig, datasets, train

    config = TrainConfig(hidden=4, max_epochs=1, learning_rate=1e-12, stopping="none")
    (record,) = train(datasets.load("cora"), "fishergcn", "shuffled:2019", seeds=[2019], config=config, device="cpu")
    start = shapes.shapes_of()["cora", "fishergcn"].start[0]
    np.testing.assert_allclose(record.shape, 0.1 * start, rtol=1e-9)


def test_explained_is_the_share_of_the_change_that_groups_have_in_common():
    rng = np.random.default_rng(0)
    groups = [str(index // 50) for index in range(4000)]
    common = 2.0 * rng.standard_normal((80, 3))
    change = common.repeat(50, axis=0) + rng.standard_normal((4000, 3))
    assert shapes.explained(change, groups) == pytest.approx(0.8, abs=0.05)
    assert shapes.explained(rng.standard_normal((4000, 3)), groups) == pytest.approx(0.0, abs=0.01)


def test_a_page_without_the_ablation_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(ablation, "RESULTS", tmp_path)
    assert "fishergcn reproduce ablation" in ablation.ablation()


def test_the_ablation_when_it_arrives(monkeypatch, tmp_path):
    plan = make_plan(studies.load_preset("ablation"), splits=8, seeds=2)
    (tmp_path / "runs").mkdir()
    with RunStore(tmp_path / "runs", writable=True) as store:
        store.begin(plan)
        for cell in plan.cells:
            store.add(cell, [record(cell, *key, plan.digests["cora"]) for key in plan.runs()])
    with open_runs(tmp_path / "runs") as runs:
        write_archive(tmp_path / "ablation", runs, curves="none")
    for module in (study, ablation):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    study.study.cache_clear()
    text = ablation.ablation()
    study.study.cache_clear()
    assert text.count("| Cora |") == len(plan.cells) == 19
    assert "| `fishergcn scale=trace` | 15 (1 diverged) |" in text
    assert re.search(r"\| `fishergcn samples=1` \| 16 \| 79.9\d \| 9 \| `gcn` \| 0.00 \[0.00, 0.00\] \| 1 \|", text)
    assert "Of 17 intervals, 16 include zero" in text
    assert "Left out of the picture, since they are far off: `fishergcn radius=4`. 303 runs" in text
    assert "Better than the control: none. Worse: `fishergcn radius=4`, −3.00 [−3.00, −3.00]." in text


def record(cell, split, seed, digest):
    fine = not (cell.name.endswith("trace") and (split, seed) == ("shuffled:2019", 2019))
    luck = np.random.default_rng([int(split.partition(":")[2]), seed]).normal(0, 0.001)
    accuracy = 0.8 + luck - 0.03 * (cell.config.radius == 4) if fine else math.nan
    scores = {"test_accuracy": accuracy, "test_loss": 1.0, "test_cross_entropy": 0.7, "val_accuracy": accuracy}
    return RunRecord(
        cell.dataset, cell.method, split, seed, "ok" if fine else "diverged", 9, scores if fine else {}, {}, [], 0.5,
        "cpu", {"fishergcn": "0.1.0", "torch": "2.13"}, cell.config.to_dict(), digest,
    )  # fmt: skip


def test_the_pooled_gain_is_the_mean_of_its_parts():
    found = study.study("table2")
    pooled = found.pooled_gain([("gcn-x5", "gcn")])
    parts = [each.difference.mean for each in found.differences if (each.cell, each.reference) == ("gcn-x5", "gcn")]
    assert pooled.mean == pytest.approx(np.mean(parts), abs=1e-14)
    assert (pooled.groups, pooled.runs, pooled.unit) == (60, 600, "splits")
    assert "| `table2` | 6 | 60 splits |" in tables.equivalence()
