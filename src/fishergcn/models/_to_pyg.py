"""A trained model as a plain module of torch, made of the layers of PyTorch Geometric.

    Z^l = P H^l W^l + H^l V^l + b^l   as   GCNConv (W, b), GraphConv (W, V, b) or Linear (W, b)

with P as the weights of the links that the layers are given: its two conventions that differ from theirs, self-links
and weighted means, are in the module and not in the layers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fishergcn._base.imports import require
from fishergcn.errors import InputError
from fishergcn.models._ensemble import Ensemble
from fishergcn.models._trained import TrainedModel
from fishergcn.nn import Family, FeatureScaling, by_layer, norms_of
from fishergcn.nn.networks.majority import class_shares

#: The matrices that a module makes from the links; entries of others must be given.
_MADE = ("renormalized", "mean", "identity", "labels")
_PURPOSE = {"extra": "pyg", "purpose": "model.to_pyg"}


class Inputs(nn.Module):
    """What a network sees of the features: [X, A] where links are features, scaled in float64 by rows or columns."""

    center: Tensor | None
    scale: Tensor | None

    def __init__(self, scaling: FeatureScaling, known: int) -> None:
        super().__init__()
        self.by_rows, self.known = scaling.by_rows, known
        for name in ("center", "scale"):
            value = getattr(scaling, name)
            self.register_buffer(name, None if value is None else torch.as_tensor(value, dtype=torch.float64))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        """Return what enters the first layer, in the precision of x."""
        return self._scaled(x.double(), edge_index, edge_weight.double()).to(x.dtype)

    def _scaled(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        if self.known:
            source, target = edge_index[0], edge_index[1]
            there = source < self.known  # columns are the nodes of training, which come first
            links = x.new_zeros(x.shape[0], self.known)
            links = links.index_put((target[there], source[there]), edge_weight[there], accumulate=True)
            x = torch.cat([x, links], dim=1)
        if self.by_rows:
            sums = x.abs().sum(dim=1, keepdim=True)
            x = x / torch.where(sums == 0, torch.ones_like(sums), sums)
        if self.center is not None:
            x = x - self.center
        return x if self.scale is None else x / self.scale

    def extra_repr(self) -> str:
        how = "rows divided by their sum" if self.by_rows else "as they are" if self.scale is None else "by columns"
        return f"{how}{f', with the links to {self.known} nodes' if self.known else ''}"


def weights_of(matrix: str, edge_index: Tensor, edge_weight: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """Return the links with the entries of P as weights: P_ij on the link from j to i."""
    if matrix in ("high-order", "given", "identity"):
        return edge_index, edge_weight
    if matrix == "renormalized":  # (D + I)^-½ (A + I) (D + I)^-½: a self-link of A stays beside that of I
        loops = torch.arange(nodes, device=edge_index.device).repeat(2, 1)
        edge_index = torch.cat([edge_index, loops], dim=1)
        edge_weight = torch.cat([edge_weight, edge_weight.new_ones(nodes)])
    source, target = edge_index[0], edge_index[1]
    degrees = edge_weight.new_zeros(nodes).index_add(0, target, edge_weight)
    inverse = torch.where(degrees > 0, 1.0 / torch.where(degrees > 0, degrees, 1.0), 0.0)
    if matrix == "mean":
        return edge_index, edge_weight * inverse[target]
    return edge_index, edge_weight * (inverse[target] * inverse[source]).sqrt()


class Network(nn.Module):
    """One network: logits of x (n, D) over links that are listed in both directions.

    For the high-order matrix ``edge_index`` and ``edge_weight`` are its entries, all else is the graph's.
    """

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        known = model.graph.num_nodes if model.config.links_as_features else 0
        self.inputs = Inputs(model.scaling, known)
        name = model.method.matrix.name
        self.matrix = name if name in (*_MADE, "high-order") else "given"
        self.layers, self.norms = nn.ModuleList(), nn.ModuleList()
        self.dropout = nn.Dropout(model.config.dropout)

    def links(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the weights of links, 1 if none are given; a matrix that is not made here must be given."""
        if edge_weight is None:
            if self.matrix in ("high-order", "given"):
                raise InputError(
                    f"edge_weight must hold the entries of the {self.matrix} propagation matrix, and edge_index where "
                    "they are; got None."
                )
            edge_weight = x.new_ones(edge_index.shape[1])
        return edge_index, edge_weight.to(x.dtype)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        given = self.links(x, edge_index, edge_weight)
        links = weights_of(self.matrix, *given, x.shape[0])
        hidden: Tensor = self.inputs(x, *given)
        for place, layer in enumerate(self.layers):
            hidden = self.dropout(hidden)
            hidden = layer(hidden) if self.matrix == "identity" else layer(hidden, *links)
            if place < len(self.layers) - 1:
                hidden = torch.relu(self.norms[place](hidden) if self.norms else hidden)
        return hidden


class TwoSteps(Network):
    """The linear model: P (P X W_2 + X W_1) + X W_0 + b."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        given = self.links(x, edge_index, edge_weight)
        links, hidden = weights_of(self.matrix, *given, x.shape[0]), self.inputs(x, *given)
        inner, outer, own = self.layers
        out: Tensor = outer(inner(hidden, *links), *links) + own(hidden)
        return out


class Labels(nn.Module):
    """Label propagation from the training nodes, which come first and in their order: log p, in float64."""

    nodes: Tensor
    labels: Tensor
    shares: Tensor

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        rule: Any = model.method.rule  # LabelPropagation
        models = require("torch_geometric.nn.models", **_PURPOSE)
        labels, [nodes] = model._known_labels(model.graph)
        self.spread = models.LabelPropagation(num_layers=rule.steps, alpha=rule.alpha)
        self.mixed, self.classes = rule.share, model.num_classes
        self.register_buffer("nodes", torch.tensor(nodes))
        self.register_buffer("labels", torch.tensor(labels[nodes]))
        self.register_buffer("shares", class_shares(labels, [nodes], model.num_classes)[0])

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        known = self.shares.new_zeros(x.shape[0], self.classes)
        known[self.nodes, self.labels] = 1.0
        weight = known.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight.double()
        index, weight = weights_of("labels", edge_index, weight, x.shape[0])
        found = self.spread(known, index, edge_weight=weight, post_step=lambda each: each)
        sums = found.sum(dim=1, keepdim=True)
        spread = torch.where(sums > 0, found / torch.where(sums > 0, sums, 1.0), self.shares)
        return torch.lerp(spread, self.shares.expand_as(spread), self.mixed).log()


class Mean(nn.Module):
    """An ensemble: log Σ_k s_k softmax(z_k / T_k).

    ``walks`` are edge_index and edge_weight of the high-order matrix, for members that read it.
    """

    shares: Tensor
    temperatures: Tensor

    def __init__(self, members: list[nn.Module], shares: tuple[float, ...], temperatures: tuple[float, ...]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("shares", torch.tensor(shares, dtype=torch.float64))
        self.register_buffer("temperatures", torch.tensor(temperatures, dtype=torch.float64))

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        walks: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        parts = []
        for member, share, heat in zip(self.members, self.shares, self.temperatures, strict=True):
            links: tuple[Tensor, Tensor | None] = edge_index, edge_weight
            if getattr(member, "matrix", "") == "high-order":
                if walks is None:
                    raise InputError("walks must hold edge_index and edge_weight of the high-order matrix; got None.")
                links = walks
            parts.append(torch.log_softmax(member(x, *links).double() / heat, dim=1) + share.log())
        return torch.logsumexp(torch.stack(parts), dim=0)


def to_pyg(model: TrainedModel) -> nn.Module:
    """Return the module: see :meth:`fishergcn.TrainedModel.to_pyg`."""
    require("torch_geometric.nn", **_PURPOSE)
    one = model.only()
    if isinstance(one, Ensemble):
        members = [_single(each) for each in one.members]
        _check_together(one.members)
        made: nn.Module = Mean(members, one.shares, one.temperatures)
    else:
        made = _single(one)
    return made.to(one.device).eval()


def _check_together(members: tuple[TrainedModel, ...]) -> None:
    """Refuse members that read different matrices of which none is made from the links."""
    given = {each.method.matrix.key(each.config) for each in members if each.method.matrix.name not in _MADE}
    if given - {key for key in given if key[0] == "high-order"} or len(given) > 1:
        raise InputError(
            "the ensemble has members with different propagation matrices that must be given: export each of "
            "model.members by itself."
        )


def _single(model: TrainedModel) -> nn.Module:
    method = model.method
    if model._function is not None or model._matrix_is_given:
        raise InputError("the model was made with a function or a matrix of its own, which no layer stands for.")
    if method.base == "lp":
        return Labels(model)
    if not method.trained:
        raise InputError(f"method {method.name!r} trains no network, so there is no layer to make; gcn does.")
    if model.config.links_as_features and method.matrix.name not in _MADE:
        raise InputError(
            f"a network that reads links as features beside the matrix {method.matrix.name!r} needs two lists of "
            "links, and a module has one; one without links_as_features can be exported."
        )
    if method.base == "linear":
        return _two_steps(model)
    if type(method.network).logits is not Family.logits:
        raise InputError(
            f"the network {method.base!r} computes its logits in its own way, for which there are no layers of "
            "PyTorch Geometric; gcn, mlp, sage, linear, lp and your own subclasses of nn.Family have them."
        )
    made = Network(model)
    weights, own, biases = (by_layer(model.weights, name) for name in ("weights", "own", "biases"))
    for place, weight in enumerate(weights):
        bias = biases[place][0] if biases else None
        made.layers.append(_layer(made.matrix, weight[0], own[place][0] if own else None, bias))
    for scale, shift, mean, variance in norms_of(model.weights):
        norm: nn.Module = nn.LayerNorm(scale.shape[1])
        kept: dict[str, Tensor] = {}
        if mean is not None and variance is not None:
            norm = nn.BatchNorm1d(scale.shape[1])
            kept = {"running_mean": mean[0], "running_var": variance[0], "num_batches_tracked": torch.tensor(0)}
        made.norms.append(_filled(norm, weight=scale[0], bias=shift[0], **kept))
    return made


def _layer(matrix: str, weight: Tensor, own: Tensor | None, bias: Tensor | None) -> nn.Module:
    """Return the layer that computes P H W + H V + b; W and V are transposed in those of torch."""
    layers = require("torch_geometric.nn", **_PURPOSE)
    sizes, has_bias = (int(weight.shape[0]), int(weight.shape[1])), bias is not None
    if matrix == "identity":
        return _filled(nn.Linear(sizes[0], sizes[1], bias=has_bias), weight=weight.T, bias=bias)
    if own is None:
        made = layers.GCNConv(*sizes, normalize=False, add_self_loops=False, bias=has_bias)
        return _filled(made, **{"lin.weight": weight.T, "bias": bias})
    made = layers.GraphConv(*sizes, aggr="add", bias=has_bias)
    return _filled(made, **{"lin_rel.weight": weight.T, "lin_root.weight": own.T, "lin_rel.bias": bias})


def _two_steps(model: TrainedModel) -> nn.Module:
    layers, made = require("torch_geometric.nn", **_PURPOSE), TwoSteps(model)
    zero, one, two = (each[0] for each in by_layer(model.weights, "weights"))
    bias = model.weights.get("biases.0")
    made.layers.extend([
        _layer(made.matrix, two, one, None),
        layers.SimpleConv(aggr="sum"),
        _layer("identity", zero, None, None if bias is None else bias[0]),
    ])  # fmt: skip
    return made


def _filled(module: nn.Module, **tensors: Tensor | None) -> nn.Module:
    """Return a module with these parameters, all that it has."""
    given = {name: each.detach().clone() for name, each in tensors.items() if each is not None}
    module.to(next(iter(given.values())).dtype).load_state_dict(given)
    return module
