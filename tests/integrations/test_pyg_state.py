"""What is in force where: threads, nesting, copies, checkpoints, evaluation mode, batch normalization, precision."""

from __future__ import annotations

import asyncio
import copy
import io
import threading
import warnings

import pytest
import torch

pytest.importorskip("torch_geometric")
from pyg_cases import FEATURES, Net, dense_net, loss_of, random_data
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import BatchNorm, GCNConv

from fishergcn.errors import InputError
from fishergcn.integrations.pyg import BuresAdversary
from fishergcn.integrations.pyg import _entry as entry
from fishergcn.perturbation import PerturbationWarning


@pytest.fixture
def data():
    return random_data(1)


@pytest.fixture
def model() -> Net:
    return Net()


def dense(adversary, model, data, phi):
    return dense_net(model, data.x, adversary.neighborhood.operator(phi).to_dense())


def test_each_thread_has_its_own_perturbation(data, model) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0, samples=2).attach(model)
    phis = adversary.draw().detach()
    wrong: list[float] = []
    together = threading.Barrier(2)

    def work(phi: torch.Tensor) -> None:
        expected = dense(adversary, model, data, phi)
        for _ in range(20):
            together.wait()
            with adversary.perturbed(phi):
                together.wait()
                wrong.append(float((model(data.x, data.edge_index) - expected).abs().max()))

    threads = [threading.Thread(target=work, args=(phi,)) for phi in phis]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 40
    assert max(wrong) < 1e-12


def test_each_task_has_its_own_perturbation(data, model) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0, samples=2).attach(model)

    async def work(phi: torch.Tensor) -> float:
        with adversary.perturbed(phi):
            await asyncio.sleep(0)
            return float((model(data.x, data.edge_index) - dense(adversary, model, data, phi)).abs().max())

    async def both() -> list[float]:
        return await asyncio.gather(*(work(phi) for phi in adversary.draw().detach()))

    assert max(asyncio.run(both())) < 1e-12


def test_tasks_that_end_in_any_order_leave_nothing_behind(data, model) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0, samples=2).attach(model)

    async def work(phi: torch.Tensor, steps: int) -> None:
        with adversary.perturbed(phi):
            model(data.x, data.edge_index)
            for _ in range(steps):
                await asyncio.sleep(0)

    async def both() -> None:
        phis = adversary.draw().detach()
        await asyncio.gather(work(phis[0], 1), work(phis[1], 3))

    asyncio.run(both())
    assert entry._THREAD.passes == ()
    assert entry._EVERYWHERE == []


def test_after_a_nested_block_the_outer_one_is_in_force_again(data, model) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0, samples=2).attach(model)
    outer, inner = adversary.draw().detach()
    with adversary.perturbed(outer):
        with adversary.perturbed(inner):
            torch.testing.assert_close(model(data.x, data.edge_index), dense(adversary, model, data, inner))
        torch.testing.assert_close(model(data.x, data.edge_index), dense(adversary, model, data, outer))
        with pytest.raises(ZeroDivisionError), adversary.perturbed(inner):
            1 / 0
        torch.testing.assert_close(model(data.x, data.edge_index), dense(adversary, model, data, outer))
    torch.testing.assert_close(model(data.x, data.edge_index), dense(adversary, model, data, 0 * outer))


def test_two_adversaries_on_one_model_add_up(data, model) -> None:
    first = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    second = BuresAdversary(data, rank=4, radius=1.0, seed=1).attach(model)
    one, other = first.draw()[0].detach(), second.draw()[0].detach()
    with first.perturbed(one), second.perturbed(other):
        result = model(data.x, data.edge_index)
    around = first.neighborhood
    plain = around.operator().to_dense()
    matrix = around.operator(one).to_dense() + around.operator(other).to_dense() - plain
    torch.testing.assert_close(result, dense_net(model, data.x, matrix))
    first.detach()
    with second.perturbed(other):
        torch.testing.assert_close(model(data.x, data.edge_index), dense(second, model, data, other))
    second.detach()
    assert type(model.first) is GCNConv


def test_perturbed_acts_in_evaluation_mode_too(data, model) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model.eval())
    phi = adversary.draw()[0]
    with adversary.perturbed(phi), torch.no_grad():
        result = model(data.x, data.edge_index)
    torch.testing.assert_close(result, dense(adversary, model, data, phi).detach(), rtol=0, atol=1e-12)


def test_a_frozen_layer_in_evaluation_mode_is_left_out_of_averages(data, model) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0, samples=1).attach(model)
    model.first.eval()
    state = adversary.get_generator_state()
    loss = adversary.average(lambda: loss_of(model, data))
    adversary.set_generator_state(state)
    phi, around = adversary.draw()[0], adversary.neighborhood
    hidden = model.first(data.x, data.edge_index).relu()
    logits = around.operator(phi).to_dense() @ model.second.lin(hidden) + model.second.bias
    torch.testing.assert_close(loss, nn.functional.cross_entropy(logits, data.y))


class Checkpointed(Net):
    reentrant = False

    def forward(self, x, *links):
        hidden = checkpoint(self.first, x, *links, use_reentrant=self.reentrant).relu()
        return checkpoint(self.second, hidden, *links, use_reentrant=self.reentrant)


def gradients(adversary, model, data, loss) -> list[torch.Tensor]:
    model.zero_grad()
    adversary.zero_grad()
    state = adversary.get_generator_state()
    loss().backward()
    adversary.set_generator_state(state)
    return [each.grad.clone() for each in (*model.parameters(), adversary.xi)]


def test_checkpoints_recompute_the_perturbed_pass(data) -> None:
    model, other = Checkpointed(), Net()
    other.load_state_dict(model.state_dict())
    results = []
    for each in (model, other):
        adversary = BuresAdversary(data, rank=4, radius=1.0).attach(each)
        results.append(
            gradients(adversary, each, data, lambda each=each, a=adversary: a.average(lambda: loss_of(each, data)))
        )
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-14)


def test_a_checkpoint_outside_of_its_perturbed_pass_is_refused(data) -> None:
    model = Checkpointed()
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    phi = adversary.draw()[0].detach()
    with adversary.perturbed(phi):
        loss = loss_of(model, data)
        loss.backward()
    expected = [each.grad.clone() for each in model.parameters()]
    with adversary.perturbed(phi):
        loss = loss_of(model, data)
    with pytest.raises(InputError, match=r"second \(GCNConv\) is recomputed .* call backward\(\) inside"):
        loss.backward()
    model.zero_grad()
    loss_of(model, data).backward()  # a plain pass, recomputed plainly
    plain = [each.grad.clone() for each in model.parameters()]
    assert any((one - two).abs().max() > 1e-4 for one, two in zip(plain, expected, strict=True))


def test_reentrant_checkpoints_are_refused(data) -> None:
    model = Checkpointed()
    model.reentrant = True
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    data.x.requires_grad_()
    with pytest.raises(InputError, match=r"first \(GCNConv\) runs in a reentrant checkpoint"):
        adversary.average(lambda: loss_of(model, data))
    with adversary.perturbed(adversary.draw()[0]), pytest.raises(InputError, match="use_reentrant=False"):
        loss_of(model, data)


def test_a_checkpoint_recomputed_in_a_thread_of_the_engine_finds_its_pass(data, model, monkeypatch) -> None:
    """On CUDA backward runs in threads that no context follows; here one that acts like it."""
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    phi, found = adversary.draw()[0].detach(), []
    monkeypatch.setattr(entry, "in_backward", lambda: True)
    monkeypatch.setattr(entry, "_of_the_engine", lambda thread: thread.name == "engine")

    def run() -> None:
        try:
            found.append(model(data.x, data.edge_index).detach())
        except InputError as error:
            found.append(str(error))

    def in_engine() -> object:
        thread = threading.Thread(target=run, name="engine")
        thread.start()
        thread.join()
        return found[-1]

    with adversary.perturbed(phi):
        torch.testing.assert_close(in_engine(), dense(adversary, model, data, phi).detach())
        with adversary.perturbed(2 * phi):
            assert "which one it belongs to is unknown" in in_engine()
            model(data.x, data.edge_index)


def test_copies_and_pickles_are_plain_models(data, model) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    copied = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for each in (copied, loaded):
        assert type(each.first) is GCNConv
        with adversary.perturbed(adversary.draw()[0]):
            perturbed = model(data.x, data.edge_index)
            plain = each(data.x, data.edge_index)
        torch.testing.assert_close(plain, model(data.x, data.edge_index))
        assert (plain - perturbed).abs().max() > 1e-3
        with pytest.raises(InputError, match="may be a copy of the attached one"):
            adversary.average(lambda each=each: loss_of(each, data))
        BuresAdversary(data, rank=4).attach(each)


def test_a_model_and_its_adversary_copied_together(data, model) -> None:
    model.adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    copied = copy.deepcopy(model)
    with pytest.raises(InputError, match="must be attached to a model first"):
        copied.adversary.average(lambda: loss_of(copied, data))
    copied.adversary.attach(copied)
    expected = model.adversary.average(lambda: loss_of(model, data))
    assert torch.equal(copied.adversary.average(lambda: loss_of(copied, data)), expected)


def test_a_layer_that_does_not_run_is_announced(data, model) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    model.second = GCNConv(8, 3).double()
    with pytest.warns(UserWarning, match=r"second \(GCNConv\) did not run in the first perturbed pass"):
        adversary.average(lambda: loss_of(model, data))


def test_explained_models_stay_perturbed(data, model) -> None:
    """PyG gives an explained layer another ``propagate``."""
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    explainer = Explainer(
        model, GNNExplainer(epochs=2), explanation_type="model", node_mask_type="attributes", edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )  # fmt: skip
    explainer(data.x, data.edge_index, index=0)
    phi = adversary.draw()[0]
    with adversary.perturbed(phi):
        torch.testing.assert_close(model(data.x, data.edge_index), dense(adversary, model, data, phi))
    model.first.explain = True
    model.first._edge_mask = nn.Parameter(torch.full((data.num_edges + data.num_nodes,), 50.0).double())
    model.first._loop_mask = torch.ones(data.num_edges + data.num_nodes, dtype=torch.bool)
    model.first._apply_sigmoid = True
    with adversary.perturbed(phi):
        torch.testing.assert_close(model(data.x, data.edge_index), dense(adversary, model, data, phi))
    adversary.detach()
    torch.testing.assert_close(model(data.x, data.edge_index), dense(adversary, model, data, 0 * phi))
    with adversary.attach(model), adversary.perturbed(phi):
        torch.testing.assert_close(model(data.x, data.edge_index), dense(adversary, model, data, phi))


class Normalized(nn.Module):
    def __init__(self, norm: type[nn.Module], **options: object) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = GCNConv(FEATURES, 6).double(), norm(6, **options).double()

    def forward(self, x, edge_index):
        return self.norm(self.conv(x, edge_index))


@pytest.mark.parametrize("norm", [BatchNorm, nn.BatchNorm1d])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_normalization_counts_one_batch_a_step(data, norm, momentum) -> None:
    model = Normalized(norm, momentum=momentum)
    layer = getattr(model.norm, "module", model.norm)
    adversary = BuresAdversary(data, rank=4, radius=1.0, samples=3).attach(model)
    state = adversary.get_generator_state()
    for step in range(2):
        before = {name: value.clone() for name, value in layer.named_buffers()}
        adversary.set_generator_state(state)
        means, variances = [], []
        for phi in adversary.draw():
            hidden = adversary.neighborhood.operator(phi).to_dense() @ model.conv.lin(data.x) + model.conv.bias
            means.append(hidden.mean(dim=0))
            variances.append(hidden.var(dim=0))
        adversary.set_generator_state(state)
        adversary.average(lambda: model(data.x, data.edge_index).square().mean()).backward()
        share = momentum or 1 / (step + 1)
        for name, now in (("running_mean", means), ("running_var", variances)):
            expected = (1 - share) * before[name] + share * torch.stack(now).mean(dim=0)
            torch.testing.assert_close(getattr(layer, name), expected.detach(), rtol=0, atol=1e-12)
        assert layer.num_batches_tracked == step + 1
        state = adversary.get_generator_state()


@pytest.mark.parametrize("convert", [nn.Module.half, nn.Module.bfloat16, nn.Module.float])
def test_xi_stays_in_double_precision(data, model, convert) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    model.adversary = adversary  # as part of a model that is converted
    before = adversary.xi.detach().clone()
    convert(model)
    model.double()
    del model.adversary
    assert adversary.xi.dtype == torch.float64
    assert torch.equal(adversary.xi.detach(), before)
    optimizer = torch.optim.Adam([adversary.parameter_group()], lr=0.01)
    for _ in range(5):
        optimizer.zero_grad()
        adversary.average(lambda: loss_of(model, data)).backward()
        optimizer.step()
    assert adversary.xi.isfinite().all()


class Descent(torch.optim.Optimizer):
    """An optimizer that has never heard of ``maximize``."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for each in group["params"]:
                each -= group["lr"] * each.grad


def test_an_optimizer_that_does_not_ascend_is_announced(data, model) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    optimizer = Descent(model.parameters())
    optimizer.add_param_group(adversary.parameter_group())

    def step() -> None:
        optimizer.zero_grad()
        adversary.average(lambda: loss_of(model, data)).backward()
        optimizer.step()

    step()
    with pytest.warns(PerturbationWarning, match="the optimizer moved ξ down: it does not know the option maximize"):
        step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step()


def test_accumulated_gradients_count_together(data, model) -> None:
    """The step after several averages goes against the last gradient, here, and is right."""
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    optimizer = torch.optim.SGD([adversary.parameter_group()], lr=0.1)
    factors = (1.0, 1.0, -0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for factor in factors:
            adversary.set_generator_state(torch.Generator().manual_seed(3).get_state())
            adversary.average(lambda factor=factor: factor * loss_of(model, data)).backward()
        before = adversary.xi.detach().clone()
        optimizer.step()
        adversary.average(lambda: loss_of(model, data))
    assert not torch.equal(adversary.xi.detach(), before)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_optimizers_that_ascend_are_not(data, model, kind) -> None:
    adversary = BuresAdversary(data, rank=4, radius=1.0).attach(model)
    optimizer = kind(model.parameters(), lr=0.1)
    optimizer.add_param_group(adversary.parameter_group())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            optimizer.zero_grad()
            adversary.average(lambda: loss_of(model, data)).backward()
            optimizer.step()
    assert adversary.xi.grad.abs().max() > 0


def test_first_passes_that_overlap_leave_compilation_on(data) -> None:
    """The stance of torch belongs to the process: each of two threads would set back what the other had set."""
    entered, left = [threading.Event() for _ in range(2)], threading.Event()
    models = [Net() for _ in range(2)]
    adversaries = [BuresAdversary(data, rank=4).attach(model) for model in models]
    phis = [adversary.draw()[0].detach() for adversary in adversaries]

    def overlapping(number: int) -> None:
        with adversaries[number].perturbed(phis[number]):
            models[number](data.x, data.edge_index)
            entered[number].set()
            entered[1 - number].wait(10)
            if number == 1:
                left.wait(10)
        if number == 0:
            left.set()

    threads = [threading.Thread(target=overlapping, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph

    torch._dynamo.reset()
    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    assert len(compiled) == 1
