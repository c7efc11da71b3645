"""Change points: statistics by definition, levels, what accounts for a change, and streams."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.linalg
import torch

from fishergcn.errors import InputError
from fishergcn.geometry import differentiable, intrinsic
from fishergcn.geometry.statistics import (
    ChangeMonitor,
    GraphCollection,
    change_points,
    explain_change,
    pairwise,
)
from fishergcn.graph import Graph

KINDS = ("combinatorial", "normalized", "renormalized")


def draw(rng, members, inside=0.6, outside=0.15):
    chance = np.where(np.equal.outer(members, members), inside, outside)
    upper = np.triu(rng.random(chance.shape) < chance, 1)
    return (upper + upper.T).astype(float)


def sequence(*counts, nodes=20, seed=0):
    """Graphs whose nodes exchange their communities between the runs of these lengths."""
    rng = np.random.default_rng(seed)
    graphs = []
    for count in counts:
        members = rng.permutation(np.arange(nodes) % 2)
        graphs += [draw(rng, members) for _ in range(count)]
    return graphs


@pytest.fixture(scope="module")
def changed():
    return GraphCollection(sequence(12, 12, 12, nodes=30), names=[f"day {at}" for at in range(36)])


@pytest.fixture(scope="module")
def found(changed):
    return change_points(changed)


def density(adjacency, kind="combinatorial"):
    return intrinsic.density_matrix(intrinsic.graph_laplacian(adjacency, kind).toarray())


class TestExplanations:
    @pytest.mark.parametrize("kind", KINDS)
    def test_parts_add_up_to_the_squared_distance(self, kind):
        one, two = sequence(1, 1, nodes=14)
        two[3] = two[:, 3] = 0.0  # a node that has no links afterwards
        found = explain_change(one, two, kind)
        squared = intrinsic.bures_distance(density(one, kind), density(two, kind)) ** 2
        assert found.distance**2 == pytest.approx(squared, rel=1e-10)
        assert found.nodes.sum() == pytest.approx(squared, rel=1e-10)
        assert found.contributions.sum() == pytest.approx(squared, rel=1e-8)
        assert found.nodes.min() >= 0

    def test_links_contribute_through_the_derivative_of_the_fidelity(self):
        one, two = sequence(1, 1, nodes=9)
        found = explain_change(one, two, "combinatorial")
        weights = [torch.tensor(each[tuple(found.links.T)], requires_grad=True) for each in (one, two)]

        def rho(values, trace):
            links = torch.zeros((9, 9), dtype=torch.float64)
            links[tuple(found.links.T)] = values
            links = links + links.T
            return (torch.diag(links.sum(1)) - links) / trace

        traces = [float(each.detach().sum()) * 2 for each in weights]
        # F = 1 - D²/2 holds for unit traces alone; the derivatives are those at a fixed trace of both.
        a, b = (rho(each, trace) for each, trace in zip(weights, traces, strict=True))
        fidelity = differentiable.fidelity(a, b)
        slopes = torch.autograd.grad(fidelity, weights)
        shares = sum(
            (each * (2 / trace - 2 * slope)).detach()
            for each, slope, trace in zip(weights, slopes, traces, strict=True)
        )
        assert found.contributions == pytest.approx(shares.numpy(), abs=1e-8)

    def test_the_distance_is_that_of_pairwise(self):
        graphs = sequence(1, 1, nodes=10)
        assert explain_change(*graphs).distance == pytest.approx(pairwise(graphs).values[0, 1], rel=1e-9)

    def test_several_graphs_are_the_mean_of_their_densities(self):
        graphs = sequence(2, 2, nodes=10)
        found = explain_change(graphs[:2], graphs[2:], "normalized")
        means = [np.mean([density(each, "normalized") for each in part], axis=0) for part in (graphs[:2], graphs[2:])]
        assert found.distance == pytest.approx(intrinsic.bures_distance(*means), rel=1e-9)
        weights = [np.mean(part, axis=0)[tuple(found.links.T)] for part in (graphs[:2], graphs[2:])]
        assert (found.before, found.after) == (pytest.approx(weights[0]), pytest.approx(weights[1]))

    def test_renaming_nodes_renames_the_parts(self):
        one, two = sequence(1, 1, nodes=12)
        order = np.random.default_rng(3).permutation(12)
        plain, turned = explain_change(one, two), explain_change(one[np.ix_(order, order)], two[np.ix_(order, order)])
        assert turned.nodes == pytest.approx(plain.nodes[order], abs=1e-12)

    def test_equal_graphs_have_no_parts(self):
        graph = sequence(1)[0]
        found = explain_change(graph, graph)
        assert found.distance < 1e-7
        assert found.links.shape == (np.triu(graph, 1).sum(), 2)

    def test_graphs_of_other_sizes_and_without_links_are_refused(self):
        with pytest.raises(InputError, match="same nodes, got 3, 4"):
            explain_change(np.ones((3, 3)), np.ones((4, 4)))
        with pytest.raises(InputError, match="after must have links"):
            explain_change(np.ones((3, 3)), np.zeros((3, 3)))
        with pytest.raises(InputError, match="at least one"):
            explain_change([], np.ones((3, 3)))


class TestChangePoints:
    def test_planted_changes_are_marked_and_nothing_else(self, found):
        assert [each.step for each in found.changes] == [12, 24]
        assert [each.name for each in found.changes] == ["day 12", "day 24"]
        assert max(each.p_value for each in found.changes) <= 0.05
        assert found.level == 0.05
        assert found.notes == ()

    def test_sizes_and_what_is_alone_are_those_of_a_sum_of_parts(self):
        rng = np.random.default_rng(4)
        alone, sizes = rng.random(16), rng.random(16)
        squared = np.array([[alone[i] + alone[j] + sizes[min(i, j) + 1 : max(i, j) + 1].sum() for j in range(16)]
                            for i in range(16)])  # fmt: skip
        np.fill_diagonal(squared, 0.0)
        found = change_points(sequence(16, nodes=8), distances=np.sqrt(squared), explain=False)
        assert found.sizes[2:15] == pytest.approx(sizes[2:15])
        assert found.alone[1:15] == pytest.approx(alone[1:15])
        assert np.isnan(found.sizes[[0, 1, 15]]).all()
        assert np.isnan(found.alone[[0, 15]]).all()

    def test_parts_are_the_least_squares_solution(self):
        matrix = pairwise(sequence(5, 6, nodes=12)).values
        found = change_points(sequence(11, nodes=8), distances=matrix, window=3, explain=False)
        rows, wanted = [], []
        for i, j in itertools.combinations(range(11), 2):
            if j - i > 3:
                continue
            rows.append([*(float(at in (i, j)) for at in range(11)), *(float(i < t <= j) for t in range(2, 10))])
            wanted.append(matrix[i, j] ** 2)
        solved = np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=None)[0]
        assert found.sizes[2:10] == pytest.approx(solved[11:])
        assert found.alone[1:10] == pytest.approx(solved[1:10])

    def test_p_values_are_shares_of_random_orders_of_the_sequence_and_of_runs_between_marks(self, changed, found):
        run = change_points(changed[12:24], window=6, level=0.05 / 3, explain=False)  # between the marks
        assert found.p_values[14:23] == pytest.approx(np.minimum(1, 3 * run.p_values[2:11]))
        assert found.statistics[14:23] == pytest.approx(run.statistics[2:11])
        shares = found.p_values[[12, 24]] * 1000
        assert np.round(shares) == pytest.approx(shares, abs=1e-6)
        known = np.isfinite(found.p_values)
        assert ((found.statistics[known] >= 1) <= (found.p_values[known] <= 0.051)).all()

    def test_small_changes_are_seen_beside_large_ones(self):
        rng = np.random.default_rng(2)
        places = rng.standard_normal((72, 12))
        for step, size in ((18, 1.4), (36, 8.0), (54, 1.4)):
            places[step:] += size
        matrix = np.linalg.norm(places[:, None] - places, axis=-1)
        graphs = sequence(72, nodes=6)
        found = change_points(graphs, distances=matrix, explain=False)
        assert [each.step for each in found.changes] == [18, 36, 54]
        assert found.ranked(1) == [36]
        assert set(found.ranked(3)) == {18, 36, 54}

    def test_explanations_stop_at_other_changes(self, changed, found):
        graphs, width = changed.adjacencies, found.window
        expected = explain_change(list(graphs[12 - width : 12]), list(graphs[12 : 12 + width]), "combinatorial")
        assert found.changes[0].explanation.nodes == pytest.approx(expected.nodes)

    @pytest.mark.parametrize("kind", ["noise", "drift", "both"])
    def test_sequences_without_a_change_are_marked_as_often_as_the_level_says(self, kind):
        points = np.random.default_rng(1).standard_normal((200, 24, 10))
        walks = points.cumsum(axis=1)
        if kind == "both":
            walks = points / 2 + np.random.default_rng(2).standard_normal((200, 24, 10)).cumsum(axis=1)
        graphs = sequence(24, nodes=6)
        matrices = [np.linalg.norm(each[:, None] - each, axis=-1) for each in (points if kind == "noise" else walks)]
        marked = [
            bool(change_points(graphs, distances=each, permutations=99, seed=seed, explain=False).changes)
            for seed, each in enumerate(matrices)
        ]
        assert (0.01 if kind == "noise" else 0.0) <= np.mean(marked) <= 0.10

    def test_changes_stand_out_of_a_drift_and_may_be_close_to_each_other(self):
        rng = np.random.default_rng(5)
        places = 0.3 * rng.standard_normal((14, 30)).cumsum(axis=0) + 0.3 * rng.standard_normal((14, 30))
        for step in (3, 6, 10):
            places[step:] += 2 * rng.standard_normal(30)
        matrix = np.linalg.norm(places[:, None] - places, axis=-1)
        found = change_points(sequence(14, nodes=6), distances=matrix, explain=False)
        assert [each.step for each in found.changes] == [3, 6, 10]
        assert sorted(found.ranked(3)) == [3, 6, 10]

    def test_a_sequence_too_short_for_a_level_is_ranked(self):
        found = change_points(sequence(3, 3, nodes=40))
        assert found.level is None
        assert found.changes == ()
        assert np.isnan(found.p_values).all()
        assert found.ranked(1) == [3]
        steps = change_points([*sequence(12, nodes=8)], explain=False).ranked()
        assert len(steps) >= 3  # a window of six graphs would leave two
        assert min(np.diff(np.sort(steps))) >= 3
        assert "too few for a level of 0.05" in found.notes[0]

    @pytest.mark.parametrize(("count", "least"), [(10, 0.6), (12, 0.9)])
    def test_clear_changes_of_short_sequences_are_marked(self, count, least):
        found = 0
        for seed in range(20):
            places = np.random.default_rng(seed).standard_normal((count, 20))
            places[count // 2 :] += 8
            matrix = np.linalg.norm(places[:, None] - places, axis=-1)
            made = change_points(sequence(count, nodes=6), distances=matrix, permutations=199, explain=False)
            assert made.window == count // 2
            found += [each.step for each in made.changes] == [count // 2]
        assert found / 20 >= least

    def test_short_sequences_without_marks_say_what_they_cannot_show(self):
        found = change_points(sequence(9, nodes=12), explain=False)
        assert found.changes == ()
        assert "9 graphs cannot be sure to mark even a large change at the level 0.05" in found.notes[-1]
        assert not any("cannot be sure" in each for each in change_points([sequence(1)[0]] * 12).notes)

    def test_a_sequence_that_drifts_says_so(self):
        steps = np.random.default_rng(0).standard_normal((60, 6))
        places = steps.cumsum(axis=0)
        matrix = np.linalg.norm(places[:, None] - places, axis=-1)
        found = change_points(sequence(60, nodes=8), distances=matrix, explain=False)
        assert found.changes == ()
        assert "no step stands out: the sequence drifts" in found.notes[0]

    def test_equal_graphs_have_no_change(self):
        found = change_points([sequence(1, nodes=8)[0]] * 12)
        assert (found.changes, found.odd) == ((), ())

    def test_one_odd_graph_stands_alone_and_is_no_change_that_lasts(self):
        graphs = sequence(24, nodes=24)
        graphs[14] = np.zeros((24, 24))
        graphs[14][0, 1:] = graphs[14][1:, 0] = 1.0  # a star
        found = change_points(graphs, explain=False)
        assert found.odd == (14,)
        assert np.nanargmax(found.alone) == 14
        assert found.changes == ()

    def test_times_must_increase_and_gaps_are_pointed_out(self):
        graphs = sequence(8, nodes=8)
        late = GraphCollection(graphs, times=[0, 1, 3, 2, 4, 5, 6, 7])
        with pytest.raises(InputError, match=r"order of time, but '3' \(2\) comes after '2' \(3\)"):
            change_points(late)
        assert [each.step for each in change_points(late.in_time()).changes] == []
        uneven = change_points(GraphCollection(graphs, times=[0, 1, 2, 3, 50, 51, 52, 53]))
        assert "uneven" in uneven.notes[0]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"window": 1}, "window must be at least 2"),
            ({"window": 5}, "at most half of the sequence of 8"),
            ({"level": 0.0}, "level must be"),
            ({"permutations": 5}, "permutations must be at least 99"),
            ({"distances": np.zeros((3, 3))}, "those of the 8 graphs, got 3"),
        ],
    )
    def test_bad_options(self, options, words):
        with pytest.raises(InputError, match=words):
            change_points(sequence(8, nodes=6), **options)

    def test_few_graphs_are_refused(self):
        with pytest.raises(InputError, match="at least 4 graphs to find changes between them, got 3"):
            change_points(sequence(3, nodes=6))


class TestMonitor:
    def test_scores_are_distances_and_the_mean_moves_along_the_geodesic(self):
        graphs = sequence(4, nodes=9)
        monitor = ChangeMonitor(window=3)
        mean = density(graphs[0])
        monitor.add(graphs[0])
        for place, graph in enumerate(graphs[1:], 1):
            step = monitor.add(graph)
            assert step.score == pytest.approx(intrinsic.bures_distance(mean, density(graph)), rel=1e-6)
            assert step.nodes.sum() == pytest.approx(step.score**2)
            mean = intrinsic.geodesic(mean, density(graph), 1 / min(place + 1, 3))
            assert monitor.mean == pytest.approx(mean, abs=1e-7)

    def test_one_decomposition_of_each_kind_a_graph(self, monkeypatch):
        calls = {"svd": 0, "eigh": 0}
        for name in calls:
            plain = getattr(scipy.linalg, name)

            def counted(*arguments, name=name, plain=plain, **options):
                calls[name] += 1
                return plain(*arguments, **options)

            monkeypatch.setattr(scipy.linalg, name, counted)
        monitor = ChangeMonitor(window=5)
        for graph in sequence(12, nodes=6):
            monitor.add(graph)
        assert calls == {"svd": 11, "eigh": 12}

    def test_a_change_is_reported_once_there_are_enough_scores(self):
        graphs = sequence(30, 1, nodes=20)
        monitor = ChangeMonitor(window=5)
        steps = [monitor.add(graph) for graph in graphs]
        assert [each.p_value is None for each in steps[:25]] == [True] * 24 + [False]
        assert steps[-1].changed
        assert steps[-1].p_value == pytest.approx(1 / 26)

    def test_new_nodes_join_and_old_ones_may_be_missing(self):
        monitor = ChangeMonitor()
        first = Graph.from_edges([(0, 1), (1, 2)], node_ids=["a", "b", "c"])
        second = Graph.from_edges([(0, 1), (1, 2)], node_ids=["d", "c", "b"])
        monitor.add(first)
        step = monitor.add(second)
        assert monitor.node_ids == ("a", "b", "c", "d")
        both = GraphCollection([first, second])
        assert step.score == pytest.approx(pairwise(both).values[0, 1])
        with pytest.raises(InputError, match="node ids if those before"):
            monitor.add(np.ones((3, 3)))
        assert monitor.steps == 2

    def test_bad_input_changes_nothing(self):
        monitor = ChangeMonitor()
        monitor.add(np.ones((3, 3)))
        for graph, words in ((np.ones((4, 4)), "must have 3 nodes"), (np.zeros((3, 3)), "positive trace")):
            with pytest.raises(InputError, match=words):
                monitor.add(graph)
        assert (monitor.steps, monitor.node_ids) == (1, (0, 1, 2))
        with pytest.raises(InputError, match="reference must be at least 20"):
            ChangeMonitor(reference=10)
