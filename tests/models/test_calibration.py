"""Calibrations: what they do to probabilities, which one is chosen, and that few nodes do no harm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special

from fishergcn.errors import InputError
from fishergcn.models import Calibrated, calibrate
from fishergcn.models.calibration import CALIBRATIONS


def drawn(count: int, seed: int = 0, classes: int = 4, heat: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return logits, and classes drawn from softmax(logits / heat)."""
    rng = np.random.default_rng(seed)
    logits = 2.5 * rng.normal(size=(count, classes))
    shares = special.softmax(logits / heat, axis=1)
    return logits, (rng.random((count, 1)) > shares.cumsum(axis=1)).sum(axis=1).clip(max=classes - 1)


def loss(stated: np.ndarray, labels: np.ndarray) -> float:
    return float(-np.log(stated[np.arange(len(labels)), labels]).mean())


@pytest.mark.parametrize("name", sorted(CALIBRATIONS))
def test_laws(name):
    """Rows are probabilities, the most probable class stays, and the values have the sizes that are said."""
    logits, labels = drawn(300, heat=3.0)
    rare = np.where(labels == 0, labels, np.maximum(labels, 1))
    values = CALIBRATIONS[name].fit(logits, rare)
    assert {each: len(some) for each, some in values.items()} == dict(CALIBRATIONS[name].sizes(4))
    found = CALIBRATIONS[name].apply(logits, values)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    assert (found >= 0).all()
    np.testing.assert_array_equal(found.argmax(axis=1), logits.argmax(axis=1))
    assert CALIBRATIONS[name].words(values)
    again = Calibrated.from_dict(Calibrated(name, values, 300, 0.5, 0.4).to_dict(), 4)
    np.testing.assert_array_equal(again.apply(logits), found)


def test_shrinkage_keeps_the_class_where_another_is_far_more_frequent():
    values = {"weight": (0.95,), "shares": (0.9, 0.1)}
    found = CALIBRATIONS["shrinkage"].apply(np.array([[0.0, 0.5], [2.0, 0.0]]), values)
    assert found.argmax(axis=1).tolist() == [1, 0]
    softmax = special.softmax([2.0, 0.0])
    np.testing.assert_allclose(found[1], 0.05 * softmax + 0.95 * np.array([0.9, 0.1]))
    assert found[0, 1] - found[0, 0] == pytest.approx(0, abs=1e-4)  # as far as it stays the most probable


def test_the_temperature_is_found():
    logits, labels = drawn(4000, heat=2.0)
    found = calibrate(logits, labels)
    assert found.name == "temperature"
    best = optimize.minimize_scalar(
        lambda heat: 4000 * loss(special.softmax(logits / heat, axis=1), labels) + np.log(heat) ** 2 / (2 * 0.3**2),
        bounds=(0.2, 6), method="bounded",
    )  # fmt: skip
    assert found.values["temperature"][0] == pytest.approx(best.x, rel=2e-3) == pytest.approx(2, rel=0.08)
    assert found.after < found.before
    assert "temperature" in found.words
    assert "4,000 validation nodes" in found.words


def test_a_model_that_says_nothing_is_drawn_to_the_shares():
    rng = np.random.default_rng(3)
    logits, labels = 3 * rng.normal(size=(600, 3)), rng.choice(3, 600, p=[0.5, 0.3, 0.2])
    found = calibrate(logits, labels)
    assert found.name != "none"
    fresh = rng.choice(3, 600, p=[0.5, 0.3, 0.2])
    more = 3 * rng.normal(size=(600, 3))
    assert loss(found.apply(more), fresh) < loss(special.softmax(more, axis=1), fresh) - 0.5


def gains(count: int, heat: float, seeds: int) -> tuple[float, float]:
    """Return by how much the cross entropy of fresh nodes falls, a mean over draws of nodes, and how far it could."""
    fresh, truth = drawn(4000, seed=99, heat=heat)
    before = loss(special.softmax(fresh, axis=1), truth)
    found = [calibrate(*drawn(count, seed=seed, heat=heat)) for seed in range(seeds)]
    after = np.mean([loss(each.apply(fresh), truth) for each in found])
    return float(before - after), before - loss(special.softmax(fresh / heat, axis=1), truth)


@pytest.mark.parametrize("count", [10, 16, 30])
@pytest.mark.parametrize("heat", [0.7, 1.0, 1.25, 2.5])
def test_few_nodes_do_no_harm(count, heat):
    """Of a model that is too careful, as sure as it should be, a little too sure, and much too sure."""
    gain, possible = gains(count, heat, 40)
    assert gain > (possible / 3 if heat == 2.5 else -0.012)


@pytest.mark.parametrize("heat", [0.77, 1.3])
def test_as_many_nodes_as_public_splits_have_find_most_of_what_there_is(heat):
    """The softmax of a graph network on Cora is best at a temperature of 0.77."""
    gain, possible = gains(500, heat, 15)
    assert gain > 0.8 * possible > 0.008


def test_too_few_nodes_are_told():
    assert calibrate(*drawn(9)).name == "none"
    assert "9 validation nodes are too few" in calibrate(*drawn(9)).words
    assert "no validation nodes are known" in Calibrated().words


def test_nodes_that_are_all_right_do_not_make_a_model_certain():
    logits = np.eye(4)[np.arange(12) % 4]
    found = calibrate(logits, logits.argmax(axis=1))
    assert found.apply(logits).max() < 0.75  # the cross entropy of these nodes is least at a temperature of 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "magic"}, "must be one of"),
        ({"values": {"temperature": [1.0, 2.0]}}, "do not fit 4 classes"),
        ({"values": {}}, "is missing"),
        ({"values": {"temperature": [-1.0]}}, "do not fit 4 classes"),
    ],
)
def test_a_damaged_calibration_is_refused(change, words):
    known = Calibrated("temperature", {"temperature": (2.0,)}, 30, 0.5, 0.4).to_dict()
    with pytest.raises(InputError, match=words):
        Calibrated.from_dict(known | change, 4)
