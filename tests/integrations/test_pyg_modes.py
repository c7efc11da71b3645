"""Ways to call an adversary, each against dense float64 matrices: the loss and the gradients of weights and ξ."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

pytest.importorskip("torch_geometric")
from pyg_dense import (
    CLASSES,
    FEATURES,
    NODES,
    RANK,
    SAMPLES,
    changes,
    dense_pass,
    deviation,
    graph,
)
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, jvp, stack_module_state, vmap
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCN2Conv, GCNConv

from fishergcn.integrations.pyg import BuresAdversary, FeatureAdversary, NodeAdversary

KINDS = [BuresAdversary, NodeAdversary]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GCNConv(FEATURES, 8), GCNConv(8, CLASSES)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


class Case:
    """A model with an adversary, and the dense loss and gradients of its next step."""

    def __init__(self, kind: type, model: nn.Module | None = None) -> None:
        torch.manual_seed(1)
        self.data, self.model = graph(), (Net() if model is None else model).double()
        options = {"rank": RANK} if kind is BuresAdversary else {}
        self.adversary = kind(self.data, radius=0.5, samples=SAMPLES, **options)
        self.dense = changes(self.adversary, self.adversary.xi, self.data)
        self.wanted = torch.stack([self.loss(dense_pass(self.model, each)) for each in self.dense]).mean()
        self.expected = torch.autograd.grad(self.wanted, self.leaves, allow_unused=True, retain_graph=True)
        self.adversary.attach(self.model)

    @property
    def leaves(self) -> list[Tensor]:
        return [*self.model.parameters(), self.adversary.xi]

    def loss(self, model: Callable[..., Tensor] | None = None, rows: Tensor | slice = slice(None)) -> Tensor:
        logits = (self.model if model is None else model)(self.data.x, self.data.edge_index)
        return nn.functional.cross_entropy(logits[rows], self.data.y[rows])

    def coordinates(self) -> Tensor:
        """The draws of the step, as ``perturbed`` takes them."""
        state = self.adversary.get_generator_state()
        found = self.adversary.draw().detach()
        self.adversary.set_generator_state(state)
        return found

    def gradients(self, scale: float = 1.0) -> float:
        """How far the gradients that have arrived are off."""
        return deviation([each.grad for each in self.leaves], [scale * each for each in self.expected])


@pytest.fixture(params=KINDS)
def case(request) -> Case:
    return Case(request.param)


def test_a_scaled_loss(case) -> None:
    (7 * case.adversary.average(case.loss)).backward()
    assert case.gradients(7) < 1e-13


def test_gradients_accumulated_over_parts_of_the_labels(case) -> None:
    state, half = case.adversary.get_generator_state(), torch.arange(NODES) < NODES // 2
    for rows in (half, ~half):
        case.adversary.set_generator_state(state)
        (case.adversary.average(lambda rows=rows: case.loss(rows=rows)) / 2).backward()
    assert case.gradients() < 1e-13


def test_a_checkpoint(case) -> None:
    def closure() -> Tensor:
        model, data = case.model, case.data
        hidden = checkpoint(model.first, data.x, data.edge_index, use_reentrant=False).relu()
        return nn.functional.cross_entropy(model.second(hidden, data.edge_index), data.y)

    case.adversary.average(closure).backward()
    assert case.gradients() < 1e-13


def test_gradients_by_autograd_grad_and_of_some_inputs(case) -> None:
    state = case.adversary.get_generator_state()
    found = torch.autograd.grad(case.adversary.average(case.loss), case.leaves)
    assert deviation(list(found), list(case.expected)) < 1e-13
    case.adversary.set_generator_state(state)
    case.adversary.average(case.loss).backward(inputs=case.leaves[:1])
    assert deviation([case.leaves[0].grad], [case.expected[0]]) < 1e-13
    assert case.adversary.xi.grad is None


def test_a_gradient_penalty(case) -> None:
    wanted = torch.autograd.grad(case.wanted, list(case.model.parameters()), create_graph=True)
    expected = torch.autograd.grad(sum(each.square().sum() for each in wanted), case.leaves)
    loss = case.adversary.average(case.loss, keep=True)
    found = torch.autograd.grad(loss, list(case.model.parameters()), create_graph=True)
    sum(each.square().sum() for each in found).backward()
    assert deviation([each.grad for each in case.leaves], list(expected)) < 1e-11


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_first_and_with_them_later(case, mode) -> None:
    state = case.adversary.get_generator_state()
    with mode():
        found = case.adversary.average(case.loss)
    assert float(found) == pytest.approx(float(case.wanted.detach()), rel=1e-13)
    case.adversary.set_generator_state(state)
    case.adversary.average(case.loss).backward()
    assert case.gradients() < 1e-13


def test_a_closure_with_a_pass_of_its_own_under_no_grad(case) -> None:
    """A target that needs no gradient is no reversible layer."""

    def closure() -> Tensor:
        with torch.no_grad():
            case.loss()
        return case.loss()

    case.adversary.average(closure).backward()
    assert case.gradients() < 1e-13


@pytest.mark.parametrize("keep", [False, True])
def test_grad_of_torch_func_through_an_average(case, keep) -> None:
    weights = {name: each.detach() for name, each in case.model.named_parameters()}

    def loss(weights: dict[str, Tensor]) -> Tensor:
        model = lambda *inputs: functional_call(case.model, weights, inputs)  # noqa: E731
        return case.adversary.average(lambda: case.loss(model), keep=keep)

    found = grad(loss)(weights)
    assert deviation(list(found.values()), list(case.expected[:-1])) < 1e-13


def test_a_functional_call_inside_of_an_average(case) -> None:
    weights = {name: each.detach().clone().requires_grad_() for name, each in case.model.named_parameters()}
    model = lambda *inputs: functional_call(case.model, weights, inputs)  # noqa: E731
    case.adversary.average(lambda: case.loss(model)).backward()
    found = [*(each.grad for each in weights.values()), case.adversary.xi.grad]
    assert deviation(found, list(case.expected)) < 1e-13


def test_jvp_through_an_average(case) -> None:
    weights = {name: each.detach() for name, each in case.model.named_parameters()}
    tangent = {name: torch.randn_like(each) for name, each in weights.items()}

    def loss(weights: dict[str, Tensor]) -> Tensor:
        model = lambda *inputs: functional_call(case.model, weights, inputs)  # noqa: E731
        return case.adversary.average(lambda: case.loss(model))

    _, found = jvp(loss, (weights,), (tangent,))
    wanted = sum((one * other).sum() for one, other in zip(case.expected, tangent.values(), strict=False))
    assert float(found) == pytest.approx(float(wanted), rel=1e-12)


def test_grad_of_torch_func_in_the_first_perturbed_pass(case) -> None:
    weights = {name: each.detach() for name, each in case.model.named_parameters()}
    wanted = torch.autograd.grad(
        case.loss(dense_pass(case.model, case.dense[0])), list(case.model.parameters()), retain_graph=True
    )
    with case.adversary.perturbed(case.coordinates()[0]):
        found = grad(lambda p: case.loss(lambda *inputs: functional_call(case.model, p, inputs)))(weights)
    assert deviation(list(found.values()), list(wanted)) < 1e-13
    with case.adversary.perturbed(case.coordinates()[0]):  # nothing of the transform is left
        case.loss().backward()
    assert deviation([each.grad for each in case.model.parameters()], list(wanted)) < 1e-13


def test_an_ensemble_by_vmap(case) -> None:
    torch.manual_seed(2)
    others = [Net().double() for _ in range(3)]
    stacked, _ = stack_module_state(others)
    with case.adversary.perturbed(case.coordinates()[0]):
        found = vmap(lambda p: functional_call(case.model, p, (case.data.x, case.data.edge_index)))(stacked)
    for number, other in enumerate(others):
        wanted = dense_pass(other, case.dense[0])(case.data.x, case.data.edge_index)
        torch.testing.assert_close(found[number], wanted, rtol=0, atol=1e-13)


def test_vmap_over_draws(case) -> None:
    def run(coordinates: Tensor) -> Tensor:
        with case.adversary.perturbed(coordinates):
            return case.model(case.data.x, case.data.edge_index)

    found = vmap(run)(case.coordinates())
    for one, change in zip(found, case.dense, strict=True):
        wanted = dense_pass(case.model, change)(case.data.x, case.data.edge_index)
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-13)


def test_derivatives_with_respect_to_a_draw(case) -> None:
    def loss(coordinates: Tensor) -> Tensor:
        with case.adversary.perturbed(coordinates):
            return case.loss()

    at, step = case.coordinates()[0], 1e-5
    direction = torch.zeros_like(at)
    direction[1] = step
    slope = (loss(at + direction) - loss(at - direction)) / (2 * step)
    _, found = jvp(loss, (at,), (direction / step,))
    torch.testing.assert_close(found, slope, rtol=1e-6, atol=1e-9)
    curve = (grad(loss)(at + direction) - grad(loss)(at - direction)) / (2 * step)
    torch.testing.assert_close(hessian(loss)(at)[1], curve, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("keep", [False, True])
def test_an_encoder_outside_of_the_closure(case, keep) -> None:
    """Its gradients, a hook on what it gives and ``retain_grad`` see the sum over all passes once, with its scale."""
    torch.manual_seed(3)
    encoder, seen = nn.Linear(FEATURES, FEATURES).double(), []
    inputs, links, y = encoder(case.data.x), case.data.edge_index, case.data.y

    def clip(gradient: Tensor) -> Tensor:
        return gradient.clamp(-1e-3, 1e-3)

    dense = torch.stack(
        [nn.functional.cross_entropy(dense_pass(case.model, each)(inputs, links), y) for each in case.dense]
    ).mean()
    (whole,) = torch.autograd.grad(10 * dense, inputs, retain_graph=True)
    expected = torch.autograd.grad(inputs, list(encoder.parameters()), clip(whole), retain_graph=True)
    inputs.retain_grad()
    inputs.register_hook(lambda gradient: seen.append(gradient) or clip(gradient))
    loss = case.adversary.average(lambda: nn.functional.cross_entropy(case.model(inputs, links), y), keep=keep)
    assert inputs.grad is None
    (10 * loss).backward()
    assert len(seen) == 1
    assert deviation([seen[0], inputs.grad], [whole, clip(whole)]) < 1e-12
    assert deviation([each.grad for each in encoder.parameters()], list(expected)) < 1e-12


def test_backward_hooks_of_modules_see_the_scale_of_the_loss(case) -> None:
    seen: list[Tensor] = []
    case.model.second.register_full_backward_hook(lambda module, given, out: seen.append(out[0].detach().clone()))
    (100 * case.adversary.average(case.loss)).backward()
    wanted = []
    for change in case.dense:
        logits = dense_pass(case.model, change)(case.data.x, case.data.edge_index)
        loss = nn.functional.cross_entropy(logits, case.data.y)
        wanted += torch.autograd.grad(100 * loss / SAMPLES, logits, retain_graph=True)
    assert len(seen) == SAMPLES
    assert deviation([sum(seen)], [sum(wanted)]) < 1e-12
    assert case.gradients(100) < 1e-12


def test_an_error_in_a_pass_leaves_nothing(case) -> None:
    state, count = case.adversary.get_generator_state(), iter(range(9))

    def closure() -> Tensor:
        if next(count) == 1:
            raise KeyError("mine")
        return case.loss()

    with pytest.raises(KeyError, match="mine"):
        case.adversary.average(closure)
    case.adversary.set_generator_state(state)
    case.adversary.average(case.loss).backward()
    assert case.gradients() < 1e-13


def test_a_whole_step_in_torch_compile(case) -> None:
    torch._dynamo.reset()
    torch.compile(lambda: case.adversary.average(case.loss), backend="eager")().backward()
    assert case.gradients() < 1e-13
    torch._dynamo.reset()


def test_threads_that_share_an_adversary(case) -> None:
    models = [copy.deepcopy(case.model) for _ in range(4)]
    case.adversary.attach(*models)
    draws = case.coordinates()

    def run(number: int) -> Tensor:
        with case.adversary.perturbed(draws[number % SAMPLES]):
            return models[number](case.data.x, case.data.edge_index).detach()

    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for number, found in enumerate(pool.map(run, range(4))):
                wanted = dense_pass(case.model, case.dense[number % SAMPLES])(case.data.x, case.data.edge_index)
                torch.testing.assert_close(found, wanted.detach(), rtol=0, atol=1e-13)


def test_copies_and_saved_states_draw_the_same(case) -> None:
    kind, adversary = type(case.adversary), case.adversary
    adversary.draw()
    file = io.BytesIO()
    torch.save(adversary.state_dict(), file)
    file.seek(0)
    loaded = kind(case.data, radius=0.5, samples=SAMPLES, seed=7, **({"rank": RANK} if kind is BuresAdversary else {}))
    loaded.load_state_dict(torch.load(file, weights_only=True))
    copies = [copy.deepcopy(adversary), pickle.loads(pickle.dumps(adversary)), loaded]
    wanted = adversary.draw()
    for each in copies:
        assert torch.equal(each.draw(), wanted)
    old = {"xi": adversary.xi.detach()}  # of an earlier version: the draws go on
    before = loaded.get_generator_state()
    loaded.load_state_dict(old)
    assert torch.equal(loaded.get_generator_state(), before)


def test_features_of_several_signals_on_one_graph(case) -> None:
    layer, signals = case.model.first, torch.randn(4, NODES, FEATURES, dtype=torch.float64)
    with case.adversary.perturbed(case.coordinates()[0]):
        found = layer(signals, case.data.edge_index)
    for one, signal in zip(found, signals, strict=True):
        wanted = dense_pass(layer, case.dense[0])(signal, case.data.edge_index)
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_a_parametrization_after_attach(kind) -> None:
    """It puts a class on top of the perturbed one, which must not be lost, nor asked twice."""

    class Half(nn.Module):
        def forward(self, weight):
            return weight / 2

    case = Case(kind)
    layer = GCN2Conv(FEATURES, 0.1, 0.5, 2).double()
    case.adversary.attach(layer)
    parametrize.register_parametrization(layer, "weight1", Half())
    inputs = (case.data.x, case.data.x, case.data.edge_index)
    for _ in range(2):
        copied = copy.deepcopy(layer)
        wanted = dense_pass(copied, case.dense[0])(*inputs)
        with case.adversary.perturbed(case.coordinates()[0]):
            torch.testing.assert_close(layer(*inputs), wanted, rtol=0, atol=1e-13)
            plain = copied(*inputs)
        case.adversary.detach()
        torch.testing.assert_close(layer(*inputs), plain, rtol=0, atol=0)
        case.adversary.attach(layer)


@pytest.mark.parametrize("keep", [False, True])
def test_two_adversaries_one_in_the_average_of_the_other(keep) -> None:
    case = Case(BuresAdversary)
    case.adversary.detach()
    outer = case.adversary.attach(case.model.first)
    inner = BuresAdversary(case.data, RANK, 0.4, 2, seed=3).attach(case.model.second)
    losses = []
    for one in case.dense:
        for two in changes(inner, inner.xi, case.data):
            hidden = dense_pass(case.model.first, one)(case.data.x, case.data.edge_index).relu()
            logits = dense_pass(case.model.second, two)(hidden, case.data.edge_index)
            losses.append(nn.functional.cross_entropy(logits, case.data.y))
        inner.draw()
    wanted = torch.stack(losses).mean()
    leaves = [*case.model.parameters(), outer.xi, inner.xi]
    expected = torch.autograd.grad(wanted, leaves)
    inner.set_generator_state(BuresAdversary(case.data, RANK, 0.4, 2, seed=3).get_generator_state())
    outer.average(lambda: inner.average(case.loss, keep=keep), keep=keep).backward()
    assert deviation([each.grad for each in leaves], list(expected)) < 1e-13


def test_the_adversary_on_features_around_that_on_the_graph() -> None:
    """Against FLAG written out: each pass moves δ by the sign of its gradient."""
    case, alpha = Case(BuresAdversary), 0.05
    generator = torch.Generator().manual_seed(4)
    delta = alpha * (torch.rand(NODES, FEATURES, generator=generator, dtype=torch.float32) * 2 - 1).double()
    state = case.adversary.get_generator_state()
    total: list[Tensor] = [torch.zeros_like(each) for each in case.leaves]
    for _ in range(2):
        delta.requires_grad_()
        dense = changes(case.adversary, case.adversary.xi, case.data)
        case.adversary.draw()
        logits = [dense_pass(case.model, each)(case.data.x + delta, case.data.edge_index) for each in dense]
        loss = torch.stack([nn.functional.cross_entropy(each, case.data.y) for each in logits]).mean()
        *found, slope = torch.autograd.grad(loss / 2, [*case.leaves, delta])
        total = [one + other for one, other in zip(total, found, strict=True)]
        delta = (delta + alpha * slope.sign()).detach()
    case.adversary.set_generator_state(state)
    on_features = FeatureAdversary(alpha, samples=2, seed=4).attach(case.model)
    on_features.average(lambda: case.adversary.average(case.loss)).backward()
    assert deviation([each.grad for each in case.leaves], total) < 1e-12
