"""The largest value of a linear function over a ball: against a general solver, a grid, and random points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from fishergcn.certificates import Ball


def shares_of(rng, k):
    found = rng.uniform(0.8, 1.2, k)
    return found / found.sum()


def general_solver(g, ball, cap, starts):
    """Maximize Σ g z² over the sphere Σ z² = 1 within the ball, with z² ≤ cap."""
    roots, best = np.sqrt(ball.shares), -np.inf
    rules = [
        {"type": "eq", "fun": lambda z: z @ z - 1, "jac": lambda z: 2 * z},
        {"type": "ineq", "fun": lambda z: ball.reach - ((z - roots) ** 2).sum(), "jac": lambda z: -2 * (z - roots)},
    ]
    for z in starts:
        found = minimize(
            lambda z: -(g * z * z).sum(),
            z,
            jac=lambda z: -2 * g * z,
            constraints=rules,
            bounds=[(0, None if cap is None else np.sqrt(cap))] * len(g),
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-15},
        )
        if abs(found.x @ found.x - 1) < 1e-10:
            best = max(best, -found.fun - g @ ball.shares)
    return best


@pytest.mark.parametrize("cap", [None, 0.13])
@pytest.mark.parametrize("radius", [1e-6, 0.0037, 0.01, 0.03, 0.06])
def test_duality_gap(cap, radius):
    rng = np.random.default_rng(int(1e6 * radius))
    ball = Ball.of(shares_of(rng, 10), 0.009, radius, cap)
    gradients = rng.normal(size=(100, 10))
    value, points = ball.support(gradients)
    attained = np.einsum("bk,bk->b", gradients, points - ball.shares)
    assert (np.abs(value - attained) <= 1e-12).all()
    assert (value >= attained).all()  # rounded up
    assert np.abs(points.sum(1) - 1).max() < 1e-14
    assert (((np.sqrt(points) - np.sqrt(ball.shares)) ** 2).sum(1) <= ball.reach * (1 + 1e-9)).all()
    assert cap is None or points.max() <= max(cap, ball.shares.max()) * (1 + 1e-12)
    assert (ball.quick(gradients) >= value - 1e-15).all()
    assert (ball.boxed(gradients) >= value - 1e-12).all()


@pytest.mark.parametrize("cap", [None, 0.13])
def test_against_a_general_solver(cap):
    rng = np.random.default_rng(3)
    for radius in (0.01, 0.03):
        ball = Ball.of(shares_of(rng, 10), 0.009, radius, cap)
        for g in rng.normal(size=(4, 10)):
            starts = np.abs(rng.normal(size=(3, 10)) * 0.03 + np.sqrt(ball.shares))
            starts /= np.linalg.norm(starts, axis=1, keepdims=True)
            assert ball.support(g[None])[0][0] == pytest.approx(general_solver(g, ball, cap, starts), abs=1e-12)


@pytest.mark.parametrize("cap", [None, 0.42])
def test_grid(cap):
    rng = np.random.default_rng(0)
    ball = Ball.of(shares_of(rng, 3), 0.5, 0.15, cap)
    first, second = (each.ravel() for each in np.meshgrid(*[np.linspace(0, 1, 1001)] * 2))
    every = np.stack([first, second, 1 - first - second], axis=1)
    every = every[(every >= 0).all(1) & (every <= (cap or 1.0)).all(1)]
    every = every[((np.sqrt(every) - np.sqrt(ball.shares)) ** 2).sum(1) <= ball.reach]
    assert len(every) > 10_000
    gradients = rng.normal(size=(20, 3))
    best = ((every - ball.shares) @ gradients.T).max(0)
    value, _ = ball.support(gradients)
    assert (value >= best).all()
    assert np.abs(value - best).max() < 5e-3
    low, high = ball.ranges()
    assert (every.min(0) >= low).all()
    assert (every.max(0) <= high).all()
    assert np.abs(every.max(0) - high).max() < 2e-3


def test_parts_hold_what_is_in_them_and_no_more():
    rng = np.random.default_rng(1)
    ball = Ball.of(shares_of(rng, 4), 0.5, 0.2, 0.5)
    low, high = np.tile(ball.low, (2, 1)), np.tile(ball.high, (2, 1))
    high[0, 0] = low[1, 0] = ball.shares[0] * 1.1
    parts = Ball(ball.shares, ball.reach, low, high)
    g = rng.normal(size=(1, 4))
    whole, both = ball.support(g)[0], parts.support(np.repeat(g, 2, axis=0))[0]
    assert both.max() == pytest.approx(whole[0], abs=1e-12)
    assert both.min() <= whole[0]
    assert parts.nearest()[1].tolist() == [True, True]
    low, high = ball.low.copy(), ball.high.copy()
    low[0] = high[0] = ball.high[0] * 1.3
    assert not Ball(ball.shares, ball.reach, low, high).nearest()[1].any()


@pytest.mark.parametrize("seed", range(6))
def test_parts_at_all_scales_are_bounded_tightly(seed):
    """Limits that come from a cap at the largest share and from cuts: many of them bind at once."""
    rng = np.random.default_rng(seed)
    for _ in range(12):
        k = int(rng.integers(2, 12))
        shares = rng.dirichlet(np.full(k, rng.choice([2.0, 20.0]))) + 1e-6
        shares /= shares.sum()
        mass, largest = 10 ** rng.uniform(-3, 0), shares.max()
        radius = np.sqrt(2 * mass * (1 - np.sqrt(shares.min()))) * 10 ** rng.uniform(-4, 0)
        cap = largest * (1 + rng.choice([0, 1e-9, 0.05, 0.5]))
        ball = Ball.of(shares, mass, radius, cap if cap * k > 1.001 else None)
        parts = ball.part(np.zeros(20, dtype=int))
        rows = np.arange(20)
        for _ in range(3):
            j, upper = rng.integers(k, size=20), rng.random(20) < 0.5
            middle = (parts.low[rows, j] + parts.high[rows, j]) / 2
            parts.low[rows[upper], j[upper]], parts.high[rows[~upper], j[~upper]] = middle[upper], middle[~upper]
        inside = parts.nearest()[1]
        parts = parts.part(inside)
        parts = Ball(shares, ball.reach, *parts.ranges())
        gradients = rng.normal(size=(20, k))[inside]
        gradients[::5] = np.round(gradients[::5])  # with ties, and zero
        value, points = parts.support(gradients)
        attained = np.einsum("bk,bk->b", gradients, points - shares)
        away = ((np.sqrt(points) - np.sqrt(shares)) ** 2).sum(1)
        assert (away <= ball.reach * (1 + 1e-9)).all()
        assert ((points >= parts.low - 1e-15) & (points <= parts.high + 1e-15)).all()
        assert np.abs(points.sum(1) - 1).max() < 1e-13
        assert (value >= attained - 1e-15 * np.abs(gradients).max(1)).all()
        assert (value - attained <= 1e-12 + 2e-6 * np.abs(gradients).max(1) * np.sqrt(ball.reach)).all()
