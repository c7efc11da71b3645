"""What a graph does not admit is said before anything is trained, with the way out."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from fishergcn.studies._robustness_feasible import check_attacks
from fishergcn.studies._robustness_settings import load_settings
from fishergcn.studies._robustness_study import run_study
from scipy import sparse

from fishergcn import Graph, datasets
from fishergcn.errors import InputError
from fishergcn.studies import _robustness_study as module


def ring(nodes=60, weight=1.0, features=None):
    rows = np.arange(nodes)
    half = sparse.csr_array((np.full(nodes, weight), (rows, (rows + 1) % nodes)), shape=(nodes, nodes))
    labels = rows % 2
    return Graph(half + half.T, np.eye(nodes) if features is None else features, labels, name="ring")


def test_embedded_data_admit_everything():
    for name in ("cora", "citeseer", "pubmed"):
        check_attacks(load_settings("full"), datasets.load(name))


def test_dense_features_are_admitted():
    check_attacks(load_settings("quick"), ring(features=np.random.default_rng(0).normal(size=(60, 3))))


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
    levels = {attack: (1.0,) if attack == "prbcd" else (0.5,), "links-removed": (0.5,)}
    with pytest.raises(InputError) as caught:
        check_attacks(load_settings("quick", levels=levels), graph)
    assert str(caught.value).startswith(f"{attack} cannot be measured on ring: ")
    assert words in str(caught.value)
    assert str(caught.value).endswith("; go on without it: --attack links-removed")


def test_several_obstacles_are_named_at_once():
    graph = ring(20, weight=2.0)
    with pytest.raises(
        InputError, match=r"bures-ball cannot .*; prbcd cannot .*; go on without them: --attack features"
    ):
        check_attacks(load_settings("quick").only(("bures-ball", "prbcd", "features")), graph)
    with pytest.raises(InputError, match="choose other attacks with --attack"):
        check_attacks(load_settings("quick").only(("prbcd",)), graph)


def test_a_missing_package_is_an_obstacle(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.contrib.nn.models", None)
    with pytest.raises(InputError, match=r"fishergcn\[pyg\].*go on without it: --attack links-added"):
        check_attacks(load_settings("quick").only(("prbcd", "links-added")), ring())


def test_nothing_is_trained_or_written_before(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "train_runs", None)
    settings = load_settings("quick", splits="per-class:4+6:1").only(("links-added", "prbcd"))
    with pytest.raises(InputError, match="--attack links-added"):
        run_study(settings, ring(weight=2.0), tmp_path / "new", torch.device("cpu"), lambda _: None)
    assert not (tmp_path / "new").exists()
