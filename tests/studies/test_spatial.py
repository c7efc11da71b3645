"""Training on graphs of a moved embedding: in a study, with workers, and from Python with graphs of one's own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fishergcn import Graph, TrainConfig, train
from fishergcn.errors import InputError
from fishergcn.execution import train_job
from fishergcn.geometry.embedding import moved_graphs, spectral_embedding
from fishergcn.splits import Split
from fishergcn.studies import make_comparison, run

CONFIG = TrainConfig(hidden=4, max_epochs=4, samples=2, perturbation="spatial", radius=0.5)
SPLIT = Split("mine", train=[0, 5, 10, 15, 20, 25], val=[1, 6, 11], test=[2, 7, 12])


def ring(nodes=30, islands=0):
    rng = np.random.default_rng(0)
    links = [(i, (i + 1) % nodes) for i in range(nodes)] + [(0, 7), (3, 19)]
    size = nodes + islands
    return Graph.from_edges(
        links, num_nodes=size, features=rng.random((size, 5)), labels=np.arange(size) % 3, name="ring"
    )


def moved(graph, distance=2.0):
    return moved_graphs(graph.adjacency, spectral_embedding(graph.adjacency), distance, samples=4)


def test_graphs_that_did_not_move_are_the_control():
    graph = ring()
    one, two = (
        train(graph, method, SPLIT, config=CONFIG, device="cpu", moved=moved(graph, 0.0))[0].curves
        for method in ("fishergcn", "gcn-x2")
    )
    np.testing.assert_allclose(one["val_loss"], two["val_loss"], rtol=1e-5)


def test_moved_graphs_are_trained_on():
    graph = ring()
    far = train(graph, "fishergcn", SPLIT, config=CONFIG, device="cpu", moved=moved(graph, 4.0))[0]
    near = train(graph, "fishergcn", SPLIT, config=CONFIG, device="cpu", moved=moved(graph, 0.0))[0]
    assert np.abs(np.array(far.curves["val_loss"]) - near.curves["val_loss"]).max() > 1e-4


def test_workers_find_the_same_graphs():
    graph = ring()
    alone, beside = (
        [
            each.test_cross_entropy
            for each in train(graph, "fishergcn", SPLIT, 2, CONFIG, "cpu", workers, moved=moved(graph))
        ]
        for workers in (1, 2)
    )
    assert alone == beside


def test_graphs_to_draw_from_are_needed():
    with pytest.raises(InputError, match="needs moved"):
        train(ring(), "fishergcn", SPLIT, config=CONFIG, device="cpu")


def test_the_pool_of_a_study_has_links_of_the_graph(tmp_path):
    problems = []

    def watching(job, device, on_epoch=None):
        problems.append(job.problem)
        return train_job(job, device, on_epoch)

    graph = ring(islands=3)
    plan = make_comparison([graph], ["fishergcn"], splits=SPLIT, config=dataclasses.replace(CONFIG, radius=0.2))
    with run(plan, tmp_path, device="cpu", workers=1, measure=watching) as runs:
        assert runs.counts() == {"ok": len(plan)}
    [weights] = [each.moved for each in problems if each.method.name == "fishergcn"]
    assert weights.shape == (16, graph.num_links)
    assert np.isfinite(weights).all()
    assert (weights > 0).all()
    assert 1e-3 < np.abs(np.log(weights)).mean() < 1


def test_islands_lie_in_the_middle():
    Y = spectral_embedding(ring(islands=3).adjacency)
    assert np.abs(Y[30:]).max() < 0.1 < np.abs(Y[:30]).max(axis=1).min() * 10
