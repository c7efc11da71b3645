"""Layers and uses of the add-on for PyTorch Geometric, each against a dense computation, trained, or refused.

The dense side shares no code with the package: L from the links by hand, its eigenpairs from ``numpy.linalg.eigh``, c
from the formula, and a copy of the layer whose ``propagate`` subtracts the dense matrix U diag(c) Uᵀ times its input.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch_geometric.transforms as T
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader, RandomNodeLoader

from fishergcn.errors import InputError
from fishergcn.integrations.pyg import AddBuresSpectrum, BuresAdversary, FeatureAdversary

NODES, WIDTH, CLASSES, RANK = 24, 4, 3, 5
DOUBLE, SINGLE, HALF = 1e-11, 2e-5, 5e-2  # largest deviation that rounding may make in each precision


class Use(NamedTuple):
    """A row of the table: what, the group it is listed in, what comes out, and the function that finds it."""

    name: str
    group: str
    verdict: str  # exact, trains or refused
    limit: float
    find: Callable[[], float | None]


def graph(seed: int = 0, nodes: int = NODES, density: float = 0.25) -> Data:
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((nodes, nodes)) < density, 1)
    links[np.arange(nodes - 1), np.arange(1, nodes)] = True  # connected
    arcs = np.stack(np.nonzero(links | links.T))
    x = torch.tensor(rng.standard_normal((nodes, WIDTH)))
    y = torch.tensor(rng.integers(CLASSES, size=nodes))
    return Data(x=x, edge_index=torch.tensor(arcs), y=y, num_nodes=nodes)


def dense_correction(data: Data, phi: Tensor, self_links: int = 1, weight: Tensor | None = None) -> Tensor:
    """U diag(c) Uᵀ of one graph, by hand."""
    nodes = int(data.num_nodes)
    adjacency = np.zeros((nodes, nodes))
    adjacency[data.edge_index[1], data.edge_index[0]] = 1.0 if weight is None else weight.numpy()
    adjacency += self_links * np.eye(nodes)
    root = 1 / np.sqrt(adjacency.sum(axis=1))
    values, vectors = np.linalg.eigh(np.eye(nodes) - root[:, None] * adjacency * root)
    w, u = values[::-1][: len(phi)], vectors[:, ::-1][:, : len(phi)]
    share = w / w.sum()
    moved = share * np.exp(phi.detach().numpy())
    c = w.sum() * (moved / moved.sum() - share)
    return torch.tensor(u @ np.diag(c) @ u.T)


def dense_copy(module: nn.Module, correction: Tensor) -> nn.Module:
    """Copy a model and let each of its layers subtract the dense correction in ``propagate``."""
    copied = copy.deepcopy(module)
    for layer in copied.modules():
        if isinstance(layer, pyg.MessagePassing):
            layer.propagate = _dense_propagate(
                layer, correction, "value" if isinstance(layer, pyg.TransformerConv) else "x"
            )
    return copied


def _dense_propagate(layer: Any, correction: Tensor, argument: str) -> Callable[..., Tensor]:
    plain = layer.propagate

    def propagate(edge_index: Any, size: Any = None, **given: Any) -> Tensor:
        x = given[argument]
        x = (x[0] if isinstance(x, tuple | list) else x).movedim(layer.node_dim, 0)
        product = (correction.to(x) @ x.flatten(1)).view(-1, *x.shape[1:])
        out: Tensor = plain(edge_index, size=size, **given)
        return out - product.movedim(0, layer.node_dim)

    return propagate


def deviation(make: Callable[[], nn.Module], self_links: int, extra: bool) -> Callable[[], float]:
    """Return the largest deviation of a layer's perturbed output."""

    def find() -> float:
        torch.manual_seed(0)
        data, layer = graph(), make().double()
        fresh = copy.deepcopy(layer)  # some layers keep what cannot be copied after a pass
        inputs = (data.x, data.x, data.edge_index) if extra else (data.x, data.edge_index)
        if self_links == 2:  # PyG gives self-links another weight only where links have weights
            data.edge_weight = torch.ones(data.num_edges, dtype=torch.float64)
            inputs += (data.edge_weight,)
        adversary = BuresAdversary(data, RANK, 1.0, self_links=self_links)
        layer(*inputs)  # lazy layers and caches
        worst = 0.0
        for phi in adversary.draw()[:2]:
            with adversary.attach(layer), adversary.perturbed(phi):
                found = layer(*inputs)
            expected = dense_copy(fresh, dense_correction(data, phi, self_links))(*inputs)
            if (found - layer(*inputs)).abs().max() < 1e-4:
                raise AssertionError("nothing was perturbed")
            worst = max(worst, float((found - expected).detach().abs().max()))
        return worst

    return find


class Net(nn.Module):
    def __init__(self, layer: type[nn.Module] = pyg.GCNConv, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = layer(WIDTH, 8, **options), layer(8, CLASSES, **options)
        self.double()

    def forward(self, x: Tensor, *links: Tensor) -> Tensor:
        return self.second(self.first(x, *links).relu(), *links)


class Checkpointed(Net):
    reentrant = False

    def forward(self, x: Tensor, *links: Tensor) -> Tensor:
        hidden = checkpoint(self.first, x, *links, use_reentrant=self.reentrant).relu()
        return checkpoint(self.second, hidden, *links, use_reentrant=self.reentrant)


def loss_of(model: nn.Module, data: Data) -> Tensor:
    return cross_entropy(model(data.x, data.edge_index).to(torch.float64), data.y)


def against_dense(
    model: nn.Module,
    run: Callable[[], Tensor],
    adversary: BuresAdversary,
    corrections: Callable[[Tensor], Tensor],
    *inputs: Any,
) -> float:
    """Return the largest deviation of a pass, ``run``, with an attached adversary."""
    phi = adversary.draw()[0].detach()
    with adversary.perturbed(phi):
        found = run()
    adversary.detach()
    expected = dense_copy(model, corrections(phi))(*inputs)
    return float((found - expected).detach().abs().max())


def of_weights(kind: str) -> Callable[[], float]:
    def find() -> float:
        data, model, inside = graph(), Net(normalize=kind != "GCNNorm"), None
        weight = 0.5 + (data.edge_index.sum(dim=0) % 5).double()
        if kind == "edge_attr":
            data.edge_attr = weight
            adversary, links = BuresAdversary(data, RANK, 1.0), (data.edge_index, weight)
        elif kind == "GCNNorm":
            data.edge_weight = weight
            inside = T.GCNNorm()(data)
            adversary = BuresAdversary(inside, RANK, 1.0, normalize=False)
            links = (inside.edge_index, inside.edge_weight)
        else:
            data.edge_weight = weight
            inside = T.ToSparseTensor(attr="edge_weight")(data)
            adversary, links = BuresAdversary(inside, RANK, 1.0), (inside.adj_t,)
        adversary.attach(model)
        run = lambda: model(data.x, *links)  # noqa: E731
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning if kind != "adj_t" else DeprecationWarning)
            return against_dense(
                model, run, adversary, lambda phi: dense_correction(data, phi, 1, weight), data.x, *links
            )

    return find


def sparse_features() -> float:
    data, model = graph(), Net()
    data.x = data.x * (data.x > 0)
    adversary = BuresAdversary(data, RANK, 1.0).attach(model)
    run = lambda: model(data.x.to_sparse(), data.edge_index)  # noqa: E731
    return against_dense(model, run, adversary, lambda phi: dense_correction(data, phi), data.x, data.edge_index)


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


def blocks(graphs: list[Data], phi: Tensor) -> Tensor:
    return torch.block_diag(*(dense_correction(each, row) for each, row in zip(graphs, phi, strict=True)))


def several_graphs(loader: bool) -> Callable[[], float]:
    def find() -> float:
        graphs = [graph(seed, 10 + 3 * seed, 0.4) for seed in range(4)]
        model = Net()
        if not loader:
            batch = Batch.from_data_list(graphs)
            adversary = BuresAdversary(batch, RANK, 1.0).attach(model)
            phi = adversary.draw()[0].detach()
            with adversary.perturbed(phi):
                found = model(batch.x, batch.edge_index)
            adversary.detach()
            expected = dense_copy(model, blocks(graphs, phi))(batch.x, batch.edge_index)
            return float((found - expected).detach().abs().max())
        stored = [AddBuresSpectrum(RANK)(each) for each in graphs]
        adversary, worst = BuresAdversary(stored, radius=1.0), 0.0
        for batch in DataLoader(stored, batch_size=3, shuffle=True):
            phi = 0.3 * torch.randn(batch.num_graphs, RANK, dtype=torch.float64)
            with adversary.attach(model), adversary.perturbed(phi, batch):
                found = model(batch.x, batch.edge_index)
            expected = dense_copy(model, blocks(batch.to_data_list(), phi))(batch.x, batch.edge_index)
            worst = max(worst, float((found - expected).detach().abs().max()))
        return worst

    return find


def random_nodes(of_batch: bool, by_number: bool = False) -> Callable[[], float]:
    def find() -> float:
        graphs = [graph(seed, 12 + seed, 0.4) for seed in range(3)] if of_batch else [graph()]
        data = Batch.from_data_list(graphs) if of_batch else graphs[0]
        data = AddBuresSpectrum(RANK)(data)
        data.number = torch.arange(data.num_nodes)
        adversary, model, worst = BuresAdversary(data, radius=1.0), Net(), 0.0
        phi = adversary.draw()[0].detach()
        whole = blocks(graphs, phi if of_batch else phi[None])
        for part in RandomNodeLoader(data, num_parts=3, shuffle=True):
            with adversary.attach(model), adversary.perturbed(phi, part.number if by_number else part):
                found = model(part.x, part.edge_index)
            expected = dense_copy(model, whole[part.number][:, part.number])(part.x, part.edge_index)
            worst = max(worst, float((found - expected).detach().abs().max()))
        return worst

    return find


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


def hetero() -> HeteroData:
    rng = np.random.default_rng(0)
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(15, WIDTH), torch.randn(10, WIDTH)
    data["paper"].y, data["author"].y = torch.randint(CLASSES, (15,)), torch.randint(CLASSES, (10,))
    arcs = torch.tensor(rng.integers((10, 15), size=(40, 2)).T)
    data["author", "writes", "paper"].edge_index = arcs
    return T.ToUndirected()(data)


def homogeneous() -> tuple[Any, Callable[[], Tensor], nn.Module]:
    data = hetero().to_homogeneous()
    data.edge_index, model = data.edge_index.unique(dim=1), Net().float()
    return BuresAdversary(data, RANK, 1.0).attach(model), lambda: loss_of(model, data), model


def to_hetero() -> None:
    data = hetero()
    model = pyg.to_hetero(nn_sage(), data.metadata())
    plain = data.to_homogeneous()
    adversary = BuresAdversary(plain, RANK).attach(model)
    adversary.average(lambda: model(data.x_dict, data.edge_index_dict)["paper"].square().mean())


def nn_sage() -> nn.Module:
    class Sage(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.SAGEConv((-1, -1), CLASSES)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(x, edge_index)

    return Sage()


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


def refused(make: Callable[[], nn.Module]) -> Callable[[], None]:
    return lambda: BuresAdversary(graph(), RANK).attach(make()) and None


def stale_spectrum() -> None:
    data = AddBuresSpectrum(RANK)(graph())
    data.edge_index = graph(1).edge_index
    BuresAdversary(data)


def copied_model() -> None:
    data, model = graph(), Net()
    other = copy.deepcopy(model)
    BuresAdversary(data, RANK).attach(model).average(lambda: loss_of(other, data))


def _layers() -> list[Use]:
    linear = lambda: nn.Linear(WIDTH, CLASSES)  # noqa: E731
    exact: list[tuple[str, Callable[[], nn.Module], int]] = [
        ("GCNConv", lambda: pyg.GCNConv(WIDTH, CLASSES), 1),
        ("GCNConv, `cached=True`", lambda: pyg.GCNConv(WIDTH, CLASSES, cached=True), 1),
        ("GCNConv, `improved=True` and weights, with `self_links=2`",
         lambda: pyg.GCNConv(WIDTH, CLASSES, improved=True), 2),
        ("GCNConv, `add_self_loops=False`, with `self_links=0`",
         lambda: pyg.GCNConv(WIDTH, CLASSES, add_self_loops=False), 0),
        ("GCN2Conv", lambda: pyg.GCN2Conv(WIDTH, alpha=0.2), 1),
        ("APPNP, 4 steps", lambda: pyg.APPNP(K=4, alpha=0.1), 1),
        ("SGConv, 3 steps", lambda: pyg.SGConv(WIDTH, CLASSES, K=3), 1),
        ("SSGConv, 3 steps", lambda: pyg.SSGConv(WIDTH, CLASSES, alpha=0.1, K=3), 1),
        ("MixHopConv", lambda: pyg.MixHopConv(WIDTH, CLASSES), 1),
        ("TAGConv, with `self_links=0`", lambda: pyg.TAGConv(WIDTH, CLASSES), 0),
        ("LGConv, with `self_links=0`", pyg.LGConv, 0),
        ("ARMAConv, with `self_links=0`", lambda: pyg.ARMAConv(WIDTH, CLASSES, num_stacks=2), 0),
        ("SAGEConv", lambda: pyg.SAGEConv(WIDTH, CLASSES), 1),
        ("GraphConv", lambda: pyg.GraphConv(WIDTH, CLASSES), 1),
        ("GINConv", lambda: pyg.GINConv(linear()), 1),
        ("GatedGraphConv", lambda: pyg.GatedGraphConv(WIDTH, 2), 1),
        ("MFConv", lambda: pyg.MFConv(WIDTH, CLASSES), 1),
        ("ClusterGCNConv", lambda: pyg.ClusterGCNConv(WIDTH, CLASSES), 1),
        ("SimpleConv, mean", lambda: pyg.SimpleConv(aggr="mean"), 1),
        ("GATConv, 2 heads", lambda: pyg.GATConv(WIDTH, CLASSES, heads=2), 1),
        ("GATv2Conv, 2 heads", lambda: pyg.GATv2Conv(WIDTH, CLASSES, heads=2), 1),
        ("SuperGATConv", lambda: pyg.SuperGATConv(WIDTH, CLASSES), 1),
        ("TransformerConv, 2 heads", lambda: pyg.TransformerConv(WIDTH, CLASSES, heads=2), 1),
        ("AGNNConv", pyg.AGNNConv, 1),
        ("FAConv", lambda: pyg.FAConv(WIDTH), 1),
    ]  # fmt: skip
    not_linear = [
        ("ChebConv", lambda: pyg.ChebConv(WIDTH, CLASSES, K=2)),
        ("EdgeConv", lambda: pyg.EdgeConv(nn.Linear(2 * WIDTH, CLASSES))),
        ("GINEConv", lambda: pyg.GINEConv(linear())),
        ("RGCNConv", lambda: pyg.RGCNConv(WIDTH, CLASSES, num_relations=2)),
        ('SAGEConv, `aggr="max"`', lambda: pyg.SAGEConv(WIDTH, CLASSES, aggr="max")),
        ("SGConv, `cached=True`", lambda: pyg.SGConv(WIDTH, CLASSES, cached=True)),
    ]
    rows = [
        Use(name, "layers", "exact", DOUBLE, deviation(make, loops, extra=name in ("GCN2Conv", "FAConv")))
        for name, make, loops in exact
    ]
    return rows + [Use(name, "layers", "refused", 0.0, refused(make)) for name, make in not_linear]


USES: list[Use] = [
    *_layers(),
    Use("weights in `edge_attr`", "data", "exact", DOUBLE, of_weights("edge_attr")),
    Use("`T.GCNNorm()`, layers with `normalize=False`", "data", "exact", DOUBLE, of_weights("GCNNorm")),
    Use("`T.ToSparseTensor()` (`adj_t`)", "data", "exact", DOUBLE, of_weights("adj_t")),
    Use("sparse features", "data", "exact", DOUBLE, sparse_features),
    Use("a stored spectrum of other links", "data", "refused", 0.0, stale_spectrum),
    Use("`HeteroData`", "data", "refused", 0.0, lambda: BuresAdversary(hetero()) and None),
    Use("a model from `to_hetero`", "data", "refused", 0.0, to_hetero),
    Use("`HeteroData.to_homogeneous()`", "data", "trains", 0.0, trains(homogeneous)),
    Use("a `Batch` of four graphs", "batches", "exact", DOUBLE, several_graphs(False)),
    Use("`DataLoader`", "batches", "exact", DOUBLE, several_graphs(True)),
    Use("`RandomNodeLoader`", "batches", "exact", DOUBLE, random_nodes(False)),
    Use("`RandomNodeLoader` on a `Batch`", "batches", "exact", DOUBLE, random_nodes(True)),
    Use("mini-batches by node numbers (`n_id`)", "batches", "exact", DOUBLE, random_nodes(False, by_number=True)),
    Use("float32", "precision", "exact", SINGLE, precision(torch.float32)),
    Use("bfloat16", "precision", "exact", HALF, precision(torch.bfloat16)),
    Use("float16", "precision", "exact", HALF, precision(torch.float16)),
    Use("`torch.autocast`, bfloat16", "precision", "exact", HALF, precision(torch.float32, autocast=True)),
    Use("`adversary.half()`, then Adam", "precision", "exact", DOUBLE, converted_adversary),
    Use("`torch.compile`, the whole model, `fullgraph=True`", "how it runs", "exact", DOUBLE, compiled("model")),
    Use("`torch.compile`, one layer of two", "how it runs", "exact", DOUBLE, compiled("layer")),
    Use("gradients of M = 5 passes, one by one", "how it runs", "exact", DOUBLE, one_by_one(False)),
    Use("gradients of M = 5 passes, `keep=True`", "how it runs", "exact", DOUBLE, one_by_one(True)),
    Use("`DistributedDataParallel`, ξ after 20 steps", "how it runs", "exact", DOUBLE, processes),
    Use("`torch.utils.checkpoint`, `use_reentrant=False`", "how it runs", "exact", DOUBLE, checkpoints),
    Use("`torch.utils.checkpoint`, `use_reentrant=True`", "how it runs", "refused", 0.0, reentrant_checkpoints),
    Use("two threads on one model", "how it runs", "exact", DOUBLE, threads),
    Use("`perturbed` inside `perturbed`", "how it runs", "exact", DOUBLE, nested),
    Use("`perturbed` in evaluation mode", "how it runs", "exact", DOUBLE, evaluation_mode),
    Use("a copy of the attached model", "how it runs", "refused", 0.0, copied_model),
    Use("batch normalization and dropout", "how it runs", "trains", 0.0, trains(normalized)),
    Use("`FeatureAdversary`", "how it runs", "trains", 0.0, trains(on_features)),
]


def verdict(use: Use) -> tuple[str, float | None]:
    """Find what comes out, with the largest deviation where it is compared."""
    try:
        found = use.find()
    except InputError:
        return "refused", None
    if found is None:
        return "trains", None
    if found > use.limit:
        return f"off by {found:.1e}", found
    return "exact", found


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    found = _in_process(distributed.get_rank(), distributed.get_world_size()).tolist()
    sys.stdout.write(" ".join(["xi", *map(str, found)]) + "\n")  # at once: the processes share it
    distributed.barrier()  # one that leaves early breaks the connections of the other
    distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # Gloo's threads may be joined by nobody when Python ends
