"""Scores by class, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fishergcn.training import Targets, measure, registered_scores, temperature_of

metrics = pytest.importorskip("sklearn.metrics")
CPU = torch.device("cpu")


def scored(classes, nodes, labels, seed=0):
    logits = torch.from_numpy(np.random.default_rng(seed).standard_normal((len(labels), len(nodes), classes)))
    targets = Targets.of(nodes, labels, None, CPU, torch.float64)
    return logits, measure(logits, targets, torch.full((len(nodes),), 0.25, dtype=torch.float64))


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_every_score_is_that_of_scikit_learn(classes):
    rng = np.random.default_rng(classes)
    labels = rng.integers(0, classes, 200)
    nodes = [rng.choice(200, size, replace=False) for size in (5, 90, 200)]  # five nodes do not have seven classes
    logits, found = scored(classes, nodes, labels)
    assert tuple(found) == tuple(score.name for score in registered_scores())
    for run, own in enumerate(nodes):
        true, guess = labels[own], logits[own, run].argmax(-1).numpy()
        present = np.unique(true)
        expected = {
            "accuracy": metrics.accuracy_score(true, guess),
            "balanced_accuracy": metrics.recall_score(true, guess, labels=present, average="macro", zero_division=0),
            "macro_f1": metrics.f1_score(true, guess, labels=present, average="macro", zero_division=0),
            "cross_entropy": metrics.log_loss(true, torch.softmax(logits[own, run], -1), labels=np.arange(classes)),
        }
        expected["loss"] = expected["cross_entropy"] + 0.25
        for name, value in expected.items():
            assert found[name][run] == pytest.approx(value, rel=1e-12), name
        if len(present) == classes:
            assert found["balanced_accuracy"][run] == pytest.approx(metrics.balanced_accuracy_score(true, guess))


def test_a_run_without_nodes_has_no_scores():
    labels = np.array([0, 1, 1])
    _, found = scored(2, [np.array([], dtype=np.int64), np.array([0, 1])], labels)
    assert all(np.isnan(values[0]) and np.isfinite(values[1]) for values in found.values())


def test_calibration_finds_the_temperature_of_least_cross_entropy():
    rng = np.random.default_rng(0)
    labels, nodes = rng.integers(0, 3, 80), [np.arange(80), np.arange(30)]
    logits = torch.from_numpy(9 * rng.standard_normal((80, 2, 3)))
    targets = Targets.of(nodes, labels, None, CPU, torch.float64)
    found = measure(logits, targets, part="val")["calibrated_cross_entropy"]
    for run, own in enumerate(nodes):
        losses = [
            metrics.log_loss(labels[own], torch.softmax(logits[own, run] / each, -1), labels=range(3))
            for each in np.logspace(-3, 3, 33, base=2.0)
        ]
        assert found[run] == pytest.approx(min(losses), rel=1e-12)
    assert "calibrated_cross_entropy" not in measure(logits, targets, part="test")


def test_few_nodes_do_not_set_a_temperature():
    """Six nodes that are right at any temperature would make probabilities of 0 and 1."""
    logits = np.array([[1.0, 0.0], [0.0, 1.0]] * 6)
    labels = np.array([0, 1] * 6)
    assert temperature_of(logits[:6], labels[:6]) == 1.0
    assert temperature_of(logits[:6], labels[:6], least=1) == temperature_of(logits, labels) == 0.125
