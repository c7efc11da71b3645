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
from fishergcn.execution import Part, cost_of
from fishergcn.studies import make_plan
from fishergcn.training import BatchSettings, Sizes, parse_method

MILLION = Sizes(10**6, 10**7, 1.1e7, 100, 10**7, 10, train=10**4, val=5000, test=5000)


def part(method: str, runs: int = 4, **settings) -> Part:
    return Part("web", method, MILLION, parse_method(method), TrainConfig(**settings), runs)


def cost(each: Part, free: float, monkeypatch, **options):
    monkeypatch.setattr("fishergcn.execution._cost.free_memory", lambda: int(free))
    return cost_of([each], "cpu", **{"workers": 1, **options})


def test_what_fits_is_not_refused(monkeypatch):
    found = cost(part("fishergcn"), 1e12, monkeypatch)
    found.check()
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
    monkeypatch.setattr("fishergcn.execution._cost.free_memory", lambda: 10**8)
    monkeypatch.setattr("fishergcn.execution._train.prepare", lambda *_: pytest.fail("it began"))
    with pytest.raises(InputError, match=r"^gcn on cora needs about 0\.4 GB of memory, and 0\.1 GB are free\.$"):
        fishergcn.train(graph, "gcn", "public", device="cpu")


@pytest.mark.parametrize(
    "error",
    [MemoryError(), np.exceptions.TooHardError(), torch.OutOfMemoryError(), RuntimeError("DefaultCPUAllocator: not")],
)
def test_a_lack_of_memory_ends_in_one_sentence(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("fishergcn.execution._training.train_chunk", fail)
    graph = datasets.load("cora")
    if isinstance(error, np.exceptions.TooHardError):  # which is none
        with pytest.raises(type(error)):
            fishergcn.train(graph, "fishergcn", "public", device="cpu")
        return
    with pytest.raises(InputError) as raised:
        fishergcn.train(graph, "fishergcn", "public", settings="paper", device="cpu")
    [text] = str(raised.value).splitlines()
    assert text.startswith("there is not enough memory to train fishergcn on cora")


class Clock:
    """A quarter of a second later at every call."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


@pytest.fixture(scope="module")
def cora():
    return datasets.load("cora")


def real(graph, method: str, runs: int = 4, **settings) -> Part:
    config = TrainConfig(rank=2, **settings)
    return Part.of(graph, parse_method(method), config, [splits.public(graph)], runs)


def test_epochs_are_timed_and_bound_the_time_of_a_run(cora):
    [found] = cost_of([real(cora, "gcn", max_epochs=70)], "cpu", workers=1, clock=Clock()).parts
    assert (found.preparation, found.epoch, found.timed, found.longest) == (0.25, 0.25, 4, 70 * 0.25)
    assert str(found) == "an epoch takes 0.25 s, measured over 4; at most 70 epochs"
    both = cost_of([real(cora, "gcn", max_epochs=70)] * 2, "cpu", workers=2, clock=Clock())
    assert both.most_seconds == 0.25 + 8 * 70 * 0.25 / 2
    assert str(both).startswith("at most 70 s if no run stops early, in 2 processes on cpu; about 0.8")


def test_a_method_without_epochs_has_the_time_of_a_run(cora):
    [found] = cost_of([real(cora, "lp")], "cpu", workers=1, clock=Clock()).parts
    assert (found.longest, found.timed, found.side_by_side) == (0.25, 0, 4)
    assert str(found) == "a run takes 0.25 s, measured once"


def test_settings_that_change_no_work_are_timed_once(cora):
    changes = [{}, {"learning_rate": 0.02, "weight_decay": 0.0}, {"radius": 0.2}, {"max_epochs": 7}, {"dropout": 0.8}]
    found = cost_of([real(cora, "fishergcn", **each) for each in changes], "cpu", workers=1, clock=Clock()).parts
    assert [each.preparation for each in found] == [0.25, 0, 0, 0, 0]
    assert len({each.epoch for each in found}) == 1
    changes = [{}, {"radius": 0.0}, {"dropout": 0.0}, {"hidden": 8}, {"samples": 2}]
    found = cost_of([real(cora, "fishergcn", **each) for each in changes], "cpu", workers=1, clock=Clock()).parts
    assert all(each.preparation > 0 for each in found)


def test_epochs_have_the_threads_of_the_training(cora, monkeypatch):
    seen, real_chunk = [], fishergcn.training.train_chunk

    def note(*arguments, **options):
        seen.append(torch.get_num_threads())
        return real_chunk(*arguments, **options)

    monkeypatch.setattr("fishergcn.execution._cost.train_chunk", note)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        cost_of([real(cora, "gcn")], "cpu", workers=2)
        monkeypatch.setattr("fishergcn.execution._cost.many_rows", lambda rows: True)
        for workers in (1, 2):
            cost_of([real(cora, "gcn")], "cpu", workers=workers)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 2, 1]


def test_what_does_not_fit_is_not_timed(cora, monkeypatch):
    monkeypatch.setattr("fishergcn.execution._cost.free_memory", lambda: 10**8)
    monkeypatch.setattr("fishergcn.execution._cost.prepare", lambda *_, **__: pytest.fail("it began"))
    found = cost_of([real(cora, "gcn")], "cpu", workers=1)
    assert np.isnan(found.most_seconds)
    assert str(found.parts[0]) == "not timed"
    assert str(found).startswith("not timed, on cpu; about 0.4")
    assert found.to_dict()["most_seconds"] is found.to_dict()["parts"][0]["epoch_seconds"] is None
    with pytest.raises(InputError, match="GB are free"):
        found.check()


def test_links_drawn_from_moved_graphs_are_timed_without_an_embedding(cora):
    [found] = cost_of([real(cora, "fishergcn", perturbation="spatial", samples=1)], "cpu", workers=1).parts
    assert found.timed > 0


def test_mini_batches_are_timed_as_such(cora):
    batches = BatchSettings(70, (5, 5))
    [found] = cost_of([real(cora, "fishergcn")], "cpu", batches=batches, clock=Clock()).parts
    assert (found.epoch, found.timed) == (0.25, 4)


def test_the_cost_of_a_plan_is_that_of_its_cells():
    plan = make_plan("quick", splits=3, seeds=2)
    found = plan.cost("cpu", workers=1)
    assert [each.part.name for each in found.parts] == [cell.name for cell in plan.cells]
    assert sum(each.part.runs for each in found.parts) == len(plan)
    graph = datasets.load("cora")
    chosen = [splits.parse(graph, name) for name in plan.splits]
    for each, cell in zip(found.parts, plan.cells, strict=True):
        assert each.part.sizes == Sizes.of(graph, each.part.method, cell.config, chosen)
        assert each.longest == cell.config.max_epochs * each.epoch > 0
    assert make_plan("quick", splits=3, seeds=4).cost("cpu", workers=1).bytes == found.bytes


def test_attacks_of_the_same_networks_are_trained_once():
    plan = make_plan("robustness-quick")
    names = [each.part.name for each in plan.cost("cpu").parts]
    assert sorted(names) == sorted({cell.method for cell in plan.cells})


def test_several_processes_need_several_times_the_memory_and_less_time(cora):
    one, two = (cost_of([real(cora, "gcn", 100)], "cpu", workers, clock=Clock()) for workers in (1, 2))
    assert two.bytes == 2 * one.bytes
    assert one.most_seconds / 2 < two.most_seconds < 0.6 * one.most_seconds


def test_plain_values(monkeypatch):
    found = cost(part("gcn"), 1e12, monkeypatch)
    values = found.to_dict()
    assert values["memory_bytes"] == round(found.bytes)
    assert values["parts"][0]["runs"] == 4
    assert dataclasses.replace(found, workers=2).to_dict()["memory_bytes"] == pytest.approx(2 * values["memory_bytes"])
