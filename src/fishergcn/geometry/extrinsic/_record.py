"""What is kept of a model's geometry: plain numbers, from which pictures are drawn without the model."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn._base.checks import check_integer, check_real, check_text
from fishergcn._base.files import write_text
from fishergcn._base.json import parse_json
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.geometry.extrinsic._direction import AdversarialDirection
from fishergcn.geometry.extrinsic._sensitivity import Links, link_sensitivity
from fishergcn.geometry.extrinsic._sharpness import Sharpness
from fishergcn.models import TrainedModel

__all__ = ["GeometryRecord", "NodeLinks", "node_links"]

_FORMAT, _VERSION = "fishergcn-geometry", 1


@dataclass(frozen=True)
class NodeLinks:
    """The links on which the prediction at one node depends.

    Attributes
    ----------
    label, probability
        The class asked about, and log p of which is differentiated: its name and p.
    names, classes
        Of the node itself, which comes first, and of the others at the ends of its links: name and predicted class.
    links, derivatives, present
        Pairs of positions in ``names``, the derivative of log p in the weight of each, and whether it is a link
        of the graph; the largest derivative first.

    Examples
    --------
    >>> found = NodeLinks("red", 0.9, ("a", "b"), (0, 1), ((0, 1),), (-0.25,), (True,))
    >>> found.node, found.rows()
    ('a', [{'link': ['a', 'b'], 'present': True, 'derivative': -0.25}])
    """

    label: str
    probability: float
    names: tuple[str, ...]
    classes: tuple[int, ...]
    links: tuple[tuple[int, int], ...]
    derivatives: tuple[float, ...]
    present: tuple[bool, ...]

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.names[0]

    def rows(self) -> list[dict[str, Any]]:
        """Return each link by the names of its ends, whether it is there, and its derivative."""
        return [
            {"link": [self.names[i], self.names[j]], "present": present, "derivative": derivative}
            for (i, j), present, derivative in zip(self.links, self.present, self.derivatives, strict=True)
        ]

    def top(self, count: int) -> NodeLinks:
        """Return the first links alone; the nodes stay."""
        parts = {name: getattr(self, name)[:count] for name in ("links", "derivatives", "present")}
        return dataclasses.replace(self, **parts)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> NodeLinks:
        """Undo :func:`dataclasses.asdict`, with suspicion."""
        names = tuple(check_text("a name", name) for name in values["names"])

        def end(value: Any) -> int:
            return check_integer("the end of a link", value, minimum=0, maximum=len(names) - 1)

        made = cls(
            check_text("label", values["label"]),
            check_real("probability", values["probability"], minimum=0, maximum=1),
            names,
            tuple(check_integer("a class", each, minimum=0) for each in values["classes"]),
            tuple((end(i), end(j)) for i, j in values["links"]),
            _numbers("derivatives", values),
            tuple(map(bool, values["present"])),
        )
        if not 0 < len(names) == len(made.classes):
            raise InputError("there must be a class for each name, and at least one of them.")
        if not len(made.links) == len(made.derivatives) == len(made.present):
            raise InputError("links, derivatives and present must be equally many.")
        return made


def node_links(
    model: TrainedModel, node: int, label: int | None = None, links: Links = "present", top: int = 120
) -> NodeLinks:
    """Return the links that the prediction at a node depends on at all, strongest first.

    Parameters
    ----------
    model
        With its graph.
    node
        Its position in the graph.
    label
        The class whose log-probability is asked about; by default the predicted one.
    links
        ``"present"``: links of the graph; ``"absent"``: pairs that are not linked; ``"all"``: both.
    top
        How many at most.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> [record] = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=5), keep_weights=True)
    >>> found = node_links(fishergcn.TrainedModel.from_records(graph, record, split), 1, top=2)
    >>> found.node, len(found.links)
    ('1', 2)
    """
    probabilities = model.probabilities()
    chosen = int(probabilities[node].argmax()) if label is None else label
    raw = not model.method.high_order
    found = link_sensitivity(model, through_normalization=raw, links=links, top=top, score_of=(node, chosen))
    kept = found.values != 0
    pairs = found.links[kept]
    nodes = list(dict.fromkeys([node, *pairs.ravel().tolist()]))
    place = {each: position for position, each in enumerate(nodes)}
    return NodeLinks(
        label=model.class_names[chosen],
        probability=float(probabilities[node, chosen]),
        names=tuple(model.node_names[each] for each in nodes),
        classes=tuple(probabilities[nodes].argmax(axis=1).tolist()),
        links=tuple((place[i], place[j]) for i, j in pairs.tolist()),
        derivatives=tuple(found.values[kept].tolist()),
        present=tuple(found.present[kept].tolist()),
    )


@dataclass(frozen=True)
class GeometryRecord:
    """What a trained network feels when its graph moves, in plain numbers.

    Attributes
    ----------
    title
        Which network on which graph.
    eigenvalues, direction
        μ and the first direction of :class:`AdversarialDirection`.
    distance
        D_B at which losses were compared, not squared.
    growth, random_growth
        How much the loss grows at the worse end of each direction of ``eigenvalues``, and of random ones.
    links
        Of the node that contributes most to μ_1.

    Examples
    --------
    >>> links = NodeLinks("red", 0.9, ("a", "b"), (0, 1), ((0, 1),), (-0.25,), (True,))
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
        """Write a JSON file, wholly or not at all."""
        write_text(path, json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> GeometryRecord:
        """Read what :meth:`save` wrote; anything else is refused with one sentence."""
        try:
            return cls.from_dict(parse_json(path.read_text(encoding="utf-8")))
        except InputError as error:
            raise DataFileError(f"{path}: {error}") from None
        except KeyError as error:
            raise DataFileError(f"{path}: the entry {error} is missing.") from None
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise DataFileError(f"{path} cannot be read as the geometry of a model ({reason(error)}).") from error


def _numbers(name: str, values: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(check_real(name, value) for value in values[name])
