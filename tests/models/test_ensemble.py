"""Ensembles: the mean of what members say, also of new nodes and other graphs, saved, loaded and refused as one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from scipy import sparse

from fishergcn import Graph, TrainConfig, attacks, train
from fishergcn.errors import DataFileError, InputError
from fishergcn.geometry import extrinsic
from fishergcn.models import Ensemble, Selection, TrainedModel, load_model
from fishergcn.splits import Split

SHARES, HEATS = (0.4, 0.3, 0.1, 0.15, 0.05), (0.5, 2.0, 1.0, 1.3, 3.0)


def make_graph(seed: int = 0, nodes: int = 24) -> Graph:
    rng = np.random.default_rng(seed)
    labels = np.arange(nodes) % 3
    upper = np.triu(rng.random((nodes, nodes)) < np.where(labels[:, None] == labels, 0.4, 0.1), 1)
    features = rng.normal(size=(nodes, 5)) + 2 * np.eye(3, 5)[labels]
    names = [f"node {place}" for place in range(nodes)]
    return Graph(upper | upper.T, features, labels, name="mine", node_ids=names, class_names=["a", "b", "c"])


GRAPH = make_graph()
SPLIT = Split("mine", np.arange(12), np.arange(12, 18), np.arange(18, 24))
KINDS = (
    ("lp", {}),
    ("gcn", {"scaling": "none", "bias": True}),
    ("mlp", {"scaling": "columns"}),
    ("mlp", {"links_as_features": True, "scaling": "none"}),
    ("gcn", {"links_as_features": True, "scaling": "columns", "own_weights": True, "norm": "layer"}),
)


def trained(graph: Graph = GRAPH, split: Split = SPLIT) -> list[TrainedModel]:
    """Return models that know no two things in the same way: label propagation, networks, links as features."""
    found = []
    for method, settings in KINDS:
        config = TrainConfig(**{"max_epochs": 8, "hidden": 6, **settings})
        records = train(graph, method, split, config=config, device="cpu", keep_weights=True)
        found.append(TrainedModel.from_records(graph, records, split))
    return found


@pytest.fixture(scope="module")
def models() -> list[TrainedModel]:
    return trained()


@pytest.fixture(scope="module")
def both(models) -> Ensemble:
    return Ensemble.from_models(models, SHARES, HEATS, name="weighted mean")


@pytest.fixture
def folder(tmp_path, both) -> Path:
    both.save(tmp_path / "model")
    return tmp_path / "model"


def mean(logits: list[torch.Tensor]) -> np.ndarray:
    """Return Σ s softmax(z / T), written out."""
    total = 0.0
    for each, share, heat in zip(logits, SHARES, HEATS, strict=True):
        raised = np.exp(each[:, 0].double().numpy() / heat)
        total = total + share * raised / raised.sum(axis=1, keepdims=True)
    return total


def test_probabilities_are_the_mean_at_the_temperatures(both, models):
    expected = mean([each.logits() for each in models])
    np.testing.assert_allclose(both.probabilities(), expected, rtol=1e-12)
    np.testing.assert_allclose(both.logits()[:, 0].exp(), expected, rtol=1e-12)
    assert np.array_equal(both.predict(), expected.argmax(axis=1))
    assert len(both) == 1
    assert both.only() is both


def test_what_is_recorded_is_what_it_says(both, models):
    right = both.predict()[SPLIT.test] == GRAPH.labels[SPLIT.test]
    true = both.probabilities()[SPLIT.test, GRAPH.labels[SPLIT.test]]
    assert both.record.test_accuracy == pytest.approx(right.mean())
    assert both.record.test_cross_entropy == pytest.approx(-np.log(true).mean())
    assert [each.item() for each in both.test()] == pytest.approx([-np.log(true).mean(), right.mean()])
    assert both.record.method == "ensemble"
    assert both.record.extra == {"kind": "weighted mean", "members": 5}
    assert both.record.seconds == pytest.approx(sum(each.record.seconds for each in models))


def test_new_nodes(both, models):
    rng = np.random.default_rng(5)
    links = sparse.csr_array((rng.random((4, 24)) < 0.3) * 1.0)
    features = rng.normal(size=(4, 5)).astype(np.float32)
    found = both.logits_of_new(links, features)
    assert found.shape == (4, 1, 3)
    expected = mean([each.logits_of_new(links, features) for each in models])
    np.testing.assert_allclose(found[:, 0].exp(), expected, rtol=1e-12)
    assert [each.logits_of_new(links[[2]], features[[2]]).shape for each in models] == [(1, 1, 3)] * 5


def test_another_graph(both, models):
    """Its nodes in another order, three of them gone and one new."""
    order = np.random.default_rng(2).permutation(24)[:21]
    names = [GRAPH.node_ids[node] for node in order]
    names[0] = "someone new"
    other = Graph(GRAPH.adjacency[order][:, order], GRAPH.features[order], node_ids=names)
    parts = [torch.from_numpy(np.log(each.probabilities(other)))[:, None] for each in models]
    np.testing.assert_allclose(both.probabilities(other), mean(parts), rtol=1e-9)
    same = Graph(GRAPH.adjacency[order][:, order], GRAPH.features[order], node_ids=[GRAPH.node_ids[at] for at in order])
    assert both.probabilities(same).shape == (21, 3)
    assert both.new_nodes(other) == ("someone new",)
    moved = np.random.default_rng(3).permutation(24)
    every = Graph(
        GRAPH.adjacency[moved][:, moved], GRAPH.features[moved], node_ids=[GRAPH.node_ids[node] for node in moved]
    )
    np.testing.assert_allclose(both.probabilities(every), both.probabilities()[moved], atol=1e-6)


def test_what_is_saved_is_loaded(both, folder):
    loaded = load_model(folder)
    assert isinstance(loaded, Ensemble)
    assert loaded.probabilities().tobytes() == both.probabilities().tobytes()
    assert (loaded.shares, loaded.temperatures) == (SHARES, HEATS)
    assert [each.method.name for each in loaded.members] == [method for method, _ in KINDS]
    assert [each.config for each in loaded.members] == [each.config for each in both.members]
    assert loaded.record.scores == both.record.scores
    for part in ("train", "val", "test"):
        assert np.array_equal(getattr(loaded.runs[0].split, part), getattr(SPLIT, part))
    links, features = np.ones((2, 24)), np.ones((2, 5), np.float32)
    assert torch.equal(loaded.logits_of_new(links, features), both.logits_of_new(links, features))
    other = make_graph(seed=4)
    assert np.array_equal(loaded.probabilities(other), both.probabilities(other))
    assert "mean of several models" in (folder / "README.md").read_text(encoding="utf-8")
    loaded.save(folder, overwrite=True)
    assert load_model(folder).probabilities().tobytes() == both.probabilities().tobytes()


def test_on_a_device_in_a_precision(both):
    np.testing.assert_allclose(both.to("cpu", torch.float64).probabilities(), both.probabilities(), atol=1e-6)


SENTENCE = (
    "the model is an ensemble of 5 models, and one network is needed here: model.members has them; "
    "fit(ensemble=False) or --no-ensemble chooses a single one."
)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.check_network(),
        lambda model: model.network(),
        lambda model: model.features,
        lambda model: model.logits(model.members[1].operator),
        lambda model: model.test(features=model.members[1].features),
        lambda model: attacks.operator_of(model, GRAPH.adjacency),
    ],
)
def test_what_needs_one_network_says_so(both, ask):
    with pytest.raises(InputError, match=f"^{re.escape(SENTENCE)}$"):
        ask(both)


def test_links_are_felt_through_all_members():
    """Against central differences of fourth order: predictions on graphs with another weight of one link."""
    found = []
    for method in ("gcn", "sage", "mlp"):
        config = TrainConfig(max_epochs=8, hidden=6, scaling="none")
        records = train(GRAPH, method, SPLIT, config=config, device="cpu", keep_weights=True)
        found.append(TrainedModel.from_records(GRAPH, records, SPLIT))
    model, exact = Ensemble.from_models(found, (0.5, 0.3, 0.2), (0.7, 1.0, 2.0)), torch.float64
    links = np.argwhere(np.triu(GRAPH.adjacency.toarray(), 1))
    links = links[np.argsort((links != 4).all(axis=1), kind="stable")[:6]]  # those of the node first

    def log_p(i: int, j: int, step: float) -> float:
        changed = GRAPH.adjacency.toarray()
        changed[[i, j], [j, i]] += step
        return float(model.to("cpu", exact).raw_logits(GRAPH.replace(adjacency=changed))[4, 1])

    def derivative(i: int, j: int) -> float:
        one, two = (log_p(i, j, step) - log_p(i, j, -step) for step in (1e-2, 2e-2))
        return (8 * one - two) / 12e-2

    values = [derivative(i, j) for i, j in links.tolist()]
    named = extrinsic.link_sensitivity(model, links=links, score_of=(4, 1))
    np.testing.assert_allclose(named.values, values, atol=1e-7)
    assert np.abs(values).max() > 1e-3
    assert extrinsic.node_links(model, 4).links


@pytest.mark.parametrize("member", [0, 3, 4])
def test_members_without_a_derivative_in_links_are_named(models, member):
    model = Ensemble.from_models([models[1], models[member]], (0.5, 0.5), (1.0, 1.0))
    with pytest.raises(
        InputError, match=f"^a member of the ensemble, '{models[member].method.name}', has no derivative"
    ):
        extrinsic.node_links(model, 0)
    with pytest.raises(InputError, match=r"^through_normalization=False is for one network"):
        extrinsic.link_sensitivity(model, through_normalization=False)


def test_members_that_do_not_fit_are_refused(models, both):
    for shares in ([0.5, 0.6], [1.5, -0.5], [math.nan, 1.0]):
        with pytest.raises(InputError, match=r"^the shares of an ensemble must be positive and add up to 1, got \["):
            Ensemble.from_models(models[:2], shares, [1.0, 1.0])
    for heats in ([1.0, 0.0], [1.0, math.nan], [math.inf, 1.0]):
        with pytest.raises(InputError, match=r"^the temperatures of an ensemble must be positive, got \["):
            Ensemble.from_models(models[:2], [0.5, 0.5], heats)
    with pytest.raises(InputError, match="needs two models or more"):
        Ensemble.from_models(models[:1], [1.0], [1.0])
    with pytest.raises(InputError, match="must not be an ensemble itself"):
        Ensemble.from_models([models[0], both], [0.5, 0.5], [1.0, 1.0])
    other = trained(make_graph(seed=9))[1]
    elsewhere = trained(split=dataclasses.replace(SPLIT, name="another"))[1]
    namesake = trained(split=Split("mine", SPLIT.val, SPLIT.train, SPLIT.test))[1]  # it has learned from other nodes
    for each in (other, elsewhere, namesake):
        with pytest.raises(InputError, match="the members of an ensemble must be of one graph and one split"):
            Ensemble.from_models([models[0], each], [0.5, 0.5], [1.0, 1.0])


# Folders


def edited(folder: Path, edit) -> None:
    path = folder / "model.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    edit(values)
    for name in values["sha256"]:
        values["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(values), encoding="utf-8")


def refused(folder: Path, message: str) -> None:
    with pytest.raises(DataFileError, match=message) as caught:
        load_model(folder)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert str(folder) in sentence


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda all_: all_["members"].pop(), "must be two or more, with shares that add up to 1"),
        (lambda all_: all_["members"].__delitem__(slice(1, None)), "must be two or more, with shares that add up to 1"),
        (lambda all_: all_["members"][0].update(share=0.5), "must be two or more, with shares that add up to 1"),
        (lambda all_: all_["members"][0].update(share=-0.4), "share and temperature of a member must be positive"),
        (lambda all_: all_["members"][1].update(temperature=0), "share and temperature of a member must be positive"),
        (lambda all_: all_["members"][1].pop("temperature"), "temperature"),
        (lambda all_: all_["members"][1].update(share="most"), "share"),
        (lambda all_: all_.update(members=3), "members"),
        (lambda all_: all_["members"][2]["run"].update(graph_digest="0" * 64), "of its graph and its split"),
        (lambda all_: all_["members"][2]["run"].update(split="another"), "of its graph and its split"),
        (lambda all_: all_["members"][2]["run"].update(method="ensemble"), "method must be"),
        (lambda all_: all_["run"].update(method="gcn"), "the method of a model with members must be 'ensemble'"),
        (lambda all_: all_.pop("members"), "method must be"),
        (lambda all_: all_["members"][1]["run"]["config"].update(hidden=[7]), r"1\.weights\.0 must be F32 of shape"),
        (lambda all_: all_["members"].insert(0, all_["members"].pop()), r"0\.\S+ must be F32 of shape"),
    ],
)  # fmt: skip
def test_what_was_altered_is_refused(folder, edit, message):
    edited(folder, edit)
    refused(folder, message)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda all_: all_.pop("1.weights.0"), r"1\.weights\.0 must be F32 of shape \[5, 6\], got None"),
        (lambda all_: all_.pop("0.train"), r"0\.train must be I64 of shape \[12\], got None"),
        (lambda all_: all_.pop("2.scaling.center"), r"2\.scaling\.center must be F64"),
        (lambda all_: all_.update({"5.weights.0": all_["1.weights.0"]}), r"does not have: 5\.weights\.0"),
        (lambda all_: all_["0.train"].fill(99), r"0\.train must hold labeled nodes of the graph"),
        (lambda all_: all_["3.weights.1"].fill(np.nan), r"3\.weights\.1 must be finite"),
    ],
)
def test_tensors_that_are_missing_are_refused(folder, edit, message):
    path = folder / "weights.safetensors"
    tensors = {name: each.copy() for name, each in load_file(path).items()}
    edit(tensors)
    save_file({name: np.ascontiguousarray(each) for name, each in tensors.items()}, path)
    edited(folder, lambda all_: None)
    refused(folder, message)


def test_tensors_of_another_ensemble_are_refused(folder, models, tmp_path):
    Ensemble.from_models(models[::-1], SHARES, HEATS).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "weights.safetensors", folder)
    refused(folder, "must be")


# What version 0.2 wrote


def test_selections_of_version_0_2_are_read():
    older = {
        "candidates": [
            {"name": "mlp", "method": "mlp", "settings": {"scaling": "none"}, "val_accuracy": 0.7,
             "val_cross_entropy": 0.8, "runs": 4, "seconds": 1.5, "left_out": ""},
            {"name": "gcn", "method": "gcn", "settings": {}, "val_accuracy": None, "val_cross_entropy": None,
             "runs": 0, "seconds": 0.0, "left_out": "it would not fit in memory"},
        ],
        "chosen": "mlp", "gain": 0.1, "low": 0.05, "high": 0.15, "homophily": None, "sentences": ["Links help."],
        "seconds": 9.0,
    }  # fmt: skip
    found = Selection.from_dict(older)
    assert (found.gain, found.gain_low, found.gain_high) == (0.1, 0.05, 0.15)
    assert (found.chosen, found.score, found.sentences) == ("mlp", "accuracy", ("Links help.",))
    assert math.isnan(found.value)
    assert math.isnan(found.low)
    assert (found.candidates[0].value, found.candidates[0].cross_entropy) == (0.7, 0.8)
    assert [each.tried for each in found.candidates] == [True, False]
    assert found.ranked()[0].name == "mlp"
    assert Selection.from_dict(found.to_dict()).to_dict() == found.to_dict()


def test_folders_of_older_versions_are_read(tmp_path):
    old = Path(__file__).parent / "version-1"
    assert load_model(old).probabilities().shape == (6, 2)
    assert not isinstance(load_model(old), Ensemble)
