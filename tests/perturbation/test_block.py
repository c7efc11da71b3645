"""Several graphs at once are each graph by itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fishergcn
from fishergcn.errors import InputError
from fishergcn.perturbation import BlockNeighborhood, Neighborhood, PerturbationWarning


@pytest.fixture(scope="module")
def matrices():
    rng = np.random.default_rng(0)
    found = []
    for size in (12, 20, 7):
        links = np.triu(rng.random((size, size)) < 0.4, 1)
        found.append(fishergcn.renormalized((links | links.T).astype(float)))
    return found


def test_each_block_is_the_neighborhood_of_its_graph(matrices) -> None:
    blocks = BlockNeighborhood(matrices, rank=3, radius=0.8)
    singles = [Neighborhood(each, rank=3, radius=0.8) for each in matrices]
    phi = blocks.sample(2).requires_grad_()
    whole = blocks.operator(phi).to_dense()
    distances = torch.zeros(2, dtype=torch.float64)
    start = 0
    for g, single in enumerate(singles):
        size = single.propagation.shape[0]
        part = slice(start, start + size)
        torch.testing.assert_close(whole[:, part, part], single.operator(phi[:, g]).to_dense(), rtol=0, atol=1e-14)
        distances = distances + single.distance(phi[:, g]) ** 2 * single.spectrum.trace
        whole = whole.index_fill(1, torch.arange(part.start, part.stop), 0.0)
        torch.testing.assert_close(blocks.coefficients(phi)[:, g], single.coefficients(phi[:, g]))
        torch.testing.assert_close(blocks.perturbed_eigenvalues(phi)[:, g], single.perturbed_eigenvalues(phi[:, g]))
        start += size
    trace = sum(single.spectrum.trace for single in singles)
    torch.testing.assert_close(blocks.distance(phi), (distances / trace).sqrt())
    assert blocks.captured_mass == pytest.approx(
        sum(single.spectrum.eigenvalues.sum() for single in singles) / trace, rel=1e-14
    )


def test_no_weight_lies_between_two_graphs(matrices) -> None:
    blocks = BlockNeighborhood(matrices, rank=3, radius=0.8)
    dense = blocks.operator(blocks.sample(1)).to_dense()[0]
    other = blocks.graph[:, None] != blocks.graph[None, :]
    assert dense[other].abs().max() == 0


def test_graphs_with_few_directions_have_finite_draws_and_gradients(matrices) -> None:
    pair, lonely = fishergcn.renormalized([[0, 1], [1, 0]]), np.eye(3)
    blocks = BlockNeighborhood([matrices[0], pair, lonely, np.eye(1)], rank=3, radius=2.0)
    assert blocks.eigenvalues[1].count_nonzero() == 1
    assert blocks.eigenvalues[2:].abs().max() == 0
    phi = (blocks.sample(4) - 900.0).requires_grad_()  # far out, where exp underflows
    c = blocks.coefficients(phi)
    assert c[:, 1:].abs().max() == 0
    (gradient,) = torch.autograd.grad(c.square().sum(), phi)
    assert gradient.isfinite().all()
    single = Neighborhood(matrices[0], rank=3)
    torch.testing.assert_close(c[:, 0], single.coefficients(phi[:, 0]))


def test_what_does_not_fit_is_refused(matrices) -> None:
    blocks = BlockNeighborhood(matrices, rank=3)
    with pytest.raises(InputError, match=r"phi must have shape \(\.\.\., 3, 3\), got \(2, 3\)"):
        blocks.coefficients(torch.zeros(2, 3))
    with pytest.raises(InputError, match="at least one graph"):
        BlockNeighborhood([])
    with pytest.raises(InputError, match="with at most 3 directions of 12 nodes, got 4 of 12"):
        BlockNeighborhood(matrices[:1], rank=3, spectra=[fishergcn.top_spectrum(matrices[0], rank=4)])
    with pytest.raises(InputError, match=r"shape \(graphs, 3\), got \(2, 4\)"):
        blocks.like(torch.ones(2, 4))
    with pytest.raises(InputError, match="knows no other graphs; use a BlockNeighborhood"):
        Neighborhood(matrices[0], rank=3).like(torch.ones(2, 3))
    with pytest.raises(InputError, match="have no operator"):
        blocks.like(torch.ones(2, 3)).operator(torch.zeros(2, 3))
    assert repr(blocks) == "BlockNeighborhood(3 graphs, 39 nodes, rank 3, radius 0.1, uniform noise)"
    assert blocks.to(dtype=torch.float32).operator().dtype == torch.float32


def test_the_largest_eigenvalue_of_all_graphs(matrices) -> None:
    with pytest.warns(PerturbationWarning, match="have an eigenvalue of L beyond 2"):
        blocks = BlockNeighborhood(matrices, rank=3, radius=1.5)
    phi = blocks.sample(4)
    dense = blocks.operator(phi).to_dense().numpy()
    expected = [np.linalg.eigvalsh(np.eye(39) - each)[-1] for each in dense]
    np.testing.assert_allclose(blocks.largest_eigenvalue(phi), expected, atol=1e-6)
    inside = blocks.largest_radius(1.5)
    assert 0 < inside < 1.5
    drawn = BlockNeighborhood(matrices, rank=3, radius=inside).sample(50, torch.Generator().manual_seed(0))
    assert blocks.largest_eigenvalue(drawn).max() <= 2 + 1e-6
