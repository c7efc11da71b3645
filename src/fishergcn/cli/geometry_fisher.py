"""``fishergcn geometry fisher``: which changes of its graph a saved model responds to most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fishergcn._base.terminal import console, table
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json

if TYPE_CHECKING:
    from fishergcn.geometry.extrinsic import AdversarialDirection, LinkSensitivity, Sharpness
    from fishergcn.models import TrainedModel

_SHOWN = 10
_COLUMNS = ("relative_eigenvalues", "divergence_foretold", "divergence", "loss_growth")


@dataclass(frozen=True)
class FisherOptions:
    """Which changes of the graph are tried."""

    rank: int | None = shared.option("Number of directions k; by default as in training.")
    kind: Literal["exact", "empirical", "monte-carlo"] = shared.option(
        "Average over all labels (exact), the true ones (empirical), or sampled ones (monte-carlo).", default="exact"
    )
    distance: float | None = shared.option("Bures distance at which to compare losses; by default as in training.")
    random: int = shared.option("How many random directions to compare with.", default=100)
    seed: int = shared.option("Seed of the random directions and sampled labels.", default=0)
    plot: shared.Plot = None
    keep: bool = shared.option(
        "Save MODEL/geometry.json, so that fishergcn report includes it.", "--keep", default=False
    )
    json: shared.Json = False


@shared.takes_options()
def fisher(folder: shared.ModelFolder, options: FisherOptions) -> None:
    """Show how strongly a model responds to changes of its graph (Fisher information)."""
    from fishergcn.drawing import check_picture, draw_fisher
    from fishergcn.geometry import extrinsic
    from fishergcn.models import load_model
    from fishergcn.perturbation import Neighborhood

    check_picture(options.plot)
    saved = load_model(folder)
    config = saved.config
    rank = config.rank if options.rank is None else options.rank
    around = Neighborhood(saved.propagation, rank=rank, radius=config.radius or 0.1)
    found = extrinsic.adversarial_direction(saved, around, options.kind, seed=options.seed)
    grown = extrinsic.sharpness(
        saved, around, options.distance, directions=found.directions, random=options.random, seed=options.seed
    )
    links = extrinsic.link_sensitivity(saved, through_normalization=not saved.method.high_order, top=_SHOWN)
    record = extrinsic.GeometryRecord.of(saved, found, grown) if options.keep or options.plot is not None else None
    if record is not None and options.plot is not None:
        draw_fisher(record).save(options.plot)
    if record is not None and options.keep:
        record.save(folder / "geometry.json")
    facts = _facts(saved, found, grown, links)
    if options.json:
        print_json(facts)
    else:
        _show(saved, facts)
        if options.plot is not None:
            console().print(f"plot: {options.plot}")
        if options.keep:
            console().print(f"saved: {folder / 'geometry.json'}")


def link_rows(links: Iterable[tuple[str, str, bool, float]]) -> list[dict[str, Any]]:
    """Return each link by the names of its ends, whether it is there, and its derivative."""
    return [{"link": [i, j], "present": is_link, "derivative": value} for i, j, is_link, value in links]


def _facts(
    saved: TrainedModel, found: AdversarialDirection, grown: Sharpness, links: LinkSensitivity
) -> dict[str, Any]:
    import numpy as np

    names = saved.node_names
    best = np.argsort(-found.node_shares, kind="stable")[:_SHOWN]
    worst = grown.random.max(axis=1)
    return {
        "fisher_eigenvalues": np.linalg.eigvalsh(found.fisher)[::-1].tolist(),
        "relative_eigenvalues": found.eigenvalues.tolist(),
        "anisotropy": found.anisotropy,
        "direction": found.direction.tolist(),
        "distance": grown.distance,
        "loss": grown.loss,
        "loss_growth": grown.adversarial.max(axis=1).tolist(),
        "loss_growth_random": np.quantile(worst, (0.05, 0.5, 0.95)).tolist() if len(worst) else [],
        "random_directions_that_hurt_less": grown.rank_of_loss if len(worst) else None,
        "divergence": grown.adversarial_change.mean(axis=1).tolist(),
        "divergence_foretold": grown.foretold.tolist(),
        "random_directions_that_change_less": grown.rank_of_change if len(worst) else None,
        "links": link_rows(links.named(names)),
        "nodes": [{"node": names[found.nodes[each]], "share": float(found.node_shares[each])} for each in best],
    }


def _show(saved: TrainedModel, facts: dict[str, Any]) -> None:
    out = console()
    rows = [
        [str(index + 1), f"{value:.4g}", f"{foretold:.4g}", f"{change:.4g}", f"{growth:+.4g}"]
        for index, (value, foretold, change, growth) in enumerate(zip(*(facts[key] for key in _COLUMNS), strict=True))
    ]
    columns = ["direction", "μ", "KL predicted", "KL measured", "growth of the loss"]
    title = f"{saved.method.name} on {saved.record.dataset}: Fisher information per squared Bures distance"
    out.print(table(title, columns, rows))
    out.print("Most adversarial direction φ: " + ", ".join(f"{each:+.3g}" for each in facts["direction"]))
    out.print(
        f"Measured at Bures distance {facts['distance']:.4g}; the loss on the original graph is {facts['loss']:.4g}."
    )
    if facts["loss_growth_random"]:
        low, middle, high = facts["loss_growth_random"]
        out.print(
            f"Random directions: the loss grows by {middle:+.3g} (5% to 95%: {low:+.3g} to {high:+.3g}); "
            f"{facts['random_directions_that_hurt_less']:.0%} hurt less than the most adversarial direction, "
            f"{facts['random_directions_that_change_less']:.0%} change the predictions less"
        )
    entry = "an entry of the propagation matrix" if saved.method.high_order else "the weight of a link"
    out.print(f"Links that matter most to the loss, with its derivative with respect to {entry}:")
    links = [[" - ".join(row["link"]), f"{row['derivative']:+.4g}"] for row in facts["links"]]
    out.print(table("", ["link", "derivative"], links))
    out.print("Nodes whose predictions change most along the first direction:")
    nodes = [[row["node"], f"{row['share']:.2%}"] for row in facts["nodes"]]
    out.print(table("", ["node", "share of μ"], nodes))
