"""``fishergcn geometry links``: which links a prediction depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json
from fishergcn.cli.geometry_fisher import link_rows
from fishergcn.errors import InputError, suggestion


@dataclass(frozen=True)
class LinksOptions:
    """Which links of which node are listed."""

    node: str = shared.option("Id of the node.", default=shared.REQUIRED)
    label: str | None = shared.option("The class to explain; by default the predicted one.", "--class")
    which: Literal["present", "absent", "all"] = shared.option(
        "Existing links (present), pairs without a link (absent), or both (all).", "--links", default="present"
    )
    top: int = shared.option("How many links to list.", default=10)
    plot: shared.Plot = None
    json: shared.Json = False


@shared.takes_options()
def links(folder: shared.ModelFolder, options: LinksOptions) -> None:
    """List the links that a node's prediction depends on most.

    Each link is shown with the derivative of the log-probability with respect to its weight or, for high-order models,
    to the pair's entry in the propagation matrix.
    """
    from fishergcn._base.checks import check_integer
    from fishergcn.drawing import check_picture, draw_links
    from fishergcn.geometry.extrinsic import node_links
    from fishergcn.models import load_model

    check_picture(options.plot)
    count = check_integer("--top", options.top, minimum=1)
    saved = load_model(folder)
    position = _position("node", options.node, list(saved.node_names))
    chosen = None if options.label is None else _position("class", options.label, list(saved.class_names))
    found = node_links(saved, position, chosen, options.which, max(count, 120))
    if options.plot is not None:
        draw_links(found).save(options.plot)
    facts: dict[str, Any] = {
        "node": options.node,
        "class": found.label,
        "probability": found.probability,
        "links": link_rows(found.links[:count]),
    }
    if options.json:
        print_json(facts)
        return
    out = console()
    rows = [
        [" - ".join(row["link"]), "yes" if row["present"] else "no", f"{row['derivative']:+.4g}"]
        for row in facts["links"]
    ]
    title = f"node {options.node} is {facts['class']} with probability {facts['probability']:.4f}"
    if not rows:
        out.print(f"N{title[1:]}. No such links affect it.")
        return
    what = "its entry of the propagation matrix" if saved.method.high_order else "its weight"
    out.print(table(title, ["pair", "a link", f"change of log p per unit of {what}"], rows))
    if options.plot is not None:
        out.print(f"plot: {options.plot}")


def _position(what: str, name: str, names: list[str]) -> int:
    if name in names:
        return names.index(name)
    known = f"there are {len(names)}, from {names[0]!r} to {names[-1]!r}"
    raise InputError(f"{what} {name!r} is unknown{suggestion(name, names)}; {known}.")
