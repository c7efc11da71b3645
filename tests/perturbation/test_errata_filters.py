"""What the paper states about its perturbation as a filter and about its cost, and what is true."""

from __future__ import annotations

import numpy as np
import pytest

import fishergcn
from fishergcn import datasets
from fishergcn.perturbation import Neighborhood

NODES, RANK = 9, 3


def random_graph(seed):
    """A small connected graph with random weights, whose Laplacian has no eigenvalue twice."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.random((NODES, NODES)), 1)
    return fishergcn.renormalized(weights + weights.T)


def perturbed(around, seed=0):
    """L and L(φ), dense, and the eigenvalues of both on the same eigenvectors."""
    plain = np.eye(around.propagation.shape[0]) - around.propagation.scipy.toarray()
    phi = around.phi(np.random.default_rng(seed).normal(size=around.rank), 0.5)
    moved = np.eye(len(plain)) - around.operator(phi).to_dense().numpy()
    return plain, moved


def newton(nodes, values):
    """Divided differences of f at the nodes: the coefficients of Newton's interpolation polynomial."""
    table = np.array(values)
    for order in range(1, len(nodes)):
        table[order:] = (table[order:] - table[order - 1 : -1]) / (nodes[order:] - nodes[:-order])
    return table


@pytest.mark.parametrize("seed", range(5))
def test_a_perturbation_interpolates_and_needs_the_full_degree(seed):
    """L(φ) = p(L) with p through the points (w_i, w_i + c_i): degree n - 1 with n distinct eigenvalues, and no less."""
    plain, moved = perturbed(Neighborhood(random_graph(seed), rank=RANK), seed)
    nodes, vectors = np.linalg.eigh(plain)
    assert np.diff(nodes).min() > 1e-4
    values = np.diag(vectors.T @ moved @ vectors)
    coefficients = newton(nodes, values)
    polynomial, factor = np.zeros_like(plain), np.eye(NODES)
    for coefficient, node in zip(coefficients, nodes, strict=True):
        polynomial, factor = polynomial + coefficient * factor, factor @ (plain - node * np.eye(NODES))
    np.testing.assert_allclose(polynomial, moved, atol=1e-6)
    # The leading coefficient is that of degree n - 1: the interpolation polynomial is unique, so no lower one will do.
    assert abs(coefficients[-1]) > 0.1


def test_where_eigenvalues_repeat_across_the_cut_no_polynomial_does_it():
    """On the complete graph L has the eigenvalues 0 and 1 only: polynomials in L are a I + b L."""
    n = 8
    plain, moved = perturbed(Neighborhood(fishergcn.renormalized(np.ones((n, n)) - np.eye(n)), rank=RANK))
    basis = np.stack([np.eye(n).ravel(), plain.ravel()], axis=1)
    np.testing.assert_allclose((plain @ plain).ravel(), plain.ravel(), atol=1e-12)  # higher powers add nothing
    left = moved.ravel() - basis @ np.linalg.lstsq(basis, moved.ravel(), rcond=None)[0]
    assert np.linalg.norm(left) > 0.5 * np.linalg.norm(moved - plain)
    assert np.linalg.norm(moved - plain) > 0.1


def test_on_cora_the_polynomial_would_have_a_degree_of_thousands():
    matrix = fishergcn.renormalized(datasets.load("cora").adjacency).toarray()
    eigenvalues = np.linalg.eigvalsh(matrix)
    distinct = 1 + int((np.diff(eigenvalues) > 1e-8).sum())
    assert 2300 < distinct < 2400


@pytest.mark.parametrize(
    ("name", "plain", "high_order"), [("cora", 4.1, 0.07), ("citeseer", 5.4, 0.20), ("pubmed", 3.6, 0.03)]
)
def test_the_correction_costs_several_times_the_sparse_product(name, plain, high_order):
    """A column takes 2nk multiply-adds with Ū and one for each entry of Ã without it."""
    adjacency = datasets.load(name).adjacency
    matrices = fishergcn.renormalized(adjacency), fishergcn.high_order(adjacency, 5, 1e-4)
    ratios = [2 * matrix.shape[0] * 10 / matrix.nnz for matrix in matrices]
    assert ratios[0] == pytest.approx(plain, abs=0.05)
    assert ratios[1] == pytest.approx(high_order, abs=0.005)
