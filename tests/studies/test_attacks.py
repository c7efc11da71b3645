"""Attacks are checked where they are planned: their settings, and what a graph does not admit, with the way out."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Graph
from fishergcn.errors import InputError
from fishergcn.splits import Split
from fishergcn.studies import ATTACKS, load_preset, make_plan, title_of

QUICK = load_preset("robustness-quick")
SPLIT = Split("mine", train=[0], val=[1], test=[2])


def ring(nodes=60, weight=1.0, features=None):
    rows = np.arange(nodes)
    half = sparse.csr_array((np.full(nodes, weight), (rows, (rows + 1) % nodes)), shape=(nodes, nodes))
    labels = rows % 2
    return Graph(half + half.T, np.eye(nodes) if features is None else features, labels, name="ring")


def planned(graph, *attacks, preset=QUICK):
    return make_plan(preset, datasets=[graph], methods=["gcn"], attacks=attacks, splits=SPLIT)


def test_embedded_data_admit_everything():
    plan = make_plan("robustness")
    assert plan.datasets == ("cora", "citeseer", "pubmed")
    assert {cell.options["attack"] for cell in plan.cells} == set(ATTACKS)


def test_dense_features_are_admitted():
    plan = planned(ring(features=np.random.default_rng(0).normal(size=(60, 3))), *ATTACKS)
    assert {cell.options["attack"] for cell in plan.cells} == set(ATTACKS)


@pytest.mark.parametrize(
    ("graph", "attack", "words"),
    [
        (ring(weight=2.0), "prbcd", "links must have weight 1"),
        (ring(20), "bures-ball", "has 50 directions, and the largest component has room for 19"),
        (ring(features=sparse.csr_array(np.ones((60, 4)))), "features", "at most a half, got 4 of 4"),
        (ring(3), "links-added", "2 links would be added, and 0 pairs of nodes are free"),
        (ring(3), "training-links", "2 links would be added, and 0 pairs of nodes are free"),
        (ring(4), "prbcd", "4 links would be flipped, more than half of the 6 pairs"),
    ],
)
def test_obstacles(graph, attack, words):
    level = 1.0 if attack == "prbcd" else 0.5
    attacks = {**QUICK.attacks, attack: {**QUICK.attacks[attack], "levels": (level,)}}
    with pytest.raises(InputError) as caught:
        planned(graph, attack, "links-removed", preset=dataclasses.replace(QUICK, attacks=attacks))
    assert str(caught.value).startswith(f"{attack} cannot be measured on ring: ")
    assert words in str(caught.value)
    assert str(caught.value).endswith("; run without it: --attack links-removed")


def test_several_obstacles_are_named_at_once():
    graph = ring(20, weight=2.0)
    with pytest.raises(InputError, match=r"bures-ball cannot .*; prbcd cannot .*; run without them: --attack features"):
        planned(graph, "bures-ball", "prbcd", "features")
    with pytest.raises(InputError, match="choose other attacks with --attack"):
        planned(graph, "prbcd")


def test_a_missing_package_is_an_obstacle(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.contrib.nn.models", None)
    with pytest.raises(InputError, match=r"fishergcn\[pyg\].*run without it: --attack links-added"):
        planned(ring(), "prbcd", "links-added")


def test_a_study_that_cannot_be_done_is_not_planned():
    with pytest.raises(InputError, match="--attack links-added"):
        make_plan(QUICK, datasets=[ring(weight=2.0)], attacks=["links-added", "prbcd"], splits="per-class:4+6:1")
    with pytest.raises(InputError, match="needs test nodes in every split"):
        make_plan(QUICK, datasets=[ring()], attacks=["links-added"], splits="held-out:50%:0")
    with pytest.raises(InputError, match="attack must be one of"):
        make_plan(QUICK, attacks=["fire"])
    with pytest.raises(InputError, match="name at least one each"):
        make_plan(QUICK, attacks=[])
    with pytest.raises(InputError, match="has no attacks to choose from"):
        make_plan("quick", attacks=["prbcd"])


@pytest.mark.parametrize(
    ("attacks", "words"),
    [
        ({"links-added": {"levels": (0.5, 0.2), "draws": 1}}, "must ascend"),
        ({"links-added": {"levels": (0.0,), "draws": 1}}, "greater than 0"),
        ({"links-added": {"draws": 1}}, "at least one, got None"),
        ({"links-added": {"levels": (0.5,)}}, "'draws' of attack links-added is missing"),
        ({"links-added": {"levels": (0.5,), "draws": 0}}, "'draws' of attack links-added must be between 1"),
        ({"links-added": {"levels": (0.5,), "draws": 1, "steps": 2}}, "unknown entry 'steps' of attack links-added"),
        ({"links-added": 3}, "must be an object with entries"),
        ({"fire": {"levels": (0.1,)}}, "attack must be one of"),
        ({}, "needs at least one"),
    ],
)
def test_settings_are_checked(attacks, words):
    with pytest.raises(InputError, match=words):
        dataclasses.replace(QUICK, attacks=attacks)


def test_the_preset_names_every_attack_and_enough_runs():
    full = load_preset("robustness")
    assert tuple(full.attacks) == ATTACKS
    assert full.datasets == ("cora", "citeseer", "pubmed")
    assert full.splits * full.seeds >= 10
    assert full.attacks["prbcd"]["runs"] >= 10
    assert max(full.attacks["links-added"]["levels"]) == max(full.attacks["links-removed"]["levels"]) == 0.5


def test_without_a_bound_the_ball_holds_operators():
    assert title_of({"attack": "bures-ball", "bound": 2}) == "worst graph in a Bures ball"
    assert title_of({"attack": "bures-ball"}) == "worst operator in a Bures ball"


@pytest.mark.parametrize("nodes", [24, 300])
def test_own_graphs_are_split_in_ways_that_they_admit(nodes):
    """A preset's shuffled splits need a published one, and 20 + 30 nodes of each class need large classes."""
    import numpy as np

    from fishergcn import Graph, studies

    rng = np.random.default_rng(0)
    links = [(i, j) for i in range(nodes) for j in range(i) if rng.random() < 5 / nodes]
    graph = Graph.from_edges(links, num_nodes=nodes, features=np.eye(nodes), labels=np.arange(nodes) % 2, name="own")
    plan = studies.make_plan("robustness-quick", datasets=[graph], methods=["gcn"], attacks=["links-removed"], splits=2)
    sizes = "20+30" if nodes == 300 else "4+2"
    assert plan.splits == (f"per-class:{sizes}:2019", f"per-class:{sizes}:2020")
    assert studies.make_comparison([graph], ["gcn"], splits=2).splits == plan.splits
