"""Error bars of distances: what they do to tests, clusters, maps and change points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fishergcn.geometry.statistics import change_points, cluster, embed, independence, pairwise, two_sample_test
from fishergcn.geometry.statistics._redraws import REDRAWS, redrawn
from fishergcn.geometry.statistics._results import words_of_test


def graphs_that_change(count: int, at: int, nodes: int = 24, seed: int = 0) -> list[np.ndarray]:
    rng, made = np.random.default_rng(seed), []
    for step in range(count):
        side = np.arange(nodes) % 2 if step < at else np.arange(nodes) // (nodes // 2)
        upper = np.triu(rng.random((nodes, nodes)) < np.where(np.equal.outer(side, side), 0.8, 0.1), 1)
        made.append((upper | upper.T) * 1.0)
    return made


@pytest.fixture(scope="module")
def graphs():
    return graphs_that_change(16, 8)


@pytest.fixture(scope="module")
def exact(graphs):
    return pairwise(graphs)


def uncertain(distances, width):
    """Return distances with error bars of ± width."""
    off = width * (1 - np.eye(len(distances)))
    return replace(distances, low=np.maximum(distances.values - off, 0), high=distances.values + off)


def test_draws_have_the_intervals_they_come_from(exact):
    found = np.array([each for seed in range(40) for each in redrawn(uncertain(exact, 0.01), exact.values, seed)])
    assert len(found) == 40 * REDRAWS
    np.testing.assert_array_equal(found, found.transpose(0, 2, 1))
    apart = ~np.eye(len(exact), dtype=bool)
    inside = np.abs(found - exact.values)[:, apart] <= 0.01
    assert abs(inside.mean() - 0.95) < 0.01
    np.testing.assert_allclose(found.mean(axis=0), exact.values, atol=1e-3)
    assert not list(redrawn(exact, exact.values, 0))
    assert not list(redrawn(exact.values, exact.values, 0))


def test_p_values_have_a_range_that_grows_with_the_error_bars(exact):
    groups = ["a", "b"] * 8
    found = [two_sample_test(uncertain(exact, width), groups, permutations=499) for width in (0.0, 0.002, 0.2)]
    assert found[0].p_range == (found[0].p_value,) * 2
    assert len({each.p_value for each in found}) == 1
    widths = [np.ptp(each.p_range) for each in found]
    assert widths[0] < widths[1] < widths[2]
    assert "within the error bars" in words_of_test(found[2])
    assert "within the error bars" not in words_of_test(found[0])
    numbers = np.random.default_rng(1).random(16)
    related = [independence(uncertain(exact, width), numbers, permutations=199) for width in (0.0, 0.2)]
    assert related[0].p_range == (related[0].p_value,) * 2
    assert related[1].p_range[0] < related[1].p_value < related[1].p_range[1]


def test_clusters_and_maps_are_stable_or_not(exact):
    clear = cluster(uncertain(exact, 0.002), 2)
    assert clear.labels.tolist() == [0] * 8 + [1] * 8
    assert (clear.stable == 1).all()
    vague = cluster(uncertain(exact, 0.5), 2)
    assert vague.labels.tolist() == clear.labels.tolist()
    assert vague.stable.mean() < 0.9
    assert (embed(exact).spreads == 0).all()
    small, large = (embed(uncertain(exact, width)).spreads for width in (0.002, 0.02))
    # To first order, a map moves in proportion to the error bars.
    assert small.min() > 0
    assert 5 < large.mean() / small.mean() < 20


def test_marks_say_whether_error_bars_matter(graphs, exact):
    options = {"permutations": 99, "explain": False}
    [sure] = change_points(graphs, distances=uncertain(exact, 0.002), **options).changes
    assert (sure.step, sure.stable) == (8, 1.0)
    found = change_points(graphs, distances=uncertain(exact, 0.5), **options)
    assert [each.step for each in found.changes] == [8]
    assert found.changes[0].stable < 1
    assert any("draws within their error bars" in note for note in found.notes)
