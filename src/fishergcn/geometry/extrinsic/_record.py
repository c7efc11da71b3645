"""What is kept of a model's geometry: plain numbers, from which pictures are drawn without the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn._base.checks import check_integer, check_real, check_text
from fishergcn._base.records import load_record, save_record
from fishergcn._base.reprs import one_line
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic._direction import AdversarialDirection, Sharpness
from fishergcn.geometry.extrinsic._sensitivity import Links, link_sensitivity
from fishergcn.models import TrainedModel

_FORMAT, _VERSION = "fishergcn-geometry", 1


@dataclass(frozen=True)
class NodeLinks:
    """The links on which the prediction at one node depends; see :func:`node_links`."""

    node: str
    label: str
    probability: float
    links: tuple[tuple[str, str, bool, float], ...]
    classes: Mapping[str, int]

    __repr__ = one_line

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> NodeLinks:
        """Undo :func:`dataclasses.asdict`, of values that may come from anywhere."""
        classes = {
            check_text("a node", name): check_integer("a class", each) for name, each in values["classes"].items()
        }

        def node(name: Any) -> str:
            if name not in classes:
                raise InputError(f"each node must have a class, got none for {name!r:.80}.")
            return str(name)

        return cls(
            node(values["node"]),
            check_text("label", values["label"]),
            check_real("probability", values["probability"], minimum=0, maximum=1),
            tuple(
                (node(i), node(j), bool(is_link), check_real("derivative", value))
                for i, j, is_link, value in values["links"]
            ),
            classes,
        )


def node_links(
    model: TrainedModel, node: int, label: int | None = None, links: Links = "present", top: int = 120
) -> NodeLinks:
    """Return the links, at most ``top``, on which log p of a class (the predicted one unless given) at a node depends.

    They are (node, other node, whether it is a link of the graph, derivative of log p in its weight), strongest first;
    ``classes`` has the predicted class of all these nodes.
    """
    check_integer("node", node, minimum=0, maximum=model.graph.num_nodes - 1)
    probabilities = model.probabilities()
    chosen = int(probabilities[node].argmax()) if label is None else label
    raw = not model.method.high_order
    found = link_sensitivity(model, through_normalization=raw, links=links, top=top, score_of=(node, chosen))
    names = model.node_names
    felt = tuple(link for link in found.named(names) if link[3] != 0)
    near = {names[node], *(end for link in felt for end in link[:2])}
    predicted = zip(names, probabilities.argmax(axis=1).tolist(), strict=True)
    return NodeLinks(
        node=names[node],
        label=model.class_names[chosen],
        probability=float(probabilities[node, chosen]),
        links=felt,
        classes={name: label for name, label in predicted if name in near},
    )


@dataclass(frozen=True)
class GeometryRecord:
    """How a trained network responds to changes of its graph, in plain numbers.

    ``title`` says which network on which graph; ``eigenvalues`` μ and the first ``direction`` are those of
    :func:`adversarial_direction`. At ``distance`` D_B, not squared, the loss grows by ``growth`` at the worse end of
    each direction, and by ``random_growth`` of random ones. ``links`` are those of the node that contributes most to
    μ_1.

    Examples
    --------
    >>> links = NodeLinks("a", "red", 0.9, (("a", "b", True, -0.25),), {"a": 0, "b": 1})
    >>> record = GeometryRecord("gcn on mine", (2.0, 1.0), (0.5, 0.1, -0.6), 0.01, (0.2, 0.1), (0.05,), links)
    >>> GeometryRecord.from_dict(record.to_dict()) == record
    True
    """

    title: str
    eigenvalues: tuple[float, ...]
    direction: tuple[float, ...]
    distance: float
    growth: tuple[float, ...]
    random_growth: tuple[float, ...]
    links: NodeLinks

    __repr__ = one_line

    @classmethod
    def of(cls, model: TrainedModel, found: AdversarialDirection, grown: Sharpness) -> GeometryRecord:
        """Return the record of what was found about a model."""
        return cls(
            title=f"{model.method.name} on {model.record.dataset}",
            eigenvalues=tuple(found.eigenvalues.tolist()),
            direction=tuple(found.direction.tolist()),
            distance=grown.distance,
            growth=tuple(grown.adversarial.max(axis=1).tolist()),
            random_growth=tuple(grown.random.max(axis=1).tolist()),
            links=node_links(model, int(found.nodes[np.argmax(found.node_shares)])),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"format": _FORMAT, "version": _VERSION, **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GeometryRecord:
        """Undo :meth:`to_dict`; raise if something is missing or no number."""
        if (values["format"], values["version"]) != (_FORMAT, _VERSION):
            raise InputError(f"the format must be {_FORMAT!r} of version {_VERSION}.")
        made = cls(
            check_text("title", values["title"]),
            _numbers("eigenvalues", values),
            _numbers("direction", values),
            check_real("distance", values["distance"], above=0),
            _numbers("growth", values),
            _numbers("random_growth", values),
            NodeLinks.from_dict(values["links"]),
        )
        if not made.eigenvalues or len(made.growth) != len(made.eigenvalues):
            raise InputError("there must be one growth for each eigenvalue, and at least one of them.")
        return made

    def save(self, path: Path) -> None:
        """Write a JSON file, wholly or not at all; a link of that name is refused."""
        save_record(path, self.to_dict())

    @classmethod
    def load(cls, path: Path) -> GeometryRecord:
        """Read what :meth:`save` wrote; anything else is refused with one sentence."""
        return load_record(path, cls.from_dict, "the geometry of a model")


def _numbers(name: str, values: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(check_real(name, value) for value in values[name])
