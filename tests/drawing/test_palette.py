"""Methods can be told apart, and look like their controls."""

from __future__ import annotations

import colorsys

import pytest

from fishergcn.drawing._palette import looks
from fishergcn.training import METHODS, TrainConfig, control_of


def hue(color):
    red, green, blue = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return colorsys.rgb_to_hsv(red, green, blue)[0]


def test_all_differ():
    names = [*METHODS, "gcn-x5-c", "fishergcn-c", "gcn-t-x5-c", "fishergcn-t-c", "mine", "<b>", "fishergcn radius=2"]
    chosen = looks(names)
    assert list(chosen) == names
    assert len(set(chosen.values())) == len(names)


@pytest.mark.parametrize("samples", [3, 5])
@pytest.mark.parametrize("method", ["fishergcn", "fishergcn-t", "fishergcn-c", "fishergcn-t-c"])
def test_a_method_and_its_control_share_the_hue(method, samples):
    control = control_of(method, TrainConfig(samples=samples))
    chosen = looks([method, control])
    assert abs(hue(chosen[method].color) - hue(chosen[control].color)) < 0.05
    assert chosen[method].dash != chosen[control].dash


def test_a_look_does_not_depend_on_the_company():
    for others in (["gcn", "gcn-x5"], ["fishergcn radius=2", "mine"]):
        assert looks(["fishergcn"])["fishergcn"] == looks([*others, "fishergcn"])["fishergcn"]


def test_more_methods_than_looks():
    names = [f"m{number}" for number in range(200)]
    assert list(looks(names)) == names
    assert len(set(looks(names).values())) == 200


def test_controls_with_any_number_of_samples_can_be_told_apart():
    names = [f"gcn{high}-x{samples}{tail}" for high in ("", "-t") for samples in (2, 3, 5, 8) for tail in ("", "-c")]
    assert len(set(looks([*METHODS, *names]).values())) == len({*METHODS, *names})
