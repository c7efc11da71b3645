"""The links of a node: where nodes stand, and which links are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from fishergcn.drawing._geometry import draw_links, radial_layout
from fishergcn.geometry.extrinsic import NodeLinks


def test_a_radial_layout_puts_nodes_on_rings_and_no_two_on_one_place():
    places = radial_layout("4", ["41", "42", "13", "23", "35", "89"])
    rings = {each: float(np.linalg.norm(place)) for each, place in places.items()}
    assert rings == pytest.approx({"4": 0, "1": 1, "2": 1, "3": 2, "5": 3, "8": 4, "9": 5})
    points = np.array(list(places.values()))
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1) + np.eye(len(points))
    assert apart.min() > 0.1
    assert list(radial_layout("0", [])) == ["0"]


def test_a_node_without_links_and_one_with_too_many_are_drawn():
    assert "node a: red (50.0%)" in draw_links(NodeLinks("a", "red", 0.5, (), {"a": 0})).svg
    names = [f"n{place}" for place in range(201)]
    star = tuple(("n0", name, True, 1 / place) for place, name in enumerate(names) if place)
    many = NodeLinks("n0", "red", 0.5, star, dict.fromkeys(names, 0))
    assert len(draw_links(many).data.splitlines()) == 1 + 120
