"""What the names of methods mean."""

from __future__ import annotations

import pytest

from fishergcn.errors import InputError
from fishergcn.training import METHODS, TrainConfig, control_of, graph_free_of, parse_method, samples_of

MEANING = {
    # high order, perturbed, samples, consistent
    "gcn": (False, False, 1, False),
    "gcn-x5": (False, False, 5, False),
    "gcn-x12": (False, False, 12, False),
    "fishergcn": (False, True, None, False),
    "gcn-t": (True, False, 1, False),
    "gcn-t-x5": (True, False, 5, False),
    "fishergcn-t": (True, True, None, False),
    "gcn-x5-c": (False, False, 5, True),
    "gcn-t-x5-c": (True, False, 5, True),
    "fishergcn-c": (False, True, None, True),
    "fishergcn-t-c": (True, True, None, True),
    "mlp": (False, False, 1, False),
    "mlp-x3": (False, False, 3, False),
    "mlp-x5-c": (False, False, 5, True),
    "lp": (False, False, 1, False),
    "majority": (False, False, 1, False),
}


@pytest.mark.parametrize("name", MEANING)
def test_meaning(name):
    method = parse_method(name)
    assert method.name == name
    assert (method.high_order, method.perturbed, method.samples, method.consistent) == MEANING[name]


def test_the_configuration_says_how_many_samples_where_the_name_does_not():
    assert [samples_of(parse_method(name), TrainConfig(samples=7)) for name in ("gcn-x3", "fishergcn")] == [3, 7]


def test_the_six_of_the_paper():
    assert METHODS == ("gcn", "gcn-x5", "fishergcn", "gcn-t", "gcn-t-x5", "fishergcn-t")
    assert set(METHODS) < set(MEANING)


@pytest.mark.parametrize(
    ("name", "samples", "control"),
    [
        ("fishergcn", 5, "gcn-x5"),
        ("fishergcn", 3, "gcn-x3"),
        ("fishergcn", 1, "gcn"),
        ("fishergcn-t", 5, "gcn-t-x5"),
        ("fishergcn-t", 1, "gcn-t"),
        ("fishergcn-c", 5, "gcn-x5-c"),
        ("fishergcn-t-c", 3, "gcn-t-x3-c"),
        ("gcn-x3-c", 5, "gcn-x3"),
        ("gcn-t-x2-c", 1, "gcn-t-x2"),
        ("mlp-x3-c", 5, "mlp-x3"),
    ],
)
def test_controls(name, samples, control):
    """The same graph and as many samples, without what is being studied."""
    assert control_of(name, TrainConfig(samples=samples)) == control
    assert not parse_method(control).perturbed


@pytest.mark.parametrize("name", ["gcn", "gcn-x3", "gcn-t", "gcn-t-x5", "mlp", "mlp-x5", "lp", "majority"])
def test_plain_methods_are_controls_themselves(name):
    assert control_of(name, TrainConfig(samples=3)) is None


@pytest.mark.parametrize(
    ("name", "samples", "without"),
    [
        ("gcn", 5, "mlp"),
        ("gcn-t-x5-c", 3, "mlp-x5-c"),
        ("fishergcn", 3, "mlp-x3"),
        ("fishergcn-t-c", 5, "mlp-x5-c"),
        ("fishergcn", 1, "mlp"),
        *((name, 5, None) for name in ("mlp", "mlp-x5-c", "lp", "majority")),
    ],
)
def test_the_same_network_without_the_links(name, samples, without):
    assert graph_free_of(name, TrainConfig(samples=samples)) == without


@pytest.mark.parametrize(
    ("name", "base", "uses_graph", "trained"),
    [
        ("gcn-t", "gcn", True, True),
        ("fishergcn-c", "gcn", True, True),
        ("mlp-x5", "mlp", False, True),
        ("lp", "lp", True, False),
        ("majority", "majority", False, False),
    ],
)
def test_what_a_method_reads(name, base, uses_graph, trained):
    method = parse_method(name)
    assert (method.base, method.uses_graph, method.trained) == (base, uses_graph, trained)


@pytest.mark.parametrize(
    "name",
    [
        *("", "GCN", "gcn-x0", "gcn-x5-t", "gcn-c-t", "fishergcn-x5", "gcn ", "gat", 5, None),
        *("mlp-t", "lp-t", "lp-x5", "lp-c", "majority-c", "fishermlp"),
    ],
)
def test_unknown_names(name):
    with pytest.raises(InputError, match=r"method must be one of gcn, gcn-x5, .*, got "):
        parse_method(name)


def test_a_typing_error_is_understood():
    with pytest.raises(InputError, match=r"did you mean 'fishergcn'\?"):
        parse_method("fishergnc")


@pytest.mark.parametrize(
    ("name", "instead"),
    [("gcn-c", "gcn-x5-c"), ("gcn-t-c", "gcn-t-x5-c"), ("gcn-x1-c", "gcn-x5-c"), ("mlp-c", "mlp-x5-c")],
)
def test_consistency_needs_two_samples(name, instead):
    with pytest.raises(InputError, match=f"needs at least two samples to compare: use '{instead}'"):
        parse_method(name)
