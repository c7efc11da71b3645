"""Methods can be told apart, and look like their controls."""

from __future__ import annotations

import colorsys

import pytest

from fishergcn.drawing._palette import looks
from fishergcn.training._methods import METHODS, parse_method


def hue(color):
    red, green, blue = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return colorsys.rgb_to_hsv(red, green, blue)[0]


def test_all_differ():
    names = [*METHODS, "gcn-x5-c", "fishergcn-c", "gcn-t-x5-c", "fishergcn-t-c", "mine", "<b>", "fishergcn radius=2"]
    chosen = looks(names)
    assert list(chosen) == names
    assert len(set(chosen.values())) == len(names)


@pytest.mark.parametrize("method", ["fishergcn", "fishergcn-t", "fishergcn-c", "fishergcn-t-c"])
def test_a_method_and_its_control_share_the_hue(method):
    control = parse_method(method).control
    chosen = looks([method, control])
    assert abs(hue(chosen[method].color) - hue(chosen[control].color)) < 0.05
    assert chosen[method].dash != chosen[control].dash


def test_a_look_does_not_depend_on_the_company():
    assert looks(["fishergcn"])["fishergcn"] == looks(["gcn", "gcn-x5", "fishergcn"])["fishergcn"]


def test_more_methods_than_looks():
    names = [f"m{number}" for number in range(60)]
    assert list(looks(names)) == names
