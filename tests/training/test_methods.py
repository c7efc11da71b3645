"""What the names of methods mean."""

from __future__ import annotations

import pytest

from fishergcn.errors import InputError
from fishergcn.training._config import TrainConfig
from fishergcn.training._methods import METHODS, control_of, parse_method

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
}


@pytest.mark.parametrize("name", MEANING)
def test_meaning(name):
    method = parse_method(name)
    assert method.name == name
    assert (method.high_order, method.perturbed, method.samples, method.consistent) == MEANING[name]


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
    ],
)
def test_controls(name, samples, control):
    """The same graph and as many samples, without what is being studied."""
    assert control_of(name, TrainConfig(samples=samples)) == control
    assert not parse_method(control).perturbed


@pytest.mark.parametrize("name", ["gcn", "gcn-x3", "gcn-t", "gcn-t-x5"])
def test_plain_methods_are_controls_themselves(name):
    assert control_of(name, TrainConfig(samples=3)) is None


@pytest.mark.parametrize("name", ["", "GCN", "gcn-x0", "gcn-x5-t", "gcn-c-t", "fishergcn-x5", "gcn ", "gat", 5, None])
def test_unknown_names(name):
    with pytest.raises(InputError, match=r"method must be one of gcn, gcn-x5, .*, got "):
        parse_method(name)


def test_a_typing_error_is_understood():
    with pytest.raises(InputError, match=r"did you mean 'fishergcn'\?"):
        parse_method("fishergnc")


@pytest.mark.parametrize(
    ("name", "instead"), [("gcn-c", "gcn-x5-c"), ("gcn-t-c", "gcn-t-x5-c"), ("gcn-x1-c", "gcn-x5-c")]
)
def test_consistency_needs_two_samples(name, instead):
    with pytest.raises(InputError, match=f"needs at least two samples to compare: use '{instead}'"):
        parse_method(name)
