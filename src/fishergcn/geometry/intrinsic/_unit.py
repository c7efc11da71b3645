"""The unit of distance that everyone understands: one link."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._large import estimate_fidelity

# The high-order matrix changes in too many entries, and cuts some off, when one link goes.
Local: TypeAlias = Literal["renormalized", "normalized", "combinatorial"]


def link_distance(adjacency: MatrixLike, laplacian: Local = "renormalized", *, links: int = 60, seed: int = 0) -> float:
    """Bures distance of a graph from itself less one typical link: divide a distance by it to have it in links.

    It is the median over randomly chosen links, each removed alone, by the exact method of :func:`estimate_fidelity`
    for changes of low rank. Distances do not add up: k links that are gone are about sqrt(k) times as far as one.

    Parameters
    ----------
    adjacency : (n, n) array or SciPy sparse matrix
        A, symmetric and non-negative, with at least two links.
    laplacian : {"renormalized", "normalized", "combinatorial"}
        Which Laplacian stands for the graph, see :func:`graph_laplacian`.
    links : int
        How many links to try; all of them if there are fewer.
    seed : int
        Seed of their choice.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(50), 1, axis=1)
    >>> unit = link_distance(ring + ring.T)
    >>> cut = ring.copy()
    >>> cut[3, 4] = 0.0
    >>> round(estimate_fidelity(ring + ring.T, cut + cut.T).distance / unit, 6)
    1.0
    """
    check_choice("laplacian", laplacian, get_args(Local))
    check_integer("links", links, minimum=1)
    check_integer("seed", seed, minimum=0)
    matrix = check_adjacency(adjacency)
    upper = sparse.triu(matrix, 1, format="coo")
    rows, columns = upper.coords
    if rows.size < 2:
        raise InputError(f"adjacency must have at least 2 links, so that one can be removed, got {rows.size}.")
    chosen = np.random.default_rng(seed).choice(rows.size, size=min(links, rows.size), replace=False)
    found = []
    for link in chosen:
        i, j = int(rows[link]), int(columns[link])
        gone = sparse.csr_array(([matrix[i, j]] * 2, ([i, j], [j, i])), shape=matrix.shape)
        # Never below zero: a number less itself is zero.
        found.append(estimate_fidelity(matrix, sparse.csr_array(matrix - gone), laplacian, seed=seed).distance)
    return float(np.median(found))
