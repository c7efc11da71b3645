"""A selection as people read it: one table of candidates, and the card of the model that came of it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from fishergcn import Graph, TrainConfig, load_model, train
from fishergcn.models import Candidate, Ensemble, Selection, TrainedModel
from fishergcn.splits import Split

CANDIDATES = (
    Candidate("mlp", "mlp", {}, "features alone", 0.61, 0.5, 0.72, 1.25, 3, 2.0, 0.4),
    Candidate("gcn-t", "gcn-t", {}, "over walks of several steps", left_out="it would not fit in memory"),
    Candidate("gcn", "gcn", {"hidden": (4, 4)}, "graph convolutions", 0.812, 0.75, 0.874, 0.64, 3, 4.25, 0.6),
)
FOUND = Selection(
    CANDIDATES, "weighted mean", value=0.8, low=0.7, high=0.9, majority=0.5, majority_low=0.2, judges=40, splits=3,
    sentences=("Expected accuracy: 80.0%.", "An ensemble was chosen.", "The links help."),
)  # fmt: skip


def test_the_table_has_the_best_first_and_says_why_others_were_left_out():
    heads, rows = FOUND.table()
    assert heads == ["candidate", "what it is", "accuracy", "95% interval", "cross entropy, calibrated", "runs",
                     "seconds", "share"]  # fmt: skip
    assert rows[0] == ["gcn", "graph convolutions", "81.2%", "75.0% to 87.4%", "0.6400", "3", "4.2", "60%"]
    assert rows[1][0] == "mlp"
    assert rows[2] == ["gcn-t", "over walks of several steps; left out: it would not fit in memory", "-", "-", "-",
                       "0", "0.0", ""]  # fmt: skip


def test_a_choice_by_cross_entropy_says_that_it_is_calibrated_and_ranks_low_values_first():
    tried = [dataclasses.replace(each, value=each.cross_entropy) for each in CANDIDATES]
    heads, rows = dataclasses.replace(FOUND, candidates=tuple(tried), score="cross_entropy").table()
    assert heads[2:5] == ["cross entropy, calibrated", "95% interval", "runs"]
    assert [row[0] for row in rows] == ["gcn", "mlp", "gcn-t"]


@pytest.mark.parametrize(("value", "low", "useful"), [(0.8, 0.01, True), (0.8, -0.01, False), (math.nan, 0.1, None)])
def test_a_model_is_useful_where_it_is_clearly_better_than_the_most_frequent_class(value, low, useful):
    assert dataclasses.replace(FOUND, value=value, majority_low=low).useful is useful


def test_in_a_selection_of_version_0_2_the_chosen_candidate_is_the_model():
    one = {"method": "gcn", "settings": {}, "runs": 2, "seconds": 1.0, "left_out": "", "val_cross_entropy": 0.5}
    values = {
        "candidates": [{"name": name, "val_accuracy": 0.5, **one} for name in ("gcn", "gcn-t")],
        "chosen": "gcn-t", "sentences": [], "seconds": 1.0,
        **dict.fromkeys(("gain", "low", "high", "homophily")),
    }  # fmt: skip
    found = Selection.from_dict(values)
    assert [each.share for each in found.candidates] == [0.0, 1.0]
    assert found.table()[1][0][1] == "gcn"  # no words: the method


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(0)
    labels = np.arange(24) % 2
    links = [(node, (node + 2) % 24) for node in range(24)]
    graph = Graph.from_edges(links, features=rng.random((24, 3)), labels=labels, name="ring")
    split = Split("mine", np.arange(8), np.arange(8, 16), np.arange(16, 24))
    config = TrainConfig(max_epochs=3, hidden=4)
    return [
        TrainedModel.from_records(graph, train(graph, name, split, config=config, keep_weights=True), split)
        for name in ("gcn", "mlp")
    ]


def test_the_card_leads_with_what_to_expect_and_shows_the_candidates(trained, tmp_path):
    dataclasses.replace(trained[0], selection=FOUND).save(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert card.splitlines()[2] == "Expected accuracy: 80.0%. An ensemble was chosen."
    chosen = card[card.index("## How it was chosen") : card.index("## Settings")]
    assert "| candidate | what it is | accuracy | 95% interval | cross entropy, calibrated |" in chosen
    assert chosen.index("| gcn |") < chosen.index("| mlp |") < chosen.index("| gcn-t |")
    assert "left out: it would not fit in memory" in chosen
    assert "cross entropy, raw probabilities" in card[: card.index("## How it was chosen")]
    assert "This is the only run" not in card


def test_the_card_of_an_ensemble_lists_its_members(trained, tmp_path):
    both = Ensemble.from_models(trained, shares=[0.6, 0.4], temperatures=[1.5, 0.25])
    both.save(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "| gcn | 60% | 1.50 | hidden [4], max_epochs 3 |" in card
    assert "| mlp | 40% | 0.25 |" in card
    assert "cross entropy, mean of calibrated members" in card
    assert "raw probabilities" not in card
    assert "<caption>ensemble</caption>" in load_model(tmp_path / "model")._repr_html_()
    assert repr(load_model(tmp_path / "model")).startswith("Ensemble(2 members, 'ring', 'ensemble', 'mine'")
