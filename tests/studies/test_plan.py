"""A plan is what a preset says, plus the references, and can say how it differs from another."""

from __future__ import annotations

import json

import pytest

from fishergcn import studies
from fishergcn.errors import InputError
from fishergcn.studies import Plan, make_plan
from fishergcn.training import TrainConfig, control_of


@pytest.fixture(scope="module")
def quick():
    return studies.load_preset("quick")


@pytest.mark.parametrize(
    ("method", "samples", "control"),
    [
        ("gcn", 5, None),
        ("gcn-x5", 5, None),
        ("gcn-t", 5, None),
        ("fishergcn", 5, "gcn-x5"),
        ("fishergcn", 1, "gcn"),
        ("fishergcn-t", 10, "gcn-t-x10"),
        ("fishergcn-t-c", 5, "gcn-t-x5-c"),
        ("gcn-t-x5-c", 5, "gcn-t-x5"),
    ],
)
def test_control(method, samples, control):
    assert control_of(method, TrainConfig(samples=samples)) == control


def test_references_are_added_before_the_method(quick):
    plan = make_plan(quick, methods=["fishergcn-t-c"])
    assert [cell.name for cell in plan.cells] == ["gcn", "gcn-t-x5", "gcn-t-x5-c", "fishergcn-t-c"]
    assert [cell.name for cell in make_plan(quick, methods=["gcn"]).cells] == ["gcn"]


def test_variants_are_cells_of_their_own():
    plan = make_plan(studies.load_preset("ablation"), epochs=7)
    cells = {cell.name: cell for cell in plan.cells}
    assert cells["fishergcn radius=2"].config == TrainConfig(radius=2.0, max_epochs=7)
    assert cells["fishergcn radius=2"].control == "gcn-x5"
    assert cells["fishergcn samples=1"].control == "gcn"
    assert len(set(plan.cells)) == len(plan.cells)
    assert "fishergcn radius=2" not in {
        cell.name for cell in make_plan(studies.load_preset("ablation"), methods=["gcn"]).cells
    }


def test_runs_and_names(quick):
    plan = make_plan(quick, splits=2, seeds=3)
    assert list(plan.runs()) == [(f"shuffled:{split}", seed) for split in (2019, 2020) for seed in (2019, 2020, 2021)]
    assert len(plan) == 18


def test_plain_values_and_back(quick):
    plan = make_plan(quick)
    values = json.loads(json.dumps(plan.to_dict()))
    assert Plan.from_dict(values | {"command": "x", "created": "y"}) == plan
    assert plan.cells[2].control == "gcn-x5"
    assert values["published"][0]["accuracy"] == 0.8052


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"splits": 3}, r"splits shuffled:2019 … shuffled:2021 \(3\) instead of shuffled:2019 … shuffled:2028 \(10\)"),
        ({"seeds": 1}, "seeds 2019 instead of"),
        ({"epochs": 9}, "max_epochs 9 instead of 500"),
        ({"methods": ["gcn"]}, "cells gcn instead of gcn, gcn-x5, fishergcn"),
        ({"datasets": ["citeseer"]}, "datasets citeseer instead of cora"),
    ],
)
def test_differences(quick, changes, message):
    import re

    plan = make_plan(quick)
    assert plan.differences(make_plan(quick)) == []
    [difference] = make_plan(quick, **changes).differences(plan)
    assert re.match(message, difference)


def test_other_data_differ(quick):
    import dataclasses

    plan = make_plan(quick)
    other = dataclasses.replace(plan, digests={"cora": "0" * 64})
    assert plan.differences(other) == ["data of cora"]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("table3", {"splits": 2}, "public split"),
        ("quick", {"splits": 0}, "splits must be at least 1"),
        ("quick", {"seeds": 0}, "seeds must be at least 1"),
        ("quick", {"datasets": ["coar"]}, "did you mean 'cora'"),
        ("quick", {"methods": ["gnc"]}, "method must be"),
        ("quick", {"methods": []}, "at least one"),
        ("table1", {}, "trains nothing"),
    ],
)
def test_what_cannot_be_planned(name, changes, message):
    with pytest.raises(InputError, match=message):
        make_plan(studies.load_preset(name), **changes)
