"""Records survive the way through JSON, numbers that JSON cannot say included."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from fishergcn.errors import DataFileError
from fishergcn.training import RunRecord, TrainConfig, rank, score_fields

SCORES = {
    "test_accuracy": 0.8,
    "test_balanced_accuracy": 0.75,
    "test_macro_f1": 0.7,
    "test_loss": 1.1,
    "test_cross_entropy": 0.9,
    "val_accuracy": 0.79,
    "val_balanced_accuracy": 0.74,
    "val_macro_f1": 0.69,
    "val_loss": 1.2,
    "val_cross_entropy": 1.0,
}


def record(**changes):
    values = {
        "dataset": "cora",
        "method": "fishergcn",
        "split": "shuffled:2019",
        "seed": 2020,
        "status": "ok",
        "epochs": 2,
        "scores": SCORES,
        "curves": {"train_loss": [2.0, 1.5], "val_loss": [2.1, 1.7]},
        "shape": [0.05, 0.06],
        "seconds": 1.5,
        "device": "cpu",
        "versions": {"torch": "2"},
        "config": TrainConfig().to_dict(),
        "graph_digest": "0" * 64,
    }
    return RunRecord(**(values | changes))


def through_json(each):
    return RunRecord.from_dict(json.loads(json.dumps(each.to_dict(), allow_nan=False)))


def test_round_trip():
    assert through_json(record()) == record()
    assert record().identity == ("cora", "fishergcn", "shuffled:2019", 2020)


def test_a_record_of_version_0_1_has_no_scores_by_class():
    names = [f"{part}_{score}" for part in ("test", "val") for score in ("balanced_accuracy", "macro_f1")]
    old = {name: value for name, value in record().to_dict().items() if name not in (*names, "extra")}
    again = RunRecord.from_dict(old)
    assert all(math.isnan(getattr(again, name)) for name in names)
    assert again.test_accuracy == 0.8


def test_a_record_of_version_0_2_has_five_scores():
    old = {name: value for name, value in record().to_dict().items() if "roc" not in name and "precision" not in name}
    assert len([name for name in old if name.startswith(("test_", "val_"))]) == 10
    again = RunRecord.from_dict(old)
    assert again == record()
    assert math.isnan(again.test_roc_auc)


def test_a_score_that_nobody_registered_is_kept():
    own = record(scores=SCORES | {"test_mine": 0.25})
    assert through_json(own) == own
    assert through_json(own).test_mine == 0.25
    assert own.to_dict()["test_mine"] == 0.25
    with pytest.raises(AttributeError, match="no field and no score 'val_mine'"):
        _ = own.val_mine
    with pytest.raises(AttributeError, match="no field and no score 'accuracy'"):
        _ = own.accuracy
    assert own.test_log_loss == own.test_cross_entropy


def test_a_score_must_be_a_number():
    with pytest.raises(DataFileError, match="test_mine must be float, got 'high'"):
        RunRecord.from_dict(record().to_dict() | {"test_mine": "high"})


def test_a_record_can_be_copied_and_sent():
    for again in (copy.deepcopy(record()), pickle.loads(pickle.dumps(record()))):
        assert again == record()


def ranked(*runs, score="accuracy"):
    names = f"val_{score}", "val_loss"
    made = [
        record(seed=seed, status=status, scores=dict(zip(names, values, strict=True)))
        for seed, (status, *values) in enumerate(runs)
    ]
    return [each.seed for each in rank(made, score)]


def test_ranking():
    assert ranked(("ok", 0.8, 0.5), ("diverged", 0.9, 0.1), ("ok", 0.9, 0.6), ("ok", 0.9, 0.4)) == [3, 2, 0, 1]
    assert ranked(("ok", 0.8, 0.5), ("ok", 0.8, 0.5)) == [0, 1]  # equal ones stay in order
    assert ranked(("ok", 0.8, math.inf), ("ok", math.nan, 0.5), ("ok", 0.1, 0.5)) == [2, 1, 0]
    assert ranked(("ok", 0.8, 0.5), ("ok", 0.7, 0.6), score="cross_entropy") == [1, 0]


def test_what_has_the_scores_is_ranked_too():
    trials = [
        SimpleNamespace(val_accuracy=a, val_loss=b) for a, b in ((0.79, 1.1), (0.8, 1.2), (0.8, 0.9), (0.0, None))
    ]
    assert [trial.val_loss for trial in rank(trials)] == [0.9, 1.2, 1.1, None]


def test_round_trip_of_a_run_that_diverged():
    names = score_fields()
    broken = record(
        status="diverged",
        curves={"train_loss": [2.0, math.nan], "val_loss": [math.inf, 1.0]},
        shape=[math.nan, 0.1],
        scores=dict.fromkeys(names, math.nan),
    )
    again = through_json(broken)
    assert all(math.isnan(getattr(again, name)) for name in names)
    assert again.curves["train_loss"][0] == 2.0
    assert math.isnan(again.curves["train_loss"][1])
    assert math.isnan(again.curves["val_loss"][0])
    assert math.isnan(again.shape[0])
    assert again.shape[1] == 0.1
    assert again.status == "diverged"


def test_it_is_shown_in_one_line_however_long_the_run():
    shown = repr(record(curves={"train_loss": [0.123456789] * 500}, epochs=500))
    assert shown == (
        "RunRecord('cora', 'fishergcn', 'shuffled:2019', seed=2020, status='ok', epochs=500, "
        "val_accuracy=0.7900, test_accuracy=0.8000)"
    )
    assert "status='diverged', epochs=2, val_accuracy=nan" in repr(record(status="diverged", scores={}))


def test_weights_are_not_part_of_the_plain_values():
    kept = record(weights=(np.ones((2, 2)),))
    assert "weights" not in kept.to_dict()
    assert kept == record()
    assert through_json(kept).weights is None


def test_none_in_the_configuration_stays():
    assert through_json(record(config={"a": None})).config == {"a": None}


def test_wrong_fields():
    values = record().to_dict()
    with pytest.raises(DataFileError, match=r"wrong fields \(colour\)"):
        RunRecord.from_dict(values | {"colour": "red"})
    del values["seed"]
    with pytest.raises(DataFileError, match=r"wrong fields \(seed\)"):
        RunRecord.from_dict(values)


def test_a_record_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        record().seed = 1
