"""Stochastic Lanczos quadrature: exact for polynomials, and where the Krylov space ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn.spectrum import trace_samples


def test_polynomials_are_integrated_exactly():
    generator = np.random.default_rng(0)
    factor = generator.standard_normal((30, 30))
    matrix = factor @ factor.T / np.linalg.norm(factor) ** 2
    signs = np.random.default_rng(7).choice(np.array([-1.0, 1.0]), size=30)  # those of the first probe
    for degree in range(8):
        seen = []

        def power(nodes, degree=degree, seen=seen):
            seen.append(len(nodes))
            return nodes**degree

        [sample] = trace_samples(sparse.csr_array(matrix), power, probes=1, steps=4, seed=7)
        assert sample == pytest.approx(signs @ np.linalg.matrix_power(matrix, degree) @ signs, rel=1e-11)
        assert seen == [4]


def test_the_rule_stops_when_the_krylov_space_is_exhausted():
    matrix, seen = sparse.csr_array(np.diag([1.0, 1.0, 2.0, 2.0, 0.0])), []
    for node, weight in ((0, 0.2), (1, 0.4), (2, 0.4)):
        [sample] = trace_samples(
            matrix, lambda x, node=node: (seen.append(x), np.isclose(x, node))[1], probes=1, steps=5, seed=0
        )
        assert sample == pytest.approx(5 * weight, abs=1e-11)
    for nodes in seen:
        np.testing.assert_allclose(nodes, [0, 1, 2], atol=1e-12)


def test_samples_of_a_diagonal_matrix_are_exact():
    matrix = sparse.csr_array(np.diag([-1.0, 0.5, 3.0]))
    samples = trace_samples(matrix, lambda x: x**3, probes=3, steps=3, seed=0)
    np.testing.assert_allclose(samples, 26.125, rtol=1e-12)
