"""The links of a node: where nodes stand, and which links are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from fishergcn.drawing._geometry import draw_links, radial_layout
from fishergcn.geometry.extrinsic import NodeLinks


def test_a_radial_layout_puts_nodes_on_rings_and_no_two_on_one_place():
    links = np.array([[4, 1], [4, 2], [1, 3], [2, 3], [3, 5], [8, 9]])
    places = radial_layout(4, links)
    assert set(places) == {1, 2, 3, 4, 5, 8, 9}
    rings = {each: float(np.linalg.norm(place)) for each, place in places.items()}
    expected = {4: 0, 1: 1, 2: 1, 3: 2, 5: 3, 8: 4, 9: 5}
    assert rings == pytest.approx(expected)
    points = np.array(list(places.values()))
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1) + np.eye(len(points))
    assert apart.min() > 0.1
    assert list(radial_layout(0, np.empty((0, 2), dtype=np.int64))) == [0]


def test_a_node_without_links_and_one_with_too_many_are_drawn():
    alone = NodeLinks("red", 0.5, ("a",), (0,), (), (), ())
    assert "node a: red (50.0%)" in draw_links(alone).svg
    names = tuple(f"n{place}" for place in range(201))
    star = tuple((0, place) for place in range(1, 201))
    many = NodeLinks("red", 0.5, names, (0,) * 201, star, tuple(np.linspace(1, 0.1, 200)), (True,) * 200)
    assert len(draw_links(many).data.splitlines()) == 1 + 120
