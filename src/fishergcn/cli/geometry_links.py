"""``fishergcn geometry links``: which links a prediction depends on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json
from fishergcn.cli.geometry_fisher import link_rows
from fishergcn.errors import InputError, suggestion


def links(
    folder: shared.ModelFolder,
    node: Annotated[str, typer.Option(help="Id of the node.")],
    label: Annotated[
        str | None, typer.Option("--class", help="The class to explain; by default the predicted one.")
    ] = None,
    which: Annotated[
        Literal["present", "absent", "all"],
        typer.Option("--links", help="Existing links (present), pairs without a link (absent), or both (all)."),
    ] = "present",
    top: Annotated[int, typer.Option(help="How many links to list.")] = 10,
    plot: shared.Plot = None,
    json: shared.Json = False,
) -> None:
    """List the links that a node's prediction depends on most.

    Each link is shown with the derivative of the log-probability with respect to its weight or, for high-order models,
    to the pair's entry in the propagation matrix.
    """
    from fishergcn._base.checks import check_integer
    from fishergcn.drawing import check_picture, draw_links
    from fishergcn.geometry.extrinsic import node_links
    from fishergcn.models import load_model

    check_picture(plot)
    count = check_integer("--top", top, minimum=1)
    saved = load_model(folder)
    position = _position("node", node, list(saved.node_names))
    chosen = None if label is None else _position("class", label, list(saved.class_names))
    found = node_links(saved, position, chosen, which, max(count, 120))
    if plot is not None:
        draw_links(found).save(plot)
    facts: dict[str, Any] = {
        "node": node,
        "class": found.label,
        "probability": found.probability,
        "links": link_rows(found.links[:count]),
    }
    if json:
        print_json(facts)
        return
    out = console()
    rows = [
        [" - ".join(row["link"]), "yes" if row["present"] else "no", f"{row['derivative']:+.4g}"]
        for row in facts["links"]
    ]
    if not rows:
        out.print(
            f"Node {node} is {facts['class']} with probability {facts['probability']:.4f}. No such links affect it."
        )
        return
    what = "its entry of the propagation matrix" if saved.method.high_order else "its weight"
    title = f"node {node} is {facts['class']} with probability {facts['probability']:.4f}"
    out.print(table(title, ["pair", "a link", f"change of log p per unit of {what}"], rows))
    if plot is not None:
        out.print(f"plot: {plot}")


def _position(what: str, name: str, names: list[str]) -> int:
    if name in names:
        return names.index(name)
    known = f"there are {len(names)}, from {names[0]!r} to {names[-1]!r}"
    raise InputError(f"{what} {name!r} is unknown{suggestion(name, names)}; {known}.")
