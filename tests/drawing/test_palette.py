"""Methods can be told apart, and look like their controls."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

from fishergcn.drawing import looks
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


def test_dashes_tell_perturbed_control_and_plain():
    chosen = looks(["fishergcn", "gcn-x5", "gcn"])
    assert [look.dash for look in chosen.values()] == [(), (6.0, 3.0), (1.5, 2.5)]
    assert (chosen["gcn"].color, chosen["gcn"].marker) == ("#808993", "^")


def test_a_look_does_not_depend_on_the_company():
    for others in (["gcn", "gcn-x5"], ["fishergcn radius=2", "mine"]):
        assert looks(["fishergcn"])["fishergcn"] == looks([*others, "fishergcn"])["fishergcn"]


def test_an_unknown_method_has_a_color_and_a_marker_that_no_other_has():
    known, strangers = ["gcn", "gcn-x5", "fishergcn"], ["mine", "yours", "theirs"]
    chosen = looks([*strangers, *known])
    assert len({look.color for look in chosen.values()}) == len({look.marker for look in chosen.values()}) == 6


def test_more_methods_than_looks():
    names = [f"m{number}" for number in range(200)]
    assert list(looks(names)) == names
    assert len(set(looks(names).values())) == 200


def test_controls_with_any_number_of_samples_can_be_told_apart():
    names = [f"gcn{high}-x{samples}{tail}" for high in ("", "-t") for samples in (2, 3, 5, 8) for tail in ("", "-c")]
    assert len(set(looks([*METHODS, *names]).values())) == len({*METHODS, *names})


NAMED = [*METHODS, "fishergcn-c", "gcn-x5-c", "fishergcn-t-c", "gcn-t-x5-c", "mlp", "lp", "majority"]
# Machado, Oliveira and Fernandes (2009), severity 1: how linear RGB looks without one kind of cone.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip


def linear(color):
    channels = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb.clip(0, 1)
    x, y, z = np.cbrt(np.maximum(xyz / [0.9505, 1.0, 1.089], 1e-6))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_every_method_has_a_mark_of_its_own():
    chosen = looks(NAMED)
    assert len({look.marker for look in chosen.values()}) == len(NAMED)
    outlines = {look.outline for look in chosen.values()}
    assert len(outlines) == len(NAMED)
    assert all(abs(np.hypot(*point)) <= 1.001 for outline in outlines for point in outline)


@pytest.mark.parametrize("method", ["sage", "sage-x5", "gcn", "mlp", "lp", "majority"])
def test_every_network_can_be_drawn_on_a_page(method):
    assert "polygon" in looks([method])[method].swatch


@pytest.mark.parametrize("paper", ["#ffffff", "#14171b"])
def test_colors_stand_out_on_light_and_dark_pages(paper):
    for name, look in looks(NAMED).items():
        low, high = sorted(linear(each) @ [0.2126, 0.7152, 0.0722] for each in (look.color, paper))
        assert (high + 0.05) / (low + 0.05) >= 3, name


@pytest.mark.parametrize("kind", BLINDNESS)
def test_lines_that_share_a_dash_differ_in_color_for_color_blind_readers(kind):
    """18 is about eight times what a careful eye can tell apart (CIE 1976)."""
    seen = {name: lab(BLINDNESS[kind] @ linear(look.color)) for name, look in looks(NAMED).items()}
    dashes = {name: look.dash for name, look in looks(NAMED).items()}
    gaps = {
        (one, other): float(np.linalg.norm(seen[one] - seen[other]))
        for one in NAMED
        for other in NAMED
        if one < other and dashes[one] == dashes[other]
    }
    closest = min(gaps, key=gaps.get)
    assert gaps[closest] >= 18, (closest, gaps[closest])
