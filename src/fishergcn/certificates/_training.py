"""Training on the worst case of a ball: exact for one layer, of the linearized network for two.

With J_i = ∂z_i/∂δ at δ = 0, the largest lead of class b over the class y of a node is to first order

    w_ib = z_ib - z_iy + max_{q ∈ Q} (J_ib - J_iy)·(q - λ̄)

in closed form (see ``_ball``), and the loss is the cross entropy of w_i. One layer is affine in δ, so that it is at
least the loss of every graph of the ball. The gradient takes the q of the maximum as fixed (Danskin's theorem).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.types import CSRArray, FloatArray, IntArray
from fishergcn.certificates._ball import Ball
from fishergcn.certificates._network import features_matrix
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.models import TrainedModel
from fishergcn.nn import GCN
from fishergcn.perturbation import Neighborhood
from fishergcn.splits import Split
from fishergcn.training import TrainConfig


def train_certified(
    graph: Graph, split: Split, radius: float, *, config: TrainConfig | None = None, weight: float = 1.0, seed: int = 0
) -> TrainedModel:
    """Train a GCN of one or two layers on the worst case over graphs within a Bures distance.

    Parameters
    ----------
    graph : Graph
        With features and labels.
    split : Split
        Training nodes are learned from; the weights with the smallest loss of the validation nodes are kept.
    radius : float
        r, above 0 and at most the distance of the farthest graph. λ_max is not bounded.
    config : TrainConfig, optional
        Of which ``hidden`` (() or one size), ``learning_rate``, ``dropout``, ``weight_decay`` (of the first layer),
        ``max_epochs``, ``patience``, ``rank`` and ``scaling`` are read.
    weight : float
        From 0, the plain loss, to 1, that of the worst case.
    seed : int
        Of the initial weights and of dropout.

    Examples
    --------
    >>> import fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> config = fishergcn.TrainConfig(hidden=(), rank=2, dropout=0.0)
    >>> train_certified(graph, split, 0.05, config=config).predict().tolist()
    [0, 0, 1, 1]
    """
    config = TrainConfig() if config is None else config
    weight = check_real("weight", weight, minimum=0.0, maximum=1.0)
    if len(config.hidden) > 1:
        raise InputError(f"hidden must have at most one size for certified training, got {config.hidden}.")
    unread = [name for name in ("bias", "own_weights", "links_as_features") if getattr(config, name)]
    if unread or config.norm != "none":
        raise InputError(f"certified training does not know the setting {(*unread, 'norm')[0]!r}; leave it out.")
    generator = torch.Generator().manual_seed(check_integer("seed", seed, minimum=0))
    network = GCN(graph.num_features, config.hidden, graph.num_classes, config.dropout, generator=generator)
    model = TrainedModel.from_network(network, graph, scaling=config.scaling)
    around = Neighborhood(model.propagation, rank=config.rank, radius=0.0)
    if check_real("radius", radius, above=0.0) > around.farthest(None):
        raise InputError(
            f"radius must be at most {around.farthest(None):.6g}, that of the farthest graph, got {radius:g}."
        )
    worst = _WorstCase(model, around, radius, config.dropout, generator)
    layers: Any = list(network.weights)
    groups = [{"params": layers[:1], "weight_decay": config.weight_decay}, {"params": layers[1:]}]
    optimizer = torch.optim.Adam([each for each in groups if each["params"]], lr=config.learning_rate)
    labels = torch.tensor(graph.labels, dtype=torch.int64)
    train, val = worst.part(split.train), torch.tensor(split.val)
    best, kept, waited = np.inf, {}, 0
    for _ in range(config.max_epochs):
        optimizer.zero_grad()
        plain, moved = worst.logits(layers, train, labels)
        target = labels[train.nodes]
        loss = weight * cross_entropy(moved, target) + (1 - weight) * cross_entropy(plain, target)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            now = float(cross_entropy(worst.plain(layers)[val], labels[val]))
        waited += 1
        if now < best:
            best, waited = now, 0
            kept = {name: each.detach().clone() for name, each in network.named_parameters()}
        if waited >= config.patience:
            break
    network.load_state_dict(kept)
    return TrainedModel.from_network(network, graph, scaling=config.scaling)


class _Part:
    """Some nodes, the rows of Ã of these, and the nodes that they reach."""

    def __init__(self, nodes: IntArray, matrix: CSRArray) -> None:
        rows = matrix[nodes]
        self.nodes = torch.tensor(nodes)
        self.near = torch.as_tensor(np.unique(rows.indices).astype(np.int64))
        self.to_near = torch.as_tensor(rows[:, self.near.numpy()].toarray(), dtype=torch.float32)


class _WorstCase:
    """Logits and those of the worst case, in float32."""

    def __init__(
        self, model: TrainedModel, around: Neighborhood, radius: float, rate: float, generator: torch.Generator
    ) -> None:
        total = float(around.spectrum.eigenvalues.sum())
        self.csr, self.rate, self.generator = model.propagation, rate, generator
        self.inputs, self.matrix = _sparse(features_matrix(model.features)), _sparse(self.csr)
        self.basis = torch.as_tensor(np.sqrt(total) * around.spectrum.eigenvectors, dtype=torch.float32)
        self.shares: FloatArray = np.asarray(around.spectrum.eigenvalues / total)
        self.ball = Ball.of(self.shares, around.captured_mass, radius, None)

    def part(self, nodes: IntArray) -> _Part:
        """Prepare some nodes."""
        return _Part(np.asarray(nodes, dtype=np.int64), self.csr)

    def plain(self, weights: list[Tensor]) -> Tensor:
        """Return the logits of all nodes without dropout, (n, C)."""
        values = self.matrix @ (self.inputs @ weights[0])
        return self.matrix @ (torch.relu(values) @ weights[1]) if len(weights) > 1 else values

    def logits(self, weights: list[Tensor], part: _Part, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return z and w of the nodes of a part, both (N, C), with dropout."""
        dropped = torch.sparse_coo_tensor(
            self.inputs.indices(),
            self._drop(self.inputs.values()),
            self.inputs.shape,
            is_coalesced=True,
            check_invariants=False,
        )
        product = dropped @ weights[0]
        values, moments = self.matrix @ product, self.basis.T @ product
        if len(weights) == 1:
            out, slopes = values[part.nodes], -self.basis[part.nodes][:, :, None] * moments
        else:
            keep = self._drop(torch.ones_like(values))
            second = (torch.relu(values) * keep) @ weights[1]
            out = (self.matrix @ second)[part.nodes]
            active = ((values > 0) * keep)[part.near]
            inner = (-self.basis[part.near][:, :, None] * moments * active[:, None]) @ weights[1]
            slopes = torch.einsum("in,nkc->ikc", part.to_near, inner)
            slopes = slopes - self.basis[part.nodes][:, :, None] * (self.basis.T @ second)
        own = labels[part.nodes]
        at = torch.arange(len(own))
        lead, slopes = out - out[at, own][:, None], slopes - slopes[at, :, own][:, :, None]
        gradients = slopes.detach().double().numpy().swapaxes(1, 2).reshape(-1, len(self.shares))
        moved = (self.ball.support(gradients)[1] - self.shares).reshape(len(own), -1, len(self.shares))
        return out, lead + torch.einsum("ikc,ick->ic", slopes, torch.as_tensor(moved, dtype=torch.float32))

    def _drop(self, values: Tensor) -> Tensor:
        if not self.rate:
            return values
        kept = torch.rand(values.shape, generator=self.generator) >= self.rate
        return values * kept / (1.0 - self.rate)


def _sparse(matrix: CSRArray) -> Tensor:
    coo: Any = matrix.tocoo()
    at = torch.as_tensor(np.stack([coo.row, coo.col]).astype(np.int64))
    return torch.sparse_coo_tensor(
        at, torch.tensor(coo.data, dtype=torch.float32), coo.shape, check_invariants=False
    ).coalesce()
