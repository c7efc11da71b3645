"""What every registered propagation matrix must do; a new one is tested by being registered."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from scipy import sparse

from fishergcn import Graph, TrainConfig
from fishergcn.errors import InputError
from fishergcn.propagation import Matrix, find_matrix, matrices, register_matrix

CONFIG = TrainConfig(order=3, threshold=1e-3)
NAMES = [each.name for each in matrices()]


def weighted_graph(nodes: int = 25, seed: int = 0) -> Graph:
    """Two components, a node without links, links of different weights."""
    rng = np.random.default_rng(seed)
    upper = np.triu((rng.random((nodes, nodes)) < 0.2) * rng.uniform(0.5, 2.0, (nodes, nodes)), 1)
    upper[:10, 10:] = 0.0
    upper[:, -1] = 0.0
    return Graph(sparse.csr_array(upper + upper.T))


def dense(name: str, a: np.ndarray) -> np.ndarray:
    """The oracle: each matrix by its formula, in dense float64."""
    degrees = a.sum(axis=1)
    if name == "identity":
        return np.eye(len(a))
    if name == "renormalized":
        own = a + np.eye(len(a))
        root = own.sum(axis=1) ** -0.5
        return root[:, None] * own * root
    inverse = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    if name == "mean":
        return inverse[:, None] * a
    if name == "labels":
        return np.sqrt(inverse)[:, None] * a * np.sqrt(inverse)
    walk = inverse[:, None] * a
    total = sum(np.linalg.matrix_power(walk, power) for power in range(1, CONFIG.order + 1)) / CONFIG.order
    kept = np.where(total > CONFIG.threshold, total, 0.0)
    np.fill_diagonal(kept, 0.0)
    both = kept + kept.T + 2.0 * np.eye(len(a))
    root = both.sum(axis=1) ** -0.5
    return root[:, None] * both * root


@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_its_formula_says(name):
    graph = weighted_graph()
    found = find_matrix(name).of(graph, CONFIG)
    np.testing.assert_allclose(found.toarray(), dense(name, graph.adjacency.toarray()), atol=1e-14)
    assert find_matrix(name).of(graph, CONFIG) is found  # made once for a graph in use
    assert repr(find_matrix(name)) == f"Matrix({name!r}, {find_matrix(name).title})"


@pytest.mark.parametrize("name", NAMES)
def test_it_is_as_symmetric_as_it_says(name):
    matrix = find_matrix(name)
    found = matrix.of(weighted_graph(), CONFIG).toarray()
    assert np.array_equal(found, found.T) == matrix.symmetric


@pytest.mark.parametrize("name", NAMES)
def test_its_key_has_the_settings_that_it_depends_on(name):
    matrix, graph = find_matrix(name), weighted_graph()
    for field in dataclasses.fields(TrainConfig):
        if field.name not in ("order", "threshold", "radius", "hidden"):
            continue
        other = dataclasses.replace(CONFIG, **{field.name: {"order": 5, "threshold": 0.1}.get(field.name, 2)})
        same = np.array_equal(matrix.of(graph, CONFIG).toarray(), matrix.of(graph, other).toarray())
        assert same == (matrix.key(CONFIG) == matrix.key(other)) == (field.name not in matrix.settings)


@pytest.mark.parametrize("name", NAMES)
def test_new_nodes_join_one_by_one(name):
    """Rows of new nodes are what the matrix of the graph with one more node has there, degrees of old nodes kept."""
    graph, matrix, rng = weighted_graph(), find_matrix(name), np.random.default_rng(3)
    links = sparse.csr_array((rng.random((3, 25)) < 0.3) * rng.uniform(0.5, 2.0, (3, 25)))
    old = matrix.of(graph, CONFIG)
    found = matrix.joined(graph, links, CONFIG, old).toarray()
    assert found.shape == (28, 28)
    np.testing.assert_array_equal(found[:25, :25], old.toarray())
    assert not found[:25, 25:].any()
    for new in range(3):
        alone = matrix.joined(graph, links[[new]], CONFIG, old).toarray()
        np.testing.assert_allclose(found[25 + new, :25], alone[25, :25], atol=1e-15)
        assert found[25 + new, 25 + new] == pytest.approx(alone[25, 25], abs=1e-15)
    if not matrix.linked:
        assert not found[25:, :25].any()


@pytest.mark.parametrize("name", NAMES)
def test_its_size_is_known_before(name):
    graph = weighted_graph()
    assert find_matrix(name).entries(graph, CONFIG) == pytest.approx(find_matrix(name).of(graph, CONFIG).nnz, rel=0.05)


@pytest.mark.parametrize("name", [each.name for each in matrices() if each.into is not None])
def test_it_is_the_same_in_mapped_files(name, tmp_path):
    graph, matrix = weighted_graph(), find_matrix(name)
    found = matrix.into(graph.adjacency, tmp_path)
    np.testing.assert_array_equal(found.toarray(), matrix.of(graph, CONFIG).toarray())


def broken(name: str, make, **options) -> Matrix:
    return Matrix(name, "broken", make, lambda links, *_: (links, np.zeros(links.shape[0])), **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda a: sparse.csr_array(np.triu(a.toarray())),
            "'odd' is declared symmetric, but differs from its transpose",
        ),
        (lambda a: a[:3], "must be sparse with 25 rows and columns, got csr_array of shape (3, 25)"),
        (lambda a: "text", "must be sparse with 25 rows and columns, got str"),
        (lambda a: a * np.nan, "must hold finite numbers"),
    ],
)
def test_one_that_breaks_its_word_is_refused_at_first_use(make, message):
    with pytest.raises(InputError, match=re.escape(message)):
        broken("odd", make).of(weighted_graph(), CONFIG)


def test_names_are_taken_once():
    with pytest.raises(InputError, match="there is a matrix 'mean' already"):
        register_matrix(broken("mean", lambda a: a))
    with pytest.raises(InputError, match=r"matrix must be one of .*, got 'meen' \(did you mean 'mean'\?\)"):
        find_matrix("meen")
    with pytest.raises(InputError, match="must be described by a Matrix, got str"):
        register_matrix("mean")


def test_entries_of_a_high_order_matrix_are_estimated():
    """On a ring walks reach five steps to either side, and the node itself."""
    ring = Graph.from_edges([(node, (node + 1) % 40) for node in range(40)])
    assert find_matrix("high-order").entries(ring, TrainConfig(order=5, threshold=1e-4)) == 440.0
