"""The links of a node: where nodes stand, and which links are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from fishergcn.drawing import draw_links
from fishergcn.geometry.extrinsic import NodeLinks


def places_of(node, links):
    found = tuple((one, other, True, 0.5) for one, other in links)
    classes = dict.fromkeys([node, *"".join(links)], 0)
    [names] = [each for each in draw_links(NodeLinks(node, "red", 0.5, found, classes)).panels[0].layers
               if each.kind == "text"]  # fmt: skip
    return {name: np.array(place) for name, *place in zip(names.text, names.x, names.y, strict=True)}


def test_a_radial_layout_puts_nodes_on_rings_and_no_two_on_one_place():
    places = places_of("4", ["41", "42", "13", "23", "35", "89"])
    rings = {each: float(np.linalg.norm(place)) for each, place in places.items()}
    assert rings == pytest.approx({"4": 0, "1": 1, "2": 1, "3": 2, "5": 3, "8": 4, "9": 5})
    points = np.array(list(places.values()))
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1) + np.eye(len(points))
    assert apart.min() > 0.1
    assert list(places_of("0", [])) == ["0"]


def test_a_node_without_links_and_one_with_too_many_are_drawn():
    assert "node a: red (50.0%)" in draw_links(NodeLinks("a", "red", 0.5, (), {"a": 0})).svg
    names = [f"n{place}" for place in range(201)]
    star = tuple(("n0", name, True, 1 / place) for place, name in enumerate(names) if place)
    many = NodeLinks("n0", "red", 0.5, star, dict.fromkeys(names, 0))
    assert len(draw_links(many).data.splitlines()) == 1 + 120


def test_links_for_and_against_are_told_apart_by_color_and_strength_by_width():
    links = (("a", "b", True, -0.5), ("a", "c", False, 0.25))
    chart = draw_links(NodeLinks("a", "red", 0.5, links, {"a": 0, "b": 1, "c": 0}))
    weak, strong = (each for each in chart.panels[0].layers if each.kind == "link")
    assert (len({each.name for each in chart.series}), len({each.look.color for each in chart.series})) == (2, 2)
    assert weak.series != strong.series
    assert weak.size < strong.size
    assert (list(weak.dash), list(strong.dash)) == ([2, 3], [])
    filled, hollow = ([each for each in chart.panels[0].layers if each.kind == "dot" and each.hollow == empty]
                      for empty in (False, True))  # fmt: skip
    assert hollow[0].text == ["node b\npredicted class: another"]
    assert filled[0].text == [f"node {each}\npredicted class: the same" for each in "ac"]
