"""Links added to a graph or removed from it, in exact numbers, and the propagation operator of the changed graph.

From the same seed a larger change contains the smaller one, so that a curve over the number of links follows one graph
as it changes more and more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_integer
from fishergcn._base.types import CSRArray, IntArray
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.operators import DenseOperator
from fishergcn.propagation import dense_high_order

if TYPE_CHECKING:
    from fishergcn.models import TrainedModel
    from fishergcn.operators import Operator

_BATCH = 8192  # always the same, so that the first links drawn do not depend on how many are wanted
_DENSE_NODES = 32_768  # up to here a dense matrix is built on a GPU: 8 GB in float64


def count_links(adjacency: CSRArray) -> int:
    """Return the number of linked pairs of different nodes."""
    return int(sparse.triu(adjacency, 1).nnz)


def add_links(adjacency: CSRArray, count: int, seed: int) -> CSRArray:
    """Return the symmetric A with ``count`` more links of weight 1, drawn uniformly among pairs that are not linked.

    Examples
    --------
    >>> from scipy import sparse
    >>> add_links(sparse.csr_array((2, 2)), 1, seed=0).toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    nodes = adjacency.shape[0]
    linked = _keys(adjacency)
    free = nodes * (nodes - 1) // 2 - len(linked)
    check_integer("count", count, minimum=0, maximum=free)
    rng = np.random.default_rng(seed)
    chosen: IntArray = np.empty(0, dtype=np.int64)
    while len(chosen) < count:
        first, second = rng.integers(nodes, size=_BATCH), rng.integers(nodes - 1, size=_BATCH)
        second += second >= first
        drawn = np.minimum(first, second) * nodes + np.maximum(first, second)
        chosen = np.concatenate([chosen, drawn[~np.isin(drawn, linked)]])
        chosen = chosen[np.sort(np.unique(chosen, return_index=True)[1])]  # each pair once, in the order drawn
    return toggle_links(adjacency, np.stack(np.divmod(chosen[:count], nodes)))


def remove_links(adjacency: CSRArray, count: int, seed: int) -> CSRArray:
    """Remove ``count`` links between different nodes, drawn uniformly; links from a node to itself stay.

    Examples
    --------
    >>> from scipy import sparse
    >>> remove_links(sparse.csr_array([[1.0, 1.0], [1.0, 0.0]]), 1, seed=0).toarray()
    array([[1., 0.],
           [0., 0.]])
    """
    linked = _keys(adjacency)
    check_integer("count", count, minimum=0, maximum=len(linked))
    chosen = np.random.default_rng(seed).permutation(linked)[:count]
    return toggle_links(adjacency, np.stack(np.divmod(chosen, adjacency.shape[0])))


def toggle_links(adjacency: CSRArray, pairs: IntArray) -> CSRArray:
    """Remove the links among distinct ``pairs`` (2, m) from the symmetric A and add, with weight 1, those that are not
    there.
    """
    nodes = adjacency.shape[0]
    low, high = np.sort(np.asarray(pairs, dtype=np.int64), axis=0)
    toggled = low * nodes + high
    if (low == high).any() or len(np.unique(toggled)) != len(toggled):
        raise InputError("pairs must be distinct pairs of different nodes, got one twice or a node with itself.")
    upper = sparse.coo_array(sparse.triu(adjacency, 0))
    keys = upper.coords[0].astype(np.int64) * nodes + upper.coords[1]
    kept = ~np.isin(keys, toggled)
    added = toggled[~np.isin(toggled, keys)]
    row, column = np.divmod(np.concatenate([keys[kept], added]), nodes)
    weight = np.concatenate([upper.data[kept], np.ones(len(added))])
    half = sparse.csr_array((weight, (row, column)), shape=adjacency.shape)
    changed = sparse.csr_array(half + sparse.triu(half, 1).T)
    changed.sort_indices()
    return cast("CSRArray", changed)


def operator_of(model: TrainedModel, adjacency: CSRArray) -> Operator:
    """Return Ã that a model has on another graph of its nodes, where its networks run.

    Every change of the graph needs Algorithm 1 anew for the high-order methods. On a GPU that is done with dense
    matrices; entries that equal the threshold up to rounding may fall on the other side of it.
    """
    model.check_network(links=model.config.links_as_features)
    config, device = model.config, model.device
    if model.method.high_order and device.type != "cpu" and adjacency.shape[0] <= _DENSE_NODES:
        dense = dense_high_order(adjacency, config.order, config.threshold, device=device)
        return DenseOperator(dense.to(model.dtype))
    return model.operator_of(Graph(adjacency))


def _keys(adjacency: CSRArray) -> IntArray:
    """Return the linked pairs i < j as numbers i n + j."""
    upper = sparse.coo_array(sparse.triu(adjacency, 1))
    row, column = (part.astype(np.int64) for part in upper.coords)
    keys: IntArray = np.sort(row * adjacency.shape[0] + column)
    return keys
