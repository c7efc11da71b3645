"""What will not fit in memory is refused before it starts, in one sentence with what would fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import fishergcn
from fishergcn import Graph, TrainConfig
from fishergcn._base.memory import free_memory
from fishergcn.errors import InputError
from fishergcn.splits import Split
from fishergcn.training import _fitting
from fishergcn.training._work import COMPILED_BYTES

NODES = 400


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    links = [(i, i + 1) for i in range(NODES - 1)] + rng.integers(NODES, size=(NODES, 2)).tolist()
    return Graph.from_edges(
        [pair for pair in links if pair[0] != pair[1]],
        features=sparse.csr_array((rng.random((NODES, 20)) < 0.3) * 1.0),
        labels=np.arange(NODES) % 3,
    )


SPLIT = Split("mine", train=list(range(30)), val=list(range(30, 60)), test=list(range(60, 90)))


def test_memory_that_is_too_small_is_told_with_what_would_fit(graph, monkeypatch) -> None:
    array = 2 * NODES * 64  # numbers of one sample
    monkeypatch.setattr(_fitting, "free_memory", lambda: int(COMPILED_BYTES["activations"] * array * 2.5))
    with pytest.raises(InputError) as raised:
        fishergcn.train(graph, "fishergcn", [SPLIT], config=TrainConfig(rank=3), device="cpu")
    [text] = str(raised.value).splitlines()
    assert "a step of fishergcn on 400 nodes needs about 0.0 GB" in text
    assert "samples=2 or hidden=32 or mini-batches" in text
    for settings in ({"samples": 2}, {"hidden": 32}):
        config = TrainConfig(rank=3, max_epochs=2, **settings)
        [record] = fishergcn.train(graph, "fishergcn", [SPLIT], config=config, device="cpu")
        assert record.status == "ok"


def test_an_unknown_amount_of_memory_stops_nothing(graph, monkeypatch) -> None:
    monkeypatch.setattr(_fitting, "free_memory", lambda: None)
    [record] = fishergcn.train(graph, "gcn", [SPLIT], config=TrainConfig(max_epochs=2), device="cpu")
    assert record.status == "ok"


def test_free_memory_is_what_the_system_says() -> None:
    free = free_memory()
    assert free is None or 2**20 < free < 2**50
