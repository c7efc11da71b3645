"""What the runner notes about the data is what a report would have to compute."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fishergcn import Graph, splits, studies
from fishergcn.errors import DataFileError
from fishergcn.propagation import high_order, renormalized
from fishergcn.spectrum import top_spectrum
from fishergcn.studies import RunStore


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    links = np.triu(rng.random((150, 150)) < 0.04, 1)
    return Graph((links | links.T).astype(float), rng.random((150, 5)), np.arange(150) % 3, name="small")


@pytest.fixture(scope="module")
def study(graph):
    methods, split = ["fishergcn", "fishergcn-t"], "per-class:5+5:1"
    plan = studies.make_plan("quick", datasets=[graph], methods=methods, splits=[split], seeds=1, epochs=1)
    wider = [
        dataclasses.replace(
            cell, name="fishergcn wide", variant="wide", config=dataclasses.replace(cell.config, rank=12)
        )
        for cell in plan.cells
        if cell.method == "fishergcn"
    ]
    other = [
        dataclasses.replace(
            cell, name="fishergcn-t far", variant="far", config=dataclasses.replace(cell.config, order=2)
        )
        for cell in plan.cells
        if cell.method == "fishergcn-t"
    ]
    return dataclasses.replace(plan, cells=(*plan.cells, *wider, *other))


@pytest.fixture(scope="module")
def runs(study, tmp_path_factory):
    with studies.run(study, tmp_path_factory.mktemp("runs"), device="cpu", workers=1) as runs:
        yield runs


def test_eigenvalues_of_every_matrix(runs, graph):
    cells = {cell.name: cell for cell in runs.plan.cells}
    plain, far = renormalized(graph.adjacency), high_order(graph.adjacency, order=2, threshold=1e-4)
    for name, matrix, rank in (("fishergcn", plain, 10), ("fishergcn wide", plain, 12), ("fishergcn-t far", far, 10)):
        found = runs.spectrum(cells[name])
        assert len(found) == 3 * rank
        np.testing.assert_allclose(found, top_spectrum(matrix, rank=3 * rank).eigenvalues, rtol=1e-8)
    noted = sorted(name for name in runs.facts if name.startswith("spectrum"))
    assert noted == [f"spectrum small {matrix}" for matrix in ("high-order", "high-order 2 0.0001", "renormalized")]
    assert len(runs.facts["spectrum small renormalized"]) == 36  # for the cell that perturbs most


@pytest.mark.parametrize("value", ["x", [1.0, "x"], {"a": 1}, [None]])
def test_damaged_eigenvalues_are_refused(filled, value):
    with RunStore(filled, writable=True) as store:
        store.remember("spectrum cora renormalized", lambda: value)
        with pytest.raises(DataFileError, match="'spectrum cora renormalized' of the facts must be"):
            store.spectrum(store.plan.cells[2])


def test_sizes(runs, graph):
    assert runs.facts["data small"] == {"nodes": 150, "links": graph.num_links, "features": 5, "classes": 3}


def test_scores_of_the_most_frequent_class(runs, graph):
    tests = [splits.parse(graph, name) for name in runs.plan.splits]
    common = [np.bincount(graph.labels[each.train]).argmax() for each in tests]
    right = [(graph.labels[each.test] == label).mean() for each, label in zip(tests, common, strict=True)]
    found = runs.constant("small")
    assert found["accuracy"] == pytest.approx(np.mean(right))
    assert found["roc_auc"] == pytest.approx(0.5)
    assert found["balanced_accuracy"] == pytest.approx(1 / 3)
    assert runs.constant("nothing of the kind") == {}


@pytest.mark.parametrize("value", ["x", [1.0], {"accuracy": "x"}])
def test_damaged_scores_of_the_most_frequent_class_are_refused(filled, value):
    with RunStore(filled, writable=True) as store:
        store.remember("constant cora", lambda: value)
        with pytest.raises(DataFileError, match="the facts"):
            store.constant("cora")


def test_nothing_is_computed_twice_and_only_what_is_needed(runs, study, tmp_path, monkeypatch):
    folder, made = runs.path.parent, []
    remember = RunStore.remember
    monkeypatch.setattr(
        RunStore, "remember", lambda self, name, make: remember(self, name, lambda: made.append(name) or make())
    )
    studies.run(study, folder, device="cpu", workers=1).close()
    assert made == []
    plan = studies.make_plan("quick", methods=["gcn-x5"], splits=1, seeds=1, epochs=1)
    with studies.run(plan, tmp_path, device="cpu", workers=1) as others:
        assert "spectrum cora renormalized" not in others.facts
        assert "data cora" in made
        assert others.spectrum(others.plan.cells[0]) is None
