"""Scores, against scikit-learn, and the contract that each of them keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fishergcn import TrainConfig, best_run, load_model, save_models, train
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.splits import Split
from fishergcn.training import (
    Score,
    find_score,
    outside_modules,
    rank,
    register_score,
    registered_scores,
    unregister_score,
)

metrics = pytest.importorskip("sklearn.metrics")


def by_class(score, labels, likely):
    """The mean over the classes that have nodes, others too, of scikit-learn's score of one against the rest."""
    classes = likely.shape[1]
    wanted = [1] if classes == 2 else range(classes)
    found = [score(labels == each, likely[:, each]) for each in wanted if 0 < (labels == each).sum() < len(labels)]
    return np.mean(found) if found else math.nan


@pytest.mark.parametrize(
    ("name", "reference"), [("roc_auc", metrics.roc_auc_score), ("average_precision", metrics.average_precision_score)]
)
@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("nodes", [1, 4, 300])
def test_ranking_scores_are_those_of_scikit_learn(name, reference, classes, ties, nodes):
    rng = np.random.default_rng(classes + nodes)
    labels, logits = rng.integers(0, classes, nodes), rng.standard_normal((nodes, classes))
    if ties:  # nodes with the same logits, in groups of various sizes
        logits = logits[rng.integers(0, max(nodes // 4, 1), nodes)]
    likely = torch.log_softmax(torch.from_numpy(logits), -1).numpy()
    found = float(find_score(name).of(torch.from_numpy(logits), torch.from_numpy(labels)))
    assert found == pytest.approx(by_class(reference, labels, likely), rel=1e-12, nan_ok=True)
    if classes > 2 and len(np.unique(labels)) == classes and name == "roc_auc":
        whole = metrics.roc_auc_score(labels, np.exp(likely), multi_class="ovr")
        assert found == pytest.approx(whole, rel=1e-12)


def test_many_nodes_are_sorted_class_by_class(monkeypatch):
    logits, labels = torch.randn(50, 5, generator=torch.manual_seed(0)), torch.arange(50) % 5
    together = [find_score(name).of(logits, labels) for name in ("roc_auc", "average_precision")]
    monkeypatch.setattr("fishergcn.training._scores._AT_ONCE", 60)
    assert [find_score(name).of(logits, labels) for name in ("roc_auc", "average_precision")] == together


def test_a_name_is_found_in_a_record_too():
    assert find_score("val_log_loss") is find_score("cross_entropy") is find_score("log-loss")
    for name in ("accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "average-precision"):
        assert find_score(name) is find_score(name.replace("-", "_"))
        assert find_score(name).name == name.replace("-", "_")
    with pytest.raises(InputError, match=r"score must be one of accuracy, .*, got 'luck'"):
        find_score("luck")


def test_values_and_differences_have_the_unit_of_their_score():
    share, entropy = find_score("macro-f1"), find_score("log-loss")
    assert (share.text(0.81234), share.number(0.81234), share.difference(-0.0024)) == ("81.23%", "81.23", "−0.24")
    assert (entropy.text(0.4321), entropy.number(0.4321), entropy.difference(0.0024)) == ("0.4321", "0.4321", "+0.0024")
    assert (share.unit, share.head, share.direction) == (" points", "macro F1 %", "higher is better")
    assert (entropy.unit, entropy.head, entropy.direction) == ("", "cross entropy", "lower is better")
    assert share.number(None) == entropy.text(math.nan) == share.text(math.nan) == "-"


def share(tally):
    return np.ones(len(tally.confusion))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda: Score("luck", of=share), "score 'luck': title must be a text, got ''"),
        (lambda: Score("luck", "luck"), "score 'luck': of must be a function, got None"),
        (lambda: Score("luck", "luck", share, classes=1), "score 'luck': classes must be None or at least 2, got 1"),
        (lambda: Score("Luck!", "luck", share), "names of a score must be lower-case identifiers, got 'Luck!'"),
        (lambda: Score("loss", "luck", share), "there is a score named 'loss' already"),
        (lambda: Score("luck", "luck", share, aliases=("log_loss",)), "there is a score named 'log_loss' already"),
        (
            lambda: Score("luck", "luck", lambda tally: tally.confusion),
            r"score 'luck' must be one number for each of 2 runs, got shape \(2, 12, 12\)",
        ),
        (
            lambda: Score("luck", "luck", lambda logits, labels: logits, gathers=True),
            "score 'luck' must be one number for each of 2 runs",
        ),
        (lambda: Score("luck", "luck", lambda tally: tally.luck), "score 'luck' cannot be computed: .*no attribute"),
    ],
)
def test_a_broken_score_is_refused_in_one_sentence(broken, message):
    before = registered_scores()
    with pytest.raises(InputError, match=message):
        register_score(broken())
    assert registered_scores() == before


def test_what_is_built_in_stays():
    with pytest.raises(InputError, match="no score 'accuracy' was registered"):
        unregister_score("accuracy")


def test_a_score_of_the_program_itself_cannot_be_sent_to_workers():
    exec("register(Score('luck', 'luck', share))", {"__name__": "__main__", "register": register_score,
                                                    "Score": Score, "share": share})  # fmt: skip
    ring = Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)], features=np.eye(4), labels=[0, 1, 0, 1])
    splits = [Split(name, [0, 1], [2], [3]) for name in "ab"]
    try:
        with pytest.raises(InputError, match="while the main program registers a network, a score or a matrix, which"):
            train(ring, "gcn", splits, config=TrainConfig(max_epochs=1), device="cpu", workers=2)
    finally:
        unregister_score("luck")


OWN = '''
from fishergcn.training import Score, register_score


def brier(logits, labels):
    """The mean squared distance of the probabilities from what is true."""
    off = logits.double().softmax(-1)
    off[range(len(labels)), labels] -= 1
    return off.square().sum(1).mean()


register_score(Score("brier", "Brier score", brier, better="low", gathers=True))
register_score(Score("sure", "sure hits", lambda tally: tally.confusion[:, 0, 0], classes=2))
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Two scores in a file of their own."""
    (tmp_path / "own_scores_of_a_test.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    import own_scores_of_a_test

    yield own_scores_of_a_test
    for name in ("brier", "sure"):
        unregister_score(name)
    import sys

    del sys.modules["own_scores_of_a_test"]


def test_a_score_of_ones_own_is_one_file(own, tmp_path, capsys):
    from fishergcn.cli import app

    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    links = [(a, b) for a in range(60) for b in range(a) if labels[a] == labels[b] and rng.random() < 0.2]
    graph = Graph.from_edges(links, features=rng.random((60, 5)) + np.eye(5)[labels], labels=labels, name="own")
    split = Split("mine", train=range(20), val=range(20, 40), test=range(40, 60))
    records = train(graph, "gcn", split, 3, TrainConfig(max_epochs=20), keep_weights=True)
    assert outside_modules() == ("own_scores_of_a_test",)

    # In records, by the same logits from which the model makes its probabilities.
    assert all(record.test_brier > 0 and math.isnan(record.test_sure) for record in records)
    pair = train(graph, "gcn", split, 2, TrainConfig(max_epochs=20), workers=2, device="cpu")  # which import the file
    assert [record.test_brier for record in pair] == [record.test_brier for record in records[:2]]
    assert rank(records, "brier") == sorted(records, key=lambda record: record.val_brier)
    best = best_run(records, "brier")
    assert best.val_brier == min(record.val_brier for record in records)

    # Saved, with its column on the card, and loaded; whoever does not know the score keeps its value.
    save_models(tmp_path / "model", graph, [best], split)
    model = load_model(tmp_path / "model")
    assert model.record.test_brier == best.test_brier
    off = model.probabilities(raw=True)[40:] - np.eye(3)[labels[40:]]
    assert best.test_brier == pytest.approx((off**2).sum(1).mean(), rel=1e-5)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "| Brier score |" in card
    assert f"| {best.test_brier:.4f} |" in card
    assert "sure hits" not in card

    # In the table of the command.
    graph.save(tmp_path / "own.npz")
    with pytest.raises(SystemExit) as ended:
        app(["train", "--graph", str(tmp_path / "own.npz"), "--method", "gcn", "--epochs", "3", "--quiet"])
    assert ended.value.code == 0
    assert "Brier score" in capsys.readouterr().out
