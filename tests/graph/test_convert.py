"""Graphs from and to NetworkX and PyTorch Geometric."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn.errors import InputError
from fishergcn.graph import Graph

networkx = pytest.importorskip("networkx")
SPLIT = {"train": [0], "val": [1], "test": [2, 3]}


@pytest.fixture
def square():
    """Four nodes in a ring with a self-link, everything set."""
    return Graph.from_edges(
        [(0, 1), (1, 2), (2, 3), (3, 0), (2, 2)],
        features=np.arange(8.0).reshape(4, 2),
        labels=[0, 1, 1, -1],
        standard_split=SPLIT,
    )


class TestNetworkx:
    def test_nodes_keep_their_order_and_names(self):
        source = networkx.Graph()
        source.add_nodes_from(["z", 3, ("t", 1)])
        source.add_edge("z", 3, weight=2.5)
        source.add_edge(3, ("t", 1))
        graph = Graph.from_networkx(source, name="n", labels=[0, 1, 0])
        assert graph.node_ids == ("z", "3", "('t', 1)")
        np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 2.5, 0], [2.5, 0, 1], [0, 1, 0]])
        assert (graph.name, graph.num_classes) == ("n", 2)

    def test_karate_club(self):
        source = networkx.karate_club_graph()
        graph = Graph.from_networkx(source)
        assert (graph.num_nodes, graph.num_links) == (34, 78)
        np.testing.assert_array_equal(graph.adjacency.toarray(), networkx.to_numpy_array(source))

    def test_other_weight_attribute(self):
        source = networkx.Graph([(0, 1, {"weight": 5, "cost": 2})])
        assert Graph.from_networkx(source, weight="cost").adjacency[0, 1] == 2

    def test_parallel_links_add_up(self):
        assert Graph.from_networkx(networkx.MultiGraph([(0, 1), (0, 1)])).adjacency[0, 1] == 2

    def test_directed_only_when_asked(self):
        source = networkx.DiGraph([(0, 1), (1, 2)])
        with pytest.raises(InputError, match="symmetric"):
            Graph.from_networkx(source)
        assert Graph.from_networkx(source, directed="symmetrize").num_links == 2

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ([(0, 1)], "must be a NetworkX graph, got list"),
            (networkx.Graph(), "at least 2 nodes, got 0"),
            (networkx.Graph([(0, 1, {"weight": "x"})]), "'weight' must be a number"),
            (networkx.Graph([(0, 1, {"weight": -1})]), "non-negative"),
            (networkx.Graph([(1, "1")]), "distinct"),
        ],
    )
    def test_refused(self, source, message):
        with pytest.raises(InputError, match=message):
            Graph.from_networkx(source)


class TestPyg:
    def test_round_trip(self, square):
        pytest.importorskip("torch_geometric")
        data = square.to_pyg()
        assert data.validate()
        assert data.is_undirected()
        assert data.edge_index.shape == (2, 9)
        assert "edge_weight" not in data
        assert data.test_mask.tolist() == [False, False, True, True]
        assert Graph.from_pyg(data).digest == square.digest

    def test_round_trip_with_weights_and_sparse_features(self):
        pytest.importorskip("torch_geometric")
        features = np.array([[0, 1.5], [2, 0], [0, 0]])
        graph = Graph.from_edges([(0, 1), (1, 2)], weights=[0.1, 2], features=sparse.csr_array(features))
        back = Graph.from_pyg(graph.to_pyg())
        np.testing.assert_array_equal(back.features, features)
        np.testing.assert_array_equal(back.adjacency.data, graph.adjacency.data.astype(np.float32))

    def test_sparse_features_stay_sparse_on_request(self):
        pytest.importorskip("torch_geometric")
        entries = sparse.random_array((2000, 300_000), density=1e-5, rng=np.random.default_rng(0), format="csr")
        graph = Graph.from_edges([(0, 1), (1, 1999)], features=entries)  # dense, they are 2.4 GB
        data = graph.to_pyg(sparse=True)
        assert data.x.layout == torch.sparse_coo
        assert data.num_features == 300_000
        assert data.subgraph(torch.arange(5)).x.shape == (5, 300_000)
        back = Graph.from_pyg(data)
        assert (back.features != graph.features).nnz == 0
        assert Graph.from_edges([(0, 1)], features=np.eye(2)).to_pyg(sparse=True).x.layout == torch.strided

    def test_the_data_are_copies(self, square):
        pytest.importorskip("torch_geometric")
        data = square.to_pyg()
        data.x[:], data.y[:], data.edge_index[:] = 9, 9, 0
        np.testing.assert_array_equal(square.features, np.arange(8.0).reshape(4, 2))
        np.testing.assert_array_equal(square.labels, [0, 1, 1, -1])
        assert square.num_links == 4

    @staticmethod
    def data(**fields):
        index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        return SimpleNamespace(**{"edge_index": index, "num_nodes": 3, **fields})

    def test_without_pyg_and_with_repeated_arcs(self):
        index = torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]])
        graph = Graph.from_pyg(self.data(edge_index=index), name="dup")
        assert (graph.num_nodes, graph.num_links, graph.name) == (3, 1, "dup")
        assert set(graph.adjacency.data) == {1.0}

    def test_label_column_sparse_x_and_many_masks(self):
        rows = torch.eye(3, dtype=torch.bool)[:, :, None].expand(3, 3, 10)
        masks = {f"{part}_mask": rows[number] for number, part in enumerate(("train", "val", "test"))}
        graph = Graph.from_pyg(self.data(x=torch.eye(3).to_sparse(), y=torch.tensor([[0], [1], [1]]), **masks))
        np.testing.assert_array_equal(graph.features.toarray(), np.eye(3))
        np.testing.assert_array_equal(graph.labels, [0, 1, 1])
        assert graph.standard_split is None
        assert [len(graph.masks[part]) for part in ("train", "val", "test")] == [10, 10, 10]

    def test_a_column_of_edge_attr_holds_weights_as_the_adversary_reads_them(self):
        weights = torch.tensor([2.0, 2.0, 3.0, 3.0])
        for column in (weights, weights[:, None]):
            assert Graph.from_pyg(self.data(edge_attr=column)).adjacency[0, 1] == 2.0
            both = self.data(edge_attr=column, edge_weight=weights + 1)
            assert Graph.from_pyg(both).adjacency[0, 1] == 3.0
            assert Graph.from_pyg(self.data(edge_attr=column), weights=None).adjacency[0, 1] == 1.0
        for features in (torch.ones(4, 2) * 5, torch.tensor([5, 5, 5, 5])):  # of links, or kinds of links
            assert Graph.from_pyg(self.data(edge_attr=features)).adjacency[0, 1] == 1.0

    @pytest.mark.parametrize("weights", [None, torch.tensor([2.0, 2.0, 3.0, 3.0])])
    def test_adj_t(self, square, weights):
        transforms = pytest.importorskip("torch_geometric.transforms")
        data = pytest.importorskip("torch_geometric.data").Data(edge_index=self.data().edge_index, num_nodes=3)
        if weights is not None:
            data.edge_weight = weights
        wanted = Graph.from_pyg(data)
        found = Graph.from_pyg(transforms.ToSparseTensor(attr="edge_weight")(data.clone()))
        assert found.digest == wanted.digest
        one_way = transforms.ToSparseTensor()(type(data)(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
        with pytest.raises(InputError, match="has no reverse arc"):
            Graph.from_pyg(one_way)

    def test_gradients_do_not_matter(self):
        assert Graph.from_pyg(self.data(x=torch.eye(3, requires_grad=True))).num_features == 3

    def test_directed_only_when_asked(self):
        one_way = self.data(edge_index=torch.tensor([[0, 1], [1, 2]]))
        with pytest.raises(InputError, match=r"edges\[0\] has no reverse arc"):
            Graph.from_pyg(one_way)
        assert Graph.from_pyg(one_way, directed="symmetrize").num_links == 2

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"edge_index": None}, "must have an edge_index"),
            ({"num_nodes": None}, "how many nodes"),
            ({"edge_index": torch.tensor([[0, 5], [5, 0]])}, "name node 5, but there are only 3"),
            ({"edge_index": torch.zeros(2, 2)}, "pairs of node indices"),
            ({"edge_weight": torch.tensor([1.0, 1, -1, -1])}, "positive, finite weight"),
            ({"edge_weight": torch.ones(3)}, "one number per link"),
            ({"x": torch.ones(2, 2)}, "one row for each of the 3 nodes"),
            ({"y": torch.ones(3)}, "must be integers"),
            ({"y": torch.ones(3, 2, 2, dtype=torch.long)}, "one class for each of the 3 nodes"),
        ],
    )
    def test_refused(self, fields, message):
        with pytest.raises(InputError, match=message):
            Graph.from_pyg(self.data(**fields))
