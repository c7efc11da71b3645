"""λ_max(L(φ)) ≤ 2: computed against dense matrices, and said where draws leave it."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import torch

from fishergcn import datasets, renormalized
from fishergcn.errors import InputError
from fishergcn.perturbation import CongruenceNeighborhood, Neighborhood, PerturbationWarning


def graph(seed=0, nodes=40):
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((nodes, nodes)) < 0.1, 1)
    return renormalized(links + links.T.astype(float))


@pytest.mark.parametrize("directions", ["high", "low", "random"])
@pytest.mark.parametrize("scale", ["projected", "trace"])
@pytest.mark.filterwarnings("ignore::fishergcn.perturbation.PerturbationWarning")
def test_largest_eigenvalue_is_that_of_the_dense_matrix(directions, scale):
    around = Neighborhood(graph(), rank=4, radius=0.8, directions=directions, scale=scale)
    phi = torch.cat([around.sample(5), torch.zeros(1, 4, dtype=torch.float64)])
    wanted = torch.linalg.eigvalsh(torch.eye(40, dtype=torch.float64) - around.operator(phi).to_dense())[:, -1]
    torch.testing.assert_close(around.largest_eigenvalue(phi), wanted, rtol=1e-6, atol=0)


@pytest.fixture(scope="module")
def cora():
    return renormalized(datasets.load("cora").adjacency)


def test_cora_leaves_the_bound_from_some_radius_on(cora):
    """The shares that the documentation names."""
    around = Neighborhood(cora, rank=10, radius=0.1)
    shares = {}
    for radius in (0.1, 0.2, 0.3, 0.5):
        phi = around.sample(2000, torch.Generator().manual_seed(1), radius)
        shares[radius] = float((around.perturbed_eigenvalues(phi).amax(-1) > 2).double().mean())
    assert shares[0.1] == 0
    assert 0.05 < shares[0.2] < 0.15
    assert 0.6 < shares[0.3] < 0.75
    assert shares[0.5] > 0.95
    assert 0.1 < around.largest_radius() < 0.2


def test_the_neighborhood_warns_when_draws_leave_it(cora):
    spectrum = Neighborhood(cora, rank=10).spectrum
    with warnings.catch_warnings():
        warnings.simplefilter("error", PerturbationWarning)
        Neighborhood.from_spectrum(cora, spectrum, radius=0.1)
    with pytest.warns(
        PerturbationWarning, match=r"at radius 0\.3, [67]\d\.\d% of the perturbed graphs .* up to radius"
    ):
        Neighborhood.from_spectrum(cora, spectrum, radius=0.3)


def test_the_largest_radius_is_the_edge():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerturbationWarning)
        around = Neighborhood(graph(), rank=5, radius=0.9)
    edge = around.largest_radius()
    assert 0 < edge < 0.9
    e = around.noise(1000, torch.Generator().manual_seed(0))
    assert (around.perturbed_eigenvalues(around.phi(e, edge)) <= 2 + 1e-6).all()
    assert (around.perturbed_eigenvalues(around.phi(e, 1.01 * edge)) > 2).any()
    assert Neighborhood(graph(), rank=2, radius=0.1, directions="low").largest_radius(0.5) == 0.5
    with pytest.raises(InputError, match="random"):
        Neighborhood(graph(), rank=2, directions="random").largest_radius()


@pytest.mark.parametrize(("name", "expected"), [("cora", 0.1077), ("citeseer", 0.1031)])
def test_up_to_the_sure_radius_no_draw_leaves_the_bound(name, expected):
    around = Neighborhood(renormalized(datasets.load(name).adjacency), rank=10, radius=0.1)
    found = around.sure_radius()
    assert found == pytest.approx(expected, abs=5e-5)
    # All corners of the box, where a quasi-convex function has its maximum.
    corners = torch.tensor(list(itertools.product([-0.5, 0.5], repeat=10)), dtype=torch.float64)
    largest = [around.perturbed_eigenvalues(around.phi(corners, size * found)).max() for size in (1.0, 1.0001)]
    assert largest[0] <= 2 + 1e-8 < largest[1]
    with pytest.raises(InputError, match="uniform noise"):
        Neighborhood(graph(), rank=2, noise="gaussian").sure_radius()


@pytest.mark.parametrize("directions", ["nodes", "links", "polynomial"])
@pytest.mark.parametrize("nodes", [30, 400])
def test_eigenvalues_above_1_are_refused(directions, nodes):
    rng = np.random.default_rng(0)
    links = np.triu(rng.random((nodes, nodes)) < 6 / nodes, 1)
    fine = renormalized((links | links.T).astype(float))
    CongruenceNeighborhood(fine, directions)
    grown = fine * 1.01
    for make in (lambda: CongruenceNeighborhood(grown, directions), lambda: Neighborhood(grown, rank=2)):
        with pytest.raises(InputError, match=r"eigenvalues at most 1, got 1\.01"):
            make()
