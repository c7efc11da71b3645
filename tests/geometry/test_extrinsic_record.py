"""What is kept of a model's geometry is what the functions of the library say."""

from __future__ import annotations

import numpy as np
import pytest

from fishergcn import Graph, TrainConfig, TrainedModel, splits, train
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic import (
    GeometryRecord,
    adversarial_direction,
    link_sensitivity,
    node_links,
    sharpness,
)
from fishergcn.perturbation import Neighborhood


@pytest.fixture(scope="module", params=["fishergcn", "gcn-t"])
def model(request):
    rng = np.random.default_rng(0)
    links = np.triu(rng.random((40, 40)) < 0.15, 1)
    names = [f"n{place}" for place in range(40)]
    graph = Graph(links + links.T, rng.random((40, 5)), np.arange(40) % 3, name="toy", node_ids=names)
    split = splits.per_class(graph, train=4, val=4, seed=0)
    config = TrainConfig(max_epochs=5, rank=3, hidden=8)
    [record] = train(graph, request.param, split, config=config, keep_weights=True)
    return TrainedModel.from_records(graph, record, split)


def test_the_record_of_a_model_comes_back_from_its_file(model, tmp_path):
    around = Neighborhood(model.propagation, rank=3)
    found = adversarial_direction(model, around)
    grown = sharpness(model, around, directions=found.directions, random=7)
    record = GeometryRecord.of(model, found, grown)
    assert record.title == f"{model.method.name} on toy"
    assert record.eigenvalues == tuple(found.eigenvalues)
    assert record.random_growth == tuple(grown.random.max(axis=1))
    assert record.links.node == f"n{found.nodes[found.node_shares.argmax()]}"
    record.save(tmp_path / "geometry.json")
    assert GeometryRecord.load(tmp_path / "geometry.json") == record


def test_links_of_a_node_are_those_that_its_prediction_depends_on(model):
    found = node_links(model, 7, top=5)
    assert found.label == model.class_names[model.predict()[7]]
    expected = link_sensitivity(model, through_normalization=not model.method.high_order, score_of=7, top=5)
    assert list(found.links) == expected.named(model.node_names)
    assert set(found.classes) == {"n7", *(end for one, other, _, _ in found.links for end in (one, other))}
    absent = node_links(model, 7, label=1, links="absent")
    assert absent.label == "1"
    assert not any(is_link for _, _, is_link, _ in absent.links)
    derivatives = [abs(value) for *_, value in absent.links]
    assert derivatives == sorted(derivatives, reverse=True)


def test_a_node_that_is_not_there_is_one_sentence(model):
    with pytest.raises(InputError, match="node must be between 0 and 39, got 40"):
        node_links(model, 40)
