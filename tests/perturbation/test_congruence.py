"""Congruence neighborhoods against dense matrices: products, distances, means, the spectral bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from fishergcn import renormalized
from fishergcn.errors import InputError
from fishergcn.operators import CongruenceOperator
from fishergcn.perturbation import CongruenceNeighborhood, best_weights

KINDS = ("nodes", "polynomial", "links", "basis")


def graph(seed: int, nodes: int = 24, share: float = 0.18, isolated: bool = False) -> Any:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((nodes, nodes)) < share, 1) * rng.uniform(0.5, 2.0, (nodes, nodes))
    upper[0, 1] = 1.0
    if isolated:
        upper[:, -1] = 0.0
    return renormalized(sparse.csr_array(upper + upper.T))


def around(kind: str, propagation: Any, **options: Any) -> CongruenceNeighborhood:
    if kind == "basis":
        basis = np.random.default_rng(5).standard_normal((propagation.shape[0], 3)) / 4
        return CongruenceNeighborhood(propagation, basis=basis, **options)
    return CongruenceNeighborhood(propagation, kind, **options)  # type: ignore[arg-type]


def dense_factor(neighborhood: CongruenceNeighborhood, x: torch.Tensor) -> np.ndarray:
    """M by the definition in the docstring, with no product of ours."""
    tilde = neighborhood.propagation.scipy.toarray()
    laplacian, nodes, values = np.eye(len(tilde)) - tilde, len(tilde), x.numpy()
    if neighborhood.directions == "nodes":
        return np.diag(1 + values)
    if neighborhood.directions == "links":
        change = np.zeros_like(tilde)
        ends = np.argwhere(np.triu(tilde, 1))
        for (i, j), value in zip(ends, values, strict=True):
            change[i, j] = change[j, i] = value * tilde[i, j]
        return np.eye(nodes) + change
    if neighborhood.directions == "basis":
        basis = np.random.default_rng(5).standard_normal((nodes, 3)) / 4
        core = np.diag(values[:3])
        above, beside = np.triu_indices(3, 1)
        core[above, beside] = core[beside, above] = values[3:] / np.sqrt(2)
        return np.eye(nodes) + basis @ core @ basis.T
    # Gram-Schmidt on 1, L, L², … in the inner product tr ρ f g.
    rho, found = laplacian / np.trace(laplacian), [np.eye(nodes)]
    for power in range(1, len(values) + 1):
        # As many powers of Ã as of L: the sign of the leading coefficient is that of T_a(Ã).
        new = np.linalg.matrix_power(tilde, power)
        for each in found:
            new = new - np.trace(rho @ new @ each) * each
        found.append(new / np.sqrt(np.trace(rho @ new @ new)))
    return np.eye(nodes) + np.einsum("j,jab->ab", values, np.stack(found[1:]))


def fidelity(first: np.ndarray, second: np.ndarray) -> float:
    values, vectors = np.linalg.eigh(first)
    root = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
    return float(np.sqrt(np.clip(np.linalg.eigvalsh(root @ second @ root), 0, None)).sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("isolated", [False, True])
def test_operator_trace_and_distance_are_those_of_dense_matrices(kind: str, isolated: bool) -> None:
    neighborhood = around(kind, graph(3, isolated=isolated), radius=0.1)
    x = neighborhood.sample(4, torch.Generator().manual_seed(1))
    found, tilde = neighborhood.operator(x), neighborhood.propagation.to_dense().numpy()
    assert isinstance(found, CongruenceOperator)
    laplacian, distances = np.eye(len(tilde)) - tilde, neighborhood.distance(x)
    for index, each in enumerate(x):
        factor = dense_factor(neighborhood, each)
        changed = factor @ laplacian @ factor
        changed *= np.trace(laplacian) / np.trace(changed)
        np.testing.assert_allclose(found.to_dense()[index].numpy(), np.eye(len(tilde)) - changed, atol=1e-12)
        trace = np.trace(laplacian)
        wanted = np.sqrt(max(2 - 2 * fidelity(laplacian / trace, changed / trace), 0.0))
        np.testing.assert_allclose(float(distances[index]), wanted, rtol=1e-5)  # a root of rounding in the oracle


@pytest.mark.parametrize("kind", KINDS)
def test_radius_is_the_root_mean_square_of_the_distance(kind: str) -> None:
    neighborhood = around(kind, graph(4, nodes=40), radius=0.02)
    x = neighborhood.sample(4000, torch.Generator().manual_seed(2))
    # tr ρM² = (1 + tr ρX)² (1 + κ²), and tr ρX² = (tr ρX)² + κ² (1 + tr ρX)².
    kappa = neighborhood.tangent(x)
    grown = 1.0 / (neighborhood.scale_of(x) * (1.0 + kappa.square()))
    square = float(((grown.sqrt() - 1.0).square() + kappa.square() * grown).mean())
    assert square == pytest.approx(0.02**2, rel=0.05)
    rms = float(neighborhood.distance(x[:500]).square().mean().sqrt())
    assert 0.5 * 0.02 < rms < 1.05 * 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_the_distance(kind: str) -> None:
    neighborhood = around(kind, graph(6, nodes=9), radius=0.05)
    x = neighborhood.sample(2, torch.Generator().manual_seed(1)).requires_grad_()
    assert torch.autograd.gradcheck(neighborhood.distance, (x,))
    zero = torch.zeros(neighborhood.rank, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(neighborhood.distance(zero), zero)
    assert torch.isfinite(slope).all()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), radius=st.floats(0.01, 1.5))
def test_laws_hold_for_any_graph_and_radius(kind: str, seed: int, radius: float) -> None:
    neighborhood = around(kind, graph(seed, nodes=16, share=0.3), radius=radius)
    x = neighborhood.sample(2, torch.Generator().manual_seed(seed))
    tilde = neighborhood.propagation.to_dense()
    eye = torch.eye(16, dtype=torch.float64)
    for each in eye - neighborhood.operator(x).to_dense():  # type: ignore[attr-defined]
        torch.testing.assert_close(each, each.T, atol=1e-10, rtol=0)
        assert float(each.trace()) == pytest.approx(16 - float(tilde.trace()), rel=1e-9)
        assert float(torch.linalg.eigvalsh((each + each.T) / 2)[0]) > -1e-9
    largest = neighborhood.largest_eigenvalue(x)
    wanted = torch.linalg.eigvalsh(eye - neighborhood.operator(x).to_dense())[:, -1]  # type: ignore[attr-defined]
    torch.testing.assert_close(largest, wanted, rtol=1e-6, atol=0)


def test_distance_is_refused_where_its_formula_does_not_hold() -> None:
    neighborhood = around("links", graph(7))
    with pytest.raises(InputError, match="positive semi-definite, got the eigenvalue"):
        neighborhood.distance(np.full(neighborhood.rank, 5.0))
    assert float(around("nodes", graph(7)).phi(np.full(24, -0.5), 50.0).min()) == -1.0


def test_best_weights_against_a_solver() -> None:
    rng = np.random.default_rng(0)
    for size, scale in ((0.1, 1.0), (0.9, 1.0), (1.5, 3.0)):
        gradient, shares = rng.standard_normal(40) * scale, rng.uniform(0.2, 1.0, 40)
        shares /= shares.sum()
        x = best_weights(gradient, shares, size)
        assert (x >= -1 - 1e-12).all()
        assert shares @ x == pytest.approx(0, abs=1e-9)
        assert shares @ x**2 == pytest.approx(size**2, rel=1e-9)
        constraints = [
            {"type": "eq", "fun": lambda v, s=shares: s @ v},
            {"type": "ineq", "fun": lambda v, s=shares, k=size: k**2 - s @ v**2},
        ]
        start, options = 0.01 * rng.standard_normal(40), {"maxiter": 500, "ftol": 1e-12}
        best = minimize(
            lambda v, g=gradient: -g @ v,
            start,
            method="SLSQP",
            bounds=[(-1, None)] * 40,
            constraints=constraints,
            options=options,
        )
        assert gradient @ x == pytest.approx(-best.fun, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"directions": "edges"}, "directions must be one of"),
        ({"directions": "polynomial", "degree": 0}, "degree must be"),
        ({"radius": -1.0}, "radius must be at least 0"),
        ({"basis": np.ones((3, 1))}, r"basis must have shape \(24, r\)"),
        ({"basis": np.full((24, 1), np.nan)}, "finite"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CongruenceNeighborhood(graph(1), **options)


def test_graphs_that_cannot_be_perturbed() -> None:
    with pytest.raises(InputError, match="no links"):
        CongruenceNeighborhood(sparse.eye_array(4))
    pair = renormalized([[0, 1], [1, 0]])
    with pytest.raises(InputError, match="distinct eigenvalues"):
        CongruenceNeighborhood(pair, "polynomial", degree=1)
    with pytest.raises(InputError, match="finite"):
        CongruenceNeighborhood(pair).operator([np.nan, 0.0])


def test_moments_of_a_large_graph_are_estimated_well(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 3000, (2, 9000))
    links = sparse.coo_array((np.ones(9000), ends), shape=(3000, 3000))
    propagation = renormalized(sparse.csr_array(((links + links.T) > 0).astype(float)))
    exact = CongruenceNeighborhood(propagation, "polynomial", degree=3)
    monkeypatch.setattr("fishergcn.perturbation._family_polynomial._EXACT_NODES", 100)
    estimated = CongruenceNeighborhood(propagation, "polynomial", degree=3)
    z = torch.tensor(rng.standard_normal((3000, 1, 8)))
    for x in 0.3 * np.eye(3):
        wanted, found = (each.operator(x[None]).propagate(z) for each in (exact, estimated))
        assert not torch.equal(found, wanted)
        assert float((found - wanted).norm()) < 0.01 * float((wanted - z).norm())
