"""PRBCD, a gradient attack on the links (Geisler et al. 2021), as PyTorch Geometric's contrib package has it.

It relaxes link weights to [0, 1] on random blocks of pairs, ascends the tanh margin of the test nodes, and returns at
most ``budget`` links to flip. The attack is adaptive: gradients are those of the network under test, with its own
weights and propagation matrix, normalization included. For high-order methods the gradient goes through Algorithm 1
without its cut (entries up to ν, the diagonal of S), which has no useful derivative; what was found is then tested with
Algorithm 1 itself.
"""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from fishergcn._base.checks import check_integer
from fishergcn._base.imports import require
from fishergcn._base.types import IntArray
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel
from fishergcn.propagation import propagation_product


class LinkWeightGCN(nn.Module):
    """A trained network as a differentiable function of the weights of links, in both directions of each.

    Links from nodes to themselves and the features are fixed. ``order`` is T of a high-order network.
    """

    def __init__(self, model: TrainedModel, order: int | None) -> None:
        super().__init__()
        self.model, self.order = model, order
        self.own = torch.as_tensor(model.graph.adjacency.diagonal(), dtype=model.dtype, device=model.device)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        """Return logits, shape (n, C)."""
        (source, target), own = edge_index, self.own.unsqueeze(1)
        weight = edge_weight.to(own).unsqueeze(1)

        def times(dense: Tensor) -> Tensor:
            """A Z."""
            return (own * dense).index_add(0, source, weight * dense[target])

        product = propagation_product(times, torch.ones_like(own), self.order)
        # All of an operator that a network multiplies with: the product with Z of shape (n, 1, d).
        operator: Any = SimpleNamespace(propagate=lambda dense: product(dense[:, 0]).unsqueeze(1))
        return self.model.logits(operator)[:, 0]

    def extra_repr(self) -> str:
        """What ``print(module)`` shows."""
        return f"{self.model!r}, order={self.order}"


def prbcd_flips(
    model: TrainedModel, budget: int, *, block_size: int = 50_000, steps: int = 50, seed: int = 0
) -> IntArray:
    """Look for the links whose flipping harms one network most; return the pairs, int64 of shape (2, at most budget).

    Parameters
    ----------
    model
        A single network, with its test nodes, whose labels are known to the attack, on a graph with links of weight 1.
    budget
        The most pairs of different nodes to flip, linked ones to unlinked and the reverse.
    block_size, seed
        How many pairs are searched at a time, and the seed of these blocks.
    steps
        Gradient steps; the block is drawn anew in the first four fifths of them.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> records = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=50), keep_weights=True)
    >>> model = fishergcn.TrainedModel.from_records(graph, records, split)
    >>> prbcd_flips(model, budget=1, block_size=6, steps=5)  # node 2 loses its class
    array([[2],
           [3]])
    """
    with warnings.catch_warnings():  # it says on import that it is experimental
        warnings.simplefilter("ignore", UserWarning)
        contrib = require("torch_geometric.contrib.nn.models", extra="pyg", purpose="the PRBCD attack")
    model.check_network(links=True)
    if model.method.matrix.name not in ("renormalized", "high-order"):
        raise InputError(
            f"PRBCD differentiates the renormalized or high-order graph, not that of {model.method.name!r}."
        )
    model = model.only()
    adjacency = model.graph.adjacency
    upper = sparse.coo_array(sparse.triu(adjacency, 1))
    if (upper.data != 1.0).any():
        raise InputError("PRBCD needs links of weight 1, got other weights.")
    nodes = adjacency.shape[0]
    budget = check_integer("budget", budget, minimum=0, maximum=nodes * (nodes - 1) // 4)
    if budget == 0:
        return np.empty((2, 0), dtype=np.int64)
    device = model.device
    network = LinkWeightGCN(model, model.config.order if model.method.high_order else None)
    ends = np.stack(upper.coords).astype(np.int64)
    edge_index = torch.as_tensor(np.concatenate([ends, ends[::-1]], axis=1), device=device)
    test, labels = model.targets.rows[0], torch.zeros(nodes, dtype=torch.int64, device=device)
    labels[test] = model.targets.labels[0]
    attack = contrib.PRBCDAttack(
        network,
        block_size=max(block_size, 2 * budget),
        epochs=steps,
        epochs_resampling=max(1, 4 * steps // 5),
        loss="tanh_margin",
        log=False,
    )
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        nothing = torch.zeros(nodes, 1, device=device)  # in the place of the features, which the network has
        _, flips = attack.attack(nothing, edge_index, labels, budget=budget, idx_attack=test)
    return cast("IntArray", flips.cpu().numpy().astype(np.int64))
