"""Linear networks: the weights are the ridge solution, whatever the split, the weights of nodes and the device."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import Graph, TrainConfig, TrainedModel, fit, renormalized, train
from fishergcn.execution import Part, cost_of
from fishergcn.models import load_model
from fishergcn.splits import Split
from fishergcn.studies import CANDIDATES
from fishergcn.training import Sizes, _solve, held_bytes, parse_method, work_of
from fishergcn.training.tasks._classes import SHARPNESS

EXACT = TrainConfig(dtype="float64", scaling="none", bias=True, weight_decay=5e-3)
SPLIT = Split("one", range(30), range(30, 45), range(45, 60))


def planted(dense: bool = False, nodes: int = 60) -> Graph:
    rng = np.random.default_rng(3)
    labels = np.arange(nodes) % 3
    upper = np.triu(rng.random((nodes, nodes)) < np.where(labels[:, None] == labels, 0.2, 0.04), 1)
    features = (rng.random((nodes, 9)) < 0.4) * rng.random((nodes, 9)) + np.eye(3, 9)[labels]
    links = sparse.csr_array((upper | upper.T).astype(float))
    return Graph(links, features if dense else sparse.csr_array(features), labels, name="planted")


GRAPH = planted()


def solved(graph: Graph = GRAPH, split: Split = SPLIT, **settings) -> dict[str, np.ndarray]:
    config = dataclasses.replace(EXACT, **settings)
    [record] = train(graph, "linear", split, 1, config, device="cpu", keep_weights=True)
    assert (record.status, record.epochs, record.curves) == ("ok", 0, {})
    return record.weights


def oracle(graph: Graph, split: Split, shares: np.ndarray, decay: float, bias: bool) -> dict[str, np.ndarray]:
    """Least squares with the rows √(N s) Φ and √(N wd) I, on centered columns where there is a bias."""
    matrix, own = renormalized(graph.adjacency).toarray(), np.asarray(sparse.csr_array(graph.features).todense())
    known = np.eye(graph.num_classes)[graph.labels[split.train]]
    features = np.hstack([own, matrix @ own, matrix @ matrix @ own])[split.train]
    center, level = (shares @ features, shares @ known) if bias else (np.zeros(features.shape[1]), np.zeros(3))
    count, root = len(shares), np.sqrt(len(shares) * shares)[:, None]
    rows = np.vstack([root * (features - center), np.sqrt(count * decay) * np.eye(features.shape[1])])
    wanted = np.vstack([root * (known - level), np.zeros((features.shape[1], known.shape[1]))])
    weights = np.linalg.lstsq(rows, wanted)[0]
    found = {f"weights.{steps}": each for steps, each in enumerate(np.split(weights, 3))}
    return found | ({"biases.0": level - center @ weights} if bias else {})


def check(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, each in expected.items():
        np.testing.assert_allclose(found[name] / SHARPNESS, each, rtol=0, atol=1e-6)


def even(split: Split = SPLIT) -> np.ndarray:
    return np.full(len(split.train), 1 / len(split.train))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("decay", [5e-4, 5e-2])
@pytest.mark.parametrize("dense", [True, False])
def test_the_weights_are_the_ridge_solution(bias, decay, dense):
    graph = planted(dense)
    check(solved(graph, bias=bias, weight_decay=decay), oracle(graph, SPLIT, even(), decay, bias))


def test_in_float32_the_same_is_solved_and_then_rounded():
    found = solved(dtype="float32")
    assert {each.dtype for each in found.values()} == {np.dtype(np.float32)}
    check(found, oracle(GRAPH, SPLIT, even(), 5e-3, bias=True))


def test_weights_of_nodes_and_classes_count():
    weight = np.random.default_rng(0).random(60)
    weight[SPLIT.train[:3]] = 0.0
    shares = weight[SPLIT.train] / weight[SPLIT.train].sum()
    split = dataclasses.replace(SPLIT, node_weight=weight)
    check(solved(split=split), oracle(GRAPH, SPLIT, shares, 5e-3, bias=True))
    uneven = Split("uneven", [*range(0, 30, 3), 1, 2, 4], SPLIT.val, SPLIT.test)
    counts = np.bincount(GRAPH.labels[uneven.train])
    shares = 1 / (3 * counts[GRAPH.labels[uneven.train]])
    check(solved(split=uneven, class_weight="balanced"), oracle(GRAPH, uneven, shares, 5e-3, bias=True))


@pytest.mark.parametrize("bias", [True, False])
def test_a_class_without_training_nodes_has_no_weights(bias):
    split = Split("two classes", [0, 1, 3, 4, 6, 7], SPLIT.val, SPLIT.test)
    with pytest.warns(UserWarning, match="no training node of class 2"):
        found = solved(split=split, bias=bias)
    check(found, oracle(GRAPH, split, even(split), 5e-3, bias))
    assert not np.any(found["weights.0"][:, 2])


def test_one_class_alone_is_always_predicted():
    split = Split("one class", [0, 3, 6], SPLIT.val, SPLIT.test)
    with pytest.warns(UserWarning, match="no training node of class"):
        [record] = train(GRAPH, "linear", split, 1, EXACT, device="cpu", keep_weights=True)
    found = record.weights
    assert not any(np.any(found[f"weights.{steps}"]) for steps in range(3))
    np.testing.assert_allclose(found["biases.0"], [SHARPNESS, 0, 0])
    assert set(record.outputs["test"].argmax(axis=1)) == {0}


def test_constant_features_are_solved():
    graph = planted(dense=True).replace(features=np.ones((60, 2)))
    check(solved(graph), oracle(graph, SPLIT, even(), 5e-3, bias=True))


def test_it_comes_back_from_disk_and_takes_new_nodes(tmp_path):
    model = TrainedModel.from_records(
        GRAPH, train(GRAPH, "linear", SPLIT, 1, EXACT, device="cpu", keep_weights=True), SPLIT
    )
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.probabilities(), model.probabilities())
    np.testing.assert_allclose(model.logits().numpy()[SPLIT.test, 0], model.record.outputs["test"], atol=1e-6)
    links, features = sparse.csr_array(GRAPH.adjacency[[3, 8]]), GRAPH.features[[3, 8]].toarray()
    torch.testing.assert_close(again.logits_of_new(links, features), model.logits_of_new(links, features))


def test_all_seeds_and_two_processes_give_the_same():
    options = {"seeds": 2, "config": TrainConfig(bias=True), "device": "cpu", "keep_weights": True}
    one, two = (train(GRAPH, "linear", SPLIT, workers=workers, **options) for workers in (1, 2))
    for record in (*one, *two):
        for name, each in one[0].weights.items():
            np.testing.assert_array_equal(record.weights[name], each)


def test_what_does_not_converge_is_said(monkeypatch):
    monkeypatch.setattr(_solve, "_STEPS", 3)
    with pytest.warns(UserWarning, match="'one' was solved to a relative residual of .* in 3 steps; with a larger"):
        solved()


def test_conjugate_gradients_stop_at_the_residual():
    rng = np.random.default_rng(0)
    square = rng.normal(size=(20, 20))
    matrix, wanted = torch.tensor(square @ square.T + np.eye(20)), torch.tensor(rng.normal(size=20))
    found, residual = _solve.conjugate_gradients(matrix.mv, wanted, 1e-9, 1000)
    assert residual <= 1e-9
    torch.testing.assert_close(found, torch.linalg.solve(matrix, wanted), rtol=0, atol=1e-6)
    _, early = _solve.conjugate_gradients(matrix.mv, wanted, 1e-9, 3)
    assert 1e-9 < early < 1
    assert _solve.conjugate_gradients(matrix.mv, torch.zeros(20, dtype=torch.float64), 1e-9, 1000)[1] == 0.0


def test_it_is_the_first_network_that_fit_tries():
    names = [each.name for each in CANDIDATES]
    own = [each for each in CANDIDATES if each.method == "linear"]
    assert names[1:3] == ["linear", "linear, by row"] == [each.name for each in own]
    # Settings of their own: what suits them must not be taken over by the networks that follow.
    assert not any(each.prepared for each in own)
    assert {each.kind for each in own} == {"both"}
    chosen = fit(GRAPH, SPLIT, "cpu", methods=["linear", "lp"], workers=1, ensemble=False)
    tried = {each.name: each.words for each in chosen.selection.candidates if each.tried}
    assert tried == {"linear": "linear, over two steps", "lp": "label propagation"}


def test_its_cost_is_that_of_a_run_without_epochs():
    method = parse_method("linear")
    part = Part.of(GRAPH, method, EXACT, [SPLIT], 4)
    [found] = cost_of([part], "cpu", 1).parts
    assert str(found).startswith("a run takes ")
    assert found.timed == 0
    assert found.longest == found.epoch > 0
    sizes = Sizes.of(GRAPH, method, EXACT, [SPLIT])
    longer = dataclasses.replace(EXACT, max_epochs=10 * EXACT.max_epochs)
    assert work_of(sizes, method, EXACT) == work_of(sizes, method, longer) > 0
    assert held_bytes(sizes, method, EXACT, 1) > 0
