"""The mean over M passes, whose backward passes run one by one: the gradients are those of the mean."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

pytest.importorskip("torch_geometric")
from pyg_cases import Net, dense_net, loss_of, random_data
from torch import nn
from torch.utils.checkpoint import checkpoint

from fishergcn.errors import InputError
from fishergcn.integrations.pyg import BuresAdversary

SAMPLES = 3


@pytest.fixture
def data():
    return random_data(6)


@pytest.fixture
def model() -> Net:
    return Net()


@pytest.fixture
def adversary(data, model) -> BuresAdversary:
    return BuresAdversary(data, rank=4, radius=1.0, samples=SAMPLES).attach(model)


def reference(adversary, model, data, loss=nn.functional.cross_entropy):
    """The mean over the next draws, from dense matrices, in one graph; the draws come again afterwards."""
    state = adversary.get_generator_state()
    matrices = [adversary.neighborhood.operator(phi).to_dense() for phi in adversary.draw()]
    adversary.set_generator_state(state)
    return torch.stack([loss(dense_net(model, data.x, matrix), data.y) for matrix in matrices]).mean(dim=0)


def gradients(loss, model, adversary):
    return torch.autograd.grad(loss, [*model.parameters(), adversary.xi], allow_unused=True)


def assert_gradients(model, adversary, expected, factor=1.0):
    for each, wanted in zip((*model.parameters(), adversary.xi), expected, strict=True):
        torch.testing.assert_close(each.grad, factor * wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("keep", [False, True])
def test_gradients_are_those_of_the_mean_whatever_scales_it(data, model, adversary, keep) -> None:
    wanted = reference(adversary, model, data)
    expected = gradients(wanted, model, adversary)
    loss = adversary.average(lambda: loss_of(model, data), keep=keep)
    torch.testing.assert_close(loss, wanted, rtol=0, atol=1e-14)
    (loss / 4).backward(retain_graph=True)
    (3 * loss).backward()
    assert_gradients(model, adversary, expected, 3.25)


def test_gradients_accumulate_over_steps(data, model, adversary) -> None:
    first = gradients(reference(adversary, model, data), model, adversary)
    adversary.average(lambda: loss_of(model, data)).backward()
    second = gradients(reference(adversary, model, data), model, adversary)
    adversary.average(lambda: loss_of(model, data)).backward()
    assert_gradients(model, adversary, [one + two for one, two in zip(first, second, strict=True)])


@pytest.mark.slow
def test_only_one_pass_is_alive_at_a_time(data, model, adversary) -> None:
    alive: list[weakref.ref] = []

    def closure() -> torch.Tensor:
        gc.collect()
        assert not [each for each in alive if each() is not None]
        hidden = model(data.x, data.edge_index)
        alive.append(weakref.ref(hidden))
        return hidden.square().mean()

    adversary.average(closure).backward()
    assert len(alive) == SAMPLES


def test_what_the_closure_takes_from_outside_gets_its_gradient(data, model, adversary) -> None:
    """A graph that is older than the passes is used by all of them."""
    encoder = nn.Linear(5, 5).double()
    x = encoder(data.x)
    data = data.clone()
    data.x = x
    expected = torch.autograd.grad(
        reference(adversary, model, data), [*encoder.parameters(), adversary.xi], retain_graph=True
    )
    adversary.average(lambda: loss_of(model, data)).backward()
    for each, wanted in zip((*encoder.parameters(), adversary.xi), expected, strict=True):
        torch.testing.assert_close(each.grad, wanted, rtol=0, atol=1e-13)


def test_hooks_of_parameters_see_the_sum_once(data, model, adversary) -> None:
    expected = gradients(reference(adversary, model, data), model, adversary)
    seen = []
    weight = model.first.lin.weight
    weight.register_hook(lambda gradient: seen.append(gradient) or 0.5 * gradient)
    adversary.average(lambda: loss_of(model, data)).backward()
    assert len(seen) == 1
    place = [each is weight for each in model.parameters()].index(True)
    torch.testing.assert_close(weight.grad, 0.5 * expected[place])
    torch.testing.assert_close(adversary.xi.grad, expected[-1], rtol=0, atol=1e-13)


@pytest.mark.parametrize(("keep", "factor"), [(False, 1.0), (True, 8.0)])
def test_hooks_inside_of_the_closure_see_each_pass_and_its_scale_if_kept(data, model, adversary, keep, factor) -> None:
    """As the guide says: nobody can see them from outside, and keep=True gives them the final gradient."""
    state, seen, alone = adversary.get_generator_state(), [], []

    def closure(into=seen) -> torch.Tensor:
        logits = model(data.x, data.edge_index)
        logits.register_hook(into.append)
        return nn.functional.cross_entropy(logits, data.y)

    (8 * adversary.average(closure, keep=keep)).backward()
    adversary.set_generator_state(state)
    for phi in adversary.draw().detach():
        with adversary.perturbed(phi):
            (closure(alone) / SAMPLES).backward()
    seen.sort(key=torch.linalg.norm)  # kept passes come in another order
    alone.sort(key=torch.linalg.norm)
    for found, wanted in zip(seen, alone, strict=True):
        torch.testing.assert_close(found, factor * wanted, rtol=0, atol=1e-13)


def test_losses_of_any_shape(data, model, adversary) -> None:
    each_node = lambda logits, y: nn.functional.cross_entropy(logits, y, reduction="none")  # noqa: E731
    wanted = reference(adversary, model, data, each_node)
    expected = gradients(wanted.square().sum(), model, adversary)
    loss = adversary.average(lambda: each_node(model(data.x, data.edge_index), data.y))
    torch.testing.assert_close(loss, wanted, rtol=0, atol=1e-14)
    loss.square().sum().backward()
    assert_gradients(model, adversary, expected)


def test_second_derivatives_are_refused_or_right(data, model, adversary) -> None:
    weight = model.first.lin.weight
    wanted = reference(adversary, model, data)
    (slope,) = torch.autograd.grad(wanted, weight, create_graph=True)
    expected = gradients(slope.square().sum(), model, adversary)
    state = adversary.get_generator_state()
    loss = adversary.average(lambda: loss_of(model, data), keep=True)
    (slope,) = torch.autograd.grad(loss, weight, create_graph=True)
    slope.square().sum().backward()
    for each, other in zip((*model.parameters(), adversary.xi), expected, strict=True):
        if other is not None:
            torch.testing.assert_close(each.grad, other, rtol=0, atol=1e-12)
    adversary.set_generator_state(state)
    with pytest.raises(InputError, match="has no second derivatives; keep the passes"):
        torch.autograd.grad(adversary.average(lambda: loss_of(model, data)), weight, create_graph=True)


def test_half_precision_is_kept_for_the_scaler(data) -> None:
    """Gradients below what float16 holds survive where the loss is scaled before backward, as without an adversary."""
    model = Net().half()
    half = data.clone()
    half.x = data.x.half()
    adversary = BuresAdversary(data, rank=4, radius=1.0, samples=SAMPLES).attach(model)
    tiny = 2.0**-20
    loss = adversary.average(lambda: (model(half.x, half.edge_index).float().mean() * tiny).half().float())
    assert loss.requires_grad
    loss = adversary.average(lambda: model(half.x, half.edge_index).float().square().mean() * tiny)
    (loss * 2.0**20).backward()
    scaled = model.first.lin.weight.grad.float()
    other = Net()
    second = BuresAdversary(data, rank=4, radius=1.0, samples=SAMPLES).attach(other)
    second.draw()  # the second average of above
    second.average(lambda: other(data.x, data.edge_index).square().mean()).backward()
    torch.testing.assert_close(scaled.double(), other.first.lin.weight.grad, rtol=0.05, atol=1e-3)


def test_a_reentrant_checkpoint_of_other_parts_is_kept(data, model, adversary) -> None:
    head = nn.Linear(3, 3).double()
    other = lambda logits, y: nn.functional.cross_entropy(head(logits), y)  # noqa: E731
    expected = torch.autograd.grad(reference(adversary, model, data, other), [*head.parameters(), adversary.xi])

    def closure() -> torch.Tensor:
        logits = checkpoint(head, model(data.x, data.edge_index), use_reentrant=True)
        return nn.functional.cross_entropy(logits, data.y)

    adversary.average(closure).backward()
    for each, wanted in zip((*head.parameters(), adversary.xi), expected, strict=True):
        torch.testing.assert_close(each.grad, wanted, rtol=0, atol=1e-13)


def test_without_gradients_and_without_an_adversary(data, model) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0, samples=SAMPLES).attach(model)
    wanted = reference(adversary, model, data)
    with torch.no_grad():
        loss = adversary.average(lambda: loss_of(model, data))
    assert not loss.requires_grad
    torch.testing.assert_close(loss, wanted.detach(), rtol=0, atol=1e-14)
    adversary.detach()
    noise = BuresAdversary(data, rank=4, radius=1.0, samples=SAMPLES, adversarial=False).attach(model)
    wanted = reference(noise, model, data)
    expected = torch.autograd.grad(wanted, list(model.parameters()))
    noise.average(lambda: loss_of(model, data)).backward()
    for each, other in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(each.grad, other, rtol=0, atol=1e-13)
    assert noise.xi.grad is None


@pytest.mark.parametrize("outside", [True, False])
def test_autocast_around_the_average_or_inside_of_it(data, outside) -> None:
    model = Net().float()
    single = data.clone()
    single.x = data.x.float()
    adversary = BuresAdversary(data, rank=4, radius=1.0, samples=SAMPLES).attach(model)

    def inside() -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not outside or torch.is_autocast_enabled("cpu")):
            return loss_of(model, single)

    wanted = reference(adversary, model.double(), data)
    expected = gradients(wanted, model, adversary)
    model.float()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=outside):
        loss = adversary.average(inside)
    loss.backward()
    assert loss.item() == pytest.approx(wanted.item(), abs=0.01)
    for each, other in zip((*model.parameters(), adversary.xi), expected, strict=True):
        torch.testing.assert_close(each.grad.double(), other, rtol=0.1, atol=0.01)
