"""What will not fit is refused before it starts, with what would fit; a lack of memory ends in one sentence."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import torch

import fishergcn
from fishergcn import TrainConfig, datasets, splits
from fishergcn.errors import InputError
from fishergcn.execution import Part, _cost, _training, cost_of
from fishergcn.studies import make_plan
from fishergcn.training import BatchSettings, Pace, Sizes, parse_method

CPU = torch.device("cpu")
USUAL = Pace.usual(CPU)
MILLION = Sizes(10**6, 10**7, 1.1e7, 100, 10**7, 10, train=10**4, val=5000, test=5000)


def part(method: str, runs: int = 4, **settings) -> Part:
    return Part("web", method, MILLION, parse_method(method), TrainConfig(**settings), runs)


def cost(each: Part, free: float, monkeypatch, **options):
    monkeypatch.setattr(_cost, "free_memory", lambda: int(free))
    return cost_of([each], "cpu", pace=USUAL, **{"workers": 1, **options})


def test_what_fits_is_not_refused(monkeypatch):
    found = cost(part("fishergcn"), 1e12, monkeypatch)
    found.check()
    assert found.seconds <= found.most_seconds
    assert "GB of memory of 1000.0 GB that are free" in str(found)


@pytest.mark.parametrize("setting", ["samples", "hidden", "mini-batches", "workers"])
def test_what_is_proposed_fits(monkeypatch, setting):
    each = part("fishergcn", samples=20)
    needed = cost(each, 1e12, monkeypatch).bytes
    workers = 4 if setting == "workers" else 1
    free = 1.5 * needed if setting == "workers" else 0.6 * needed
    with pytest.raises(InputError) as raised:
        cost(each, free, monkeypatch, workers=workers).check()
    [text] = str(raised.value).splitlines()
    assert re.match(r"fishergcn on web needs about [\d.]+ GB of memory.*, and [\d.]+ GB are free; .* would fit\.", text)
    proposed = {
        "samples": lambda: {"each": part("fishergcn", samples=int(re.search(r"samples=(\d+)", text)[1]))},
        "hidden": lambda: {"each": part("fishergcn", samples=20, hidden=int(re.search(r"hidden=(\d+)", text)[1]))},
        "mini-batches": lambda: {"each": each, "batches": BatchSettings(512, (10, 10))},
        "workers": lambda: {"each": each, "workers": int(re.search(r"workers=(\d+)", text)[1])},
    }[setting]()
    assert setting in text
    cost(proposed.pop("each"), free, monkeypatch, **proposed).check()


def test_training_is_refused_before_anything_is_computed(monkeypatch):
    graph = datasets.load("cora")
    monkeypatch.setattr(_cost, "free_memory", lambda: 10**8)
    monkeypatch.setattr(fishergcn.execution._train, "prepare", lambda *_: pytest.fail("it began"))
    with pytest.raises(InputError, match=r"^gcn on cora needs about 0\.4 GB of memory, and 0\.1 GB are free\.$"):
        fishergcn.train(graph, "gcn", "public", device="cpu")


@pytest.mark.parametrize(
    "error",
    [MemoryError(), np.exceptions.TooHardError(), torch.OutOfMemoryError(), RuntimeError("DefaultCPUAllocator: not")],
)
def test_a_lack_of_memory_ends_in_one_sentence(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(_training, "train_chunk", fail)
    graph = datasets.load("cora")
    if isinstance(error, np.exceptions.TooHardError):  # which is none
        with pytest.raises(type(error)):
            fishergcn.train(graph, "fishergcn", "public", device="cpu")
        return
    with pytest.raises(InputError) as raised:
        fishergcn.train(graph, "fishergcn", "public", settings="paper", device="cpu")
    [text] = str(raised.value).splitlines()
    assert text.startswith("there is not enough memory to train fishergcn on cora")


def test_the_cost_of_a_plan_is_that_of_its_cells(monkeypatch):
    monkeypatch.setattr(_cost, "pace_of", Pace.usual)
    plan = make_plan("quick", splits=3, seeds=2)
    found = plan.cost("cpu", workers=1)
    assert [each.part.name for each in found.parts] == [cell.name for cell in plan.cells]
    assert sum(each.part.runs for each in found.parts) == len(plan)
    graph = datasets.load("cora")
    chosen = [splits.parse(graph, name) for name in plan.splits]
    for each, cell in zip(found.parts, plan.cells, strict=True):
        assert each.part.sizes == Sizes.of(graph, each.part.method, cell.config, chosen)
    more = make_plan("quick", splits=3, seeds=4).cost("cpu", workers=1)
    assert found.seconds < more.seconds < 2 * found.seconds
    assert more.bytes == found.bytes


def test_attacks_of_the_same_networks_are_trained_once(monkeypatch):
    monkeypatch.setattr(_cost, "pace_of", Pace.usual)
    plan = make_plan("robustness-quick")
    names = [each.part.name for each in plan.cost("cpu").parts]
    assert sorted(names) == sorted({cell.method for cell in plan.cells})


def test_several_processes_need_several_times_the_memory_and_less_time(monkeypatch):
    one, two = (cost(part("gcn", runs=100), 1e12, monkeypatch, workers=workers) for workers in (1, 2))
    assert two.bytes == 2 * one.bytes
    assert one.seconds / 2 < two.seconds < 0.6 * one.seconds


def test_plain_values(monkeypatch):
    found = cost(part("gcn"), 1e12, monkeypatch)
    values = found.to_dict()
    assert values["seconds"] == found.seconds
    assert values["parts"][0]["runs"] == 4
    assert dataclasses.replace(found, workers=2).to_dict()["memory_bytes"] == pytest.approx(2 * values["memory_bytes"])
