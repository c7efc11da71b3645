"""Corrections in docs/mathematics.md: information depends on coordinates; when the projection to low rank is unique."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fishergcn import datasets
from fishergcn.geometry import intrinsic
from fishergcn.propagation import renormalized


def test_which_part_carries_more_information_depends_on_the_coordinates():
    """On Cora the trace of the metric says spectrum by a factor of 8,000, or rotations by one of 1,800."""
    matrix = renormalized(datasets.load("cora").adjacency).toarray()
    eigenvalues = np.linalg.eigvalsh(np.eye(len(matrix)) - matrix)
    eigenvalues = np.where(eigenvalues < 1e-10, 0.0, eigenvalues)
    spectrum = eigenvalues / eigenvalues.sum()
    in_eigenvalues, in_logarithms = (
        float(np.trace(intrinsic.spectral_metric(spectrum, coordinates))) for coordinates in ("eigenvalue", "log")
    )
    rotations = float(intrinsic.rotation_metric(spectrum).sum() / 2)
    assert in_eigenvalues == pytest.approx(3.64e6, rel=0.002)
    assert rotations == pytest.approx(450.0, abs=0.05)
    assert in_logarithms == pytest.approx(0.25, abs=1e-12)


@given(seed=st.integers(0, 2**20), n=st.integers(2, 30))
def test_in_logarithms_every_spectrum_has_the_trace_one_quarter(seed, n):
    spectrum = np.random.default_rng(seed).dirichlet(np.ones(n))
    assert np.trace(intrinsic.spectral_metric(spectrum, "log")) == pytest.approx(0.25, abs=1e-12)


@given(seed=st.integers(0, 2**20))
def test_in_a_given_range_the_compressed_matrix_is_nearest_and_the_only_one(seed):
    """F(ρ, ρ') ≤ sqrt(tr Qρ) for every ρ' with the range projector Q, with equality only at QρQ / tr Qρ."""
    rng = np.random.default_rng(seed)
    n, k = 7, 3
    factor = rng.standard_normal((n, n))
    rho = factor @ factor.T / np.sum(factor**2)
    q = np.linalg.qr(rng.standard_normal((n, k)))[0]
    projector = q @ q.T
    reach = np.sqrt(np.trace(projector @ rho))
    compressed = projector @ rho @ projector / reach**2
    assert intrinsic.fidelity(rho, compressed) == pytest.approx(reach, abs=1e-10)
    inner = rng.standard_normal((k, k))
    other = q @ inner @ inner.T @ q.T / np.sum(inner**2)
    apart = intrinsic.bures_distance(compressed, other)
    assert reach - intrinsic.fidelity(rho, other) > 1e-4 * apart**2


def test_the_scale_of_the_spectral_block_is_not_n_squared():
    """tr G(λ) = Σ 1/4λ over the support; the eigenvalues of a path are 2 - 2 cos(πk/n), and their sum is 2n - 2."""

    def ratio(nodes):
        eigenvalues = 2 - 2 * np.cos(np.pi * np.arange(1, nodes) / nodes)
        return float((eigenvalues.sum() / (4 * eigenvalues)).sum()) / nodes**2

    assert [round(ratio(nodes), 1) for nodes in (50, 800)] == [4.1, 66.6]
    assert ratio(1600) / ratio(800) > 1.99


def test_the_fisher_information_is_the_mean_product_of_derivatives():
    """Of p = softmax(θ): derivatives by differences, against the metric. Without the ∂ it is another matrix."""
    theta, step = np.array([0.3, -1.0, 0.8, 0.1]), 1e-6

    def log_p(at):
        return at - np.log(np.exp(at).sum())

    p = np.exp(log_p(theta))
    scores = np.stack([(log_p(theta + step * e) - log_p(theta - step * e)) / (2 * step) for e in np.eye(4)], axis=1)
    information = 4 * intrinsic.spectral_metric(p, "softmax")
    assert np.einsum("x,xi,xj->ij", p, scores, scores) == pytest.approx(information, abs=1e-9)
    assert np.abs(p @ log_p(theta) ** 2 - np.diag(information)).min() > 0.5
