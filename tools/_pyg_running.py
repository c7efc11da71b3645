"""Ways to run a model with the add-on for PyTorch Geometric: precision, compilation, threads, processes, training.

As a script it is one of the processes of :func:`processes`.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _pyg_dense import CLASSES, NODES, RANK, WIDTH, Net, against_dense, dense_copy, dense_correction, graph, loss_of
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch_geometric import nn as pyg

from fishergcn.integrations.pyg import BuresAdversary, FeatureAdversary


def precision(dtype: torch.dtype, autocast: bool = False) -> Callable[[], float]:
    def find() -> float:
        data, model = graph(), Net()
        adversary = BuresAdversary(data, RANK, 1.0)
        reference = copy.deepcopy(model)
        model.to(torch.float32 if autocast else dtype)
        adversary.attach(model)
        x = data.x.to(torch.float32 if autocast else dtype)
        phi = adversary.draw()[0].detach()
        with adversary.perturbed(phi), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            found = model(x, data.edge_index).double()
        expected = dense_copy(reference, dense_correction(data, phi))(data.x, data.edge_index)
        return float((found - expected).detach().abs().max())

    return find


def converted_adversary() -> float:
    data, model = graph(), Net()
    adversary = BuresAdversary(data, RANK, 1.0).half().attach(model)
    optimizer = torch.optim.Adam([adversary.parameter_group()], lr=0.01)
    for _ in range(3):
        adversary.average(lambda: loss_of(model, data)).backward()
        optimizer.step()
    if not adversary.xi.isfinite().all():
        raise AssertionError("ξ is not finite")
    run = lambda: model(data.x, data.edge_index)  # noqa: E731
    return against_dense(model, run, adversary, lambda phi: dense_correction(data, phi), data.x, data.edge_index)


def compiled(what: str) -> Callable[[], float]:
    def find() -> float:
        torch._dynamo.reset()
        data, model = graph(), Net()
        adversary = BuresAdversary(data, RANK, 1.0).attach(model)
        options: dict[str, Any] = {"fullgraph": True, "backend": "aot_eager"}
        reference = copy.deepcopy(model)
        if what == "model":
            runs = torch.compile(model, **options)
        else:
            model.first, runs = torch.compile(model.first, **options), model
        with adversary.perturbed(adversary.draw()[0]):  # the first pass runs as it is written
            runs(data.x, data.edge_index)
        run = lambda: runs(data.x, data.edge_index)  # noqa: E731
        return against_dense(
            reference, run, adversary, lambda phi: dense_correction(data, phi), data.x, data.edge_index
        )

    return find


def gradients_of(model: nn.Module, backward: Callable[[BuresAdversary], None]) -> float:
    """Return the largest deviation of the gradients of M = 5 passes from dense ones."""
    data = graph()
    adversary = BuresAdversary(data, RANK, 1.0).attach(model)
    state = adversary.get_generator_state()
    backward(adversary)
    adversary.set_generator_state(state)
    plain = Net()
    plain.load_state_dict(model.state_dict())
    for phi in adversary.draw():
        (loss_of(dense_copy_sharing(plain, dense_correction(data, phi)), data) / adversary.samples).backward()
    pairs = zip(model.parameters(), plain.parameters(), strict=True)
    return max(float((one.grad - other.grad).abs().max()) for one, other in pairs)


def dense_copy_sharing(model: Net, correction: Tensor) -> Net:
    """A dense copy whose gradients arrive at the parameters of the model itself."""
    copied = dense_copy(model, correction)
    for name, parameter in model.named_parameters():
        owner = copied.get_submodule(name.rpartition(".")[0])
        owner._parameters[name.rpartition(".")[2]] = parameter
    return copied


def one_by_one(keep: bool) -> Callable[[], float]:
    def find() -> float:
        model = Net()
        return gradients_of(model, lambda each: each.average(lambda: loss_of(model, graph()), keep=keep).backward())

    return find


class Checkpointed(Net):
    reentrant = False

    def forward(self, x: Tensor, *links: Tensor) -> Tensor:
        hidden = checkpoint(self.first, x, *links, use_reentrant=self.reentrant).relu()
        return checkpoint(self.second, hidden, *links, use_reentrant=self.reentrant)


def checkpoints() -> float:
    model = Checkpointed()
    return gradients_of(model, lambda adversary: adversary.average(lambda: loss_of(model, graph())).backward())


def reentrant_checkpoints() -> None:
    model, data = Checkpointed(), graph()
    model.reentrant = True
    data.x.requires_grad_()
    BuresAdversary(data, RANK).attach(model).average(lambda: loss_of(model, data))


def threads() -> float:
    data, model = graph(), Net()
    adversary = BuresAdversary(data, RANK, 1.0, samples=2).attach(model)
    phis, found, together = adversary.draw().detach(), {}, threading.Barrier(2)

    def work(number: int) -> None:
        for turn in range(10):
            together.wait()
            with adversary.perturbed(phis[number]):
                together.wait()
                found[number, turn] = model(data.x, data.edge_index).detach()

    started = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    adversary.detach()
    expected = [dense_copy(model, dense_correction(data, phi))(data.x, data.edge_index).detach() for phi in phis]
    return max(float((out - expected[number]).abs().max()) for (number, _), out in found.items())


def nested() -> float:
    data, model = graph(), Net()
    adversary = BuresAdversary(data, RANK, 1.0).attach(model)
    outer, inner = adversary.draw()[:2].detach()
    with adversary.perturbed(outer):
        with adversary.perturbed(inner):
            first = model(data.x, data.edge_index)
        second = model(data.x, data.edge_index)
    adversary.detach()
    return max(
        float((found - dense_copy(model, dense_correction(data, phi))(data.x, data.edge_index)).detach().abs().max())
        for found, phi in ((first, inner), (second, outer))
    )


def evaluation_mode() -> float:
    data, model = graph(), Net().eval()
    adversary = BuresAdversary(data, RANK, 1.0).attach(model)
    run = lambda: model(data.x, data.edge_index)  # noqa: E731
    return against_dense(model, run, adversary, lambda phi: dense_correction(data, phi), data.x, data.edge_index)


class Reversible(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)
        self.layers = pyg.GroupAddRev(pyg.GCNConv(4, 4), num_groups=2)
        self.double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.leave(self.layers(self.enter(x), edge_index))


def reversible() -> None:
    data, model = graph(), Reversible()
    BuresAdversary(data, RANK).attach(model).average(lambda: loss_of(model, data))


def wrong_numbers() -> None:
    data, model = graph(), Net()
    nodes = torch.randperm(NODES, generator=torch.Generator().manual_seed(0))[:16]
    part = data.subgraph(nodes)
    BuresAdversary(data, RANK).attach(model).average(lambda: loss_of(model, part), nodes.flip(0))


def copied_model() -> None:
    data, model = graph(), Net()
    other = copy.deepcopy(model)
    BuresAdversary(data, RANK).attach(model).average(lambda: loss_of(other, data))


def trains(make: Callable[[], tuple[Any, Callable[[], Tensor], nn.Module]]) -> Callable[[], None]:
    """Say whether 30 steps lower the loss and reach ξ."""

    def find() -> None:
        adversary, closure, model = make()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        optimizer.add_param_group(adversary.parameter_group())
        losses = []
        for _ in range(30):
            optimizer.zero_grad()
            loss = adversary.average(closure)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        if not losses[-1] < losses[0]:
            raise AssertionError(f"the loss went from {losses[0]} to {losses[-1]}")
        if isinstance(adversary, BuresAdversary) and not adversary.xi.grad.abs().max() > 0:
            raise AssertionError("no gradient reached ξ")

    return find


def normalized() -> tuple[Any, Callable[[], Tensor], nn.Module]:
    data = graph()
    model = pyg.GCN(WIDTH, 8, 2, CLASSES, norm="batch_norm", dropout=0.2).double()
    return BuresAdversary(data, RANK, 0.5).attach(model), lambda: loss_of(model, data), model


def on_features() -> tuple[Any, Callable[[], Tensor], nn.Module]:
    data, model = graph(), Net()
    return FeatureAdversary(1e-2).attach(model), lambda: loss_of(model, data), model


def processes() -> float:
    """Two processes with a part of the nodes each; the deviation is that of ξ between them and from one process."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    found = [
        [float(number) for number in line.split()[1:]] for line in done.stdout.splitlines() if line.startswith("xi ")
    ]
    alone = _in_process(0, 1).tolist()
    return max(float(np.abs(np.array(row) - np.array(alone)).max()) for row in found)


def _in_process(rank: int, world: int) -> Tensor:
    data, model = graph(), Net()
    mine = torch.arange(NODES)[rank::world]
    adversary = BuresAdversary(data, RANK, 1.0)
    wrapped = DistributedDataParallel(model) if world > 1 else model
    adversary.attach(wrapped)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.add_param_group(adversary.parameter_group(lr=10.0))
    for _ in range(20):
        optimizer.zero_grad()
        adversary.average(lambda: cross_entropy(wrapped(data.x, data.edge_index)[mine], data.y[mine])).backward()
        optimizer.step()
    return adversary.xi.detach().flatten()


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    found = _in_process(distributed.get_rank(), distributed.get_world_size()).tolist()
    sys.stdout.write(" ".join(["xi", *map(str, found)]) + "\n")  # at once: the processes share it
    distributed.barrier()  # one that leaves early breaks the connections of the other
    distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # Gloo's threads may be joined by nobody when Python ends
