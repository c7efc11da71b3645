"""Groups of graphs that are close to each other: around graphs of their own, or around their Bures means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.optimize import linear_sum_assignment

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.reprs import one_line
from fishergcn._base.types import FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._laplacian import Local
from fishergcn.geometry.statistics._collection import Graphs, as_collection
from fishergcn.geometry.statistics._densities import Geometry, densities_of
from fishergcn.geometry.statistics._mean import barycenter, overlaps, roots_of
from fishergcn.geometry.statistics._pairwise import Distances, pairwise
from fishergcn.geometry.statistics._redraws import redrawn
from fishergcn.geometry.statistics._tests import check_distances

Around: TypeAlias = Literal["auto", "means", "medoids"]

_MOST = 8  # clusters that are tried where no number is given
_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Clusters:
    """Groups of graphs; see :func:`cluster`."""

    labels: IntArray
    medoids: IntArray
    distances: FloatArray
    objective: float
    silhouettes: FloatArray
    method: str
    stable: FloatArray
    __repr__ = one_line

    @property
    def number(self) -> int:
        """How many clusters."""
        return self.medoids.size

    @property
    def silhouette(self) -> float:
        """Mean silhouette of the graphs, between -1 and 1: near 0 where clusters are no closer than chance has it."""
        return float(self.silhouettes.mean())


def cluster(
    graphs: Graphs | Distances | FloatArray,
    number: int | None = None,
    *,
    around: Around = "auto",
    restarts: int = 10,
    seed: int = 0,
    distances: Distances | None = None,
    geometry: Geometry = "laplacian",
    laplacian: Local = "combinatorial",
) -> Clusters:
    """Divide graphs into clusters: the least Σ_i D(i, c(i))², with c(i) the center of the cluster of graph i.

    ``around="medoids"``: centers are graphs. This needs distances alone, of any measure and size; single exchanges of
    centers are made as long as they help (Kaufman and Rousseeuw's PAM), from ``restarts`` random sets. ``"means"``: k
    means, whose centers are Bures means (:func:`mean`), from the clusters of medoids on. Each round costs one mean a
    cluster, and a fidelity for each graph and center.

    Parameters
    ----------
    graphs : GraphCollection, graphs as it takes them, or the distances of graphs
        Distances, (m, m) or :class:`Distances`, have medoids alone.
    number : int, optional
        How many clusters, from 1 to m. By default that of 2 to 8 with the largest mean silhouette of medoids, where a
        silhouette is (b - a) / max(a, b), with a and b a graph's mean distance within its cluster and to the closest
        other one.
    around : {"auto", "means", "medoids"}
        What clusters are around; by default means of graphs, and medoids of distances.
    distances : Distances, optional
        Those of the graphs, if they are there already.
    geometry, laplacian
        Which density matrix stands for a graph, see :func:`pairwise`.

    Returns
    -------
    Clusters
        ``labels`` of the graphs, 0 for the largest cluster; ``medoids``, the most central graph of each cluster;
        ``distances`` of the graphs from their centers, ``objective``, the sum of their squares, and ``silhouettes``.
        ``stable`` is the share of 20 draws of the distances within their error bars for which a graph stays in its
        cluster of medoids, matched by most members in common: 1 for exact distances.

    Examples
    --------
    >>> import numpy as np
    >>> ring, star = np.roll(np.eye(8), 1, axis=1), np.zeros((8, 8))
    >>> star[0, 1:] = 1
    >>> graphs = [ring + ring.T, star + star.T, 2 * ring + ring.T + ring, star + star.T, ring + ring.T]
    >>> graphs[2] = (graphs[2] + graphs[2].T) / 2
    >>> cluster(graphs).labels.tolist()
    [0, 1, 0, 1, 0]
    """
    check_choice("around", around, get_args(Around))
    check_integer("restarts", restarts, minimum=1)
    check_integer("seed", seed, minimum=0)
    alone = isinstance(graphs, Distances) or (isinstance(graphs, np.ndarray) and graphs.ndim == 2)
    if alone and around == "means":
        raise InputError("around must be 'medoids' where distances alone are given: means need the graphs.")
    collection = None if alone else as_collection(graphs, at_least=2, why=" for clusters")  # type: ignore[arg-type]
    given: Any = graphs if alone else distances
    if given is None:
        given = pairwise(collection, geometry=geometry, laplacian=laplacian)  # type: ignore[arg-type]
    matrix = check_distances(given)
    if collection is not None and len(matrix) != len(collection):
        raise InputError(f"distances must be those of the {len(collection)} graphs, got {len(matrix)}.")
    if number is not None:
        check_integer("number", number, minimum=1, maximum=len(matrix))
    sizes = range(2, min(_MOST, len(matrix) - 1) + 1) if number is None else [number]
    tried = [_around_medoids(matrix, size, restarts, seed) for size in sizes or [1]]
    best = max(tried, key=lambda each: each.silhouette)
    drawn = [_around_medoids(each, best.number, restarts, seed).labels for each in redrawn(given, matrix, seed)]
    stable = _stable(best.labels, drawn)
    if collection is None or around == "medoids":
        return replace(best, stable=stable)
    densities = densities_of(collection, geometry, laplacian).matrices()
    return replace(_around_means(densities, matrix, best), stable=stable)


def _stable(labels: IntArray, drawn: list[IntArray]) -> FloatArray:
    """Return the share of other labels that agree with the first ones, graph by graph."""
    if not drawn:
        return np.ones(labels.size)
    number, found = int(labels.max()) + 1, np.zeros(labels.size)
    for each in drawn:
        common = np.zeros((number, number))
        np.add.at(common, (each, labels), 1)
        _, matched = linear_sum_assignment(-common)
        found += matched[each] == labels
    return np.asarray(found / len(drawn))


def _around_medoids(matrix: FloatArray, number: int, restarts: int, seed: int) -> Clusters:
    """Return the best clusters around graphs, from several random sets of centers."""
    rng = np.random.default_rng(seed)
    squares = matrix**2
    best, least = np.arange(number), np.inf
    for _ in range(restarts):
        centers = _spread(squares, number, rng)
        cost = float(squares[:, centers].min(axis=1).sum())
        while True:
            exchanged, lower = _exchange(squares, centers)
            if not lower < cost * (1 - 1e-12):
                break
            centers, cost = exchanged, lower
        if cost < least:
            best, least = centers, cost
    return _described(matrix, np.argmin(squares[:, best], axis=1), matrix[:, best].min(axis=1), "medoids")


def _spread(squares: FloatArray, number: int, rng: np.random.Generator) -> IntArray:
    """Draw centers that are likely to be far apart (k-means++)."""
    centers = [int(rng.integers(len(squares)))]
    while len(centers) < number:
        closest = squares[:, centers].min(axis=1)
        closest[centers] = 0.0
        free = np.setdiff1d(np.arange(len(squares)), centers)
        total = float(closest.sum())
        centers.append(int(rng.choice(len(squares), p=closest / total) if total > 0 else rng.choice(free)))
    return np.array(centers)


def _exchange(squares: FloatArray, centers: IntArray) -> tuple[IntArray, float]:
    """Return the centers after the best exchange of one of them for another graph, and their cost."""
    best, least = centers, np.inf
    for place in range(centers.size):
        others = np.delete(centers, place)
        rest = squares[:, others].min(axis=1, initial=np.inf)
        costs = np.minimum(squares, rest[:, None]).sum(axis=0)
        costs[others] = np.inf
        new = int(np.argmin(costs))
        if costs[new] < least:
            best, least = centers.copy(), float(costs[new])
            best[place] = new
    return best, least


def _around_means(densities: list[Any], matrix: FloatArray, start: Clusters) -> Clusters:
    """Return the clusters of k means from given ones on."""
    labels, apart = start.labels, np.zeros((len(matrix), start.number))
    for _ in range(_ROUNDS):
        for label in range(start.number):
            members = np.flatnonzero(labels == label)
            weights = np.full(members.size, 1 / members.size)
            center = barycenter([densities[at] for at in members], weights, 1e-8, 500)[0]
            fidelities = [found for found, _ in overlaps(densities, roots_of(center)[0])]
            apart[:, label] = 2 - 2 * np.minimum(1.0, fidelities)
        found = np.argmin(apart - 1e-10 * (labels[:, None] == np.arange(start.number)), axis=1)
        for label in np.setdiff1d(
            np.arange(start.number), found
        ):  # nobody's center: take the graph that is furthest off
            sizes = np.bincount(found, minlength=start.number)
            off = np.where(sizes[found] > 1, apart[np.arange(found.size), found], -1.0)
            found[int(np.argmax(off))] = label
        if (found == labels).all():
            break
        labels = found
    away = np.sqrt(np.maximum(0.0, apart[np.arange(labels.size), labels]))
    return _described(matrix, labels, away, "means")


def _described(matrix: FloatArray, labels: IntArray, away: FloatArray, method: str) -> Clusters:
    """Return clusters in the order of their sizes, with what describes them."""
    sizes = np.bincount(labels)
    first = np.array([int(np.argmax(labels == label)) for label in range(sizes.size)])
    order = np.lexsort((first, -sizes))
    labels = np.argsort(order)[labels]
    members = [np.flatnonzero(labels == label) for label in range(sizes.size)]
    medoids = np.array([each[np.argmin((matrix[np.ix_(each, each)] ** 2).sum(axis=0))] for each in members])
    found = Clusters(
        labels, medoids, away, float(np.square(away).sum()), np.zeros(labels.size), method, np.ones(labels.size)
    )
    return replace(found, silhouettes=_silhouettes(matrix, labels, members))


def _silhouettes(matrix: FloatArray, labels: IntArray, members: list[IntArray]) -> FloatArray:
    """Return (b - a) / max(a, b) of each graph, 0 in a cluster of its own."""
    if len(members) == 1:
        return np.zeros(labels.size)
    sums = np.stack([matrix[:, each].sum(axis=1) for each in members], axis=1)
    sizes = np.array([each.size for each in members])
    here = (np.arange(labels.size), labels)
    within = sums[here] / np.maximum(sizes[labels] - 1, 1)
    means = sums / sizes
    means[here] = np.inf
    between = means.min(axis=1)
    largest = np.maximum(np.maximum(within, between), np.finfo(np.float64).tiny)
    return np.where(sizes[labels] > 1, (between - within) / largest, 0.0)
