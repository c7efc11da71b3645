"""The consistency term for models of PyTorch Geometric: by hand, as the native one, and in a training loop."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("torch_geometric")
from pyg_dense import CLASSES, FEATURES, NODES, RANK, graph
from torch import nn
from torch_geometric.nn import GCN

import fishergcn
from fishergcn.errors import InputError
from fishergcn.integrations.pyg import BuresAdversary, ConsistencyLoss


def by_hand(passes: torch.Tensor, weight: float, temperature: float) -> torch.Tensor:
    """λ/M Σ_m mean_i Σ_c (p_mic - t_ic)², node by node."""
    p = passes.softmax(-1)
    total = 0.0
    for i in range(p.shape[1]):
        target = p[:, i].detach().mean(0).pow(1 / temperature)
        total = total + sum((each - target / target.sum()).square().sum() for each in p[:, i])
    return weight * total / (p.shape[0] * p.shape[1])


@pytest.mark.parametrize(("weight", "temperature"), [(0.7, 0.6), (1.0, 0.5), (2.0, 1.0)])
def test_the_term_and_its_gradient(weight, temperature) -> None:
    passes = torch.randn(4, 9, 3, dtype=torch.float64, requires_grad=True)
    consistent = ConsistencyLoss(weight, temperature)
    wanted = by_hand(passes, weight, temperature)
    (slope,) = torch.autograd.grad(wanted, passes)
    for given in (passes, list(passes)):
        found = consistent(given)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-14)
        torch.testing.assert_close(torch.autograd.grad(found, passes)[0], slope, rtol=0, atol=1e-15)
    assert repr(consistent) == f"ConsistencyLoss(weight={weight:g}, temperature={temperature:g})"


def test_the_defaults_are_those_of_the_native_methods() -> None:
    config, consistent = fishergcn.TrainConfig(), ConsistencyLoss()
    assert (consistent.weight, consistent.temperature) == (config.consistency, config.temperature)


def test_half_precision_is_added_up_in_single() -> None:
    passes = torch.randn(3, 50, 4)
    wanted = by_hand(passes.bfloat16().double(), 0.7, 0.6)
    found = ConsistencyLoss()(passes.bfloat16())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("passes", "got"),
    [
        ([torch.ones(3, 2)], r"1 of shape \(3, 2\)"),
        ([torch.ones(3, 2), torch.ones(4, 2)], r"2 of shape \(3, 2\), \(4, 2\)"),
        (torch.ones(3, 2), r"3 of shape \(2,\)"),
        ([], "0 of shape none"),
    ],
)
def test_what_is_refused(passes, got) -> None:
    with pytest.raises(InputError, match=f"at least 2 passes, each of the same shape .*, got {got}"):
        ConsistencyLoss()(passes)
    for wrong in (None, [1.0, 2.0], "logits"):
        with pytest.raises(InputError, match="passes must be a tensor or several, got "):
            ConsistencyLoss()(wrong)
    with pytest.raises(InputError, match="temperature must be greater than 0"):
        ConsistencyLoss(temperature=0.0)


def test_training_pulls_the_passes_together() -> None:
    """With the term, predictions under other dropout masks differ less."""
    data, spread = graph(), {}
    labeled = torch.arange(NODES) < 6
    for weight in (0.0, 5.0):
        torch.manual_seed(0)
        model, consistent = GCN(FEATURES, 16, 2, CLASSES, dropout=0.5).double(), ConsistencyLoss(weight)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(60):
            optimizer.zero_grad()
            passes = [model(data.x, data.edge_index) for _ in range(4)]
            loss = sum(nn.functional.cross_entropy(each[labeled], data.y[labeled]) for each in passes) / 4
            (loss + consistent(passes)).backward()
            optimizer.step()
        with torch.no_grad():
            found = torch.stack([model(data.x, data.edge_index).softmax(-1) for _ in range(20)])
        spread[weight] = float(found.std(dim=0).mean())
    assert spread[5.0] < 0.7 * spread[0.0]


def test_with_the_perturbed_passes_of_an_adversary() -> None:
    """A kept average gives the logits of its passes to the term, whose gradient reaches ξ."""
    data = graph()
    torch.manual_seed(0)
    model, consistent = GCN(FEATURES, 8, 2, CLASSES).double(), ConsistencyLoss(1.0)
    adversary = BuresAdversary(data, RANK, 0.5, 3).attach(model)
    draws, passes = adversary.draw(), []
    for draw in draws:
        with adversary.perturbed(draw):
            passes.append(model(data.x, data.edge_index))
    wanted = sum(nn.functional.cross_entropy(each, data.y) for each in passes) / 3 + consistent(passes)
    expected = torch.autograd.grad(wanted, [*model.parameters(), adversary.xi])
    adversary.load_state_dict(BuresAdversary(data, RANK, 0.5, 3).state_dict())
    kept: list[torch.Tensor] = []

    def closure() -> torch.Tensor:
        kept.append(model(data.x, data.edge_index))
        return nn.functional.cross_entropy(kept[-1], data.y)

    (adversary.average(closure, keep=True) + consistent(kept)).backward()
    for each, slope in zip((*model.parameters(), adversary.xi), expected, strict=True):
        torch.testing.assert_close(each.grad, slope, rtol=0, atol=1e-14)
