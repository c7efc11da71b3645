"""The graph itself: what it accepts, what it refuses, and that it never changes."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic import graph_laplacian
from fishergcn.graph import Graph
from fishergcn.propagation import high_order, renormalized

PATH = np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]], dtype=float)


def adjacency_oracle(pairs, weights, n):
    """Loop over the pairs: the weight of a link is that of any pair that names it."""
    dense = np.zeros((n, n))
    for (i, j), weight in zip(pairs, weights, strict=True):
        dense[i, j] = dense[j, i] = max(dense[i, j], weight)
    return dense


class TestCounts:
    def test_path(self):
        graph = Graph(PATH, labels=[0, 2, -1], features=np.eye(3))
        assert (graph.num_nodes, graph.num_links, graph.num_classes, graph.num_features) == (3, 2, 3, 3)
        assert (graph.num_components, graph.num_self_links, graph.has_self_links) == (1, 0, False)
        np.testing.assert_array_equal(graph.adjacency.toarray(), PATH)

    def test_self_links_and_components(self):
        graph = Graph(sparse.block_diag([PATH, [[3.0]]]))
        assert (graph.num_links, graph.num_self_links, graph.num_components) == (2, 1, 2)
        dropped = Graph(sparse.block_diag([PATH, [[3.0]]]), self_links="drop")
        assert (dropped.num_links, dropped.num_self_links, dropped.num_components) == (2, 0, 2)
        assert dropped.adjacency.nnz == 4

    def test_dropping_no_self_links_changes_nothing(self):
        assert Graph(PATH, self_links="drop").digest == Graph(PATH).digest

    def test_no_links_at_all(self):
        graph = Graph(np.zeros((2, 2)))
        assert (graph.num_links, graph.num_components, graph.num_classes) == (0, 2, 0)

    def test_class_names_count(self):
        assert Graph(PATH, labels=[0, 0, 0], class_names=["a", "b"]).num_classes == 2

    def test_a_class_with_one_member(self):
        assert Graph(PATH, labels=[0, 0, 1]).num_classes == 2

    def test_repr(self):
        assert repr(Graph(PATH, name="path")) == "<Graph 'path': 3 nodes, 2 links, 0 features, 0 classes>"

    @pytest.mark.parametrize("name", ["from_scipy", "from_numpy", "from_nx"])
    def test_a_constructor_that_does_not_exist_leads_to_those_that_do(self, name):
        message = rf"no attribute '{name}'; matrices of SciPy and NumPy go to Graph\(adjacency, .* Graph.from_networkx,"
        with pytest.raises(AttributeError, match=message):
            getattr(Graph, name)
        with pytest.raises(AttributeError, match=r"^Graph has no attribute 'edges'\.$"):
            _ = Graph.edges

    def test_table_for_notebooks(self):
        names = [f"class {code}" for code in range(12)]
        hostile = Graph(np.ones((13, 13)), labels=[*range(12), -1], class_names=["<i>a", *names[1:]], name="<b>\x1b")
        shown = hostile._repr_html_()
        assert shown.startswith(r"<table><caption>Graph &lt;b&gt;\x1b</caption><tr><th>nodes</th><td>13</td></tr>")
        assert "<td>12 (&lt;i&gt;a, class 1, class 2, " in shown
        assert "class 9, …)</td>" in shown
        assert "<th>nodes with a class</th><td>12</td>" in shown
        bare = Graph(PATH)._repr_html_()
        assert "<caption>Graph</caption>" in bare
        assert "<th>classes</th><td>0</td>" in bare


class TestCanonicalForm:
    def test_duplicates_are_summed_and_zeros_removed(self):
        rows, columns = [0, 1, 0, 1, 0, 2], [1, 0, 1, 0, 2, 0]
        coo = sparse.coo_array(([1.0, 1, 2, 2, 0, 0], (rows, columns)), shape=(3, 3))
        adjacency = Graph(coo).adjacency
        assert adjacency.nnz == 2
        assert adjacency[0, 1] == 3
        assert adjacency.has_canonical_format
        assert adjacency.dtype == np.float64

    @pytest.mark.parametrize(
        "convert", [np.array, sparse.csr_array, sparse.csc_matrix, sparse.coo_array, np.ndarray.tolist]
    )
    def test_every_representation_gives_the_same_graph(self, convert):
        assert Graph(convert(PATH)).digest == Graph(PATH).digest

    def test_input_is_copied(self):
        matrix, features, labels = PATH.copy(), np.eye(3, dtype=np.float32), np.array([0, 1, 0])
        graph = Graph(matrix, features, labels)
        matrix[:], features[:], labels[:] = 7, 7, 1
        np.testing.assert_array_equal(graph.adjacency.toarray(), PATH)
        np.testing.assert_array_equal(graph.features, np.eye(3))
        np.testing.assert_array_equal(graph.labels, [0, 1, 0])

    def test_sparse_features_stay_sparse_and_canonical(self):
        features = sparse.coo_array(([1.0, 1.0, 0.0], ([0, 0, 1], [1, 1, 2])), shape=(3, 4))
        graph = Graph(PATH, features)
        assert isinstance(graph.features, sparse.csr_array)
        assert graph.features.dtype == np.float32
        assert graph.features.nnz == 1
        assert graph.num_features == 4

    def test_symmetrize_takes_the_larger(self):
        graph = Graph([[0, 1, 0], [3, 0, 0], [0, 2, 0]], directed="symmetrize")
        np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 3, 0], [3, 0, 2], [0, 2, 0]])


class TestImmutable:
    graph = Graph(PATH, sparse.eye_array(3), [0, 1, 0], standard_split={"train": [0], "val": [1], "test": [2]})

    def test_attributes(self):
        with pytest.raises(AttributeError, match="immutable"):
            self.graph.name = "other"

    def test_arrays(self):
        for array in (self.graph.adjacency.data, self.graph.adjacency.indices, self.graph.features.data):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            self.graph.labels[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            self.graph.standard_split["train"][0] = 2

    def test_split_mapping(self):
        with pytest.raises(TypeError):
            self.graph.standard_split["train"] = np.array([1])

    def test_scipy_methods_that_swap_arrays_do_not_reach_the_graph(self):
        taken = self.graph.adjacency
        taken.setdiag(5.0)
        assert taken.diagonal().sum() == 15
        assert self.graph.num_self_links == 0
        np.testing.assert_array_equal(self.graph.adjacency.toarray(), PATH)

    def test_pickle_keeps_everything(self):
        copy = pickle.loads(pickle.dumps(self.graph))
        assert copy.digest == self.graph.digest
        with pytest.raises(ValueError, match="read-only"):
            copy.labels[0] = 1

    def test_replace(self):
        renamed = self.graph.replace(name="x", node_ids=["a", "b", "c"])
        assert (renamed.name, renamed.node_ids, renamed.digest) == ("x", ("a", "b", "c"), self.graph.digest)
        assert self.graph.name is None


class TestDigest:
    graphs = (
        Graph(PATH),
        Graph(PATH * 2),
        Graph(PATH, np.eye(3)),
        Graph(PATH, sparse.csr_array((3, 3))),
        Graph(PATH, sparse.csr_array((3, 4))),
        Graph(PATH, labels=[0, 1, 2]),
        Graph(PATH, labels=[0, 1, -1]),
        Graph(PATH, standard_split={"train": [0, 1, 2], "val": [], "test": []}),
        Graph(PATH, standard_split={"train": [], "val": [0, 1, 2], "test": []}),
    )

    def test_different_content_has_different_digests(self):
        digests = [graph.digest for graph in self.graphs]
        assert len(set(digests)) == len(digests)

    def test_names_do_not_count(self):
        assert Graph(PATH, name="a", node_ids="xyz").digest == Graph(PATH).digest

    def test_it_is_stable(self):
        # Records of earlier runs refer to graphs by this number.
        assert Graph([[0, 1], [1, 0]]).digest == ("e90078cc7d494d61150d7adbdf7b5097a8ef654dc97b5b16c79c2f302f2c35e6")


class TestFromEdges:
    def test_both_orders_and_repetitions_are_one_link(self):
        graph = Graph.from_edges([(0, 1), (1, 2), (2, 1), (0, 1)])
        assert graph.num_links == 2
        assert set(graph.adjacency.data) == {1.0}

    def test_self_link(self):
        graph = Graph.from_edges([(0, 0), (0, 1)], weights=[4.0, 2.0])
        np.testing.assert_array_equal(graph.adjacency.toarray(), [[4, 2], [2, 0]])

    def test_isolated_nodes_and_no_links(self):
        assert Graph.from_edges([], num_nodes=3).num_components == 3
        assert Graph.from_edges([(0, 1)], num_nodes=4).num_components == 3

    def test_generator_and_unsigned(self):
        assert Graph.from_edges((i, i + 1) for i in range(3)).num_links == 3
        assert Graph.from_edges(np.array([[0, 3]], dtype=np.uint64)).num_nodes == 4

    def test_refuse_accepts_both_arcs(self):
        graph = Graph.from_edges([(0, 1), (1, 2), (1, 0), (2, 1)], weights=[1, 2, 1, 2], directed="refuse")
        np.testing.assert_array_equal(graph.adjacency.toarray(), PATH)

    def test_refuse_names_the_lonely_arc(self):
        with pytest.raises(InputError, match=r"edges\[1\] has no reverse arc") as caught:
            Graph.from_edges([(0, 1), (1, 2), (1, 0)], directed="refuse")
        assert caught.value.rows == (1,)
        with pytest.raises(InputError, match=r"edges\[0\] has no reverse arc"):
            Graph.from_edges([(0, 1), (1, 0)], weights=[1, 2], directed="refuse")

    def test_conflicting_weights(self):
        with pytest.raises(InputError, match=r"edges\[0\] and edges\[2\] .* weights, 1 and 2") as caught:
            Graph.from_edges([(0, 1), (1, 2), (1, 0)], weights=[1, 1, 2])
        assert caught.value.rows == (0, 2)
        merged = Graph.from_edges([(0, 1), (1, 2), (1, 0)], weights=[1, 1, 2], directed="symmetrize")
        np.testing.assert_array_equal(merged.adjacency.toarray(), [[0, 2, 0], [2, 0, 1], [0, 1, 0]])

    @pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
    def test_weights_must_be_positive(self, weight):
        with pytest.raises(InputError, match=r"edges\[1\] must have a positive, finite weight"):
            Graph.from_edges([(0, 1), (1, 2)], weights=[1.0, weight])

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"edges": [(0, 1, 2)]}, "pairs of node indices"),
            ({"edges": [(0, 1), (2,)]}, "pairs of node indices"),
            ({"edges": [(0.5, 1.0)]}, "pairs of node indices"),
            ({"edges": [("a", "b")]}, "pairs of node indices"),
            ({"edges": 3}, "pairs of node indices"),
            ({"edges": [(-1, 1)]}, "from 0 to"),
            ({"edges": [(0, 2**40)]}, "from 0 to"),
            ({"edges": []}, "num_nodes must be between 2"),
            ({"edges": [(0, 0)]}, "num_nodes must be between 2"),
            ({"edges": [(0, 1)], "num_nodes": 10**18}, "num_nodes must be between 2"),
            ({"edges": [(0, 5)], "num_nodes": 5}, "name node 5, but there are only 5"),
            ({"edges": [(0, 1)], "weights": [1, 2]}, "one number per link"),
            ({"edges": [(0, 1)], "weights": ["x"]}, "weights must be numbers"),
            ({"edges": [(0, 1)], "directed": "undirect"}, "did you mean 'undirected'"),
        ],
    )
    def test_refused(self, arguments, message):
        with pytest.raises(InputError, match=message):
            Graph.from_edges(**arguments)

    @given(st.data())
    @settings(max_examples=50)
    def test_against_a_loop(self, data):
        n = data.draw(st.integers(2, 6))
        node = st.integers(0, n - 1)
        pairs = data.draw(st.lists(st.tuples(node, node), max_size=20))
        weights = data.draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=len(pairs), max_size=len(pairs)))
        graph = Graph.from_edges(pairs, num_nodes=n, weights=weights, directed="symmetrize")
        np.testing.assert_array_equal(graph.adjacency.toarray(), adjacency_oracle(pairs, weights, n))
        ones = Graph.from_edges(pairs, num_nodes=n)
        np.testing.assert_array_equal(ones.adjacency.toarray(), adjacency_oracle(pairs, [1.0] * len(pairs), n))
        assert ones.num_links == len({frozenset(pair) for pair in pairs if pair[0] != pair[1]})

    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
    @settings(max_examples=50)
    def test_refuse_is_exactly_asymmetry(self, pairs):
        symmetric = all((j, i) in pairs for i, j in pairs)
        try:
            Graph.from_edges(pairs, num_nodes=6, directed="refuse")
        except InputError as error:
            i, j = pairs[error.rows[0]]
            assert (j, i) not in pairs
            assert not symmetric
        else:
            assert symmetric


class TestRefused:
    @pytest.mark.parametrize(
        ("matrix", "message"),
        [
            ([[0, -1], [-1, 0]], "non-negative"),
            ([[0, np.nan], [np.nan, 0]], "finite"),
            ([[0, np.inf], [np.inf, 0]], "finite"),
            (np.ones((2, 3)), "square"),
            (np.zeros((0, 0)), "at least 2 nodes, got 0"),
            ([[1.0]], "at least 2 nodes, got 1"),
            ([1.0, 2.0], "2 dimensions"),
            ([["a", "b"], ["b", "a"]], "real numbers"),
            (np.array([[0, 1j], [1j, 0]]), "real numbers"),
            (None, "adjacency must"),
        ],
    )
    @pytest.mark.parametrize("directed", ["refuse", "symmetrize"])
    def test_adjacency(self, matrix, message, directed):
        with pytest.raises(InputError, match=message):
            Graph(matrix, directed=directed)

    def test_asymmetric(self):
        with pytest.raises(InputError, match=r"symmetric, but entry \(0, 1\) is 1 and entry \(1, 0\) is 0"):
            Graph([[0, 1], [0, 0]])

    def test_symmetrize_does_not_swallow_a_negative_weight(self):
        with pytest.raises(InputError, match="non-negative"):
            Graph([[0, -1], [1, 0]], directed="symmetrize")

    @pytest.mark.parametrize(
        ("features", "message"),
        [
            (np.ones((2, 4)), "one row for each of the 3 nodes, got 2"),
            (np.ones(3), r"got 1 dimension\(s\)"),
            (np.full((3, 1), np.nan), "finite"),
            (np.full((3, 1), 1e300), "finite numbers in float32"),
            (sparse.csr_array(np.full((3, 1), np.inf)), "finite"),
            (np.full((3, 1), 1j), "real numbers"),
            ([["a"], ["b"], ["c"]], "real numbers"),
            ([[1], [1, 2], [3]], "real numbers"),
            ([[None], [None], [None]], "real numbers"),
        ],
    )
    def test_features(self, features, message):
        with pytest.raises(InputError, match=message):
            Graph(PATH, features)

    def test_features_with_an_index_outside(self):
        broken = sparse.csr_array(np.eye(3))
        broken.indices[0] = 99
        with pytest.raises(InputError, match="features must be a matrix"):
            Graph(PATH, broken)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ([0, 1], "each of the 3 nodes"),
            ([[0], [1], [2]], "each of the 3 nodes"),
            ([0, [1, 2], 3], "list of integers"),
            ([0.0, 1.0, 2.0], "must be integers"),
            (["a", "b", "c"], "must be integers"),
            ([0, 1, -2], "between -1"),
            (np.array([0, 1, 2**63], dtype=np.uint64), "between -1"),
            ([0, 1, 10**12], "between -1"),
        ],
    )
    def test_labels(self, labels, message):
        with pytest.raises(InputError, match=message):
            Graph(PATH, labels=labels)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"node_ids": ["a", "b"]}, "each of the 3 nodes, got 2"),
            ({"node_ids": ["a", "b", "a"]}, "distinct, got 'a' more than once"),
            ({"class_names": ["a", "a"]}, "class_names must be distinct"),
            ({"labels": [0, 1, 2], "class_names": ["a"]}, "go up to 2, but class_names has 1"),
            ({"labels": [0, 1, 2], "class_names": []}, "go up to 2, but class_names has 0"),
            ({"name": 3}, "name must be text"),
            ({"self_links": "keeps"}, "did you mean 'keep'"),
            ({"directed": "undirected"}, "directed must be one of"),
            ({"standard_split": {"train": [0]}}, "must have the parts train, val, test"),
            ({"standard_split": {"train": [0], "val": [1], "test": [3]}}, "from 0 to 2"),
            ({"standard_split": {"train": [0], "val": [1], "test": [-1]}}, "from 0 to 2"),
            ({"standard_split": {"train": [0], "val": [1], "test": [0.5]}}, "list of node indices"),
            ({"standard_split": {"train": [0], "val": [1], "test": [True]}}, "list of node indices"),
            ({"standard_split": {"train": [0], "val": [1], "test": [[1], [1, 2]]}}, "list of node indices"),
        ],
    )
    def test_the_rest(self, arguments, message):
        with pytest.raises(InputError, match=message):
            Graph(PATH, **arguments)


@pytest.mark.parametrize("argument", ["edges", "features", "labels"])
@pytest.mark.parametrize("value", [[(0, 1)], np.eye(2), 3])
def test_tables_in_memory_are_not_files(argument, value, tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n")
    arguments = {"edges": tmp_path / "edges.csv", argument: value}
    expected = f"{argument} must be the path of a file, got {type(value).__name__}; Graph.from_edges takes"
    with pytest.raises(InputError, match=expected):
        Graph.from_files(**arguments)


def test_a_file_of_edges_is_needed():
    with pytest.raises(InputError, match="edges must be the path of a file, got NoneType"):
        Graph.from_files(None)


@pytest.mark.parametrize("function", [Graph, renormalized, high_order, graph_laplacian])
def test_a_graph_is_no_adjacency_matrix(function):
    with pytest.raises(InputError, match=r"adjacency must be a matrix, got a Graph; give graph\.adjacency\."):
        function(Graph(PATH))


def test_relabelling_permutes_and_nothing_else():
    generator = np.random.default_rng(5)
    dense = np.triu(generator.integers(0, 2, (8, 8)), 1).astype(float)
    dense += dense.T
    order = generator.permutation(8)
    graph, moved = Graph(dense), Graph(dense[np.ix_(order, order)])
    assert (graph.num_links, graph.num_components) == (moved.num_links, moved.num_components)
    for i, j in itertools.product(range(8), repeat=2):
        assert moved.adjacency[i, j] == graph.adjacency[order[i], order[j]]
