"""Adam of a stack is torch's fused Adam, to the bit, and goes on when runs leave."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fishergcn.training._adam import Adam


def stacked(runs: int = 4) -> list[nn.Parameter]:
    drawn = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(runs, *shape, generator=drawn)) for shape in ((5, 3), (3,))]


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("maximize", [False, True])
def test_it_is_that_of_torch(maximize, decay):
    mine, theirs = stacked(), stacked()
    ours = Adam(mine, 0.01, maximize=maximize, decay=decay)
    kind = torch.optim.AdamW if decay else torch.optim.Adam
    peer = kind(theirs, lr=0.01, fused=True, maximize=maximize, weight_decay=decay)
    drawn = torch.Generator().manual_seed(1)
    for _ in range(20):
        for one, other in zip(mine, theirs, strict=True):
            one.grad = torch.randn(one.shape, generator=drawn)
            other.grad = one.grad.clone()
        ours.step()
        peer.step()
    for one, other in zip(mine, theirs, strict=True):
        assert torch.equal(one, other)


def test_runs_that_stay_go_on_as_if_none_had_left():
    whole, some = stacked(), stacked()
    first, second = Adam(whole, 0.01), Adam(some, 0.01)
    staying = torch.tensor([0, 2])
    drawn = torch.Generator().manual_seed(1)
    for step in range(10):
        if step == 5:
            some = [nn.Parameter(each.detach()[staying]) for each in some]
            second = second.keep(some, staying)
        for one, other in zip(whole, some, strict=True):
            one.grad = torch.randn(one.shape, generator=drawn)
            other.grad = one.grad if len(other) == len(one) else one.grad[staying]
        first.step()
        second.step()
    for one, other in zip(whole, some, strict=True):
        assert torch.equal(one[staying], other)


def test_what_has_no_gradient_stays():
    parameters = stacked()
    before = parameters[0].detach().clone()
    parameters[1].grad = torch.ones_like(parameters[1])
    Adam(parameters, 0.01).step()
    assert torch.equal(parameters[0], before)
    assert not torch.equal(parameters[1], stacked()[1])
