"""``fishergcn geometry edges``: which links one prediction hangs on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fishergcn.cli._common import check_picture, console, print_json, save_picture, table
from fishergcn.cli.geometry_fisher import link_rows
from fishergcn.errors import InputError, suggestion

if TYPE_CHECKING:
    from fishergcn.geometry.extrinsic import LinkSensitivity
    from fishergcn.models import TrainedModel

__all__ = ["edges"]

# More links than this make a picture that nobody can read.
_DRAWN = 120


def edges(
    folder: Annotated[Path, typer.Argument(help="A model folder, as written by fishergcn train --out.")],
    node: Annotated[str, typer.Option(help="The id of the node whose prediction is asked about.")],
    label: Annotated[
        str | None, typer.Option("--class", help="The class whose probability is asked about; the predicted one.")
    ] = None,
    links: Annotated[
        Literal["present", "absent", "all"],
        typer.Option(help="present: links of the graph; absent: pairs that are not linked; all: both."),
    ] = "present",
    top: Annotated[int, typer.Option(help="How many links to list.")] = 10,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the links around the node to this file (.png, .svg, .pdf).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
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
    names = list(saved.node_names)
    position = _position("node", node, names)
    probabilities = saved.probabilities()
    chosen = int(probabilities[position].argmax())
    if label is not None:
        chosen = _position("class", label, list(saved.class_names))
    found = _sensitivity(saved, position, chosen, links, max(count, _DRAWN))
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


def _sensitivity(
    saved: TrainedModel, node: int, label: int, links: Literal["present", "absent", "all"], count: int
) -> LinkSensitivity:
    """Return the links that matter at all, at most ``count``."""
    from fishergcn.geometry.extrinsic import LinkSensitivity, link_sensitivity

    found = link_sensitivity(
        saved,
        through_normalization=not saved.method.high_order,
        links=links,
        top=count,
        score_of=(node, label),
    )
    kept = found.values != 0
    return LinkSensitivity(found.links[kept], found.values[kept], found.present[kept])


def _position(what: str, name: str, names: list[str]) -> int:
    if name in names:
        return names.index(name)
    known = f"there are {len(names)}, from {names[0]!r} to {names[-1]!r}"
    raise InputError(f"{what} {name!r} is unknown{suggestion(name, names)}; {known}.")
