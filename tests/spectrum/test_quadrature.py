from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fishergcn.spectrum import trace_samples
from fishergcn.spectrum._quadrature import gauss_rule


def test_gauss_rule_integrates_polynomials_exactly():
    generator = np.random.default_rng(0)
    factor = generator.standard_normal((30, 30))
    matrix = factor @ factor.T / np.linalg.norm(factor) ** 2
    start = generator.standard_normal(30)
    start /= np.linalg.norm(start)
    nodes, weights = gauss_rule(sparse.csr_array(matrix), start, steps=4)
    assert len(nodes) == 4
    for degree in range(8):
        exact = start @ np.linalg.matrix_power(matrix, degree) @ start
        assert weights @ nodes**degree == pytest.approx(exact, rel=1e-11)


def test_gauss_rule_stops_when_the_krylov_space_is_exhausted():
    matrix = sparse.csr_array(np.diag([1.0, 1.0, 2.0, 2.0, 0.0]))
    nodes, weights = gauss_rule(matrix, np.full(5, 5**-0.5), steps=5)
    np.testing.assert_allclose(nodes, [0, 1, 2], atol=1e-12)
    np.testing.assert_allclose(weights, [0.2, 0.4, 0.4], atol=1e-12)


def test_samples_of_a_diagonal_matrix_are_exact():
    matrix = sparse.csr_array(np.diag([-1.0, 0.5, 3.0]))
    samples = trace_samples(matrix, lambda x: x**3, probes=3, steps=3, seed=0)
    np.testing.assert_allclose(samples, 26.125, rtol=1e-12)
