"""Which layers of PyTorch Geometric multiply node features with a graph, under which name, and with which matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from fishergcn._base.imports import require
from fishergcn._base.types import CSRArray, IntArray
from fishergcn.errors import InputError
from fishergcn.integrations.pyg._entry import in_backward, original_class
from fishergcn.integrations.pyg._graph import Reading, utils

conv = require("torch_geometric.nn.conv", extra="pyg", purpose="fishergcn.integrations.pyg")
aggregations = require("torch_geometric.nn.aggr", extra="pyg", purpose="fishergcn.integrations.pyg")

# Layers whose message from j to i is a_ij x_j, with the name under which x enters ``propagate``.
PROPAGATED: dict[type[Any], str] = {
    **dict.fromkeys((
        conv.AGNNConv, conv.APPNP, conv.ARMAConv, conv.ClusterGCNConv, conv.FAConv, conv.GATConv, conv.GATv2Conv,
        conv.GatedGraphConv, conv.GCN2Conv, conv.GCNConv, conv.GINConv, conv.GraphConv, conv.LGConv, conv.MFConv,
        conv.MixHopConv, conv.SAGEConv, conv.SGConv, conv.SimpleConv, conv.SSGConv, conv.SuperGATConv, conv.TAGConv,
    ), "x"),
    conv.TransformerConv: "value",
}  # fmt: skip
# Layers that multiply with the symmetrically normalized graph itself; those without a flag add no self-links.
NORMALIZING = (
    conv.APPNP, conv.ARMAConv, conv.GCN2Conv, conv.GCNConv, conv.LGConv, conv.MixHopConv, conv.SGConv, conv.SSGConv,
    conv.TAGConv,
)  # fmt: skip
# What decides the result of ``propagate``: a subclass that changes one of these is another layer.
STEPS = ("message", "message_and_aggregate", "aggregate", "update")
# Largest difference of two entries that normalization in another precision can make; entries are at most 1.
ROUNDING = 1e-5
HALF_ROUNDING = 2e-2
# An odd number with random bits, for digests.
_ODD = -7046029254386353131
# The name that torch.compile puts between a model and its layers.
COMPILED = "_orig_mod"
ADVICE = (
    "attach other layers by themselves, or name the tensor that a layer of your own multiplies with the graph in also="
)


@dataclass(eq=False)
class Layer:
    """A layer that can be perturbed: where it stands in the model and its class, and the layer itself."""

    name: str
    module: Any
    argument: str  #: The keyword of ``propagate`` that holds the propagated tensor.
    known: bool  #: Whether its messages are known to be a_ij x_j; otherwise they are tried out in its first pass.
    normalizing: bool  #: Whether it multiplies with a normalized matrix, rather than with means, sums or attention.
    self_links: int | None  #: Weight of the self-links with which it normalizes the graph; None if it does not.
    settled: bool = False  #: Whether a difference of its matrix from the adversary's has been announced.
    digest: int | None = None  #: Of the links on which its matrix was last compared with the adversary's.
    waiting: bool = False  #: Whether the last pass was perturbed and its backward pass may be yet to come.

    def propagated(self, module: Any, given: dict[str, Any]) -> Any:
        """Return what ``propagate`` was given under the name of the propagated tensor."""
        if self.argument not in given:
            raise InputError(
                f"also must name the tensor that {self.name} gives to propagate, one of "
                f"{', '.join(map(repr, given)) or 'none'}, got {self.argument!r}."
            )
        if module._propagate_forward_pre_hooks:
            raise InputError(
                f"{self.name} has a propagate_forward_pre_hook, which may change what it propagates after the "
                "adversary has seen it; remove it, or change the input of the layer with register_forward_pre_hook."
            )
        return given[self.argument]

    def plain(self) -> None:
        """Note a pass without a perturbation; refuse it where it stands for a perturbed one."""
        if not in_backward():
            self.waiting = False
        elif self.waiting:
            raise InputError(
                f"{self.name} is recomputed (torch.utils.checkpoint) after its perturbed pass has ended; call "
                "backward() inside perturbed(…), or use average, which does so unless it keeps the passes."
            )


def find_layers(modules: Iterable[nn.Module], also: Mapping[type[Any], str]) -> list[Layer]:
    """Return all message passing layers of some modules, or raise with the names of those that do not fit."""
    layers: dict[int, Layer] = {}
    refused: list[str] = []
    for root in modules:
        if not isinstance(root, nn.Module):
            raise InputError(f"a model or layer must be a torch.nn.Module, got {type(root).__name__}.")
        for path, module in root.named_modules():
            if not isinstance(module, conv.MessagePassing) or id(module) in layers:
                continue
            path = ".".join(part for part in path.split(".") if part != COMPILED)
            name = f"{path} ({type(module).__name__})" if path else type(module).__name__
            argument, problem = _argument(module, also)
            if problem:
                refused.append(f"{name} {problem}")
            known, normalizing = original_class(module) not in also, isinstance(module, NORMALIZING)
            layers[id(module)] = Layer(name, module, argument, known, normalizing, _self_links(module))
    if refused:
        raise InputError(f"the adversary cannot enter all layers, since {', and '.join(refused)}; {ADVICE}.")
    if not layers:
        raise InputError("the model must hold a MessagePassing layer of PyTorch Geometric, got none.")
    return list(layers.values())


def _argument(module: Any, also: Mapping[type[Any], str]) -> tuple[str, str | None]:
    """Return the name of the propagated tensor and, if the layer cannot be perturbed, why."""
    kind = original_class(module)
    if kind in also:
        return also[kind], _not_linear(module)
    for base, argument in PROPAGATED.items():
        if isinstance(module, base):
            changed = [step for step in STEPS if getattr(kind, step) is not getattr(base, step)]
            if changed:
                return argument, f"overrides {changed[0]} of {base.__name__}"
            return argument, _not_linear(module)
    return "", "is not known to send messages of the form a_ij x_j"


def _not_linear(module: Any) -> str | None:
    if not isinstance(module.aggr_module, aggregations.SumAggregation | aggregations.MeanAggregation):
        return f"aggregates by {module.aggr or type(module.aggr_module).__name__}, not by sum or mean"
    if module.decomposed_layers != 1:
        return "is decomposed (decomposed_layers must be 1)"
    if isinstance(module, conv.SGConv | conv.SSGConv) and module.cached:
        return "caches propagated features (set cached=False)"
    return None


def is_product(layer: Layer, module: Any, edge_index: Any, given: dict[str, Any]) -> bool:
    """Whether ``propagate`` is linear in x, up to a constant, and a node without a self-link hears others only."""
    x, kind = given[layer.argument], original_class(module)
    if not isinstance(x, Tensor):
        return True

    def moved(change: Tensor | float) -> Tensor:
        with torch.random.fork_rng([x.device] if x.is_cuda else []):  # the same dropout each time
            out: Tensor = kind.propagate(module, edge_index, size=None, **(given | {layer.argument: change * x}))
        return out.movedim(module.node_dim, 0)

    arcs = arcs_of(module, edge_index, given)
    with torch.no_grad():
        rest = moved(0.0)
        once = moved(1.0) - rest
        rounding = 1e-2 * float(once.abs().max())
        linear = max(float((moved(factor) - rest - factor * once).abs().max()) for factor in (-1.0, 2.0)) <= rounding
        quiet = torch.ones(len(once), dtype=torch.bool, device=x.device)
        quiet[arcs.target[arcs.source == arcs.target]] = False
        if not linear or not bool(quiet.any()):
            return linear
        # From one node alone, which has the most links, nothing comes back to it.
        node = int((torch.bincount(arcs.source, minlength=len(quiet)) * quiet).argmax())
        alone = torch.zeros(len(quiet), dtype=x.dtype, device=x.device)
        alone[node] = 1.0
        heard = moved(alone.view(-1, *[1] * (x.ndim - 1)).movedim(0, module.node_dim)) - rest
        return float(heard[node].abs().max()) <= rounding


def _self_links(module: Any) -> int | None:
    if not isinstance(module, NORMALIZING) or not getattr(module, "normalize", True):
        return None
    return int(getattr(module, "add_self_loops", False)) * (2 if getattr(module, "improved", False) else 1)


def difference(layer: Layer, arcs: Arcs, adversary: CSRArray, reading: Reading, source: str) -> str | None:
    """Say in one sentence how the matrix in ``propagate`` differs from the adversary's, or None if it does not."""
    matrix, dtype = _layer_matrix(arcs, adversary.shape[0])
    other = np.setxor1d(_pairs(matrix), _pairs(adversary), assume_unique=True).size  # self-links aside
    if other:
        return (
            f"{layer.name} sends messages along other links than the adversary's graph has ({other} differ). Build the "
            "adversary from the graph that the model is given, and give parts of it to average(…, batch)."
        )
    if not layer.normalizing:
        return None
    gap = sparse.coo_array(abs(matrix - adversary))
    worst = int(np.argmax(gap.data)) if gap.nnz else -1
    rounding = HALF_ROUNDING if dtype in (torch.float16, torch.bfloat16) else ROUNDING
    if worst < 0 or gap.data[worst] <= rounding * max(1.0, float(abs(matrix).max())):
        return None
    row, column = (int(index[worst]) for index in gap.coords)
    return (
        f"{layer.name} multiplies with another matrix than the adversary, which moves the spectrum of that from "
        f"data.{source}: entry ({row}, {column}) is {matrix[row, column]:.4g}, the adversary's "
        f"{adversary[row, column]:.4g}, and its perturbed graph is in general no density matrix. "
        f"{_advice(layer.module, reading, source)}"
    )


def _advice(module: Any, reading: Reading, source: str) -> str:
    if isinstance(module, conv.APPNP) and module.dropout > 0 and module.training:
        return f"Its dropout={module.dropout:g} drops links in training, which the correction does not follow."
    if not getattr(module, "normalize", True) and reading.normalize:
        return "If data holds normalized weights, as T.GCNNorm() leaves them, build the adversary with normalize=False."
    if source in ("edge_weight", "edge_attr"):
        return f"Give data.{source} to the model, or build the adversary with weights=None."
    return "Put the weights that the model is given on data.edge_weight before the adversary is built."


class Arcs(NamedTuple):
    """Where the messages of a pass go, m of them, and their weights, None if all are 1."""

    target: Tensor
    source: Tensor
    weight: Tensor | None

    def digest(self, nodes: int) -> int:
        """Return a number that another matrix hardly has, whatever the order of its arcs."""
        word = (self.target * nodes + self.source) * _ODD
        word = word ^ (word >> 32)
        if self.weight is not None:
            bits = self.weight.detach().reshape(-1).double().view(torch.int64)
            word = word * (2 * (bits ^ (bits >> 29)) + 1)
        return int(word.sum())


def arcs_of(module: Any, edge_index: Any, given: dict[str, Any]) -> Arcs:
    """Return the links and weights that ``propagate`` was given."""
    weight = given.get("edge_weight")
    if utils.is_sparse(edge_index):
        (target, source), values = utils.to_edge_index(edge_index)  # of adj_t: a row receives
        weight = values if weight is None else weight
    else:
        source, target = _plain(edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index)
        if module.flow == "target_to_source":
            source, target = target, source
    return Arcs(target, source, None if weight is None else _plain(weight))


def _plain(tensor: Tensor) -> Tensor:
    """Return what a transform of torch.func has wrapped."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def _layer_matrix(arcs: Arcs, nodes: int) -> tuple[CSRArray, torch.dtype]:
    """Return the a with out_i = Σ_j a_ij x_j."""
    weight = torch.ones(arcs.source.numel(), dtype=torch.float64) if arcs.weight is None else arcs.weight
    values = weight.detach().double().reshape(-1).cpu().numpy()
    places = tuple(each.detach().cpu().numpy() for each in (arcs.target, arcs.source))
    matrix: CSRArray = sparse.csr_array((values, places), shape=(nodes, nodes))
    matrix.sum_duplicates()
    return matrix, weight.dtype


def pairs_of(matrix: CSRArray) -> Tensor:
    """Return i n + j for each stored entry off the diagonal, ascending."""
    return torch.from_numpy(_pairs(matrix))


def _pairs(matrix: CSRArray) -> IntArray:
    """Return i n + j for each stored entry off the diagonal."""
    coordinates = sparse.coo_array(matrix)
    rows, columns = (index.astype(np.int64) for index in coordinates.coords)
    return np.unique((rows * matrix.shape[0] + columns)[rows != columns])
