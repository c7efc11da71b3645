"""From an adjacency matrix A to the propagation matrix Ã that a graph convolution multiplies with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn._settings.config import MAX_ORDER
from fishergcn.operators import SparseMatrix
from fishergcn.propagation._algorithm import assembled, cut_walks, normalized
from fishergcn.propagation._walk import transition_matrix, walk_sum

_MEMORY_LIMIT = 512 * 2**20
_SAMPLED_ROWS = 256  # by which the size of a high-order matrix is estimated,
_SAMPLED_ENTRIES = 50_000_000  # as long as they have no more entries than this


def renormalized(adjacency: MatrixLike, *, keep_self_links: bool = False) -> CSRArray:
    """Return the propagation matrix of a graph convolutional network.

    Ã = (D + I)^-1/2 (A + I) (D + I)^-1/2, where D is the diagonal matrix of the row sums of A.

    Links in A from a node to itself count like any other entry, and I is added to them: Kipf and Welling's formula,
    which the paper's tables and all networks here use. PyTorch Geometric (``gcn_norm``, GCNConv) keeps such a link as
    it is, and adds one of weight 1 to the other nodes only. Without self-links in A the two are the same. Ã depends on
    the scale of A: doubling all weights changes it.

    Parameters
    ----------
    adjacency : array_like or SciPy sparse, shape (n, n)
        A: symmetric, non-negative, finite, n ≥ 2.
    keep_self_links : bool
        True gives the matrix of PyTorch Geometric: I has zeros where A has self-links.

    Returns
    -------
    csr_array of float64, shape (n, n)
        Ã: exactly symmetric, with spectrum in (-1, 1]. A node without links has Ã_ii = 1.

    Examples
    --------
    >>> renormalized([[0, 1], [1, 0]]).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    >>> looped = [[1, 1], [1, 0]]
    >>> renormalized(looped).diagonal().round(3), renormalized(looped, keep_self_links=True).diagonal()
    (array([0.667, 0.5  ]), array([0.5, 0.5]))
    """
    adjacency = check_adjacency(adjacency)
    missing = adjacency.diagonal() == 0 if keep_self_links else np.ones(adjacency.shape[0])
    identity: Any = sparse.diags_array(missing.astype(np.float64), format="csr")
    return normalized(adjacency + identity)


def normalized_adjacency(adjacency: MatrixLike) -> CSRArray:
    """Return D^-1/2 A D^-1/2, over which labels spread: unlike Ã it has no link from a node to itself but those of A.

    Parameters
    ----------
    adjacency : array_like or SciPy sparse, shape (n, n)
        A: symmetric, non-negative, finite, n ≥ 2.

    Returns
    -------
    csr_array of float64, shape (n, n)
        Exactly symmetric, with spectrum in [-1, 1]. The row of a node without links is empty.

    Examples
    --------
    >>> normalized_adjacency([[0, 1, 0], [1, 0, 0], [0, 0, 0]]).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 0.]])
    """
    return normalized(check_adjacency(adjacency).copy())


def neighbor_mean(adjacency: MatrixLike) -> CSRArray:
    """Return D⁻¹ A, which takes the mean over the neighbors of each node, without the node itself.

    Parameters
    ----------
    adjacency : array_like or SciPy sparse, shape (n, n)
        A: symmetric, non-negative, finite, n ≥ 2.

    Returns
    -------
    csr_array of float64, shape (n, n)
        Not symmetric; rows sum to 1, and the row of a node without links is empty.

    Examples
    --------
    >>> neighbor_mean([[0, 1, 0], [1, 0, 3], [0, 3, 0]]).toarray()
    array([[0.  , 1.  , 0.  ],
           [0.25, 0.  , 0.75],
           [0.  , 1.  , 0.  ]])
    """
    return transition_matrix(check_adjacency(adjacency))


def high_order(
    adjacency: MatrixLike, order: int = 5, threshold: float = 1e-4, *, memory_limit: int = _MEMORY_LIMIT
) -> CSRArray:
    """Return the propagation matrix of a high-order graph convolution (Algorithm 1 of the paper).

    P = D^-1 A,  S = (P + P² + … + P^T)/T with its diagonal set to zero and entries up to ν dropped,
    A' = S + Sᵀ + 2I,  Ã = D'^-1/2 A' D'^-1/2, where D and D' hold the row sums of A and A'.

    S_ij and S_ji are compared with ν each on its own, so that A'_ij may hold one of the two or both. Ã does
    not depend on the scale of A. With T = 1 it is *not* the renormalized matrix: a d-regular graph gives
    (A/d + I)/2.

    Parameters
    ----------
    adjacency : array_like or SciPy sparse, shape (n, n)
        A: symmetric, non-negative, finite, n ≥ 2. Links from a node to itself are used as they are.
    order : int
        T ≥ 1, the longest walk.
    threshold : float
        ν in [0, 1): entries of S that exceed it are kept.
    memory_limit : int
        Bytes for the working arrays of one block of rows; the result, and while it is put together S and Sᵀ
        after the cut, come on top. The result does not depend on it, bit for bit.

    Returns
    -------
    csr_array of float64, shape (n, n)
        Ã: exactly symmetric, with spectrum in (-1/3, 1]. A node without links has Ã_ii = 1.

    Raises
    ------
    InputError
        If an argument is not as described, or ``memory_limit`` does not hold a single row.

    Notes
    -----
    Everything is float64, and sums are taken in ascending order of the nodes in between: B = P, S = P, then
    T - 1 times B ← BP and S ← S + B; S/T is compared with ν.

    Entries of S that equal ν up to rounding are decided by rounding, and so by how the nodes are numbered.
    With T = 5 and ν = 1e-4 these are 177 entries on Cora (158 of them kept, of 621,715 in all), 47 on
    CiteSeer (21 of 287,923) and 988 on PubMed (427 of 8,991,826); no other entry is within 2e-8 of ν,
    relatively.

    Rows are compiled with numba where it is installed. Without it SciPy does the same, slower, with the same
    result bit for bit, as long as neither compiler fuses multiplications with additions.

    Examples
    --------
    >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> high_order(path, order=2, threshold=0.3).toarray().round(3)
    array([[0.8  , 0.183, 0.   ],
           [0.183, 0.667, 0.183],
           [0.   , 0.183, 0.8  ]])
    """
    return assembled(walk_matrix(adjacency, order, threshold, memory_limit=memory_limit))


def walk_matrix(
    adjacency: MatrixLike, order: int = 5, threshold: float = 1e-4, *, memory_limit: int = _MEMORY_LIMIT
) -> CSRArray:
    """Return S, the matrix of Algorithm 1 before it is symmetrized (see :func:`high_order`): where random walks end."""
    walk, order, threshold = checked_walk(adjacency, order, threshold)
    return cut_walks(walk, order, threshold, check_integer("memory_limit", memory_limit, minimum=1))


def checked_walk(adjacency: MatrixLike, order: int, threshold: float) -> tuple[CSRArray, int, float]:
    """Return P, T and ν, or raise if what they are made of is not allowed."""
    return (
        transition_matrix(check_adjacency(adjacency)),
        check_integer("order", order, minimum=1, maximum=MAX_ORDER),
        check_real("threshold", threshold, minimum=0, below=1),
    )


def high_order_size(adjacency: CSRArray, order: int, threshold: float) -> float:
    """Estimate the entries of the high-order matrix of a graph from some of its rows."""
    nodes = adjacency.shape[0]
    count = int(np.clip(_SAMPLED_ENTRIES // nodes, 4, _SAMPLED_ROWS))
    chosen = np.random.default_rng(0).permutation(nodes)[:count]
    walk: Any = transition_matrix(adjacency)
    power = total = walk[chosen]
    for _ in range(order - 1):
        power = power @ walk
        total = total + power
    degrees: FloatArray = np.asarray(adjacency.sum(axis=1)).ravel()
    found = total.tocoo()
    here, there = chosen[found.row], found.col
    # By detailed balance the walk back is s_ji = s_ij d_i / d_j; either of the two keeps the entry.
    share = found.data / order * np.maximum(1.0, degrees[here] / np.maximum(degrees[there], 1e-300))
    kept = ((share > threshold) & (here != there)).sum()
    return float(nodes * (kept / len(chosen) + 1.0))


def dense_high_order(
    adjacency: MatrixLike, order: int = 5, threshold: float = 1e-4, *, device: torch.device | str = "cpu"
) -> Tensor:
    """Return the matrix of :func:`high_order`, dense and in float64, computed with dense matrices in about 24 n² bytes.

    Entries that equal the threshold up to rounding may fall on the other side of it.
    """
    walk, order, threshold = checked_walk(adjacency, order, threshold)
    step = SparseMatrix.from_scipy(walk, device=device).forward
    total = walk_sum(step.to_dense(), lambda power: step @ power, order)  # P^t commutes with P
    total /= order
    total.fill_diagonal_(0.0)
    total[total <= threshold] = 0.0
    made = total + total.T
    made.diagonal().add_(2.0)
    root = made.sum(1).rsqrt()
    return made.mul_(root).mul_(root[:, None])


def propagation_product(
    times: Callable[[Tensor], Tensor], ones: Tensor, order: int | None = None
) -> Callable[[Tensor], Tensor]:
    """Return Z ↦ ÃZ, made of Z ↦ AZ alone, (n, d), and differentiable in whatever that depends on.

    Ã is the renormalized matrix or, with T given, that of Algorithm 1 without its cut: the diagonal of S and entries up
    to ν stay, since dropping them has no useful derivative. ``ones`` (n, 1) has the precision and the device of Z.
    """
    degrees = times(ones)
    linked = degrees > 0
    inverse = torch.where(linked, 1.0 / torch.where(linked, degrees, 1.0), 0.0)

    def symmetric(dense: Tensor) -> Tensor:
        """(A + I) Z, or (S + Sᵀ + 2I) Z."""
        if order is None:
            return times(dense) + dense
        forward = walk_sum(inverse * times(dense), lambda power: inverse * times(power), order)
        backward = walk_sum(times(inverse * dense), lambda power: times(inverse * power), order)
        return (forward + backward) / order + 2.0 * dense

    root = symmetric(ones).rsqrt()
    return lambda dense: root * symmetric(root * dense)
