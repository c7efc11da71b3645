"""The loss kernel and the penalty against plain torch."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from fishergcn.errors import InputError
from fishergcn.nn import View
from fishergcn.splits import Split
from fishergcn.training import Targets, backend, scores
from fishergcn.training._objective import penalty, training_shares


def make_targets(rng, dtype):
    labels = rng.integers(0, 5, 30)
    nodes = [rng.choice(30, 7, replace=False), rng.choice(30, 4, replace=False)]  # padded to a common length
    view = View(features=None, operators=(), rows=(None,))
    return Targets.of(nodes, labels, view, torch.device("cpu"), dtype)


@pytest.mark.parametrize("samples", [1, 3])
def test_scores_and_their_gradient_equal_the_reference(samples):
    rng = np.random.default_rng(0)
    targets = make_targets(rng, torch.float64)
    logits = torch.from_numpy(3 * rng.standard_normal((30, 2 * samples, 5))).requires_grad_()
    weights = torch.tensor([0.3, -2.0], dtype=torch.float64)
    outcomes = []
    for name in ("auto", "reference"):
        with backend(name):
            loss, accuracy = scores(logits, targets)
            (gradient,) = torch.autograd.grad((loss * weights).sum(), logits)
        outcomes.append((loss.detach(), accuracy, gradient))
    for ours, theirs in zip(*outcomes, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-14)


def test_targets_beyond_the_logits_are_refused():
    targets = Targets(torch.tensor([[5]]), torch.tensor([[0]]), torch.ones(1, 1))
    with pytest.raises(InputError, match=r"targets must be rows below 5 of classes below 2, got up to 5 and 0\."):
        targets.check(rows=5, batch=1, classes=2)


def test_balanced_shares_are_the_class_weights_of_torch():
    """Σ_i w_i l_i / Σ_i w_i with w = N/(C N_c), whatever is constant in w; classes without nodes play no part."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 4, 30)
    nodes = [rng.choice(30, 20, replace=False), np.flatnonzero(labels < 2)]
    shares = [training_shares(Split("mine", own, [], []), labels, "balanced") for own in nodes]
    targets = Targets.of(nodes, labels, None, torch.device("cpu"), torch.float64, shares=shares)
    logits = torch.from_numpy(rng.standard_normal((30, 2, 4))).requires_grad_()
    loss, accuracy = scores(logits, targets)
    for run, own in enumerate(nodes):
        counts = np.bincount(labels[own], minlength=4)
        weight = len(own) / (np.count_nonzero(counts) * np.maximum(counts, 1))
        truth = torch.from_numpy(labels[own])
        expected = functional.cross_entropy(logits[own, run], truth, weight=torch.from_numpy(weight))
        torch.testing.assert_close(loss[run], expected, rtol=1e-12, atol=0)
        ours, theirs = (torch.autograd.grad(each, logits, retain_graph=True)[0] for each in (loss[run], expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-15)
        hits = (logits[own, run].argmax(-1) == truth).double().mean()
        torch.testing.assert_close(accuracy[run], hits)  # which counts nodes, not classes


@pytest.mark.parametrize("class_weight", ["none", "balanced"])
def test_weighted_nodes_are_a_weighted_mean(class_weight):
    """Σ_i w_i c_i l_i / Σ_i w_i c_i, with c = N/(C N_c) by the number of nodes, as scikit-learn multiplies them."""
    rng = np.random.default_rng(4)
    labels, weight = rng.integers(0, 4, 30), rng.random(30)
    weight[::7] = 0.0
    split = Split("mine", rng.choice(30, 20, replace=False), [], [], weight)
    shares = training_shares(split, labels, class_weight)
    targets = Targets.of([split.train], labels, None, torch.device("cpu"), torch.float64, shares=[shares])
    logits = torch.from_numpy(rng.standard_normal((30, 1, 4)))
    truth = torch.from_numpy(labels[split.train])
    losses = functional.cross_entropy(logits[split.train, 0], truth, reduction="none").numpy()
    counts = np.bincount(labels[split.train], minlength=4)
    factor = 1.0 if class_weight == "none" else 20 / (np.count_nonzero(counts) * counts[labels[split.train]])
    expected = np.average(losses, weights=weight[split.train] * factor)
    torch.testing.assert_close(scores(logits, targets)[0].item(), expected, rtol=1e-12, atol=0)
    np.testing.assert_allclose(training_shares(split, labels, class_weight).sum(), 1.0)
    huge = Split("mine", split.train, [], [], weight * 1e308)
    np.testing.assert_allclose(training_shares(huge, labels, class_weight), shares)


def test_large_logits_do_not_overflow():
    targets = make_targets(np.random.default_rng(1), torch.float32)
    logits = torch.full((30, 2, 5), 1e30)
    loss, _ = scores(logits, targets)
    torch.testing.assert_close(loss, torch.full((2,), float(np.log(5.0)), dtype=torch.float32))


def test_nan_is_passed_on_to_its_run_alone():
    targets = make_targets(np.random.default_rng(1), torch.float32)
    logits = torch.zeros(30, 2, 5)
    logits[:, 1] = torch.nan
    loss, _ = scores(logits, targets)
    assert torch.isfinite(loss[0])
    assert torch.isnan(loss[1])


def test_penalty_and_its_gradient():
    rng = np.random.default_rng(2)
    weights = [torch.from_numpy(rng.standard_normal((2, *shape))).requires_grad_() for shape in ((4, 3), (3, 5))]
    value = penalty(weights, 0.1)
    plain = 0.05 * sum(each.square().sum((1, 2)) for each in weights)
    torch.testing.assert_close(value, plain)
    upstream = torch.tensor([1.0, -3.0], dtype=torch.float64)
    ours = torch.autograd.grad((value * upstream).sum(), weights)
    theirs = torch.autograd.grad((plain * upstream).sum(), weights)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)
