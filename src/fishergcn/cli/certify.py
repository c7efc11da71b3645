"""``fishergcn certify``: which predictions of a saved model no graph nearby can change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fishergcn._base.terminal import console, note, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json

if TYPE_CHECKING:
    from fishergcn.models import TrainedModel


@dataclass(frozen=True)
class CertifyOptions:
    """Which graphs and nodes are meant, and what is written."""

    radius: list[float] | None = shared.option(
        "Bures distance up to which graphs are meant; may be repeated. By default seven, from 1/64 of the distance of "
        "the farthest graph up to that itself.",
        metavar="R",
    )
    links: list[float] | None = shared.option(
        "Reweight links by up to this many percent instead; may be repeated. For linear and gcn of one or two layers.",
        metavar="PERCENT",
    )
    own_links: bool = shared.option("With --links: only those of the node itself.", "--own-links", default=False)
    flips: list[int] | None = shared.option(
        "Flip up to this many links of every node instead; may be repeated. For lp.", metavar="NUMBER"
    )
    change: Literal["both", "remove", "add"] = shared.option("With --flips: which links.", default="both")
    part: Literal["all", "train", "val", "test"] = shared.option("Which nodes to certify.", default="all")
    rank: int | None = shared.option("Number of directions k; by default as in training.")
    bound: float = shared.option("Largest eigenvalue of the Laplacian; 0 for no bound.", default=2.0)
    rounds: int = shared.option("How often the ball is cut in two for nodes that are undecided.", default=6)
    out: Path | None = shared.option("CSV file to write, with a row for each node, at the largest radius.")
    overwrite: shared.Overwrite = False
    keep: bool = shared.option(
        "Save MODEL/certificates.json, so that fishergcn report includes it.", "--keep", default=False
    )
    json: shared.Json = False

    def check(self) -> None:
        """Raise if options do not go together."""
        from fishergcn.errors import InputError

        given = [f"--{name}" for name in ("radius", "links", "flips") if getattr(self, name)]
        if len(given) > 1:
            raise InputError(f"{given[0]} and {given[1]} cannot be used together: they mean different graphs.")
        if self.own_links and not self.links:
            raise InputError("--own-links needs --links.")
        if self.keep and (self.links or self.flips):
            raise InputError(f"--keep is for --radius: pages have no section for {given[0]}.")


@shared.takes_options()
def certify(folder: shared.ModelFolder, options: CertifyOptions) -> None:
    """Certify predictions: show how many no graph within a Bures distance can change.

    The graphs have the same eigenvectors and other eigenvalues at the top of the spectrum. "Broken" are nodes for which
    a graph was found that changes the class; "undecided" are the others. For example: fishergcn certify model --radius
    0.01. With --links the graphs have other weights of links, with --flips other links.
    """
    from fishergcn._base.files import write_text
    from fishergcn.certificates import CertifiedCurve
    from fishergcn.certificates import certify as certified
    from fishergcn.models import load_model
    from fishergcn.perturbation import Neighborhood

    if options.out is not None:
        shared.check_new_file(options.out, overwrite=options.overwrite)
    options.check()
    model = load_model(folder)
    nodes = _nodes(model, options.part)
    if options.links or options.flips:
        _of_links(model, nodes, options)
        return
    bound = None if options.bound == 0 else options.bound
    around = None
    if options.rank is not None or not options.radius:
        model.check_network(links=True, symmetric=True)
        around = Neighborhood(model.propagation, rank=options.rank or model.config.rank, radius=0.0)
    radii = (
        options.radius or [around.farthest(bound) / 2**step for step in range(6, -1, -1)] if around else options.radius
    )
    found = [
        certified(model, radius, nodes, neighborhood=around, bound=bound, rounds=options.rounds)
        for radius in sorted(set(radii or ()))
    ]
    curve = CertifiedCurve.of(f"{model.method.name} on {model.record.dataset}", found)
    if options.out is not None:
        write_text(options.out, found[-1].csv(model.node_names, model.class_names), overwrite=options.overwrite)
    if options.keep:
        curve.save(folder / "certificates.json")
    if options.json:
        print_json(curve.to_dict() | {"undecided": [each.counts()["undecided"] for each in found]})
        return
    rows = [
        [f"{each.radius:.4g}", *(f"{count:,}" for count in each.counts().values()), f"{each.certified.mean():.1%}"]
        for each in found
    ]
    heads = ["radius", "certified", "broken", "undecided", "certified share"]
    console().print(table(f"{curve.title}: {curve.nodes:,} nodes", heads, rows))
    for path in (options.out, folder / "certificates.json" if options.keep else None):
        if path is not None:
            note(f"saved: {path}")


def _of_links(model: TrainedModel, nodes: list[int] | None, options: CertifyOptions) -> None:
    """Certify over reweighted or flipped links."""
    from fishergcn._base.files import write_text
    from fishergcn.certificates import Decisions, certify_flips, certify_links

    found: dict[float, Decisions] = {}
    for percent in sorted(set(options.links or ())):
        found[percent] = certify_links(model, percent, nodes, own=options.own_links)
    for count in sorted(set(options.flips or ())):
        found[count] = certify_flips(model, count, nodes, change=options.change)
    last = list(found.values())[-1]
    if options.out is not None:
        write_text(options.out, last.csv(model.node_names, model.class_names), overwrite=options.overwrite)
    name = "percent" if options.links else "flips"
    if options.json:
        meant = {"own_links": options.own_links} if options.links else {"change": options.change}
        print_json(
            {"nodes": len(last.nodes), **meant, "rows": [{name: at, **each.counts()} for at, each in found.items()]}
        )
        return
    rows = [
        [f"{at:g}", *(f"{count:,}" for count in each.counts().values()), f"{each.certified.mean():.1%}"]
        for at, each in found.items()
    ]
    title = f"{model.method.name} on {model.record.dataset}: {len(last.nodes):,} nodes"
    heads = [
        "±% of weights" if options.links else "flips a node",
        "certified",
        "broken",
        "undecided",
        "certified share",
    ]
    console().print(table(title, heads, rows))
    if options.out is not None:
        note(f"saved: {options.out}")


def _nodes(model: TrainedModel, part: str) -> list[int] | None:
    from fishergcn.errors import InputError

    if part == "all":
        return None
    if not getattr(model, "runs", ()):
        raise InputError(f"the model does not know its {part} nodes, since an older version saved it; use --part all.")
    found: list[int] = getattr(model.runs[0].split, part).tolist()
    if not found:
        raise InputError(f"the model has no {part} nodes; use --part all.")
    return found
