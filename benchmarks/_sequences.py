"""Sequences of random graphs with planted changes, and the scores of other methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

#: Steps that change, as in the synthetic settings of LAD (Huang et al., KDD 2020), out of 151.
PLANTED = (16, 31, 61, 76, 91, 106, 136)
STEPS = 151
_GROUPS = (4, 10, 2)  # numbers of communities, in turn
_INSIDE, _OUTSIDE, _EVENT = 0.25, 0.05, 0.15
_WINDOWS = (5, 10)
_SINGULAR_VALUES = 6


def block_model(members: Any, outside: float, rng: np.random.Generator, inside: float = _INSIDE) -> Any:
    """Draw a graph: links are likely within a community."""
    chance = np.where(np.equal.outer(members, members), inside, outside)
    upper = np.triu(rng.random(chance.shape) < chance, 1)
    return (upper | upper.T).astype(np.float64)


def planted(setting: str, nodes: int, seed: int) -> list[Any]:
    """Return the adjacency matrices of a sequence.

    ``pure``: at every planted step the number of communities changes, and all links are drawn anew; at other steps one
    pair in a hundred is. ``redrawn``: the same, with all links drawn anew at every step. ``hybrid``: as ``redrawn``,
    but every other planted step is an event: for one step there are more links between communities. ``members``: as
    ``redrawn``, but at planted steps nodes exchange their communities, and neither degrees nor spectra change.
    """
    rng = np.random.default_rng(seed)
    turn, event = 0, True
    members = np.arange(nodes) % _GROUPS[0]
    graphs: list[Any] = []
    for step in range(STEPS):
        outside = _OUTSIDE
        if step in PLANTED:
            if setting == "hybrid" and event:
                outside = _EVENT
            elif setting == "members":
                members = rng.permutation(members)
            else:
                turn += 1
                members = np.arange(nodes) % _GROUPS[turn % len(_GROUPS)]
            event = not event
        drawn = block_model(members, outside, rng)
        if setting == "pure" and graphs and step not in PLANTED:
            kept = np.triu(rng.random((nodes, nodes)) > 0.01, 1)
            drawn = np.where(kept | kept.T, graphs[-1], drawn)
        graphs.append(drawn)
    return graphs


def degree_vectors(graphs: list[Any]) -> Any:
    return np.array([graph.sum(axis=1) for graph in graphs])


def singular_vectors(graphs: list[Any]) -> Any:
    """Return the largest singular values of each Laplacian: LAD's signature of a graph."""
    values = [scipy.linalg.eigvalsh(np.diag(graph.sum(axis=1)) - graph) for graph in graphs]
    return np.array([np.sort(np.abs(each))[::-1][:_SINGULAR_VALUES] for each in values])


def angle_scores(vectors: Any, window: int) -> Any:
    """Return 1 - cos of each vector with the principal vector of those in the window before it, as LAD does."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    scores = np.zeros(len(unit))
    for step in range(window, len(unit)):
        usual = np.linalg.svd(unit[step - window : step].T, full_matrices=False)[0][:, 0]
        scores[step] = 1 - abs(float(unit[step] @ usual))
    return scores


def window_scores(matrix: Any, window: int) -> Any:
    """Return how far each graph is from the mean of those in the window before it, from distances alone."""
    squared = matrix**2
    scores = np.zeros(len(matrix))
    for step in range(window, len(matrix)):
        before = slice(step - window, step)
        scores[step] = np.sqrt(max(0.0, squared[step, before].mean() - squared[before, before].mean() / 2))
    return scores


def rises(scores: Any) -> Any:
    """Return how much a score rises at every step, the larger of two windows; 0 in the first ten steps."""
    found = [np.maximum(np.diff(scores(window), prepend=0.0), 0.0) for window in _WINDOWS]
    best = np.max(np.nan_to_num(found), axis=0)
    best[: max(_WINDOWS)] = 0.0
    return best
