"""Pictures of what the saved models beside the runs feel of their graph."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

from fishergcn._base.files import write_text
from fishergcn._base.imports import require
from fishergcn.errors import DataFileError
from fishergcn.models import TrainedModel, load_models

__all__ = ["draw_models"]

_LINKS = 120  # more make a picture that nobody can read

_FISHER = (
    "Left: how strongly the predictions react to a small move of the graph along each direction, per squared Bures "
    "distance. Middle: the move they react to most. Right: how much the loss grows along it (line) and along random "
    "moves of the same length (bars)."
)
_NODE = (
    "The links around the node that contributes most to that reaction. Blue: more weight on this link would make the "
    "model surer of its prediction there; red: less sure. Nodes are colored by predicted class."
)


def draw_models(folder: Path, figures: Path) -> None:
    """Draw two pictures for every model folder in ``folder`` (or for itself), as ``geometry-NAME-*.svg``."""
    for place, saved in load_models(folder).items():
        name = "" if place == folder else f"{place.name}-"
        title = f"{saved.method.name} on {saved.record.dataset}"
        fisher, links = _pictures(saved, title)
        _write(figures / f"geometry-{name}fisher", fisher, f"What {title} feels of its graph", _FISHER)
        _write(figures / f"geometry-{name}links", links, f"The links that matter to {title}", _NODE)


def _pictures(saved: TrainedModel, title: str) -> tuple[str, str]:
    from fishergcn.drawing import fisher_figure, links_figure
    from fishergcn.geometry import extrinsic
    from fishergcn.perturbation import Neighborhood

    around = Neighborhood(saved.propagation, rank=saved.config.rank, radius=saved.config.radius or 0.1)
    found = extrinsic.adversarial_direction(saved, around)
    grown = extrinsic.sharpness(saved, around, directions=found.directions, random=100)
    node = int(found.nodes[np.argmax(found.node_shares)])
    probabilities = saved.probabilities()
    label = int(probabilities[node].argmax())
    links = extrinsic.link_sensitivity(
        saved, through_normalization=not saved.method.high_order, top=_LINKS, score_of=(node, label)
    )
    names = list(saved.node_names)
    heading = f"node {names[node]}: {saved.class_names[label]} ({probabilities[node, label]:.1%})"
    classes = probabilities.argmax(axis=1)
    return _svg(fisher_figure(found, grown, title)), _svg(links_figure(links, node, classes, names, heading))


def _svg(figure: object) -> str:
    matplotlib = require("matplotlib", extra="report", purpose="A picture")
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "fishergcn"}):  # equal pictures, equal bytes
        figure.savefig(buffer, format="svg", metadata={"Date": None})  # type: ignore[attr-defined]
    return buffer.getvalue()


def _write(stem: Path, svg: str, title: str, caption: str) -> None:
    try:
        stem.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise DataFileError(f"Cannot write {stem.parent}: {error.strerror}.") from error
    write_text(stem.with_suffix(".svg"), svg)
    write_text(stem.with_suffix(".json"), json.dumps({"title": title, "caption": caption}))
