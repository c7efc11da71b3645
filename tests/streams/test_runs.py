"""A run's random numbers come from what the run is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fishergcn.streams import (
    LINKS,
    draw_words,
    initial_weights,
    initial_xi,
    keys_of,
    node_fractions,
    noise_block,
    random_order,
    run_key,
    wide_noise,
)

RUNS = [("public", 2019), ("public", 2020), ("shuffled:2019", 2019)]
KEYS = keys_of("cora", RUNS)


def test_keys():
    assert KEYS.dtype == torch.int64
    assert KEYS.numpy().view(np.uint64).tolist() == [run_key("cora", *run) for run in RUNS]
    assert len(set(keys_of("cora", RUNS).tolist() + keys_of("pubmed", RUNS).tolist())) == 6


def test_initial_weights():
    weights = initial_weights(KEYS, 0, 200, 64, torch.float64)
    assert weights.shape == (3, 200, 64)
    bound = math.sqrt(6 / 264)
    assert weights.abs().max() < bound
    assert weights.abs().max() > 0.999 * bound
    assert abs(weights.mean()) < 4.5 * bound / math.sqrt(3 * weights.numel())
    assert abs(weights.var() / (bound**2 / 3) - 1) < 0.03
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights, initial_weights(KEYS, 1, 200, 64, torch.float64))
    assert torch.equal(weights.float(), initial_weights(KEYS, 0, 200, 64, torch.float32))


def test_initial_xi():
    """Glorot-uniform as a k x 1 matrix."""
    xi = initial_xi(keys_of("x", [("s", seed) for seed in range(500)]), 10)
    assert xi.shape == (500, 10)
    assert xi.dtype == torch.float64
    bound = math.sqrt(6 / 11)
    assert 0.99 * bound < xi.abs().max() < bound
    assert abs(xi.mean()) < 4.5 * bound / math.sqrt(3 * xi.numel())


@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_noise(kind):
    noise = noise_block(KEYS, range(300), 5, 8, kind)
    assert noise.shape == (300, 3, 5, 8)
    n = noise.size
    fourth = 1 / 80 if kind == "uniform" else 3 / 144
    assert abs(noise.mean()) < 4.5 / math.sqrt(12 * n)
    assert abs((noise**2).mean() - 1 / 12) < 4.5 * math.sqrt((fourth - 1 / 144) / n)
    if kind == "uniform":
        assert np.abs(noise).max() < 0.5
    # Samples, directions, epochs and runs are independent of each other.
    for axis in range(4):
        assert abs((noise * np.roll(noise, 1, axis)).mean()) < 4.5 / 12 / math.sqrt(n)


@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_noise_does_not_depend_on_company_or_on_when_it_is_drawn(kind):
    together = noise_block(KEYS, range(10, 20), 5, 8, kind)
    for run in range(3):
        for epoch in (10, 19):
            alone = noise_block(KEYS[run : run + 1], range(epoch, epoch + 1), 5, 8, kind)
            np.testing.assert_array_equal(alone[0, 0], together[epoch - 10, run])


def test_streams_do_not_overlap():
    """Dropout, weights, ξ, noise and links draw from different counters: no word appears twice."""
    key = KEYS[:1]
    words = [draw_words(key, 3, purpose, 0, 64, 0.5).numpy().ravel() for purpose in (0, 1, 2, LINKS, LINKS + 1)]
    drawn = [
        (initial_weights(key, 0, 64, 1, torch.float64).numpy() / math.sqrt(6 / 65) + 1) / 2,
        (initial_xi(key, 64).numpy() / math.sqrt(6 / 65) + 1) / 2,
        noise_block(key, range(1), 8, 8, "uniform") + 0.5,
    ]
    words += [np.floor(each.ravel() * 2**32).astype(np.uint32).view(np.int32) for each in drawn]
    every = np.concatenate(words)
    assert len(every) == 3 * 64 * 5 + 3 * 64
    assert len(set(every.tolist())) == len(every)


@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_wide_noise_has_the_same_law(kind):
    noise = wide_noise(KEYS, 5, 0, 2708, kind)
    assert noise.shape == (3, 5, 2708)
    assert noise.dtype == torch.float64
    n, fourth = noise.numel(), 1 / 80 if kind == "uniform" else 3 / 144
    assert abs(noise.mean()) < 4.5 / math.sqrt(12 * n)
    assert abs((noise**2).mean() - 1 / 12) < 4.5 * math.sqrt((fourth - 1 / 144) / n)
    assert torch.equal(wide_noise(KEYS[1:2], 5, 0, 2708, kind)[0], noise[1])


def test_random_order_and_node_fractions():
    order = random_order(7, 40, epoch=0)
    assert sorted(order.tolist()) == list(range(40))
    assert order.tolist() != random_order(7, 40, epoch=1).tolist()
    fractions = node_fractions(7, np.array([3, 90]), 5, hop=0, step=0)
    assert fractions.shape == (2, 5)
    assert (fractions > 0).all()
    assert (fractions < 1).all()
    np.testing.assert_array_equal(node_fractions(7, np.array([90]), 5, hop=0, step=0)[0], fractions[1])
    assert (node_fractions(7, np.array([90]), 5, hop=1, step=0)[0] != fractions[1]).all()
