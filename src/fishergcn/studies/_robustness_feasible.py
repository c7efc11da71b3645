"""Which attacks a graph admits: asked before anything is trained."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from fishergcn import splits
from fishergcn._base.imports import require
from fishergcn.attacks import check_noise, count_links
from fishergcn.errors import FisherGCNError, InputError
from fishergcn.graph import Graph
from fishergcn.studies._robustness_settings import FIRST_SEED, Settings
from fishergcn.training import Run

__all__ = ["check_attacks", "check_study"]


def check_study(settings: Settings, graph: Graph) -> tuple[Run, ...]:
    """Return the runs of a study, or raise if it cannot be done on a graph; nothing is trained for that.

    Examples
    --------
    >>> import fishergcn
    >>> from fishergcn.studies import load_settings
    >>> [run.split.name for run in check_study(load_settings("quick"), fishergcn.datasets.load("cora"))]
    ['shuffled:2019', 'shuffled:2020', 'shuffled:2021']
    """
    check_attacks(settings, graph)
    text = settings.splits.strip()
    if text.isdigit() and int(text) > 0:
        names = [f"shuffled:{FIRST_SEED + index}" for index in range(int(text))]
    else:
        names = [name.strip() for name in text.split(",")]
    chosen = [splits.parse(graph, name) for name in names]
    if any(len(split.test) == 0 for split in chosen):
        raise InputError("a study of robustness needs test nodes in every split.")
    seeds = range(FIRST_SEED, FIRST_SEED + settings.seeds)
    return tuple(Run(split, seed) for split in chosen for seed in seeds)


def check_attacks(settings: Settings, graph: Graph) -> None:
    """Raise if an attack of a study cannot be done on a graph; the message names the attacks that can.

    Examples
    --------
    >>> from fishergcn.studies import load_settings
    >>> weighted = Graph(np.array([[0.0, 2.0], [2.0, 0.0]]), np.eye(2), [0, 1], name="pair")
    >>> check_attacks(load_settings("quick").only(("prbcd", "links-removed")), weighted)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    fishergcn.errors.InputError: prbcd cannot be measured on pair: ... without it: --attack links-removed
    """
    obstacles = {attack: _obstacle(attack, settings, graph) for attack in settings.levels}
    broken = {attack: why for attack, why in obstacles.items() if why}
    if not broken:
        return
    reasons = "; ".join(
        f"{attack} cannot be measured on {graph.name or 'this graph'}: {why}" for attack, why in broken.items()
    )
    rest = " --attack ".join(attack for attack in obstacles if attack not in broken)
    way = f"go on without {'it' if len(broken) == 1 else 'them'}: --attack {rest}"
    raise InputError(f"{reasons}; {way if rest else 'choose other attacks with --attack.'}")


def _obstacle(attack: str, settings: Settings, graph: Graph) -> str:
    """Return why an attack cannot be done, or nothing."""
    links, nodes = count_links(graph.adjacency), graph.num_nodes
    count, pairs = round(max(settings.levels[attack]) * links), nodes * (nodes - 1) // 2
    if attack in ("links-added", "training-links") and count > pairs - links:
        return f"{count:,} links would be added, and {pairs - links:,} pairs of nodes are free"
    if attack == "bures-ball":
        return _ball_obstacle(settings.ball_rank, graph)
    try:
        if attack == "features" and graph.features is not None:
            check_noise(graph.features)
        if attack == "prbcd":
            return _prbcd_obstacle(graph, count, pairs)
    except FisherGCNError as error:
        return str(error).rstrip(".")
    return ""


def _ball_obstacle(rank: int, graph: Graph) -> str:
    _, component = csgraph.connected_components(graph.adjacency, directed=False)
    largest = int(np.bincount(component).max())
    most = min(largest, graph.num_nodes - 1)
    return f"the ball has {rank} directions, and the largest component has room for {most}" if rank > most else ""


def _prbcd_obstacle(graph: Graph, budget: int, pairs: int) -> str:
    if (sparse.triu(graph.adjacency, 1).data != 1.0).any():
        return "its links must have weight 1, got other weights"
    if budget > pairs // 2:
        return f"{budget:,} links would be flipped, more than half of the {pairs:,} pairs of nodes"
    with warnings.catch_warnings():  # it says on import that it is experimental
        warnings.simplefilter("ignore", UserWarning)
        require("torch_geometric.contrib.nn.models", extra="pyg", purpose="the PRBCD attack")
    return ""
