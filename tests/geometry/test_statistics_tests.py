"""Tests on distances: against brute force, their level, and their power."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from fishergcn.errors import InputError
from fishergcn.geometry.statistics import independence, pairwise, two_sample_test


def cloud(count, seed, columns=3):
    return squareform(pdist(np.random.default_rng(seed).standard_normal((count, columns))))


def energy(matrix, first):
    """T by its definition, with loops."""
    one, two = [i for i, each in enumerate(first) if each], [i for i, each in enumerate(first) if not each]

    def mean(a, b):
        return sum(matrix[i, j] for i in a for j in b) / (len(a) * len(b))

    n, m = len(one), len(two)
    return n * m / (n + m) * (2 * mean(one, two) - mean(one, one) - mean(two, two))


class TestTwoSamples:
    def test_statistic_and_exact_p_value_are_those_of_all_splits(self):
        matrix = cloud(7, 0)
        found = two_sample_test(matrix, list("aaabbbb"))
        splits = [[i in chosen for i in range(7)] for chosen in itertools.combinations(range(7), 3)]
        values = np.array([energy(matrix, split) for split in splits])
        assert found.statistic == pytest.approx(values[0], rel=1e-12)
        assert found.p_value == pytest.approx((values >= values[0] - 1e-12).mean())
        assert (found.method, found.permutations, found.sizes) == ("exact", 35, (3, 4))
        assert found.smallest_p == pytest.approx(1 / 35)

    def test_random_splits_approach_the_exact_p_value(self):
        matrix = cloud(12, 1)
        groups = [0] * 6 + [1] * 6
        exact = two_sample_test(matrix, groups)
        drawn = two_sample_test(matrix, groups, permutations=900, seed=3)
        assert (exact.method, drawn.method) == ("exact", "random")
        assert drawn.p_value == pytest.approx(exact.p_value, abs=4 * 0.5 / 30)
        assert drawn == two_sample_test(matrix, groups, permutations=900, seed=3)

    def test_effect_is_one_for_equal_graphs_in_each_group(self):
        matrix = 1.0 - np.equal.outer(np.arange(8) // 4, np.arange(8) // 4)
        found = two_sample_test(matrix, ["x"] * 4 + ["y"] * 4)
        assert (found.effect, found.low, found.high) == (1.0, 1.0, 1.0)
        assert found.p_value == pytest.approx(2 / 70)

    def test_the_jackknife_leaves_out_one_graph_at_a_time(self):
        matrix, first = cloud(9, 2), np.arange(9) < 4
        found = two_sample_test(matrix, first.tolist())

        def effect(kept):
            one, two = [i for i in kept if first[i]], [i for i in kept if not first[i]]
            within = [np.mean([matrix[i, j] for i in each for j in each if i != j]) for each in (one, two)]
            return 1 - sum(within) / (2 * matrix[np.ix_(one, two)].mean())

        left = np.array([effect([i for i in range(9) if i != gone]) for gone in range(9)])
        parts = [left[:4], left[4:]]
        variance = sum((len(each) - 1) / len(each) * ((each - each.mean()) ** 2).sum() for each in parts)
        assert found.effect == pytest.approx(effect(range(9)))
        assert found.effect - found.low == pytest.approx(3.182446305284264 * np.sqrt(variance))  # t with 3 degrees

    def test_intervals_cover_the_effect(self):
        def of(rng, count):
            points = np.concatenate([rng.standard_normal((count, 2)), rng.standard_normal((count, 2)) + 1.5])
            return two_sample_test(squareform(pdist(points)), [0] * count + [1] * count, permutations=99)

        truth = of(np.random.default_rng(0), 1500).effect
        found = [of(np.random.default_rng(seed), 8) for seed in range(1, 201)]
        assert np.mean([each.low <= truth <= each.high for each in found]) >= 0.92

    def test_names_of_graphs_do_not_matter(self):
        matrix, order = cloud(10, 4), np.random.default_rng(0).permutation(10)
        groups = np.array(list("aaaaabbbbb"))
        one = two_sample_test(matrix, groups.tolist())
        other = two_sample_test(matrix[np.ix_(order, order)], groups[order].tolist())
        assert (one.p_value, one.effect) == pytest.approx((other.p_value, other.effect))

    @pytest.mark.parametrize(
        ("groups", "words"),
        [
            (list("aaa"), "one entry for each of the 4 graphs, got 3"),
            (list("aaaa"), "groups must be two, got 1"),
            (list("aabc"), "groups must be two, got 3"),
            (list("aaab"), "at least 2 graphs each, but 'b' has one"),
        ],
    )
    def test_bad_groups(self, groups, words):
        with pytest.raises(InputError, match=words):
            two_sample_test(cloud(4, 0), groups)

    @pytest.mark.parametrize(
        ("matrix", "words"),
        [
            (np.ones((2, 3)), "square"),
            (np.full((4, 4), np.nan), "finite"),
            (np.triu(np.ones((4, 4)), 1), "symmetric"),
            (np.ones((4, 4)), "zeros on the diagonal"),
            ("text", "square"),
        ],
    )
    def test_bad_distances(self, matrix, words):
        with pytest.raises(InputError, match=words):
            two_sample_test(matrix, list("aabb"))


class TestIndependence:
    def test_correlation_and_exact_p_value_are_those_of_all_orders(self):
        matrix, values = cloud(6, 5), np.random.default_rng(6).standard_normal(6)
        other = np.abs(values[:, None] - values)

        def centered(d):
            n = len(d)
            made = np.zeros_like(d)
            for i in range(n):
                for j in range(n):
                    if i != j:
                        made[i, j] = d[i, j] - d[i].sum() / (n - 2) - d[:, j].sum() / (n - 2)
                        made[i, j] += d.sum() / ((n - 1) * (n - 2))
            return made

        a = centered(matrix)
        every = [(a * centered(other[np.ix_(order, order)])).sum() for order in itertools.permutations(range(6))]
        scale = np.sqrt((a * a).sum() * (centered(other) ** 2).sum())
        found = independence(matrix, values)
        assert found.correlation == pytest.approx(every[0] / scale)
        assert found.p_value == pytest.approx((np.array(every) >= every[0] - 1e-9).mean())

    def test_texts_are_equal_or_not_and_distances_are_taken_as_they_are(self):
        matrix = cloud(9, 7)
        groups = list("aaabbbccc")
        same = 1.0 - np.equal.outer(np.array(groups), np.array(groups))
        assert independence(matrix, groups, seed=1) == independence(matrix, same, seed=1)

    def test_what_is_planted_is_found(self):
        rng = np.random.default_rng(8)
        age = rng.uniform(20, 60, 20)
        places = np.stack([age / 10, *rng.standard_normal((2, 20))], axis=1)
        found = independence(squareform(pdist(places)), age, permutations=499)
        assert found.p_value == 1 / 500
        assert found.correlation > 0.3

    @pytest.mark.parametrize(
        ("covariate", "words"),
        [
            ([1.0, 2.0], "one entry for each of the 5"),
            (3.0, "got a single value"),
            ([1.0, 2.0, np.nan, 4.0, 5.0], "must be finite"),
            ([1.0] * 5, "covariate must differ"),
        ],
    )
    def test_bad_covariates(self, covariate, words):
        with pytest.raises(InputError, match=words):
            independence(cloud(5, 0), covariate)


@pytest.mark.slow
def test_levels_hold_on_two_thousand_nulls_and_differences_that_degrees_hide_are_found():
    size, nodes, half = 8, 16, 8

    def draw(rng, exchanged):
        side = np.repeat([0, 1], half)
        side[:exchanged], side[half : half + exchanged] = 1, 0
        chance = np.where(np.equal.outer(side, side), 0.6, 0.2)
        upper = np.triu(rng.random((nodes, nodes)) < chance, 1)
        return (upper + upper.T).astype(float)

    def p_values(seed, exchanged):
        rng = np.random.default_rng([seed, exchanged, 1])
        graphs = [draw(rng, 0) for _ in range(size)] + [draw(rng, exchanged) for _ in range(size)]
        groups = [0] * size + [1] * size
        degrees = squareform(pdist([graph.sum(axis=1) for graph in graphs]))
        return [
            two_sample_test(each, groups, permutations=199, seed=seed).p_value for each in (pairwise(graphs), degrees)
        ]

    nulls = np.array([p_values(seed, 0) for seed in range(2000)])
    assert 0.04 <= (nulls[:, 0] <= 0.05).mean() <= 0.06
    planted = np.array([p_values(seed, 3) for seed in range(60)])
    powers = (planted <= 0.05).mean(axis=0)
    assert powers[0] > 0.6
    assert powers[1] < 0.3
