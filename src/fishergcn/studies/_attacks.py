"""The attacks that a study can measure: what each is set by, what it is called, and which graphs admit it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from scipy import sparse

from fishergcn._base.checks import check_choice, check_real
from fishergcn._base.entries import Entries
from fishergcn._base.imports import require
from fishergcn.attacks import check_noise, count_links
from fishergcn.errors import FisherGCNError, InputError
from fishergcn.graph import Graph, largest_component

Attack = Literal["links-added", "links-removed", "bures-ball", "prbcd", "features", "training-links"]

# In the order of tables and figures.
ATTACKS: tuple[Attack, ...] = get_args(Attack)
_TITLES: dict[str, str] = {
    "links-added": "random links added",
    "links-removed": "random links removed",
    "bures-ball": "worst graph in a Bures ball",
    "prbcd": "links flipped by PRBCD",
    "features": "feature entries replaced",
    "training-links": "links added before training",
}
# What the levels of each attack are shares of; for the Bures ball the unit on an axis.
UNITS: dict[str, str] = {
    **dict.fromkeys(ATTACKS, "share of the links"),
    "bures-ball": "Bures distance",
    "features": "share of the entries",
}
SPECTRAL_BOUND = 2
# What each attack is set by besides its levels, whole numbers all, and the least that is allowed. The bound of the ball
# is that of λ_max(L), 2 for normalized graphs; 0, as in studies of earlier versions, is none.
_SETTINGS: dict[str, dict[str, int]] = {
    "links-added": {"draws": 1},
    "links-removed": {"draws": 1},
    "bures-ball": {"rank": 1, "restarts": 1, "steps": 0, "bound": 0},
    "prbcd": {"runs": 1, "steps": 1, "block": 1},
    "features": {"draws": 1},
    "training-links": {},
}


def check_attacks(attacks: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the attacks of a preset in their order, each with its levels and settings, or raise."""
    for name in attacks:
        check_choice("attack", name, ATTACKS)
    return {name: _checked(name, attacks[name]) for name in ATTACKS if name in attacks}


def _checked(name: str, values: Any) -> dict[str, Any]:
    least = _SETTINGS[name]
    table = Entries(values, f"attack {name}", {"levels", *least})
    given = table.values.get("levels")
    levels = [check_real(f"level of {name}", each, above=0.0, maximum=1.0) for each in given or ()]
    if not levels or levels != sorted(set(levels)):
        raise InputError(f"levels of {name} must ascend, at least one, got {given!r}.")
    usual = {"bound": SPECTRAL_BOUND}
    settings = {
        key: table.whole(key, usual[key], minimum=bound) if key in usual else table.whole(key, minimum=bound)
        for key, bound in least.items()
    }
    return {"levels": tuple(levels), **settings}


def title_of(options: Mapping[str, Any]) -> str:
    """Return an attack in words; without the spectral bound a ball holds operators that are unlike those of graphs."""
    if options["attack"] == "bures-ball" and not options.get("bound", 0):
        return "worst operator in a Bures ball"
    return _TITLES[options["attack"]]


def attack_options(attacks: Mapping[str, Mapping[str, Any]], only: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Yield the options of every cell: an attack with its settings at level 0, then at each of its levels."""
    for name in only or ():
        check_choice("attack", name, tuple(attacks))
    for name, values in attacks.items():
        if only is None or name in only:
            settings = {key: value for key, value in values.items() if key != "levels"}
            yield from ({"attack": name, "level": level, **settings} for level in (0.0, *values["levels"]))


def check_feasible(options: Sequence[Mapping[str, Any]], graph: Graph) -> None:
    """Raise if an attack cannot be done on a graph; the message names the attacks that can."""
    hardest = {each["attack"]: each for each in options}  # levels ascend
    obstacles = {attack: _obstacle(attack, each, graph) for attack, each in hardest.items()}
    broken = {attack: why for attack, why in obstacles.items() if why}
    if not broken:
        return
    reasons = "; ".join(
        f"{attack} cannot be measured on {graph.name or 'this graph'}: {why}" for attack, why in broken.items()
    )
    rest = " --attack ".join(attack for attack in obstacles if attack not in broken)
    way = f"run without {'it' if len(broken) == 1 else 'them'}: --attack {rest}"
    raise InputError(f"{reasons}; {way if rest else 'choose other attacks with --attack.'}")


def _obstacle(attack: str, options: Mapping[str, Any], graph: Graph) -> str:
    """Return why an attack cannot be done, or nothing."""
    links, nodes = count_links(graph.adjacency), graph.num_nodes
    count, pairs = round(options["level"] * links), nodes * (nodes - 1) // 2
    if attack in ("links-added", "training-links") and count > pairs - links:
        return f"{count:,} links would be added, and {pairs - links:,} pairs of nodes are free"
    if attack == "bures-ball":
        rank, most = options["rank"], min(int(largest_component(graph.adjacency).sum()), nodes - 1)
        return f"the ball has {rank} directions, and the largest component has room for {most}" if rank > most else ""
    try:
        if attack == "features" and graph.features is not None:
            check_noise(graph.features)
        if attack == "prbcd":
            return _prbcd_obstacle(graph, count, pairs)
    except FisherGCNError as error:
        return str(error).rstrip(".")
    return ""


def _prbcd_obstacle(graph: Graph, budget: int, pairs: int) -> str:
    if (sparse.triu(graph.adjacency, 1).data != 1.0).any():
        return "its links must have weight 1, got other weights"
    if budget > pairs // 2:
        return f"{budget:,} links would be flipped, more than half of the {pairs:,} pairs of nodes"
    with warnings.catch_warnings():  # it says on import that it is experimental
        warnings.simplefilter("ignore", UserWarning)
        require("torch_geometric.contrib.nn.models", extra="pyg", purpose="the PRBCD attack")
    return ""
