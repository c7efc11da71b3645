"""Perturbed passes from dense float64 matrices, differentiable in ξ, that share no code with the package.

Ã comes from the links by hand, its eigenpairs from ``torch.linalg.eigh``, the perturbed matrix from the formulas of the
docstrings; of the package only the random numbers e are used. A copy of a model gets a ``propagate`` that multiplies
with the dense matrix.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing, TransformerConv
from torch_geometric.utils import to_undirected

from fishergcn.integrations.pyg import BuresAdversary, NodeAdversary

NODES, ALONE, FEATURES, CLASSES, RANK, SAMPLES = 40, 3, 5, 3, 6, 3


def graph(weighted: bool = False, seed: int = 0) -> Data:
    """A connected random graph and some isolated nodes."""
    draw = torch.Generator().manual_seed(seed)
    linked = NODES - ALONE
    pairs = torch.randint(0, linked, (2, 90), generator=draw)
    chain = torch.stack([torch.arange(linked - 1), torch.arange(1, linked)])
    arcs = to_undirected(torch.cat([pairs, chain], dim=1))
    data = Data(
        x=torch.randn(NODES, FEATURES, generator=draw, dtype=torch.float64),
        edge_index=arcs[:, arcs[0] != arcs[1]],
        y=torch.randint(0, CLASSES, (NODES,), generator=draw),
    )
    if weighted:
        data.edge_weight = torch.exp(torch.sin(data.edge_index.sum(dim=0).double()))
    return data


def propagation(data: Data, self_links: float = 1.0) -> Tensor:
    matrix = self_links * torch.eye(NODES, dtype=torch.float64)
    weight = data.edge_weight if "edge_weight" in data else torch.ones(data.num_edges, dtype=torch.float64)
    matrix[data.edge_index[1], data.edge_index[0]] += weight
    degree = matrix.sum(dim=1)
    root = torch.where(degree > 0, degree.clamp(min=1e-300).rsqrt(), 0.0)
    return root[:, None] * matrix * root


def noise_of(adversary: BuresAdversary | NodeAdversary) -> Tensor:
    """The next e of an adversary, which comes again."""
    state = adversary.get_generator_state()
    e = adversary.noise()
    adversary.set_generator_state(state)
    return e


def changes(adversary: BuresAdversary | NodeAdversary, xi: Tensor, data: Data, self_links: float = 1.0) -> list[Tensor]:
    """Ã(φ_j) - Ã of the next M draws, as functions of ξ."""
    plain, radius = propagation(data, self_links), adversary.neighborhood.radius
    laplacian = torch.eye(NODES, dtype=torch.float64) - plain
    shape, noise = radius * torch.sigmoid(xi.squeeze(-1)), noise_of(adversary)
    if isinstance(adversary, BuresAdversary):
        linked = NODES - ALONE  # the largest component
        values, vectors = torch.linalg.eigh(laplacian[:linked, :linked])
        w, basis = values[-RANK:].flip(0), nn.functional.pad(vectors[:, -RANK:].flip(1), (0, 0, 0, ALONE))
        share = w / w.sum()
        shares = torch.softmax(share.log() + share.rsqrt() * shape * noise, dim=1)
        return [-basis @ torch.diag(w.sum() * (each - share)) @ basis.T for each in shares]
    unit = ((NODES - ALONE) * laplacian.diagonal() / laplacian.trace()).clamp(min=1e-300).rsqrt()
    unit[NODES - ALONE :] = 0.0  # an isolated node does not move the graph: E tr ρX² = ε² is that of the others
    found = []
    for e in noise:
        m = 1 + (shape * unit * math.sqrt(12) * e).clamp(min=-1.0)
        moved = m[:, None] * laplacian * m
        found.append(laplacian - moved * (laplacian.trace() / moved.trace()))
    return found


def dense_pass(model: nn.Module, change: Tensor) -> Callable[..., Any]:
    """A pass of a copy of the model whose products with the graph have the dense change added, on its parameters."""
    copied = copy.deepcopy(model)
    for layer in copied.modules():
        if isinstance(layer, MessagePassing):
            layer.propagate = _propagate(layer, change)
    return lambda *inputs: functional_call(copied, dict(model.named_parameters()), inputs)


def _propagate(layer: Any, change: Tensor) -> Callable[..., Tensor]:
    plain, name = layer.propagate, "value" if isinstance(layer, TransformerConv) else "x"

    def propagate(edge_index: Any, size: Any = None, **given: Any) -> Tensor:
        x = given[name]
        x = (x[0] if isinstance(x, tuple | list) else x).movedim(layer.node_dim, 0)
        product = (change @ x.flatten(1)).view(-1, *x.shape[1:])
        out: Tensor = plain(edge_index, size=size, **given)
        return out + product.movedim(0, layer.node_dim)

    return propagate


def weigh(out: Tensor) -> Tensor:
    """A loss that sees every entry of an output."""
    weights = torch.sin(torch.arange(out.numel(), dtype=out.dtype)).view_as(out)
    return (weights * out).sum() / out.shape[0] + out.square().mean()


def deviation(found: list[Tensor | None], wanted: list[Tensor | None]) -> float:
    """The largest difference of some tensors, relative to the largest entry of each."""
    worst = 0.0
    for one, other in zip(found, wanted, strict=True):
        if other is None or one is None:
            assert other is None or not other.any(), "a gradient is missing"
            assert one is None or not one.any(), "a gradient should be missing"
            continue
        worst = max(worst, float((one - other).abs().max()) / max(float(other.abs().max()), 1e-3))
    return worst
