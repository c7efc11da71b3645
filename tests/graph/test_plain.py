"""Graphs as plain arrays in an archive: read with suspicion, and saved again with all that they hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Graph, splits
from fishergcn.errors import DataFileError, InputError

FEATURES = sparse.csr_array(np.array([[0, 1.5], [2, 0], [0, 0], [1, 1]], dtype=np.float32))
PARTS = {
    "train_masks": [[1, 0, 0, 0], [0, 1, 0, 0]],
    "val_masks": [[0, 1, 0, 0], [1, 0, 0, 0]],
    "test_masks": [[0, 0, 1, 0], [0, 0, 0, 1]],
}
ARRAYS = {
    "edges": np.array([[0, 1], [1, 2], [2, 3]], dtype=np.int32),
    "x_indptr": FEATURES.indptr.astype(np.int64),
    "x_indices": FEATURES.indices.astype(np.int32),
    "x_data": FEATURES.data,
    "x_shape": np.array([4, 2]),
    "labels": np.array([0, 1, 1, -1]),
    "source": np.array("somewhere"),
    **{name: np.array(rows, dtype=bool) for name, rows in PARTS.items()},
}


def write(folder, **changes):
    arrays = {name: np.asarray(array) for name, array in (ARRAYS | changes).items() if array is not None}
    np.savez(folder / "small.npz", **arrays)
    return folder / "small.npz"


def test_everything_is_read(tmp_path):
    graph = Graph.load(write(tmp_path))
    assert (graph.name, graph.num_nodes, graph.num_links, graph.num_classes) == ("small", 4, 3, 2)
    np.testing.assert_array_equal(graph.features.toarray(), FEATURES.toarray())
    assert graph.labels.tolist() == [0, 1, 1, -1]
    assert [split.train.tolist() for split in splits.masks(graph)] == [[0], [1]]


def test_what_was_read_is_saved_with_its_masks(tmp_path):
    graph = Graph.load(write(tmp_path)).replace(feature_names=["a", "b"])
    graph.save(tmp_path / "again.npz")
    again = Graph.load(tmp_path / "again.npz")
    assert (again.digest, again.name, again.feature_names) == (graph.digest, "small", ("a", "b"))
    assert splits.masks(again) == splits.masks(graph)
    assert graph.replace(masks=None).digest != graph.digest
    with np.load(tmp_path / "again.npz", allow_pickle=False) as arrays:
        assert arrays["masks_train"].dtype == bool


@pytest.mark.parametrize("left_out", [["labels"], ["x_shape", "x_indptr", "x_indices", "x_data"], [*PARTS], ["source"]])
def test_parts_may_be_missing(tmp_path, left_out):
    graph = Graph.load(write(tmp_path, **dict.fromkeys(left_out)))
    assert graph.num_nodes == 4
    assert (graph.labels is None, graph.features is None, graph.masks is None) == (
        "labels" in left_out,
        "x_data" in left_out,
        "train_masks" in left_out,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_data": None}, "'x_data' is missing"),
        ({"val_masks": None}, "'val_masks' is missing"),
        ({"labels": None, "x_shape": None, "x_indptr": None, "x_indices": None, "x_data": None}, "how many nodes"),
        ({"edges": [[0, 9]]}, "edges name node 9, but there are only 4 nodes"),
        ({"edges": [[0, -1]]}, "edges must hold node indices from 0"),
        ({"edges": [0, 1]}, "must be pairs of node indices"),
        ({"edges": [[0.0, 1.0]]}, "must be pairs of node indices"),
        ({"x_indptr": [0, 1, 2, 2]}, "do not fit its shape"),
        ({"x_indptr": [1, 1, 2, 2, 4]}, "whole numbers from 0"),
        ({"x_indptr": []}, "whole numbers from 0"),
        ({"x_indptr": [0, 3, 2, 2, 4]}, "do not fit its shape"),
        ({"x_indptr": np.array([0, 3, 2, 2, 4], dtype=np.uint64)}, "do not fit its shape"),
        ({"x_indices": [1, 0, 0, 2]}, "outside its shape"),
        ({"x_indices": [1, 0, 0, -1]}, "outside its shape"),
        ({"x_shape": [4, 2**40]}, "larger than"),
        ({"x_shape": 4}, "not a valid graph file"),
        ({"x_data": [1.0, np.nan, 1, 1]}, "finite"),
        ({"labels": [0, 1, 1]}, "one class for each of the 4 nodes"),
        ({"labels": 7}, "one class for each of the 4 nodes"),
        ({"train_masks": PARTS["train_masks"]}, "masks must be of true and false"),
        ({"train_masks": np.ones((2, 3), dtype=bool)}, r"got bool of shape \(2, 3\) for train"),
        ({"train_masks": np.ones(4, dtype=bool)}, "a row for each split"),
        ({"test_masks": ARRAYS["val_masks"]}, "masks must not overlap, but node 1 is in val and test of mask 0"),
    ],
)
def test_refused_in_one_sentence(tmp_path, changes, message):
    path = write(tmp_path, **changes)
    with pytest.raises(DataFileError, match=message) as caught:
        Graph.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_neither_form(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(DataFileError, match=r"neither a description .* nor edges"):
        Graph.load(tmp_path / "other.npz")


def test_masks_and_names_of_a_graph_are_checked():
    with pytest.raises(InputError, match="masks must have the parts train, val, test, got train"):
        Graph.from_edges([(0, 1)], masks={"train": np.ones((1, 2), dtype=bool)})
    with pytest.raises(InputError, match="feature_names must name each of the 2 columns of features, got 1 names"):
        Graph.from_edges([(0, 1)], features=np.eye(2), feature_names=["a"])
    graph = Graph.from_edges([(0, 1)], features=np.eye(2), feature_names=["a", "b"])
    assert graph.replace(features=np.ones((2, 3))).feature_names is None
    assert graph.digest == graph.replace(feature_names=None).digest


def test_masks_of_pyg_are_columns():
    pytest.importorskip("torch_geometric")
    masks = {part: ARRAYS[f"{part}_masks"] for part in ("train", "val", "test")}
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3)], masks=masks)
    data = graph.to_pyg()
    assert tuple(data.train_mask.shape) == (4, 2)
    assert splits.masks(Graph.from_pyg(data)) == splits.masks(graph)
