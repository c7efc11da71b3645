"""Five networks of PyTorch Geometric, their settings, and the measure of a study that trains them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric
from torch import Tensor, nn
from torch_geometric.nn import APPNP, GATConv, GCN2Conv, GCNConv, SAGEConv
from torch_geometric.transforms import NormalizeFeatures

from fishergcn import Graph, RunRecord
from fishergcn._base.provenance import device_name, versions
from fishergcn.execution import Job
from fishergcn.integrations.pyg import AddBuresSpectrum, BuresAdversary

# Each mode is a method: as many samples as it, with or without a perturbation.
MODES = {"plain": "gcn", "x5": "gcn-x5", "adversary": "fishergcn"}
SAMPLES, RADIUS, RANK = 5, 0.1, 10


# Each network has two groups of parameters, ``first`` and ``second``, with a weight decay of their own.


class TwoLayers(nn.Module):
    def __init__(self, first: nn.Module, second: nn.Module, dropout: float, activation: Any = F.relu) -> None:
        super().__init__()
        self.first, self.second, self.dropout, self.activation = first, second, dropout, activation

    def forward(self, x: Tensor, arcs: Tensor) -> Tensor:
        x = self.activation(self.first(F.dropout(x, self.dropout, self.training), arcs))
        return self.second(F.dropout(x, self.dropout, self.training), arcs)  # type: ignore[no-any-return]


class PredictThenPropagate(nn.Module):
    def __init__(self, features: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second, self.dropout = nn.Linear(features, 64), nn.Linear(64, classes), dropout
        self.propagation = APPNP(K=10, alpha=0.1, cached=True)

    def forward(self, x: Tensor, arcs: Tensor) -> Tensor:
        x = self.first(F.dropout(x, self.dropout, self.training)).relu()
        x = self.second(F.dropout(x, self.dropout, self.training))
        return self.propagation(x, arcs)  # type: ignore[no-any-return]


class GCNII(nn.Module):
    def __init__(self, features: int, classes: int, dropout: float, layers: int = 8, hidden: int = 64) -> None:
        super().__init__()
        common: dict[str, Any] = {"alpha": 0.1, "theta": 0.5, "shared_weights": True, "cached": True}
        self.first = nn.ModuleList(GCN2Conv(hidden, layer=depth + 1, **common) for depth in range(layers))
        self.second = nn.ModuleList([nn.Linear(features, hidden), nn.Linear(hidden, classes)])
        self.dropout = dropout

    def forward(self, x: Tensor, arcs: Tensor) -> Tensor:
        x = start = self.second[0](F.dropout(x, self.dropout, self.training)).relu()
        for layer in self.first:
            x = layer(F.dropout(x, self.dropout, self.training), start, arcs).relu()
        return self.second[1](F.dropout(x, self.dropout, self.training))  # type: ignore[no-any-return]


def gcn(features: int, classes: int, dropout: float) -> nn.Module:
    return TwoLayers(GCNConv(features, 16, cached=True), GCNConv(16, classes, cached=True), dropout)


def sage(features: int, classes: int, dropout: float) -> nn.Module:
    return TwoLayers(SAGEConv(features, 16), SAGEConv(16, classes), dropout)


def gat(features: int, classes: int, dropout: float) -> nn.Module:
    first = GATConv(features, 8, heads=8, dropout=dropout)
    return TwoLayers(first, GATConv(64, classes, heads=1, concat=False, dropout=dropout), dropout, F.elu)


@dataclass(frozen=True)
class Setting:
    """How a network is built and trained: the same on all data sets, chosen before any run."""

    title: str
    build: Callable[[int, int, float], nn.Module]
    layers: str
    dropout: float
    learning_rate: float
    decay: tuple[float, float]
    groups: tuple[str, str]
    source: str


LAYERS = ("first layer", "second layer")
SETTINGS = {
    "gcn": Setting("GCN", gcn, "2 `GCNConv`, hidden 16", 0.5, 0.01, (5e-4, 0.0), LAYERS, "PyG `examples/gcn.py`"),
    "gat": Setting("GAT", gat, "2 `GATConv`, 8 heads × 8, then 1 head; dropout on the attention too", 0.6, 0.005,
                   (5e-4, 5e-4), LAYERS, "PyG `examples/gat.py`"),
    "sage": Setting("GraphSAGE", sage, "2 `SAGEConv` (mean), hidden 16", 0.5, 0.01, (5e-4, 0.0), LAYERS,
                    "as the GCN; its paper has other data"),
    "appnp": Setting("APPNP", PredictThenPropagate, "perceptron with 64 hidden, then `APPNP`, K = 10, α = 0.1", 0.5,
                     0.01, (5e-4, 5e-4), LAYERS, "PyG `benchmark/citation/appnp.py`"),
    "gcnii": Setting("GCNII", GCNII, "8 `GCN2Conv`, hidden 64, α = 0.1, θ = 0.5, shared weights", 0.6, 0.01,
                     (0.01, 5e-4), ("graph layers", "linear layers"),
                     "PyG `examples/gcn2_cora.py`; there 64 layers, 1000 epochs"),
}  # fmt: skip


def average(closure: Callable[[], Tensor], samples: int) -> Tensor:
    return torch.stack([closure() for _ in range(samples)]).mean()


def measure_networks(
    job: Job, device: torch.device, on_epoch: Callable[..., None] | None = None
) -> Iterator[list[RunRecord]]:
    """Train the network that a cell names, in the mode that its method stands for."""
    problem, network = job.problem, job.task["options"]["network"]
    [mode] = [mode for mode, method in MODES.items() if method == problem.method.name]
    data = prepared(problem.graph, device)
    for run in job.runs:
        parts = {name: torch.tensor(getattr(run.split, name), device=device) for name in ("train", "val", "test")}
        found = train(data, parts, network, mode, run.seed, problem.config.max_epochs)
        fine = found["best_epoch"] > 0  # else the run diverged from its first epoch
        record = RunRecord(
            dataset=problem.graph.name,
            method=problem.method.name,
            split=run.split.name,
            seed=run.seed,
            status="ok" if fine else "diverged",
            epochs=problem.config.max_epochs,
            scores={
                "test_accuracy": found["test_accuracy"],
                "val_cross_entropy": found["val_loss"] if fine else math.nan,
            },
            curves={},
            shape=[],
            seconds=found["seconds"],
            device=device_name(device),
            versions={**versions(), "torch_geometric": torch_geometric.__version__},
            config=problem.config.to_dict(),
            graph_digest=problem.graph.digest,
            extra={"best_epoch": found["best_epoch"]},
        )
        yield [record]


_PREPARED: dict[tuple[str, str], Any] = {}


def prepared(graph: Graph, device: torch.device) -> Any:
    """Return a graph for PyG, with rows that sum to 1 and with its spectrum; made once in a process."""
    key = graph.digest, str(device)
    if key not in _PREPARED:
        _PREPARED.clear()
        _PREPARED[key] = NormalizeFeatures()(AddBuresSpectrum(RANK)(graph.to_pyg())).to(device)
    return _PREPARED[key]


def train(
    data: Any, parts: Mapping[str, Tensor], name: str, mode: str, seed: int, epochs: int
) -> dict[str, float]:  # fmt: skip
    """Train for ``epochs`` and return the test accuracy of the weights with the lowest validation loss.

    The three modes of a seed share initial weights, and "x5" and "adversary" all dropout masks: the adversary
    draws from a generator of its own.
    """
    started, setting = time.perf_counter(), SETTINGS[name]
    torch.manual_seed(seed)
    model: Any = setting.build(data.num_features, int(data.y.max()) + 1, setting.dropout).to(data.x.device)
    groups = zip((model.first, model.second), setting.decay, strict=True)
    optimizer = torch.optim.Adam(
        [{"params": list(group.parameters()), "weight_decay": decay} for group, decay in groups],
        lr=setting.learning_rate,
    )
    objective: Callable[[Callable[[], Tensor]], Tensor] = lambda closure: average(closure, SAMPLES)  # noqa: E731
    if mode == "plain":
        objective = lambda closure: closure()  # noqa: E731
    elif mode == "adversary":
        adversary = BuresAdversary(data, RANK, RADIUS, SAMPLES, seed=seed).attach(model)
        optimizer.add_param_group(adversary.parameter_group())
        objective = adversary.average

    def loss_of(part: str) -> Tensor:
        return F.cross_entropy(model(data.x, data.edge_index)[parts[part]], data.y[parts[part]])

    # The choice stays on the device: asking for numbers in each epoch would make the GPU wait.
    best = torch.full((3,), math.inf, device=data.x.device)
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        objective(lambda: loss_of("train")).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        model.eval()
        with torch.no_grad():
            scores = model(data.x, data.edge_index)
            loss = F.cross_entropy(scores[parts["val"]], data.y[parts["val"]])
            right = (scores[parts["test"]].argmax(dim=-1) == data.y[parts["test"]]).sum()
            best = torch.where(loss < best[0], torch.stack([loss, right, torch.full_like(loss, epoch + 1)]), best)
    val_loss, right_at_best, best_epoch = best.tolist()
    found = math.isfinite(val_loss)  # else the run diverged from its first epoch
    return {
        "best_epoch": int(best_epoch) if found else 0,
        "val_loss": val_loss,
        "test_accuracy": right_at_best / len(parts["test"]) if found else math.nan,
        "seconds": time.perf_counter() - started,
    }
