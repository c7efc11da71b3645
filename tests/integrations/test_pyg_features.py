"""The adversary on features against FLAG written out."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("torch_geometric")
from pyg_cases import Net, loss_of, random_data
from torch import nn

from fishergcn.errors import InputError
from fishergcn.integrations.pyg import FeatureAdversary

ALPHA = 0.05


@pytest.fixture
def data():
    return random_data(7)


def flag(model, data, samples, radius, optimizer):
    """One step of Algorithm 1 of Kong et al. (2022), as its authors' code has it."""
    draw = torch.rand(data.x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32).double()
    limit = (lambda d: d) if radius is None else (lambda d: d.clamp(-radius, radius))
    delta = limit(ALPHA * (2 * draw - 1)).requires_grad_()
    optimizer.zero_grad()
    total = 0.0
    for _ in range(samples):
        loss = nn.functional.cross_entropy(model(data.x + delta, data.edge_index), data.y) / samples
        loss.backward()
        total += float(loss.detach())
        delta = limit(delta.detach() + ALPHA * delta.grad.sign()).requires_grad_()
    optimizer.step()
    return total


@pytest.mark.parametrize("radius", [None, 0.07])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_is_one_of_flag(data, radius, compiled) -> None:
    one, other = Net(), Net()
    expected = flag(other, data, 3, radius, torch.optim.SGD(other.parameters(), lr=0.1))
    runs = torch.compile(one, fullgraph=True, backend="aot_eager") if compiled else one
    adversary = FeatureAdversary(ALPHA, 3, radius).attach(runs)
    optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
    optimizer.add_param_group(adversary.parameter_group(lr=1.0))
    loss = adversary.average(lambda: loss_of(runs, data))
    loss.backward()
    optimizer.step()
    assert loss.item() == pytest.approx(expected, abs=1e-12)
    for mine, flags in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, flags, rtol=0, atol=1e-13)
    assert data.x.grad is None


def test_the_features_become_more_harmful(data) -> None:
    model = Net()
    losses = []
    adversary = FeatureAdversary(ALPHA, 6).attach(model)
    adversary.average(lambda: losses.append(loss_of(model, data)) or losses[-1])
    assert losses == sorted(losses)
    assert losses[-1] > losses[0] + 0.01


def test_evaluation_and_plain_calls_are_not_moved(data) -> None:
    model = Net()
    plain = loss_of(model, data)
    with FeatureAdversary(ALPHA).attach(model) as adversary:
        assert torch.equal(loss_of(model, data), plain)
        with adversary.perturbed(torch.full_like(data.x, 0.5)):
            moved = loss_of(model, data)
        assert (moved - plain).abs() > 1e-3
        model.eval()
        assert torch.equal(adversary.average(lambda: loss_of(model, data)), plain)
    assert not model._forward_pre_hooks


class Named(Net):
    def forward(self, edge_index, features):
        return super().forward(features, edge_index)


def test_features_by_name(data) -> None:
    model = Named()
    adversary = FeatureAdversary(ALPHA, argument="features").attach(model)
    with adversary.perturbed(torch.ones_like(data.x)):
        result = model(data.edge_index, features=data.x)
    torch.testing.assert_close(result, model(data.edge_index, features=data.x + 1))


def test_refusals(data) -> None:
    model = Net()
    adversary = FeatureAdversary(ALPHA)
    with pytest.raises(InputError, match="must be attached"):
        adversary.average(lambda: loss_of(model, data))
    adversary.attach(model)
    with pytest.raises(InputError, match="attached already"):
        adversary.attach(model)
    with pytest.raises(InputError, match=r"must be a torch\.nn\.Module, got int"):
        adversary.attach(3)
    with pytest.raises(InputError, match="no attached model ran"):
        adversary.average(lambda: loss_of(Net(), data))
    with pytest.raises(InputError, match="a tensor with one number"):
        adversary.average(lambda: model(data.x, data.edge_index))
    sparse = data.clone()
    sparse.x = data.x.to_sparse()
    with pytest.raises(InputError, match="a dense tensor of floating-point numbers"):
        adversary.average(lambda: loss_of(model, sparse))
    sizes = iter([20, 30, 30])
    with pytest.raises(InputError, match=r"same features in all passes of a step, of shape \(20, 5\)"):
        adversary.average(lambda: model(data.x[: next(sizes)], torch.tensor([[0], [1]])).sum())
    with pytest.raises(InputError, match="needs its gradient at once"):
        adversary.average(lambda: loss_of(model, data).half())
    assert "step_size=0.05, samples=3" in repr(adversary)
