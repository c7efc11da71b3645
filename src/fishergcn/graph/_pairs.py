"""From links to a matrix: repeated pairs merged, both orders of a link reconciled, self-links dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.matrices import ROUNDING, as_square_csr, check_adjacency
from fishergcn._base.memory import check_memory
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, IntArray, MatrixLike
from fishergcn.errors import InputError, reason

# What a pair of nodes is: a link, an arc to be mirrored, or one of the two arcs of a link that must both be there.
Directed: TypeAlias = Literal["undirected", "symmetrize", "refuse"]

_MOST_NODES = 2**31 - 1  # keeps i * n + j, the number of a pair, within int64
# More nodes than these come from a number that is no index, and would take memory for nothing.
_USUAL_NODES, _NODES_PER_LINK = 10_000_000, 100
_BYTES_PER_NODE = 64  # of the matrices that are alive at once when a graph is made


class PairError(InputError):
    """Some pairs cannot be links; ``rows`` are their positions in the list and ``problem`` the predicate."""

    def __init__(self, rows: Sequence[int], problem: str) -> None:
        super().__init__(f"{' and '.join(f'edges[{row}]' for row in rows)} {problem}.")
        self.rows = tuple(rows)
        self.problem = problem


def link_matrix(
    edges: Iterable[tuple[int, int]] | AnyArray,
    num_nodes: int | None,
    weights: Sequence[float] | AnyArray | None,
    directed: Directed,
) -> Any:
    """Return the symmetric CSR matrix of the links; see ``Graph.from_edges`` for the arguments."""
    check_choice("directed", directed, get_args(Directed))
    pairs = _check_pairs(edges)
    count = _check_count(pairs, num_nodes)
    values = None if weights is None else _check_weights(weights, len(pairs))
    first, second = pairs[:, 0], pairs[:, 1]
    if directed != "refuse":  # either order is the same link
        first, second = np.minimum(first, second), np.maximum(first, second)
    number = first * count + second
    distinct, merged = _merge(number, values, keep_larger=directed == "symmetrize")
    rows, columns = np.divmod(distinct, count)
    if directed == "refuse":
        _require_reverse_arcs(number, distinct, columns * count + rows, merged)
    matrix: Any = sparse.csr_array((merged, (rows, columns)), shape=(count, count))
    return matrix if directed == "refuse" else matrix + sparse.triu(matrix, 1).T


def symmetrized(adjacency: MatrixLike) -> Any:
    """Return max(A, Aᵀ) as CSR; what is wrong with A otherwise is left for the check of the graph."""
    matrix = as_square_csr(adjacency, name="adjacency")
    # A negative entry must reach that check; the maximum would swallow it.
    return matrix.maximum(matrix.T) if (matrix.data >= 0).all() else matrix


def without_self_links(adjacency: CSRArray) -> CSRArray:
    """Return a checked A with an empty diagonal."""
    diagonal = adjacency.diagonal()
    if not diagonal.any():
        return adjacency
    return check_adjacency(adjacency - sparse.diags_array(diagonal, format="csr"))


def _check_pairs(edges: Iterable[tuple[int, int]] | AnyArray) -> IntArray:
    try:
        pairs = np.asarray(edges if hasattr(edges, "__array__") else list(edges))
    except (TypeError, ValueError) as error:
        raise InputError(f"edges must be pairs of node indices, got {reason(error)}.") from error
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InputError(f"edges must be pairs of node indices, m x 2, got shape {pairs.shape} of type {pairs.dtype}.")
    if pairs.min() < 0 or pairs.max() >= _MOST_NODES:
        raise InputError(
            f"edges must hold node indices from 0 to {_MOST_NODES - 1}, got {pairs.min()} to {pairs.max()}."
        )
    return pairs.astype(np.int64)


def _check_count(pairs: IntArray, num_nodes: int | None) -> int:
    least = int(pairs.max()) + 1 if pairs.size else 0
    count = check_integer("num_nodes", least if num_nodes is None else num_nodes, minimum=2, maximum=_MOST_NODES)
    if num_nodes is None and count > max(_USUAL_NODES, _NODES_PER_LINK * len(pairs)):
        raise InputError(
            f"edges name node {least - 1}, which makes {count} nodes for {len(pairs)} link(s); if that is meant, "
            "num_nodes must say so."
        )
    check_memory(f"a graph of {count} nodes", _BYTES_PER_NODE * count)
    if least > count:
        raise InputError(f"edges name node {least - 1}, but there are only {count} nodes (0 to {count - 1}).")
    return count


def _check_weights(weights: Sequence[float] | AnyArray, count: int) -> FloatArray:
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"weights must be numbers ({reason(error)}).") from error
    if values.shape != (count,):
        raise InputError(f"weights must hold one number per link ({count}), got shape {values.shape}.")
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if bad.size:
        raise PairError([int(bad[0])], f"must have a positive, finite weight, got {values[bad[0]]:g}")
    return values


def _merge(number: IntArray, values: FloatArray | None, *, keep_larger: bool) -> tuple[IntArray, FloatArray]:
    """Return the distinct numbers, ascending, each with its one weight."""
    if values is None or values.size == 0:
        ordered = np.sort(number)  # numpy.unique hashes, which is several times slower on long lists
        distinct = ordered[np.diff(ordered, prepend=-1) != 0]
        return distinct, np.ones(distinct.size)
    order = np.argsort(number)
    ordered = number[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    distinct, high = ordered[starts], np.maximum.reduceat(values[order], starts)
    if not keep_larger:
        conflicts = np.flatnonzero(high != np.minimum.reduceat(values[order], starts))
        if conflicts.size:
            rows = np.flatnonzero(number == distinct[conflicts[0]])
            one, other = rows[0], rows[values[rows] != values[rows[0]]][0]
            raise PairError(
                [int(one), int(other)],
                f"give one link different weights, {values[one]:g} and {values[other]:g}; "
                "directed='symmetrize' keeps the larger",
            )
    return distinct, high


def _require_reverse_arcs(number: IntArray, distinct: IntArray, reverse: IntArray, weights: FloatArray) -> None:
    """Raise for the first arc whose reverse is missing or has another weight."""
    position = np.minimum(np.searchsorted(distinct, reverse), distinct.size - 1)
    same_weight = np.isclose(weights[position], weights, rtol=ROUNDING, atol=0)
    lonely = distinct[~((distinct[position] == reverse) & same_weight)]
    if not lonely.size:
        return
    raise PairError(
        [int(np.flatnonzero(np.isin(number, lonely))[0])],
        "has no reverse arc of equal weight, but directed='refuse' wants both arcs of every link; "
        "directed='symmetrize' adds the missing ones",
    )
