from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import eigsh

from fishergcn import datasets, high_order, renormalized
from fishergcn.errors import InputError
from fishergcn.propagation import _algorithm, dense_high_order, propagation_product, walk_matrix

# Not a sum of products of small fractions, so that no entry of S can equal it.
THRESHOLD = 0.0123456789


def dense_renormalized(adjacency):
    weights = adjacency + np.eye(len(adjacency))
    scale = np.diag(weights.sum(axis=1) ** -0.5)
    return scale @ weights @ scale


def walks_with_diagonal(adjacency, order):
    """Return S before its diagonal is dropped."""
    degrees = adjacency.sum(axis=1)
    walk = np.divide(adjacency, degrees[:, None], out=np.zeros_like(adjacency), where=degrees[:, None] > 0)
    return sum(np.linalg.matrix_power(walk, power) for power in range(1, order + 1)) / order


def dense_steps(adjacency, order):
    """Return S without its diagonal."""
    total = walks_with_diagonal(adjacency, order)
    np.fill_diagonal(total, 0)
    return total


def brute_force(adjacency, order, threshold):
    """Algorithm 1, literally."""
    total = dense_steps(adjacency, order)
    total[total <= threshold] = 0
    weights = total + total.T + 2 * np.eye(len(adjacency))
    scale = np.diag(weights.sum(axis=1) ** -0.5)
    return scale @ weights @ scale


def random_adjacency(seed, nodes, density, *, weighted=True, self_links=False):
    """Return a symmetric matrix whose last node is isolated."""
    rng = np.random.default_rng(seed)
    upper = np.triu((rng.random((nodes, nodes)) < density).astype(float), 0 if self_links else 1)
    if weighted:
        upper *= rng.exponential(size=upper.shape)
    upper[:, -1] = 0
    return upper + np.triu(upper, 1).T


def star(leaves):
    adjacency = np.zeros((leaves + 1, leaves + 1))
    adjacency[0, 1:] = adjacency[1:, 0] = 1
    return adjacency


graphs = st.builds(
    random_adjacency,
    seed=st.integers(0, 10_000),
    nodes=st.integers(2, 40),
    density=st.floats(0.02, 0.6),
    weighted=st.booleans(),
    self_links=st.booleans(),
)


# For each implementation of high_order: is numba there, and up to which number of nodes are blocks dense?
PATHS = {"compiled": (True, 10**6), "dense blocks": (False, 10**6), "sparse blocks": (False, 0)}


def choose(patch, path):
    has_numba, dense_nodes = PATHS[path]
    patch.setattr(_algorithm, "_has_numba", lambda: has_numba)
    patch.setattr(_algorithm, "DENSE_NODES", dense_nodes)


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    """Send high_order through each of its implementations."""
    choose(monkeypatch, request.param)
    return request.param


def each_path(adjacency, **options):
    """Return the results of the three implementations."""
    results = []
    for path in PATHS:
        with pytest.MonkeyPatch.context() as patch:
            choose(patch, path)
            results.append(high_order(adjacency, **options))
    return results


def assert_same_bits(left, right):
    for part in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(left, part), getattr(right, part))


def close_to_threshold(adjacency, order, threshold):
    """Say which pairs {i, j} have an entry of S within rounding of the threshold."""
    total = dense_steps(adjacency, order)
    close = (total > 0) & (abs(total - threshold) <= 1e-12 * threshold)
    return close | close.T


@settings(max_examples=50)
@given(graphs)
def test_renormalized_equals_its_formula(adjacency):
    result = renormalized(adjacency)
    np.testing.assert_allclose(result.toarray(), dense_renormalized(adjacency), atol=1e-14)
    assert (result != result.T).nnz == 0
    assert np.linalg.eigvalsh(result.toarray()).max() == pytest.approx(1, abs=1e-12)


@settings(max_examples=50)
@given(graphs, st.integers(1, 6), st.sampled_from([0.0, 1e-4, THRESHOLD, 0.1234567]))
def test_high_order_equals_brute_force(adjacency, order, threshold):
    assume(not close_to_threshold(adjacency, order, threshold).any())
    expected = brute_force(adjacency, order, threshold)
    first, *others = each_path(adjacency, order=order, threshold=threshold)
    np.testing.assert_allclose(first.toarray(), expected, atol=1e-13)
    assert first.nnz == np.count_nonzero(expected)
    assert (first != first.T).nnz == 0
    assert first.has_canonical_format
    assert first.toarray()[-1, -1] == 1  # the isolated node
    for other in others:
        assert_same_bits(other, first)


@settings(max_examples=50)
@given(graphs, st.integers(2, 6), st.integers(0, 10**6))
def test_all_paths_agree_even_where_rounding_decides(adjacency, order, pick):
    # The threshold is an entry of S, so that this entry and often others equal it up to rounding.
    steps = dense_steps(adjacency, order)
    entries = steps[(steps > 0) & (steps < 1)]
    assume(entries.size > 0)
    threshold = entries[pick % entries.size]
    first, *others = each_path(adjacency, order=order, threshold=threshold)
    for other in others:
        assert_same_bits(other, first)
    differs = (first.toarray() != 0) != (brute_force(adjacency, order, threshold) != 0)
    assert not (differs & ~close_to_threshold(adjacency, order, threshold)).any()


@settings(max_examples=30)
@given(graphs, st.integers(1, 6))
def test_high_order_spectrum_lies_above_minus_a_third(adjacency, order):
    values = np.linalg.eigvalsh(high_order(adjacency, order, 0.0).toarray())
    assert values.min() > -1 / 3
    assert values.max() == pytest.approx(1, abs=1e-12)


def test_stars_approach_minus_a_third():
    smallest = [np.linalg.eigvalsh(high_order(star(leaves), 1, 0.0).toarray())[0] for leaves in (2, 20, 400)]
    assert smallest == sorted(smallest, reverse=True)
    assert -1 / 3 < smallest[-1] < -1 / 3 + 0.01


@pytest.mark.parametrize(("leaves", "smallest"), [(400, -0.17), (6000, -0.23)])
def test_at_order_five_stars_stay_away_from_minus_a_third(leaves, smallest):
    """With 6,000 leaves walks from leaf to leaf fall below the threshold; with 400 they stay."""
    ends = np.concatenate([np.zeros(leaves, dtype=int), np.arange(1, leaves + 1)])
    links = sparse.csr_array((np.ones(2 * leaves), (ends, np.roll(ends, leaves))), shape=(leaves + 1, leaves + 1))
    found = eigsh(high_order(links, 5, 1e-4).astype(np.float64), k=1, which="SA", v0=np.ones(leaves + 1))
    assert found[0][0] == pytest.approx(smallest, abs=0.005)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_order_one_on_a_regular_graph_is_not_gcn(degree, path):
    n = 12
    steps = [n // 2] if degree == 1 else range(1, degree // 2 + 1)
    adjacency = np.zeros((n, n))
    for step in steps:
        for node in range(n):
            adjacency[node, (node + step) % n] = adjacency[(node + step) % n, node] = 1
    result = high_order(adjacency, 1, 0.0).toarray()
    np.testing.assert_allclose(result, (adjacency / degree + np.eye(n)) / 2, atol=1e-15)
    is_gcn = np.allclose(result, renormalized(adjacency).toarray())
    assert is_gcn == (degree == 1)


def test_order_one_on_cora_differs_from_gcn_by_0_444():
    adjacency = datasets.load("cora").adjacency
    difference = abs(high_order(adjacency, 1, 0.0) - renormalized(adjacency)).max()
    assert difference == pytest.approx(0.444, abs=5e-4)


@pytest.mark.parametrize("scale", [1e-200, 0.1, 3.0, 1e200])
def test_only_the_high_order_matrix_ignores_the_scale(scale, path):
    adjacency = random_adjacency(1, 30, 0.2)
    expected = high_order(adjacency, threshold=THRESHOLD).toarray()
    result = high_order(scale * adjacency, threshold=THRESHOLD).toarray()
    np.testing.assert_allclose(result, expected, atol=1e-13)
    assert not np.allclose(renormalized(scale * adjacency).toarray(), renormalized(adjacency).toarray())


def test_result_does_not_depend_on_the_block_size(path):
    adjacency = random_adjacency(2, 150, 0.03)
    whole = high_order(adjacency)
    for memory_limit in (12_000, 23_456, 100_000):
        assert_same_bits(high_order(adjacency, memory_limit=memory_limit), whole)


def test_memory_limit_cuts_the_rows_into_blocks():
    adjacency = sparse.csr_array(random_adjacency(2, 150, 0.1))
    for rows in (_algorithm._compiled_rows, _algorithm._scipy_rows):
        blocks = list(rows(adjacency, 1, 0.0, 12_000))
        assert len(blocks) > 10
        assert sum(counts.size for counts, _, _ in blocks) == 150


def test_relabelling_relabels_the_result(path):
    adjacency = random_adjacency(3, 120, 0.04, weighted=False)
    order = np.random.default_rng(0).permutation(120)
    result = high_order(adjacency[np.ix_(order, order)], threshold=THRESHOLD)
    expected = high_order(adjacency, threshold=THRESHOLD)[order][:, order]
    assert np.array_equal(result.toarray() != 0, expected.toarray() != 0)
    np.testing.assert_allclose(result.toarray(), expected.toarray(), atol=1e-14)


def test_both_directions_are_cut_on_their_own(path):
    # On a star with m leaves, S from leaf to leaf is 2/(5m), by steps 2 and 4; from the hub to a leaf it is
    # 3/(5m) and back 3/5, by steps 1, 3 and 5.
    leaves = 300
    adjacency = star(leaves)
    assert high_order(adjacency, 5, 2 / (5 * leaves) * (1 - 1e-12)).nnz == (leaves + 1) ** 2
    assert high_order(adjacency, 5, 2 / (5 * leaves) * (1 + 1e-12)).nnz == (leaves + 1) + 2 * leaves
    # Above 3/(5m) the hub's own entries go, and only those of the leaves are left in A'.
    weight = high_order(adjacency, 5, 3 / (5 * leaves) * (1 + 1e-12))[0, 1]
    assert weight == pytest.approx(0.6 / np.sqrt((2 + 0.6 * leaves) * 2.6), rel=1e-12)


def test_an_exact_tie_is_dropped(path):
    # On a cycle of four nodes S = (P + P²)/2 is 1/4 for each neighbor and for the opposite node, exactly.
    cycle = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    assert high_order(cycle, 2, 0.25).nnz == 4
    assert high_order(cycle, 2, np.nextafter(0.25, 0)).nnz == 16


def test_self_links_are_used_as_they_are(path):
    adjacency = random_adjacency(4, 20, 0.3)
    with_links = adjacency + np.diag(np.arange(20.0))
    result = high_order(with_links, 3, THRESHOLD).toarray()
    np.testing.assert_allclose(result, brute_force(with_links, 3, THRESHOLD), atol=1e-14)
    assert not np.allclose(result, high_order(adjacency, 3, THRESHOLD).toarray())


def without_self_links(adjacency):
    return adjacency - sparse.diags_array(adjacency.diagonal())


def share_of_nonzeros(matrix):
    """Return the share in percent with two digits."""
    return f"{100 * matrix.nnz / matrix.shape[0] ** 2:.2f}"


@pytest.mark.parametrize(
    ("name", "self_links", "entries", "share"),
    [
        ("cora", "keep", 730_218, "9.96"),
        ("citeseer", "keep", 333_013, "3.01"),
        ("citeseer", "drop", 334_617, "3.02"),
    ],
)
def test_shares_of_nonzeros_of_the_paper(name, self_links, entries, share):
    adjacency = datasets.load(name).adjacency
    if self_links == "drop":
        adjacency = without_self_links(adjacency)
    first, *others = each_path(adjacency)
    assert first.nnz == entries
    assert share_of_nonzeros(first) == share
    for other in others:
        assert_same_bits(other, first)


@settings(max_examples=20)
@given(graphs, st.integers(1, 6), st.sampled_from([0.0, THRESHOLD]))
def test_dense_tensors_give_the_same(adjacency, order, threshold):
    assume(not close_to_threshold(adjacency, order, threshold).any())
    sparse_one = high_order(adjacency, order, threshold).toarray()
    np.testing.assert_allclose(dense_high_order(adjacency, order, threshold), sparse_one, rtol=0, atol=1e-14)


@settings(max_examples=20)
@given(graphs, st.sampled_from([None, 1, 4]))
def test_products_multiply_with_the_matrix_without_its_cut(adjacency, order):
    matrix, dense = torch.tensor(adjacency), torch.eye(len(adjacency), dtype=torch.float64)
    product = propagation_product(lambda z: matrix @ z, dense[:, :1].new_ones(len(dense), 1), order)(dense)
    if order is None:
        wanted = renormalized(adjacency).toarray()
    else:
        weights = walks_with_diagonal(adjacency, order)
        weights = weights + weights.T + 2 * np.eye(len(adjacency))
        scale = np.diag(weights.sum(axis=1) ** -0.5)
        wanted = scale @ weights @ scale
    np.testing.assert_allclose(product, wanted, rtol=0, atol=1e-13)


def test_the_walk_matrix_is_algorithm_1_before_it_is_symmetrized(path):
    adjacency = random_adjacency(6, 40, 0.1)
    steps = dense_steps(adjacency, 4)
    steps[steps <= THRESHOLD] = 0
    np.testing.assert_allclose(walk_matrix(adjacency, 4, THRESHOLD).toarray(), steps, atol=1e-14)


@pytest.mark.slow
def test_shares_of_nonzeros_of_pubmed():
    # Three nodes of PubMed cite themselves.
    adjacency = datasets.load("pubmed").adjacency
    for matrix, entries in ((adjacency, 12_876_047), (without_self_links(adjacency), 12_876_447)):
        result = high_order(matrix)
        assert result.nnz == entries
        assert share_of_nonzeros(result) == "3.31"


@pytest.mark.slow
def test_all_paths_agree_on_pubmed():
    first, *others = each_path(datasets.load("pubmed").adjacency)
    for other in others:
        assert_same_bits(other, first)


@pytest.mark.parametrize(("name", "share"), [("cora", "0.18"), ("citeseer", "0.11"), ("pubmed", "0.03")])
def test_shares_of_nonzeros_of_the_renormalized_matrix(name, share):
    assert share_of_nonzeros(renormalized(datasets.load(name).adjacency)) == share


def test_any_container_gives_the_same_and_is_left_alone():
    dense = random_adjacency(5, 15, 0.3)
    expected = high_order(dense).toarray()
    for container in (
        sparse.csr_array,
        sparse.csc_matrix,
        sparse.coo_array,
        sparse.lil_matrix,
        sparse.csr_matrix,
    ):
        matrix = container(dense)
        assert np.array_equal(high_order(matrix).toarray(), expected)
        assert np.array_equal(renormalized(matrix).toarray(), renormalized(dense).toarray())
        assert np.array_equal(matrix.toarray(), dense)


BAD = {
    "non-square": (np.ones((2, 3)), "square, got shape \\(2, 3\\)"),
    "asymmetric": (
        [[0, 1, 0], [1, 0, 2], [0, 5, 0]],
        "symmetric, but entry \\(1, 2\\) is 2 and entry \\(2, 1\\) is 5",
    ),
    "one-way": ([[0, 1], [0, 0]], "symmetric, but entry \\(0, 1\\) is 1 and entry \\(1, 0\\) is 0"),
    "negative": ([[0, -1], [-1, 0]], "non-negative, but entry \\(0, 1\\) is -1"),
    "nan": ([[0, np.nan], [np.nan, 0]], "finite, but entry \\(0, 1\\) is nan"),
    "inf": ([[0, 0], [0, np.inf]], "finite, but entry \\(1, 1\\) is inf"),
    "empty": (np.zeros((0, 0)), "at least 2 nodes, got 0"),
    "one node": ([[1.0]], "at least 2 nodes, got 1"),
    "vector": ([1.0, 2.0], "2 dimensions, got 1"),
    "complex": ([[0, 1j], [1j, 0]], "real numbers, got dtype complex128"),
    "text": ([["a", "b"], ["b", "a"]], "real numbers"),
    "ragged": ([[1, 2], [3]], "matrix of numbers"),
    "overflow": ([[0, 1e308], [1e308, 0]], "more than float64 can hold"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("function", [renormalized, high_order])
def test_bad_adjacency_is_refused_with_one_sentence(function, kind):
    matrix, message = BAD[kind]
    with pytest.raises(InputError, match=message) as caught:
        function(matrix)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 0}, "order must be between 1 and 1000, got 0"),
        ({"order": 2.5}, "order must be a whole number"),
        ({"threshold": 1.0}, "threshold must be .* less than 1, got 1"),
        ({"threshold": -0.1}, "threshold must be at least 0"),
        ({"threshold": float("nan")}, "threshold must be finite"),
        ({"memory_limit": 10}, "memory_limit must be at least \\d+ bytes .* 3 nodes, got 10"),
    ],
)
def test_bad_options_are_refused(options, message, path):
    with pytest.raises(InputError, match=message):
        high_order(star(2), **options)


def test_rounding_in_the_input_is_averaged_away():
    given = random_adjacency(0, 60, 0.2)
    given = np.where(np.triu(given) > 0, np.nextafter(given, np.inf), given)
    assert (given != given.T).any()
    made = renormalized(given)
    assert (made != made.T).nnz == 0


def test_malformed_sparse_matrix_is_refused():
    matrix = sparse.csr_array(np.eye(3))
    matrix.indices = np.array([0, 1, 7], dtype=np.int32)
    with pytest.raises(InputError, match="not a valid sparse matrix"):
        renormalized(matrix)
