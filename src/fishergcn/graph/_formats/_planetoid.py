"""The Planetoid format: eight files ``ind.NAME.*`` per graph, seven of them pickles.

=================  ==================================================================================
``x``, ``y``       features and one-hot labels of the training nodes, the first nodes of the graph
``allx``, ``ally`` the same for all nodes before the test range; they begin with ``x`` and ``y``
``tx``, ``ty``     the same for the test nodes, in the order of ``test.index``
``graph``          dict from each node to the list of its neighbors
``test.index``     text: the test nodes, one a line, unordered
=================  ==================================================================================

Nodes in the test range that ``test.index`` does not list (15 in CiteSeer) have no features and no label.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.files import read_bytes
from fishergcn._base.types import IntArray
from fishergcn.errors import DataFileError, InputError
from fishergcn.graph._formats._unpickle import MAX_FILE_BYTES, AnyCSR, read_array, read_lists, read_matrix

_NUM_VALIDATION = 500


def planetoid_arguments(directory: str | os.PathLike[str], name: str) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for Planetoid files; see ``Graph.from_planetoid``."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise InputError(f"name must consist of letters, digits, '-' and '_', got {name!r}.")
    folder = Path(directory)
    features, labels, num_train = _known_nodes(folder, name)
    neighbors = read_lists(folder / f"ind.{name}.graph")
    test = _read_test_index(folder / f"ind.{name}.test.index", features.shape[0], len(neighbors))
    test_features, test_labels = _features_and_labels(folder, name, "tx", "ty")
    if test_features.shape != (test.size, features.shape[1]):
        raise DataFileError(
            f"{folder}/ind.{name}.tx must have {test.size} rows, one per test node, and "
            f"{features.shape[1]} columns, got shape {test_features.shape}."
        )
    num_nodes = len(neighbors)
    all_labels = np.full(num_nodes, -1, dtype=np.int64)
    all_labels[: labels.size] = labels
    all_labels[test] = test_labels
    return {
        "adjacency": _adjacency(folder / f"ind.{name}.graph", neighbors),
        "features": _stack_rows(features, test_features, test, num_nodes),
        "labels": all_labels,
        "name": name,
        "standard_split": {
            "train": np.arange(num_train),
            "val": np.arange(num_train, num_train + _NUM_VALIDATION),
            "test": np.sort(test),
        },
    }


def _known_nodes(folder: Path, name: str) -> tuple[AnyCSR, IntArray, int]:
    """Return features and labels of the nodes before the test range, and how many of them train."""
    train_features, train_labels = _features_and_labels(folder, name, "x", "y")
    features, labels = _features_and_labels(folder, name, "allx", "ally")
    num_train = train_labels.size
    if features.shape[0] < num_train + _NUM_VALIDATION:
        raise DataFileError(
            f"{folder}/ind.{name}.allx must have at least {num_train + _NUM_VALIDATION} rows, for training "
            f"and validation, got {features.shape[0]}."
        )
    begins_alike = (
        features.shape[1] == train_features.shape[1]
        and np.array_equal(labels[:num_train], train_labels)
        and (features[:num_train] - train_features).count_nonzero() == 0
    )
    if not begins_alike:
        raise DataFileError(f"{folder}/ind.{name}.allx and .ally must begin with the rows of .x and .y.")
    return features, labels, num_train


def _features_and_labels(folder: Path, name: str, x: str, y: str) -> tuple[AnyCSR, IntArray]:
    features = read_matrix(folder / f"ind.{name}.{x}")
    labels = _read_labels(folder / f"ind.{name}.{y}")
    if features.shape[0] != labels.size:
        raise DataFileError(
            f"{folder}/ind.{name}.{x} and .{y} must have equally many rows, got {features.shape[0]} and {labels.size}."
        )
    return features, labels


def _read_labels(path: Path) -> IntArray:
    """Return the column of the 1 in each one-hot row, -1 for a row of zeros."""
    one_hot = read_array(path)
    if one_hot.ndim != 2 or one_hot.shape[1] == 0 or not np.isin(one_hot, (0, 1)).all():
        raise DataFileError(f"{path} must hold one-hot rows of 0 and 1, and it does not.")
    ones = np.count_nonzero(one_hot, axis=1)
    if (ones > 1).any():
        raise DataFileError(f"{path} must give every node one class, and row {np.argmax(ones > 1)} has {ones.max()}.")
    return np.where(ones == 1, one_hot.argmax(axis=1), -1).astype(np.int64)


def _read_test_index(path: Path, low: int, high: int) -> IntArray:
    """Return the test nodes in the order of the file: distinct, from ``low`` to below ``high``."""
    lines = read_bytes(path, limit=MAX_FILE_BYTES).decode("ascii", errors="replace").split()
    for line, word in enumerate(lines, start=1):
        if not re.fullmatch("[0-9]{1,18}", word) or not low <= int(word) < high:
            raise DataFileError(f"{path} must list nodes from {low} to {high - 1}, got {word[:20]!r} as entry {line}.")
    test = np.array(lines, dtype=np.int64)
    if np.unique(test).size < test.size:
        raise DataFileError(f"{path} must list every node once, and some are repeated.")
    return test


def _adjacency(path: Path, neighbors: dict[int, list[int]]) -> Any:
    """Return A with a_ij = 1 if either of the nodes i and j lists the other."""
    num_nodes = len(neighbors)
    rows = np.repeat(_node_ids(path, list(neighbors), num_nodes), [len(nodes) for nodes in neighbors.values()])
    columns = _node_ids(path, [node for nodes in neighbors.values() for node in nodes], num_nodes)
    # Links are listed from one end or both, some of them repeatedly; each counts once.
    pairs = np.unique(np.stack([np.concatenate([rows, columns]), np.concatenate([columns, rows])]), axis=1)
    return sparse.csr_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=(num_nodes, num_nodes))


def _node_ids(path: Path, nodes: list[int], num_nodes: int) -> IntArray:
    outside = [node for node in nodes if not 0 <= node < num_nodes]
    if outside:
        raise DataFileError(f"{path} must number its {num_nodes} nodes from 0, got node {outside[0]}.")
    return np.array(nodes, dtype=np.int64)


def _stack_rows(features: AnyCSR, test_features: AnyCSR, test: IntArray, num_nodes: int) -> Any:
    """Put the rows of the test nodes where they belong; rows that no file has are empty."""
    top, bottom = features.tocoo(), test_features.tocoo()
    rows = np.concatenate([top.row, test[bottom.row]])
    columns = np.concatenate([top.col, bottom.col])
    values = np.concatenate([top.data, bottom.data]).astype(np.float32)
    matrix = sparse.coo_array((values, (rows, columns)), shape=(num_nodes, features.shape[1]))
    return matrix.tocsr()
