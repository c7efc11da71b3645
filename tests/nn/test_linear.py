"""Each run's own weights, for one run and for several."""

from __future__ import annotations

import pytest
import torch

from fishergcn.nn import times_weight


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("runs", "samples"), [(1, 1), (1, 4), (3, 1), (2, 5)])
def test_values_and_gradients(runs, samples, dtype):
    hidden = normal(6, runs * samples, 7, dtype=dtype).requires_grad_()
    weight = normal(runs, 7, 3, seed=1, dtype=dtype).requires_grad_()
    out = times_weight(hidden, weight)
    expected = torch.stack([hidden[:, b] @ weight[b // samples] for b in range(runs * samples)], dim=1)
    tolerance = {"rtol": 0, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(out, expected, **tolerance)
    direction = normal(*out.shape, seed=2, dtype=dtype)
    ours, theirs = (torch.autograd.grad((each * direction).sum(), (hidden, weight)) for each in (out, expected))
    for left, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(left, right, **tolerance)


@pytest.mark.parametrize("runs", [1, 2])
def test_derivatives(runs):
    hidden = normal(3, 2 * runs, 4).requires_grad_()
    weight = normal(runs, 4, 2, seed=1).requires_grad_()
    options = {"check_forward_ad": True, "check_batched_grad": False}
    assert torch.autograd.gradcheck(times_weight, (hidden, weight), **options)
    assert torch.autograd.gradcheck(lambda w: times_weight(hidden.detach(), w), (weight,), **options)
    assert torch.autograd.gradcheck(lambda h: times_weight(h, weight.detach()), (hidden,), **options)
