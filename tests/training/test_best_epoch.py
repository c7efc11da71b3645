"""The best epoch by any score: picked, kept and waited for, in every kind of step."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Graph, TrainConfig, backend, train
from fishergcn.errors import InputError
from fishergcn.splits import Split
from fishergcn.training import BatchSettings, Score, find_score, register_score, unregister_score

EPOCHS, PATIENCE = 60, 6
NAMES = ["accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "average-precision", "log-loss"]
KINDS = ["compiled", "autograd", "mini-batches"]


@pytest.fixture(scope="module")
def graph():
    """Three classes, one of them rare; the features say little."""
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 0, 0, 1, 1, 2], 20)[rng.permutation(120)]
    links = np.triu(rng.random((120, 120)) < np.where(labels[:, None] == labels, 0.08, 0.03), 1).astype(float)
    features = rng.random((120, 12)) < 0.2 + 0.15 * (np.arange(12) % 3 == labels[:, None])
    return Graph(links + links.T, sparse.csr_array(features.astype(float)), labels, name="uneven")


@pytest.fixture(scope="module")
def splits():
    """Different sizes, so that runs side by side are padded."""
    return [Split("a", range(40), range(40, 80), range(80, 120)), Split("b", range(30), range(30, 61), range(80, 120))]


def trained(graph, splits, kind, **settings):
    base = {"hidden": 8, "max_epochs": EPOCHS, "stopping": "none", "learning_rate": 0.05, "dtype": "float64"}
    config = TrainConfig(**base | settings)
    batches = BatchSettings(16, (3, 3)) if kind == "mini-batches" else None
    with backend("autograd") if kind == "autograd" else contextlib.nullcontext():
        return train(graph, "gcn", splits, config=config, device="cpu", keep_weights=True, batches=batches)


@pytest.fixture(scope="module")
def entropies(graph, splits):
    """The cross entropy after every epoch."""
    return {
        kind: [each.curves["val_cross_entropy"] for each in trained(graph, splits, kind, score="log-loss")]
        for kind in KINDS
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["accuracy", "log-loss", *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:-1])]
)
def test_the_best_epoch_is_kept_and_waited_for(graph, splits, entropies, name, kind):
    score = find_score(name)
    waiting = {"stopping": "patience", "patience": PATIENCE, "test_at": "best-val"}
    found = trained(graph, splits, kind, score=name, **waiting)
    whole = trained(graph, splits, kind, score=name)
    for split, record, every, entropy in zip(splits, found, whole, entropies[kind], strict=True):
        values = every.curves[f"val_{score.name}"]
        order = [(-score.gain(value), tie) for value, tie in zip(values, entropy, strict=True)]
        ages = [end - order.index(min(order[: end + 1])) for end in range(EPOCHS)]
        stop = next((end for end, age in enumerate(ages) if age >= PATIENCE), EPOCHS - 1)
        best = order.index(min(order[: stop + 1]))
        assert record.epochs == stop + 1
        assert record.curves[f"val_{score.name}"] == pytest.approx(values[: stop + 1], rel=1e-12)
        assert getattr(record, f"val_{score.name}") == pytest.approx(values[best], rel=1e-9)
        [short] = trained(graph, split, kind, max_epochs=best + 1)
        for weight, expected in zip(record.weights.values(), short.weights.values(), strict=True):
            np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-9)
        assert record.config["score"] == score.name


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_word_it_is_the_loss(graph, splits, kind):
    waiting = {"stopping": "patience", "patience": PATIENCE, "test_at": "best-val"}
    for record, same in zip(
        trained(graph, splits, kind, **waiting), trained(graph, splits, kind, score="loss", **waiting), strict=True
    ):
        losses = record.curves["val_loss"]
        assert record.val_loss == pytest.approx(min(losses), rel=1e-12)
        assert (record.curves, record.scores) == (same.curves, same.scores)
        assert list(record.curves) == ["train_loss", "train_accuracy", "val_loss", "val_accuracy"]


def test_where_a_score_is_not_defined_the_cross_entropy_decides(graph, entropies):
    labels = np.asarray(graph.labels)
    alone = Split("one class", range(40), 40 + np.flatnonzero(labels[40:] == 0), [])
    [record] = trained(graph, alone, "compiled", score="roc-auc", test_at="best-val")
    [same] = trained(graph, alone, "compiled", score="log-loss", test_at="best-val")
    assert np.isnan(record.curves["val_roc_auc"]).all()
    assert record.val_cross_entropy == same.val_cross_entropy


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_that_there_is_not_or_that_needs_two_classes_is_refused(graph, splits, kind):
    with pytest.raises(InputError, match=r"^score must be one of accuracy, balanced-accuracy, .*, got 'luck'\.$"):
        trained(graph, splits, kind, score="luck")
    register_score(Score("of_two", "of two", lambda tally: tally.loss, better="low", classes=2))
    try:
        with pytest.raises(InputError, match=r"^score 'of_two' needs 2 classes, but the graph has 3\.$"):
            trained(graph, splits, kind, score="of-two")
    finally:
        unregister_score("of_two")
