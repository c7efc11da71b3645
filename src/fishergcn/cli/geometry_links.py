"""``fishergcn geometry links``: which links one prediction hangs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import check_picture, print_json, save_picture
from fishergcn.cli.geometry_fisher import link_rows, node_names
from fishergcn.errors import InputError, suggestion

if TYPE_CHECKING:
    from fishergcn.geometry.extrinsic import EdgeSensitivity
    from fishergcn.models import SavedModel

__all__ = ["links"]

# More links than this make a picture that nobody can read.
_DRAWN = 120


def links(
    folder: shared.ModelFolder,
    node: Annotated[str, typer.Option(help="The id of the node whose prediction is asked about.")],
    label: Annotated[
        str | None,
        typer.Option("--class", help="The class that is asked about; by default the predicted one."),
    ] = None,
    which: Annotated[
        Literal["present", "absent", "all"],
        typer.Option("--links", help="present: links of the graph; absent: pairs that are not linked; all: both."),
    ] = "present",
    top: Annotated[int, typer.Option(help="How many links to list.")] = 10,
    plot: shared.Plot = None,
    json: shared.Json = False,
) -> None:
    """List the links on which the prediction at a node depends most.

    Each with the derivative of the log-probability: in the weight of the link, or, for high-order models, in the entry
    that the pair has in the propagation matrix.
    """
    from fishergcn._base.checks import check_integer
    from fishergcn.models import load_model

    check_picture(plot)
    count = check_integer("--top", top, minimum=1)
    saved = load_model(folder)
    names = node_names(saved)
    position = _position("node", node, names)
    probabilities = saved.probabilities()
    chosen = int(probabilities[position].argmax())
    if label is not None:
        chosen = _position("class", label, list(saved.class_names))
    found = _sensitivity(saved, position, chosen, which, max(count, _DRAWN))
    facts: dict[str, Any] = {
        "node": node,
        "class": saved.class_names[chosen],
        "probability": float(probabilities[position, chosen]),
        "links": link_rows(found.top(count), names),
    }
    if plot is not None:
        from fishergcn.drawing import links_figure

        title = f"node {node}: {facts['class']} ({facts['probability']:.1%})"
        classes = probabilities.argmax(axis=1)
        save_picture(links_figure(found.top(_DRAWN), position, classes, names, title), plot)
    if json:
        print_json(facts)
        return
    out = console()
    rows = [
        [" - ".join(row["link"]), "yes" if row["present"] else "no", f"{row['derivative']:+.4g}"]
        for row in facts["links"]
    ]
    what = "its entry of the propagation matrix" if saved.method.high_order else "its weight"
    title = f"node {node} is {facts['class']} with probability {facts['probability']:.4f}"
    out.print(table(title, ["pair", "a link", f"change of log p per unit of {what}"], rows))
    if plot is not None:
        out.print(f"picture: {plot}")


def _sensitivity(saved: SavedModel, node: int, label: int, links: str, count: int) -> EdgeSensitivity:
    """Return the links that matter at all, at most ``count``."""
    from fishergcn.geometry.extrinsic import EdgeSensitivity, edge_sensitivity

    found = edge_sensitivity(
        saved.model,
        saved.graph,
        through_normalization=not saved.method.high_order,
        links=links,
        top=count,
        score_of=(node, label),
        propagation=saved.propagation,
        normalize_features=saved.config.normalize_features,
    )
    kept = found.values != 0
    return EdgeSensitivity(found.links[kept], found.values[kept], found.present[kept])


def _position(what: str, name: str, names: list[str]) -> int:
    if name in names:
        return names.index(name)
    known = f"there are {len(names)}, from {names[0]!r} to {names[-1]!r}"
    raise InputError(f"{what} {name!r} is unknown{suggestion(name, names)}; {known}.")
