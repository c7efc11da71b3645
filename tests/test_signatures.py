"""What an editor and a prompt show of public names: choices by their words, types of arguments, reprs of one line."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import fishergcn
from fishergcn import nn, operators, training
from fishergcn._settings import choices
from fishergcn.graph import Graph
from fishergcn.operators import SparseMatrix, SparsePlusLowRank

SOURCE = Path(fishergcn.__file__).parent
PACKAGES = (
    "fishergcn", *(f"fishergcn.{name}" for name in (
        "graph", "datasets", "splits", "operators", "propagation", "spectrum", "perturbation", "nn", "training",
        "execution", "models", "attacks", "geometry.intrinsic", "geometry.extrinsic", "geometry.embedding",
        "geometry.statistics", "studies",
        "drawing", "report", "streams",
    ))
)  # fmt: skip
GIVEN = {
    "model", "models", "network", "features", "operator", "graph", "data", "neighborhood", "propagation", "adjacency",
    "matrix", "links",
}  # fmt: skip
# Names of arguments that are words of a fixed list in one function and something else in another.
OTHERWISE = {
    ("data_link", "kind"), ("data_link", "text"), ("parse", "text"), ("Display.say", "text"), ("Listener.say", "text"),
    ("compare", "metric"), ("control_equivalence", "metric"), ("Comparison.__init__", "metric"),  # the name of a score
    ("Equivalence.__init__", "metric"), ("Plan.__init__", "measure"),  # a function of the plan
}  # fmt: skip


def public_classes() -> Iterator[type]:
    seen = set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in (*module.__all__, *getattr(module, "SHARED", ())):
            found = getattr(module, name)
            if inspect.isclass(found) and found.__module__.startswith("fishergcn") and found not in seen:
                seen.add(found)
                yield found


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)):
                yield name, getattr(module, name)
    for each in public_classes():
        for name, member in vars(each).items():
            function = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
            function = getattr(function, "func", function)  # a cached property
            if (name == "__init__" or not name.startswith("_")) and inspect.isfunction(function):
                yield f"{each.__name__}.{name}", function


def test_choices_are_words_that_an_editor_can_complete() -> None:
    """Whatever is checked against a list of words is a Literal in the signature."""
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    checked = set(re.findall(r'check_choice\(\s*"(\w+)", (?!settings)', text)) | {
        name for name in training.TrainConfig.__annotations__ if f'self._check(check_choice, "{name}"' in text
    }
    assert {"directed", "self_links", "noise", "scale", "rule", "scaling"} <= checked
    words = {name: value for name, value in vars(choices).items() if typing.get_origin(value) is typing.Literal}
    loose = []
    for name, function in public_functions():
        for argument, kind in function.__annotations__.items():
            known = {**vars(inspect.getmodule(function)), **words}
            parts = [known.get(part.strip(), part) for part in str(kind).split("|")]
            if argument in checked and "str" in {str(part).strip() for part in parts}:
                loose.append((name, argument, kind))
    assert [each for each in loose if each[:2] not in OTHERWISE] == []


def test_models_features_and_graphs_have_types() -> None:
    loose = [
        (name, argument, kind)
        for name, function in public_functions()
        for argument, kind in function.__annotations__.items()
        if (argument in GIVEN or argument == "return") and re.fullmatch(r"Any( \| None)?", str(kind))
    ]
    assert loose == []
    assert Graph.features.fget.__annotations__["return"] == "FeatureMatrix | None"
    assert Graph.to_pyg.__annotations__["return"] == "Data"


def test_graphs_are_equal_by_content() -> None:
    links, features, labels = [(0, 1), (1, 2)], np.eye(3), [0, 1, -1]
    one = Graph.from_edges(links, features=features, labels=labels, name="one")
    same = Graph.from_edges(links[::-1], features=sparse.csr_array(features).toarray(), labels=labels, name="two")
    assert one == same
    assert hash(one) == hash(same)
    assert len({one, same}) == 1
    assert one == one.replace(name="other", class_names=["a", "b"])
    for other in (
        one.replace(features=2 * features),
        one.replace(labels=[0, 1, 1]),
        Graph.from_edges(links, features=features, labels=labels, weights=[1.0, 2.0]),
        Graph.from_edges(links),
    ):
        assert one != other
    assert one != "one"
    assert (one == 3) is False


@pytest.mark.parametrize("each", list(public_classes()), ids=lambda each: each.__name__)
def test_no_class_prints_its_numbers(each: type) -> None:
    """A dataclass with arrays has a repr of its own, and so has a module of torch."""
    if dataclasses.is_dataclass(each):
        kinds = [str(field.type) for field in dataclasses.fields(each) if field.repr]
        long = [kind for kind in kinds if re.search(r"^(?!Callable).*(Array|Tensor|Matrix|CSR)", kind)]
        generated = getattr(each.__repr__, "__wrapped__", None) is not None  # as dataclasses make them
        assert not (long and generated), long
    if issubclass(each, torch.nn.Module):
        own = each.__repr__ is not torch.nn.Module.__repr__ or each.extra_repr is not torch.nn.Module.extra_repr
        assert own


def test_reprs_are_one_line(tmp_path: Path) -> None:
    links = [(node, (node + 1) % 30) for node in range(30)]
    rng = np.random.default_rng(0)
    features = sparse.csr_array((rng.random((30, 12)) < 0.5) * 1.0)
    graph = Graph.from_edges(links, features=features, labels=rng.integers(0, 3, 30), name="ring")
    split = fishergcn.splits.Split("mine", np.arange(10), np.arange(10, 20), np.arange(20, 30))
    config = training.TrainConfig(max_epochs=3, rank=3, hidden=(8,))
    records = fishergcn.train(graph, "fishergcn", split, config=config, device="cpu", keep_weights=True)
    problem = training.prepare(graph, training.parse_method("fishergcn"), config)
    matrix = SparseMatrix.from_scipy(fishergcn.renormalized(graph.adjacency))
    c = torch.zeros(2, 3, dtype=torch.float64)
    basis = torch.zeros(30, 3, dtype=torch.float64)
    prepared = nn.make_features(features)
    things = [
        graph, split, config, records[0], problem, problem.neighborhood, problem.neighborhood.spectrum,
        fishergcn.TrainedModel.from_records(graph, records, split), training.Run(split, 3), matrix,
        SparsePlusLowRank(matrix, basis, c), operators.BlockOperator(matrix, basis, basis, c),
        operators.DenseOperator(matrix.to_dense()), operators.as_operator(sparse.eye_array(3, format="csr"),
        device="cpu", dtype=torch.float32), nn.GCN(12, (8, 4), 3, bias=True), prepared,
        prepared.restrict(torch.arange(3)), nn.make_features(features.toarray()),
        nn.full_view(prepared, matrix, 2), nn.FeatureScaling.learn(features, "columns"),
        nn.Dropout(torch.arange(50), 2, 0, 0.5), fishergcn.SpectralAdversary(problem.neighborhood, 2),
        training.Targets.of([split.train], graph.labels, None, torch.device("cpu"), torch.float32),
        fishergcn.studies.make_comparison([graph], ["gcn"], splits=[split], config=config),
    ]  # fmt: skip
    for thing in things:
        assert "\n" not in repr(thing), repr(thing)
        assert "object at 0x" not in repr(thing), repr(thing)
        assert len(repr(thing)) < 750, repr(thing)
    assert repr(things[14]) == "GCN(12 → 8 → 4 → 3, dropout=0.5, bias=True, torch.float32, cpu)"
    assert repr(things[16]) == "SparseFeatures(3 of 30 × 12, 162 entries, torch.float32, cpu)"
