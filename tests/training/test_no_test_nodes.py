"""Runs without test nodes: trained as ever, with test scores that are not there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fishergcn import Graph, TrainConfig, train
from fishergcn.errors import InputError
from fishergcn.splits import Split
from fishergcn.training import Run, RunRecord, parse_method, prepare, train_chunk

RING = Graph.from_edges(
    [(node, (node + step) % 12) for node in range(12) for step in (1, 2)],
    features=np.random.default_rng(0).random((12, 3)),
    labels=np.arange(12) // 6,
    name="ring",
)
CONFIG = TrainConfig(max_epochs=4, hidden=4, rank=2)
TESTED = Split("tested", [0, 7], [1, 8], [2, 9, 10])
UNTESTED = Split("untested", [0, 7], [1, 8], [])
SCORES = ("accuracy", "loss", "cross_entropy")


@pytest.mark.parametrize("method", ["gcn", "fishergcn"])
def test_scores_are_nan_and_nothing_else_changes(method):
    # Under one name, so that both have the same random streams.
    tested, untested = (
        train(RING, method, Split("s", split.train, split.val, split.test), config=CONFIG)[0]
        for split in (TESTED, UNTESTED)
    )
    assert all(np.isnan(getattr(untested, f"test_{score}")) for score in SCORES)
    assert all(getattr(untested, f"val_{score}") == getattr(tested, f"val_{score}") for score in SCORES)
    assert untested.curves == tested.curves
    assert untested.status == "ok"


def test_side_by_side_with_a_tested_run():
    problem = prepare(RING, parse_method("gcn"), CONFIG)
    runs = [Run(UNTESTED, 1), Run(TESTED, 1)]
    untested, tested = train_chunk(problem, runs, torch.device("cpu"))
    [alone] = train_chunk(problem, runs[1:], torch.device("cpu"))
    assert all(np.isnan(getattr(untested, f"test_{score}")) for score in SCORES)
    for score in SCORES:
        assert getattr(tested, f"test_{score}") == pytest.approx(getattr(alone, f"test_{score}"), rel=1e-5)


def test_the_record_survives_json():
    [record] = train(RING, "gcn", UNTESTED, config=CONFIG)
    values = record.to_dict()
    assert values["test_accuracy"] is None
    assert np.isnan(RunRecord.from_dict(values).test_accuracy)


def test_validation_nodes_are_needed():
    with pytest.raises(InputError, match="split 's' has no val nodes; at least one is needed"):
        train(RING, "gcn", Split("s", [0, 7], [], [1]), config=CONFIG)
