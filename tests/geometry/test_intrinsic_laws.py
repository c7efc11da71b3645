"""Laws that every Bures distance obeys, on random density matrices of random size and rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fishergcn.geometry import intrinsic

laws = settings(max_examples=40)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(2, 9)


def densities(seed, n, count):
    """Density matrices of random rank; some spectra span many orders of magnitude."""
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        rank = int(generator.integers(1, n + 1))
        factor = generator.standard_normal((n, rank)) * 10 ** generator.uniform(-2, 0, size=rank)
        made.append(factor @ factor.T / np.square(factor).sum())
    return made


def orthogonal(seed, n):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


@laws
@given(seeds, sizes)
def test_symmetry_and_bounds(seed, n):
    a, b = densities(seed, n, 2)
    distance, overlap, angle = (f(a, b) for f in (intrinsic.bures_distance, intrinsic.fidelity, intrinsic.bures_angle))
    assert intrinsic.bures_distance(b, a) == pytest.approx(distance, abs=1e-11)
    assert intrinsic.fidelity(b, a) == pytest.approx(overlap, abs=1e-12)
    assert 0 <= distance <= np.sqrt(2)
    assert 0 <= overlap <= 1
    assert 0 <= angle <= np.pi / 2 + 1e-15
    assert distance**2 == pytest.approx(2 - 2 * overlap, abs=1e-12)
    assert np.cos(angle) == pytest.approx(overlap, abs=1e-12)


@laws
@given(seeds, sizes)
def test_fuchs_and_van_de_graaf(seed, n):
    a, b = densities(seed, n, 2)
    trace_distance = np.abs(np.linalg.eigvalsh(a - b)).sum() / 2
    overlap = intrinsic.fidelity(a, b)
    assert 1 - overlap <= trace_distance + 1e-12
    assert trace_distance <= np.sqrt(max(0.0, 1 - overlap**2)) + 1e-7


@laws
@given(seeds, sizes)
def test_triangle_inequality_of_chord_and_angle(seed, n):
    a, b, c = densities(seed, n, 3)
    for measure in (intrinsic.bures_distance, intrinsic.bures_angle):
        assert measure(a, c) <= measure(a, b) + measure(b, c) + 1e-11


@laws
@given(seeds, sizes)
def test_invariance_under_relabelling_and_rotation(seed, n):
    a, b = densities(seed, n, 2)
    rotation, order = orthogonal(seed, n), np.random.default_rng(seed).permutation(n)
    distance, entropy = intrinsic.bures_distance(a, b), intrinsic.von_neumann_entropy(a)
    relabelled = [x[np.ix_(order, order)] for x in (a, b)]
    rotated = [(lambda y: (y + y.T) / 2)(rotation @ x @ rotation.T) for x in (a, b)]
    for first, second in (relabelled, rotated):
        assert intrinsic.bures_distance(first, second) == pytest.approx(distance, abs=1e-10)
        assert intrinsic.von_neumann_entropy(first) == pytest.approx(entropy, abs=1e-12)


@laws
@given(seeds, sizes, st.floats(-12, -1))
def test_zero_distance_only_at_equality(seed, n, exponent):
    (a,) = densities(seed, n, 1)
    assert intrinsic.bures_distance(a, a) < 1e-12
    other = (1 - 10**exponent) * a + 10**exponent * np.eye(n) / n
    gap = np.linalg.norm(other - a)
    # Fuchs and van de Graaf again: D_B ≥ ‖a - b‖_1 / 2 ≥ ‖a - b‖_F / 2.
    assert intrinsic.bures_distance(a, other) >= gap / 2 - 1e-15


@laws
@given(seeds, sizes)
def test_coarse_graining_never_increases_the_distance(seed, n):
    a, b = densities(seed, n, 2)
    pinched = intrinsic.bures_distance(np.diag(np.diagonal(a)), np.diag(np.diagonal(b)))
    assert pinched <= intrinsic.bures_distance(a, b) + 1e-11


@laws
@given(seeds, st.integers(3, 8))
def test_projection_beats_random_candidates_of_the_same_rank(seed, n):
    generator = np.random.default_rng(seed)
    factor = generator.standard_normal((n, n))
    rho = factor @ factor.T / np.square(factor).sum()
    rank = int(generator.integers(1, n))
    projection = intrinsic.rank_projection(rho, rank)
    assert intrinsic.bures_distance(rho, projection.to_dense()) == pytest.approx(projection.distance, abs=1e-11)
    for spread in (1.0, 0.1, 1e-3):
        near = np.zeros((n, rank)) if spread == 1.0 else projection.eigenvectors * np.sqrt(projection.eigenvalues)
        root = near + spread * generator.standard_normal((n, rank))
        candidate = root @ root.T / np.square(root).sum()
        assert intrinsic.bures_distance(rho, candidate) >= projection.distance - 1e-12


@laws
@given(seeds, sizes, st.floats(0, 1), st.floats(0, 1))
def test_geodesics_are_additive_and_reversible(seed, n, s, t):
    a, b = densities(seed, n, 2)
    first, second = intrinsic.geodesic(a, b, s), intrinsic.geodesic(a, b, t)
    angle = intrinsic.bures_angle(a, b)
    assert intrinsic.bures_angle(first, second) == pytest.approx(abs(s - t) * angle, abs=1e-7)
    assert intrinsic.bures_angle(a, first) == pytest.approx(s * angle, abs=1e-7)
    assert intrinsic.bures_angle(intrinsic.geodesic(b, a, 1 - s), b) == pytest.approx((1 - s) * angle, abs=1e-7)


@laws
@given(seeds, sizes)
def test_metric_is_invariant_under_rotation(seed, n):
    generator = np.random.default_rng(seed)
    factor = generator.standard_normal((n, n + 2))
    rho = factor @ factor.T / np.square(factor).sum()
    tangent = generator.standard_normal((n, n))
    tangent = tangent + tangent.T
    tangent -= np.trace(tangent) / n * np.eye(n)
    rotation = orthogonal(seed + 1, n)
    rotated = [(lambda y: (y + y.T) / 2)(rotation @ x @ rotation.T) for x in (rho, tangent)]
    assert intrinsic.bures_metric(*rotated) == pytest.approx(intrinsic.bures_metric(rho, tangent), rel=1e-9)
