"""One family of networks, which differ in their matrix P and in settings."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from torch import Tensor

from fishergcn.nn._gcn import layer_sizes, logits
from fishergcn.nn._network import Initial, Network, Parameter
from fishergcn.nn._norm import Norm

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig
    from fishergcn.nn._dropout import Dropout
    from fishergcn.nn._view import View

_OWN = 500  # the first stream of V: those before are of W


class Family(Network):
    """Networks that differ in their matrix P and in settings: a subclass needs to say no more than its texts and P.

        z = P h W + h V + b,   h' = dropout(relu(norm(z))) in each hidden layer,   logits = the last z

    W are ``weights.l``, V ``own.l``, b ``biases.l``, scale and shift of a norm ``scales.l`` and ``shifts.l``,
    and what it keeps of the nodes that it has seen ``means.l`` and ``variances.l``.

    Examples
    --------
    >>> from fishergcn import TrainConfig
    >>> class Wide(Family):
    ...     name, title, summary, matrix = "wide", "a network", "reads walks of several steps", "high-order"
    >>> list(Wide().parameters(1433, 7, TrainConfig(bias=True)))
    ['weights.0', 'weights.1', 'biases.0', 'biases.1']
    """

    def sees_itself(self, config: TrainConfig) -> bool:
        """Whether the node itself has weights V; without links that would be the same as W."""
        return config.own_weights and self.matrix != "identity"

    def needs_all_nodes(self, config: TrainConfig) -> bool:
        """Whether mean and variance over the nodes are taken."""
        return config.norm == "batch"

    def is_plain(self, config: TrainConfig) -> bool:
        """Whether a layer is P h W and no more."""
        return not (config.bias or config.norm != "none" or self.sees_itself(config))

    def parameters(self, inputs: int, classes: int, config: TrainConfig) -> dict[str, Parameter]:
        """Return W, then what the settings add."""
        sizes = layer_sizes(inputs, config.hidden, classes)
        shapes = list(enumerate(pairwise(sizes)))
        found = {f"weights.{layer}": Parameter(shape, stream=layer) for layer, shape in shapes}
        if self.sees_itself(config):
            found |= {f"own.{layer}": Parameter(shape, stream=_OWN + layer) for layer, shape in shapes}
        if config.bias:
            found |= {f"biases.{layer}": _free(size, "zeros") for layer, size in enumerate(sizes[1:])}
        if config.norm != "none":
            found |= {f"scales.{layer}": _free(size, "ones") for layer, size in enumerate(sizes[1:-1])}
            found |= {f"shifts.{layer}": _free(size, "zeros") for layer, size in enumerate(sizes[1:-1])}
        if config.norm == "batch":
            found |= {f"means.{layer}": _kept(size, "zeros") for layer, size in enumerate(sizes[1:-1])}
            found |= {f"variances.{layer}": _kept(size, "ones") for layer, size in enumerate(sizes[1:-1])}
        return found

    def logits(
        self,
        weights: Mapping[str, Tensor],
        view: View,
        config: TrainConfig,
        dropout: Dropout | None = None,
        *,
        once: bool = False,
    ) -> Tensor:
        """Run the layers that the tensors make up."""
        part = {name: by_layer(weights, name) for name in ("weights", "own", "biases")}
        norms = norms_of(weights)
        return logits(part["weights"], view, dropout, biases=part["biases"], own=part["own"], norms=norms, once=once)


def by_layer(weights: Mapping[str, Tensor], group: str) -> list[Tensor]:
    """Return the tensors of one group, ``group.0``, ``group.1``, …, as far as there are any."""
    found: list[Tensor] = []
    while (name := f"{group}.{len(found)}") in weights:
        found.append(weights[name])
    return found


def norms_of(weights: Mapping[str, Tensor]) -> list[Norm]:
    """Return the norms of the hidden layers, if there are any."""
    groups = [by_layer(weights, name) for name in ("scales", "shifts", "means", "variances")]
    return [Norm(*each) for each in zip(*filter(None, groups), strict=True)]


def _free(size: int, initial: Initial) -> Parameter:
    return Parameter((size,), decayed=False, initial=initial)


def _kept(size: int, initial: Initial) -> Parameter:
    return Parameter((size,), decayed=False, initial=initial, learned=False)
