"""Tuning sees validation alone, covers the paper's grid, and goes on after an interruption."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from fishergcn import Graph, TrainConfig, train
from fishergcn.errors import DataFileError, InputError, MissingExtraError
from fishergcn.execution import Listener, LocalExecutor
from fishergcn.splits import Split
from fishergcn.studies import PAPER_GRID, load_tuning, tune, tuning_cost, verify_folder
from fishergcn.training import Score, find_score, register_score, unregister_score

pytest.importorskip("optuna")
FEW = TrainConfig(max_epochs=3, rank=2, samples=2)


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    labels = np.arange(36) % 2
    links = np.triu(rng.random((36, 36)) < np.where(labels[:, None] == labels, 0.4, 0.1), 1).astype(float)
    return Graph(links + links.T, rng.random((36, 6)), labels, name="two")


@pytest.fixture(scope="module")
def split():
    return Split("some", np.arange(12), np.arange(12, 24), np.arange(24, 36))


def fake_training(monkeypatch, score):
    """Runs are scored by a function of their settings instead of being trained."""

    def run(self, jobs):
        for job in jobs:
            accuracy, loss = score(job.problem.config)
            yield job, [SimpleNamespace(status="ok", val_accuracy=accuracy, val_loss=loss) for _ in job.runs]

    monkeypatch.setattr(LocalExecutor, "run", run)


def narrow(monkeypatch, **points):
    """Leave some points of the paper's grid: every trial is a few commits to the disk."""
    some = {name: points[name] for name in PAPER_GRID if name in points}
    monkeypatch.setattr("fishergcn.studies._tuning.PAPER_GRID", some)


def test_the_grid_is_the_papers():
    assert PAPER_GRID == {
        "learning_rate": (0.02, 0.01, 0.005, 0.001),
        "dropout": (0.5, 0.8),
        "weight_decay": (0.002, 0.001, 0.0005),
        "hidden": (16, 32, 64),
    }


def test_grid_is_covered_once_and_the_best_is_chosen(graph, split, tmp_path, monkeypatch):
    some = {name: values[-3:][:2] for name, values in PAPER_GRID.items()}
    narrow(monkeypatch, **some)

    def score(config):
        return 0.5 + (config.hidden == (32,)) * 0.1, abs(config.learning_rate - 0.005) + config.dropout

    fake_training(monkeypatch, score)

    class Notes(Listener):
        seen: ClassVar[list[str]] = []

        def say(self, text):
            self.seen.append(text.partition(":")[0])

    found = tune(graph, "gcn", split, tmp_path, config=FEW, grid="paper", listener=Notes())
    points = [tuple(trial.settings[name] for name in some) for trial in found.trials]
    assert sorted(points) == sorted(itertools.product(*some.values()))
    assert Notes.seen == [f"trial {number} of 16" for number in range(1, 17)]
    # Equal accuracies are decided by the loss.
    best = found.best.settings
    assert (best["hidden"], best["learning_rate"], best["dropout"]) == (32, 0.005, 0.5)
    assert found.config.hidden == (32,)
    assert found.config.max_epochs == 3


def test_what_a_grid_will_take_is_counted_by_hidden_units(graph, split):
    cost = tuning_cost([graph], ["gcn"], split, config=FEW, grid="paper", device="cpu")
    assert [(each.part.name, each.part.runs) for each in cost.parts] == [
        (f"gcn hidden={hidden}", 24) for hidden in (16, 32, 64)
    ]


def test_values_are_the_mean_of_real_runs_without_test_nodes(graph, split, tmp_path, monkeypatch):
    other = Split("other", np.arange(24, 36), np.arange(12), np.arange(12, 24))
    tested = []
    real = LocalExecutor.run

    def watched(self, jobs):
        jobs = list(jobs)
        tested.extend(len(run.split.test) for job in jobs for run in job.runs)
        return real(self, jobs)

    monkeypatch.setattr(LocalExecutor, "run", watched)
    found = tune(graph, "fishergcn", [split, other], tmp_path, seeds=(3, 4), config=FEW, trials=1)
    assert tested == [0] * 4
    settings = found.best.settings
    assert set(settings) == {"learning_rate", "dropout", "weight_decay", "hidden", "scaling", "bias", "radius"}
    assert 0.01 <= settings["radius"] <= 0.3
    config = TrainConfig(**{**FEW.to_dict(), **settings})
    expected = train(graph, "fishergcn", [split, other], (3, 4), config)
    assert found.best.val_accuracy == pytest.approx(np.mean([each.val_accuracy for each in expected]), rel=1e-12)
    assert found.best.val_loss == pytest.approx(np.mean([each.val_loss for each in expected]), rel=1e-6)
    written = (tmp_path / "tuning.json").read_text(encoding="utf-8")
    assert not any(f"test_{score}" in written for score in ("accuracy", "loss", "cross_entropy"))


def test_order_and_consistency_are_searched_where_the_method_has_them(graph, split, tmp_path):
    found = tune(graph, "gcn-t-x2-c", split, tmp_path, seeds=(3,), config=FEW, trials=4)
    plain = {"learning_rate", "dropout", "weight_decay", "hidden", "scaling", "bias"}
    for trial in found.trials:
        assert set(trial.settings) == plain | {"order", "consistency", "temperature"}
        assert 2 <= trial.settings["order"] <= 8
        # Each with the matrix of its own order: the same as a run that was not part of a search.
        config = TrainConfig.from_dict({**FEW.to_dict(), **trial.settings})
        [record] = train(graph, "gcn-t-x2-c", split, (3,), config)
        assert trial.val_loss == pytest.approx(record.val_loss, rel=1e-6)
    assert len({trial.settings["order"] for trial in found.trials}) > 1


def test_rows_of_negative_features_are_never_divided(graph, split, tmp_path):
    shifted = graph.replace(features=graph.features - 1.0)
    with pytest.warns(UserWarning, match="some features are negative") as caught:
        found = tune(shifted, "gcn", split, tmp_path, config=FEW, trials=6)
    assert len(caught) == 1
    assert {trial.settings["scaling"] for trial in found.trials} <= {"none", "columns"}


def test_nothing_to_search(graph, split, tmp_path):
    with pytest.raises(InputError, match="method 'lp' trains nothing, so there is nothing to tune"):
        tune(graph, "lp", split, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_goes_on_where_it_was(graph, split, tmp_path, monkeypatch):
    narrow(monkeypatch, dropout=(0.5, 0.8), hidden=(16, 32, 64))
    calls = []

    def score(config):
        calls.append(config)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return 0.5 + config.dropout / 10, 1.0

    fake_training(monkeypatch, score)
    with pytest.raises(KeyboardInterrupt):
        tune(graph, "gcn", split, tmp_path, config=FEW, grid="paper")
    stored = json.loads((tmp_path / "tuning.json").read_text(encoding="utf-8"))
    assert len(stored["trials"]) == 3
    found = tune(graph, "gcn", split, tmp_path, config=FEW, grid="paper")
    assert len(found.trials) == 6
    assert len({tuple(trial.settings.values()) for trial in found.trials}) == 6
    assert len(calls) == 7
    tune(graph, "gcn", split, tmp_path, config=FEW, grid="paper")
    assert len(calls) == 7
    assert [each.settings for each in found.trials[:3]] == [each["settings"] for each in stored["trials"]]


def test_more_trials_do_not_repeat_the_first(graph, split, tmp_path, monkeypatch):
    fake_training(monkeypatch, lambda config: (config.dropout, 1.0))
    tune(graph, "gcn", split, tmp_path, config=FEW, trials=4)
    found = tune(graph, "gcn", split, tmp_path, config=FEW, trials=8)
    assert len({trial.settings["learning_rate"] for trial in found.trials}) == 8


def test_another_search_is_refused(graph, split, tmp_path, monkeypatch):
    fake_training(monkeypatch, lambda config: (0.5, 1.0))
    tune(graph, "gcn", split, tmp_path, config=FEW, trials=1)
    smaller = Split("some", np.arange(11), np.arange(12, 24), np.arange(24, 36))
    for change in (
        {"method": "gcn-x5"},
        {"seeds": (7,)},
        {"config": TrainConfig(max_epochs=4)},
        {"grid": "paper"},
        {"splits": smaller},
    ):
        given = {"method": "gcn", "splits": split, "config": FEW, "trials": 1, **change}
        with pytest.raises(InputError, match="another search"):
            tune(graph, folder=tmp_path, **given)


def test_a_diverged_run_counts_with_accuracy_zero(graph, split, tmp_path):
    config = TrainConfig(max_epochs=3, dtype="float32", scaling="none")
    huge = graph.replace(features=np.full((36, 2), 3e38, dtype=np.float32))
    found = tune(huge, "gcn", split, tmp_path, config=config, trials=1)
    assert found.best.val_accuracy == 0.0
    assert found.best.val_loss is None


@pytest.mark.parametrize("score", ["log-loss", "macro-f1", "roc_auc", "loss"])
def test_another_score_chooses(graph, split, tmp_path, score):
    said = []
    listener = Listener()
    listener.say = said.append
    found = tune(graph, "gcn", split, tmp_path, config=FEW, trials=4, score=score, listener=listener)
    entry = find_score(score)
    assert (found.score, found.measure) == (entry.name, entry)
    for trial in found.trials:
        [record] = train(graph, "gcn", split, config=TrainConfig(**{**FEW.to_dict(), **trial.settings}))
        assert found.value(trial) == pytest.approx(getattr(record, f"val_{entry.name}"), rel=1e-6)
        assert trial.val_accuracy == record.val_accuracy
    assert found.value(found.best) == (min if entry.better == "low" else max)(map(found.value, found.trials))
    assert load_tuning(tmp_path) == found
    assert said[-1] == f"trial 4 of 4: {found.last}"
    assert f"validation {entry.title} " in found.last
    with pytest.raises(InputError, match="another search"):
        tune(graph, "gcn", split, tmp_path, config=FEW, trials=4)


def test_a_diverged_run_is_the_worst_by_any_score(graph, split, tmp_path):
    config = TrainConfig(max_epochs=3, dtype="float32", scaling="none")
    huge = graph.replace(features=np.full((36, 2), 3e38, dtype=np.float32))
    for score in ("log-loss", "loss"):
        found = tune(huge, "gcn", split, tmp_path / score, config=config, trials=2, score=score)
        assert np.isnan(found.value(found.best))
        assert load_tuning(tmp_path / score).best.settings == found.best.settings
    shares = tune(huge, "gcn", split, tmp_path / "f1", config=config, trials=1, score="macro-f1")
    assert shares.value(shares.best) == 0.0


def test_scores_that_cannot_choose_are_refused_before_anything_is_trained(graph, split, tmp_path, monkeypatch):
    monkeypatch.setattr(LocalExecutor, "run", None)
    with pytest.raises(InputError, match=r"^score must be one of accuracy, .*, got 'luck'\.$"):
        tune(graph, "gcn", split, tmp_path / "none", score="luck")
    register_score(Score("of_three", "of three", lambda tally: tally.loss, classes=3))
    try:
        with pytest.raises(InputError, match=r"^score 'of_three' needs 3 classes, but the graph has 2\.$"):
            tune(graph, "gcn", split, tmp_path / "none", score="of-three")
    finally:
        unregister_score("of_three")
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_two_worker_processes(graph, split, tmp_path):
    one = tune(graph, "gcn", split, tmp_path / "one", seeds=(3, 4), config=FEW, trials=1)
    two = tune(graph, "gcn", split, tmp_path / "two", seeds=(3, 4), config=FEW, trials=1, workers=2)
    assert two.best.settings == one.best.settings
    assert two.best.val_accuracy == one.best.val_accuracy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": "fine"}, "grid must be one of 'paper', got 'fine'"),
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"method": "gnc"}, "method must be one of"),
    ],
)
def test_bad_arguments(graph, split, tmp_path, options, message):
    given = {"method": "gcn", **options}
    with pytest.raises(InputError, match=message):
        tune(graph, splits=split, folder=tmp_path, config=FEW, **given)


def test_a_file_that_is_no_study(graph, split, tmp_path):
    (tmp_path / "study.sqlite").write_bytes(b"not a data base" * 100)
    with pytest.raises(DataFileError, match="not a study that can be opened"):
        tune(graph, "gcn", split, tmp_path, config=FEW, trials=1)


# Another process writes so much that a part of it reaches the file before it is committed, and is gone.
CUT_OFF = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 2")
connection.execute("BEGIN IMMEDIATE")
rows = ((f"name {each}", "1" * 500, 1) for each in range(2000))
connection.executemany("INSERT INTO study_user_attributes (key, value_json, study_id) VALUES (?, ?, ?)", rows)
os._exit(9)
"""


def test_a_write_that_was_cut_off_is_rolled_back(graph, split, tmp_path):
    tune(graph, "gcn", split, tmp_path, config=FEW, trials=1)
    path = tmp_path / "study.sqlite"
    size = path.stat().st_size
    assert subprocess.run([sys.executable, "-c", CUT_OFF, str(path)], check=False).returncode == 9
    assert path.with_name("study.sqlite-journal").exists()
    assert path.stat().st_size > size
    verified = verify_folder(tmp_path)
    assert "left amid a write" in verified.problems["tuning.json"]
    assert verified.foreign == []
    assert path.with_name("study.sqlite-journal").exists()  # verify only looks
    assert len(tune(graph, "gcn", split, tmp_path, config=FEW, trials=2).trials) == 2


def test_without_optuna(graph, split, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"fishergcn\[tune\]"):
        tune(graph, "gcn", split, tmp_path, config=FEW)
