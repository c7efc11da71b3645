"""The candidates of ``fit``: networks with their settings, preparations of the features, and what they are in words."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fishergcn._settings.choices import Scaling
from fishergcn.graph import Graph
from fishergcn.training import parse_method

Key = tuple[str, str]  # a candidate, and the words for its preparation


@dataclass(frozen=True)
class Recipe:
    """A candidate: a method with settings of its own.

    ``prepared``: it takes the preparation of the features that suits networks of its kind; otherwise ``settings`` say
    all. ``after`` names the candidate that must be the best so far before this one, which is larger, is tried; another
    one after the same candidate may be the best, too. ``like`` names a cheaper candidate that tells which of two
    preparations suits this one.
    """

    name: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    prepared: bool = True
    after: str = ""
    like: str = ""

    @property
    def kind(self) -> str:
        """What it reads: ``"features"`` alone, the ``"links"``, or ``"both"`` with weights of their own."""
        parsed = parse_method(self.method)
        own = self.settings.get("own_weights") or parsed.base in ("sage", "linear")
        return "features" if not parsed.uses_graph else "both" if own else "links"

    @property
    def trained(self) -> bool:
        """Whether there is something to train."""
        return parse_method(self.method).trained

    @property
    def linked(self) -> bool:
        """Whether the links matter."""
        return parse_method(self.method).uses_graph or bool(self.settings.get("links_as_features"))


def full_name(key: Key) -> str:
    """Return a candidate with its preparation, as it is called in files."""
    return ": ".join(each for each in key if each)


def _deep(layers: int, width: int = 128, **settings: Any) -> dict[str, Any]:
    return {"hidden": (width,) * (layers - 1), "own_weights": True, "norm": "layer", "scaling": "none", **settings}


_SHAPE = ("hidden", "own_weights", "norm", "links_as_features")  # of the network
_LONG: dict[str, Any] = {"learning_rate": 0.003, "weight_decay": 5e-5, "max_epochs": 600, "patience": 80}
_SLOW: dict[str, Any] = {"dropout": 0.2, "learning_rate": 0.002, "max_epochs": 1000, "patience": 200}
#: Among what ``fit`` chooses, cheapest first. What never won on any graph is not here: more samples, residual layers,
#: consistency without links.
CANDIDATES: tuple[Recipe, ...] = (
    Recipe("lp", "lp"),
    Recipe("linear", "linear", {"scaling": "none", "bias": True, "weight_decay": 5e-2}, prepared=False),
    Recipe("linear, by row", "linear", {"scaling": "rows", "bias": True, "weight_decay": 5e-5}, prepared=False),
    Recipe("mlp", "mlp"),
    Recipe("gcn", "gcn"),
    Recipe("sage", "sage"),
    Recipe("gcn-x3-c", "gcn-x3-c"),
    Recipe("gcn-t", "gcn-t"),
    Recipe("gcn-t-x3-c", "gcn-t-x3-c", like="gcn-x3-c"),
    Recipe("mlp, links", "mlp", {"links_as_features": True, "hidden": (256,), "scaling": "rows", "weight_decay": 5e-5},
           prepared=False),
    Recipe("gcn, links", "gcn", {"links_as_features": True}),
    Recipe("gcn, 3 layers", "gcn", _deep(3, weight_decay=5e-4), prepared=False),
    Recipe("gcn, 5 layers", "gcn", _deep(5, **_LONG), prepared=False, after="gcn, 3 layers"),
    Recipe("gcn, 3 layers, batch norm", "gcn", _deep(3, 256, norm="batch", dropout=0.7), prepared=False,
           after="gcn, 3 layers"),
    # It may do nothing for a hundred epochs before it begins to learn; with larger steps it may never begin.
    Recipe("gcn, 9 layers", "gcn", _deep(9, 64, **_LONG | _SLOW), prepared=False, after="gcn, 3 layers"),
)  # fmt: skip
#: The settings among which ``fit`` chooses for each kind of network, the usual ones first: how features are scaled,
#: whether layers have a bias, and the weight decay. Rows divided by their sum have small entries: they admit little.
PREPARATIONS: tuple[Mapping[str, Any], ...] = (
    {"scaling": "none", "bias": True, "weight_decay": 5e-4},
    {"scaling": "none", "bias": True, "weight_decay": 5e-3},
    {"scaling": "rows", "bias": True, "weight_decay": 5e-4},
    {"scaling": "columns", "bias": True, "weight_decay": 5e-3},
)


def recipes_of(methods: Sequence[str] | None, fixed: Mapping[str, Any], *, by_row: bool = True) -> tuple[Recipe, ...]:
    """Return the usual candidates, or one for each of some methods; settings that are fixed are not chosen.

    Where features cannot be divided by the sums of rows, candidates that do so take them as they are, but for one that
    is there already.
    """
    if methods is not None:
        names = dict.fromkeys(parse_method(name).name for name in methods)
        return tuple(Recipe(name, name) for name in names)
    found: dict[str, Recipe] = {}
    for each in CANDIDATES:
        if not by_row and each.settings.get("scaling") == "rows":
            if parse_method(each.method).solved:
                continue
            each = dataclasses.replace(each, settings={**each.settings, "scaling": "none"})
        settled = {name: _plain(fixed.get(name, value)) for name, value in each.settings.items()}
        # A network that is fixed to something else would be another one, which is there already.
        if all(settled[name] == _plain(each.settings[name]) for name in _SHAPE if name in settled):
            found.setdefault(json.dumps([each.method, settled]), each)
    return tuple(found.values())


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def scalings_of(graph: Graph) -> tuple[Scaling, ...]:
    """Return the scalings that make a difference on a graph.

    Rows are not divided where features are negative, and the identity matrix, which stands for missing features, is
    left as it is.
    """
    features: Any = graph.features
    values = getattr(features, "data", features)
    if features is None or np.min(values, initial=0.0) < 0:
        return ("none", "columns")
    if graph.num_features == graph.num_nodes == getattr(features, "nnz", -1) and np.all(features.diagonal() == 1):
        return ("none",)
    return ("none", "rows", "columns")


def preparations_of(graph: Graph, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the preparations to try on a graph, with the settings that are fixed.

    For numbers each is tried without dropout first: that of few features draws numbers to their mean, as a ridge does
    that does not weaken with more nodes.
    """
    known, dropouts = scalings_of(graph), [dict[str, Any]()]
    if graph.task == "regression" and "dropout" not in fixed:
        dropouts.insert(0, {"dropout": 0.0})
    found: list[dict[str, Any]] = []
    for each, more in itertools.product(PREPARATIONS, dropouts):
        settled = {name: fixed.get(name, value) for name, value in each.items()} | more
        if each["scaling"] in known and settled not in found:
            found.append(settled)
    return found


def words_for(preparation: Mapping[str, Any]) -> str:
    """Return a preparation in a few words, which tell it from the others in tables."""
    features = {"rows": "features by row", "none": "raw features", "columns": "standardized features"}
    left_out = f"{'' if preparation['bias'] else ', no bias'}{', no dropout' if 'dropout' in preparation else ''}"
    return f"{features[preparation['scaling']]}, weight decay {preparation['weight_decay']:g}{left_out}"


_NAMES = {"gcn": "graph convolutions", "linear": "linear, over two steps", "mlp": "features alone",
          "sage": "node and neighbors apart", "lp": "label propagation",
          "majority": "the most frequent class"}  # fmt: skip


def words_of(recipe: Recipe) -> str:
    """Return what a candidate is, in words for people who do not know the names of methods."""
    method = parse_method(recipe.method)
    said = [_NAMES.get(method.base, method.described.summary)]
    if method.perturbed:
        said.append("on a perturbed graph")
    if method.high_order:
        said.append("over walks of several steps")
    if method.solved and recipe.settings.get("scaling") == "rows":
        said.append("features by row")
    if recipe.settings.get("links_as_features"):
        said[0] = f"{said[0].removesuffix(' alone')} and who the neighbors are"
    if hidden := recipe.settings.get("hidden", ()):
        said += [f"{len(hidden) + 1} layers"] if len(hidden) > 1 else []
    if recipe.settings.get("own_weights"):
        said.append("own weights")
    if recipe.settings.get("norm") == "batch":
        said.append("normalized over nodes")
    if method.consistent:
        said.append("consistent on unlabeled nodes")
    elif (method.samples or 1) > 1:
        said.append(f"{method.samples} dropout samples")
    return ", ".join(said)
