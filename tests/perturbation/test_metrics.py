"""Neighborhoods by other divergences: isotropy by second derivatives of the divergence, values by dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import renormalized
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic import von_neumann_divergence
from fishergcn.perturbation import Neighborhood

NODES = 30


def graph(seed=0):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((NODES, NODES)) < 0.2, 1)
    return renormalized(sparse.csr_array((links + links.T).astype(float)))


# D(exp θ ‖ exp θ0) of commuting matrices, as functions of the logarithms of their eigenvalues.
DIVERGENCES = {
    "bures": lambda t, s: 2 * (torch.exp(t / 2) - torch.exp(s / 2)).square().sum(),
    "log-det": lambda t, s: (torch.expm1(t - s) - (t - s)).sum(),
    "frobenius": lambda t, s: (torch.exp(t) - torch.exp(s)).square().sum() / 2,
    "von Neumann": lambda t, s: (torch.exp(t) * (t - s) - torch.exp(t) + torch.exp(s)).sum(),
}


def metric_of(name, shares):
    center = shares.log()
    return torch.func.hessian(lambda t: DIVERGENCES[name](t, center))(center)


@pytest.mark.parametrize("metric", ["bures", "log-det", "frobenius"])
@pytest.mark.parametrize("directions", ["high", "low"])
def test_draws_are_isotropic_in_the_metric_of_the_divergence(metric, directions):
    around = Neighborhood(graph(), rank=6, noise="gaussian", directions=directions, metric=metric)
    shares = around.projected_spectrum
    reach = around.phi(torch.eye(6), 1.0).diagonal()
    found = metric_of(metric, shares) * reach * reach[:, None]
    torch.testing.assert_close(found, torch.eye(6, dtype=torch.float64) * found[0, 0])
    torch.testing.assert_close((shares * reach.square()).sum(), torch.tensor(6.0, dtype=torch.float64))


def test_von_neumann_and_bures_have_one_metric():
    shares = Neighborhood(graph(1), rank=5, directions="low").projected_spectrum
    torch.testing.assert_close(metric_of("von Neumann", shares), metric_of("bures", shares))


@pytest.mark.parametrize("radius", [1e-6, 1e-3, 0.1, 2.0])
@pytest.mark.parametrize("directions", ["high", "low"])
@pytest.mark.filterwarnings("ignore::fishergcn.perturbation.PerturbationWarning")
def test_the_divergence_is_that_of_dense_matrices(radius, directions):
    around = Neighborhood(graph(2), rank=5, radius=radius, directions=directions)
    phi = around.sample(4)
    eye = torch.eye(NODES, dtype=torch.float64)
    plain = np.eye(NODES) - graph(2).toarray()
    for one, value in zip(phi, around.von_neumann_divergence(phi), strict=True):
        moved = (eye - around.operator(one).to_dense()).numpy()
        if radius > 1e-2:  # below, dense matrices in float64 have no digits left
            expected = von_neumann_divergence(moved / np.trace(moved), plain / np.trace(plain))
            assert value.item() == pytest.approx(expected, rel=1e-8)
    second = 2 * around.distance(phi).square()
    if radius <= 1e-3:
        torch.testing.assert_close(around.von_neumann_divergence(phi), second, rtol=10 * radius, atol=0)


def test_the_divergence_is_smooth_where_its_series_ends():
    around = Neighborhood(graph(3), rank=2)
    steps = torch.linspace(0.5e-3, 4e-3, 2001, dtype=torch.float64)
    values = around.von_neumann_divergence(torch.stack([steps, -steps], dim=-1))
    curvature = values.diff(n=2) / (steps[1] - steps[0]) ** 2
    assert ((curvature - curvature.median()).abs() < 0.02 * curvature.median()).all()


def test_what_has_no_closed_form_is_refused():
    around = Neighborhood(graph(), rank=3, directions="random")
    with pytest.raises(InputError, match="closed form only along eigenvectors"):
        around.von_neumann_divergence(around.sample(1))
    with pytest.raises(InputError, match="metric must be one of"):
        Neighborhood(graph(), rank=3, metric="euclidean")
