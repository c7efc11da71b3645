"""Which layers of PyTorch Geometric multiply node features with a graph, and under which name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from fishergcn._base.imports import require
from fishergcn.errors import InputError
from fishergcn.integrations.pyg._entry import in_backward, original_class

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
        _check_relations(root)
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


def _check_relations(root: nn.Module) -> None:
    """Raise if a model has a layer for each of several kinds of links, as HeteroConv and ``to_hetero`` make it."""
    for path, module in root.named_modules():
        if not isinstance(module, nn.ModuleDict):
            continue
        layers = [key for key, each in module._modules.items() if isinstance(each, conv.MessagePassing)]
        relations = [key.strip("<>").replace("___", "__").split("__") for key in layers]
        if len(relations) > 1 and all(len(each) >= 3 for each in relations):
            raise InputError(
                f"{path} has a layer for each of {len(relations)} relations, which have different links; attach an "
                "adversary of its own to the layer of each relation within one type of nodes, built from a Data with "
                "its edge_index, or convert the data with to_homogeneous()."
            )


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


def _self_links(module: Any) -> int | None:
    if not isinstance(module, NORMALIZING) or not getattr(module, "normalize", True):
        return None
    return int(getattr(module, "add_self_loops", False)) * (2 if getattr(module, "improved", False) else 1)
