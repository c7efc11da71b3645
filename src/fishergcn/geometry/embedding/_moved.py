"""Graphs drawn by moving an embedding: a perturbation in space, where the neighborhood of a spectrum has none."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.execution import count_cores
from fishergcn.geometry.embedding._information import fisher_operator
from fishergcn.geometry.embedding._model import MEMORY_LIMIT, check_embedding, model_rows, row_slices
from fishergcn.geometry.embedding._similarities import similarities


def moved_graphs(
    adjacency: MatrixLike,
    Y: MatrixLike,
    distance: float,
    samples: int = 1,
    seed: int = 0,
    *,
    memory_limit: int = MEMORY_LIMIT,
) -> list[CSRArray]:
    """a'_ij = a_ij exp((log p'_ij/p_ij + log p'_ji/p_ji) / 2), p' = p(Y + V), for random motions V of a given length.

    Nodes move at random, and each link gains or loses weight as the model of the embedding says. V is Gaussian, scaled
    to the Fisher length (vᵀ G v)^½ = ``distance`` at Y, with the expected information, so that Σ_i KL(p_i : p'_i) is
    about distance²/2. No link appears or vanishes, and translations and rotations change nothing.

    Parameters
    ----------
    adjacency : sparse matrix of shape (n, n)
        A; a link from a node to itself keeps its weight.
    Y : array_like of shape (n, d)
        Where the nodes are, for instance from :func:`fit`.
    distance : float
        The Fisher length of a motion, at least 0; 0.1 √n changes each p_i by a divergence of about 0.005 in the mean.
    samples : int
        How many graphs.
    seed : int
        Of the motions.
    memory_limit : int
        Bytes for the dense row blocks that are alive at one time.

    Returns
    -------
    list of csr_array
        The adjacency matrices of the moved graphs.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
    >>> angle = 2 * np.pi * np.arange(5) / 5
    >>> [moved] = moved_graphs(ring, np.stack([np.cos(angle), np.sin(angle)], axis=1), distance=0.2)
    >>> bool((moved != moved.T).nnz == 0), bool(np.allclose(moved.toarray()[ring == 0], 0))
    (True, True)
    >>> bool(abs(moved.data - 1).max() < 0.5)
    True
    """
    matrix = check_adjacency(adjacency)
    positions = check_embedding(Y, matrix.shape[0])
    distance = check_real("distance", distance, minimum=0.0)
    samples = check_integer("samples", samples, minimum=1)
    rng = np.random.default_rng(check_integer("seed", seed, minimum=0))
    motions = [rng.standard_normal(positions.shape) for _ in range(samples)]
    threads = min(samples, count_cores())
    share = max(check_integer("memory_limit", memory_limit, minimum=1) // threads, 1)
    operator = fisher_operator(similarities(matrix), positions, "expected", memory_limit=share)
    links = sparse.coo_array(sparse.triu(matrix, 1))
    own = sparse.diags_array(matrix.diagonal())
    before = _log_model(links, positions, share)

    def moved(motion: FloatArray) -> CSRArray:
        square = float(np.sum(motion * operator.apply(motion)))
        if not square > 0:
            raise InputError("the embedding must have motions that change the model, got nodes that cannot move apart.")
        after = _log_model(links, positions + motion * (distance / math.sqrt(square)), share)
        data = links.data * np.exp((after - before) / 2)
        upper = sparse.coo_array((data, links.coords), shape=matrix.shape)
        return sparse.csr_array(upper + upper.T + own)

    with ThreadPoolExecutor(threads) as pool:  # NumPy lets go of the interpreter in its loops
        return list(pool.map(moved, motions))


def _log_model(links: sparse.coo_array, Y: FloatArray, memory_limit: int) -> FloatArray:
    """Return log p_ij + log p_ji of each link."""
    rows, columns = links.coords
    partitions = [model_rows(Y, part)[1] for part in row_slices(len(Y), memory_limit)]
    log_partition = np.concatenate(partitions)
    squared: FloatArray = np.sum((Y[rows] - Y[columns]) ** 2, axis=1)
    return np.asarray(-2.0 * squared - log_partition[rows] - log_partition[columns])
