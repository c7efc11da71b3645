"""What a set of nodes sees of the graph through a network of given depth.

The output of node i after l layers depends on the nodes within l links of i and on nothing else. For a few
hundred labeled nodes that is often a small part of the graph, and rows outside it need not be computed.
Dropout masks belong to nodes and stored entries of the whole graph, so leaving rows out changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.arrays import ranges
from fishergcn._base.reprs import one_line
from fishergcn._base.types import CSRArray, IntArray
from fishergcn._kernels.choice import NEARLY_ALL
from fishergcn.nn._blocks import ROWS_AT_ONCE, FeatureBlocks, RowBlocks, pieces, row_block
from fishergcn.nn._dropout import Dropout
from fishergcn.nn._features import DenseFeatures, SparseFeatures
from fishergcn.operators import Operator, as_operator

#: What follows a product: maps its values and the nodes of its rows, None for all, to what enters the next layer.
Then: TypeAlias = Callable[[Tensor, "Tensor | None"], Tensor]
#: Features made ready for products: see :func:`make_features`.
Features: TypeAlias = "SparseFeatures | DenseFeatures"


@dataclass(frozen=True)
class View:
    """What a network sees of the graph: all of it, the part that some nodes depend on, or a mini-batch.

    Attributes
    ----------
    features
        X of the nodes that enter the first layer: use :meth:`enter`.
    operators
        What each layer multiplies with, first layer first: use :meth:`propagate`.
    rows
        The nodes that each layer outputs; None for all in order, or where a mini-batch numbers its own.
    itself
        Where the nodes that each layer outputs stand among those that enter it, None for the same place; for networks
        that read a node beside what the matrix says of it.

    Examples
    --------
    >>> import numpy as np
    >>> from fishergcn.nn import full_view, make_features
    >>> from fishergcn.operators import DenseOperator
    >>> view = full_view(make_features(np.eye(3)), DenseOperator(torch.ones(3, 3)), depth=1)
    >>> hidden = view.enter(torch.ones(2, 3, 4))  # X W of two runs
    >>> hidden.shape, view.propagate(0, hidden).shape, float(view.propagate(0, hidden)[0, 0, 0])
    (torch.Size([3, 2, 4]), torch.Size([3, 2, 4]), 3.0)
    """

    features: Features | FeatureBlocks
    operators: tuple[Operator, ...]
    rows: tuple[Tensor | None, ...]
    itself: tuple[Tensor | None, ...] = ()

    __repr__ = one_line

    def position(self, nodes: IntArray) -> IntArray:
        """Return the output rows at which ``nodes`` stand."""
        last = self.rows[-1]
        return nodes if last is None else np.searchsorted(last.cpu().numpy(), nodes)

    def enter(self, weight: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Return X W with dropout on X, shape (q, R * M, d), of the nodes that enter, for weights (R, D, d)."""
        words = dropout.words(0, self.features.mask_words) if dropout else None
        return self.times(weight, words, *((dropout.samples, dropout.rate) if dropout else (1, 0.0)))

    def times(self, weight: Tensor, words: Tensor | None, samples: int, rate: float) -> Tensor:
        """Return X W, as :meth:`enter` does, with masks that were drawn before."""
        found = self.features.times(weight, words, samples, rate)
        # Without masks the samples differ in the operator alone.
        return found.repeat_interleave(samples, dim=1) if words is None and samples > 1 else found

    def propagate(self, layer: int, dense: Tensor, then: Then | None = None, *, own: bool = False) -> Tensor:
        """Return a layer's product, shape (p, R * M, d), or what ``then`` makes of it and of the nodes of its rows.

        With ``own``, the first half of the columns is propagated, and the second half of a node itself is added to it.
        """
        then = _as_it_is if then is None else then
        operator, mine = self.operators[layer], None
        if own:
            width = dense.shape[2] // 2
            place = self.itself[layer] if self.itself else None
            mine = dense[..., width:] if place is None else dense[place, ..., width:]
            dense = dense[..., :width].contiguous()
        if isinstance(operator, RowBlocks):  # block by block: the whole product need not fit in memory
            found, first = [], 0
            for block in operator.each(dense):
                last = first + len(block)
                found.append(then(_plus(block, None if mine is None else mine[first:last]), None))
                first = last
            return torch.cat(found)
        return then(_plus(operator.propagate(dense), mine), self.rows[layer])


def _as_it_is(values: Tensor, _: Tensor | None) -> Tensor:
    return values


def _plus(product: Tensor, mine: Tensor | None) -> Tensor:
    """Add what nodes say of themselves, shape (p, B, d), to a product that may have several samples of each of them."""
    if mine is None:
        return product
    return product + mine.repeat_interleave(product.shape[1] // mine.shape[1], dim=1)


def full_view(features: Features, operator: Operator, depth: int) -> View:
    """Return the view of all nodes: every layer multiplies with the same operator and outputs every node."""
    return View(features, (operator,) * depth, (None,) * depth)


def local_view(
    features: Features,
    propagation: CSRArray,
    nodes: IntArray,
    depth: int,
    *,
    device: torch.device | str,
    dtype: torch.dtype,
    whole: Callable[[], Operator] | None = None,
    itself: bool = False,
) -> View:
    """Return the view of some nodes: each layer only outputs what the next one needs.

    ``whole`` returns Ã as an operator that is there already: it replaces blocks that are nearly as large, so that
    several views hold it once. With ``itself`` each layer also reads the nodes that it outputs.
    """
    reached, total = reach(propagation, nodes, depth, itself=itself), propagation.shape[1]
    if whole is not None:
        reached = _rounded_up(reached, total)
    operators: list[Operator] = []
    for columns, rows in pairwise(reached):
        if whole is not None and len(columns) == len(rows) == total:
            operators.append(whole())
            continue
        number = np.zeros(total, dtype=np.int64)
        number[columns] = np.arange(len(columns))
        block = row_block(propagation, rows, number, len(columns))
        operators.append(as_operator(block, device=device, dtype=dtype))
    entering, *outputs = _row_tensors(reached, device)
    return View(features.restrict(entering), tuple(operators), tuple(outputs), _places(reached, device, itself))


def _rounded_up(reached: list[IntArray], total: int) -> list[IntArray]:
    """Take all nodes where nearly all enter a layer, and then in the layers before it; not more outputs."""
    inner = [index for index, nodes in enumerate(reached[:-1]) if len(nodes) >= NEARLY_ALL * total]
    every = np.arange(total)
    return [every if inner and index <= inner[-1] else nodes for index, nodes in enumerate(reached)]


def blockwise_view(
    prepare: Callable[[IntArray], Features],
    propagation: CSRArray,
    nodes: IntArray,
    depth: int,
    *,
    device: torch.device | str,
    dtype: torch.dtype,
    rows_at_once: int = ROWS_AT_ONCE,
    itself: bool = False,
) -> View:
    """Return the view of some nodes of a large graph, for prediction: it is walked in blocks of rows.

    Two layers' activations are held at most, and only those of nodes that the wanted ones depend on. ``prepare`` makes
    some rows of the features ready, for example ``lambda rows: make_features(X[rows])``.
    """
    reached = reach(propagation, nodes, depth, rows_at_once, itself=itself)
    operators = tuple(
        RowBlocks(propagation, rows, columns, rows_at_once, torch.device(device), dtype)
        for columns, rows in pairwise(reached)
    )
    outputs = _row_tensors(reached[1:], device)
    features = FeatureBlocks(prepare, reached[0], rows_at_once)
    return View(features, operators, tuple(outputs), _places(reached, device, itself))


def reach(
    propagation: CSRArray, nodes: IntArray, depth: int, rows_at_once: int = ROWS_AT_ONCE, *, itself: bool = False
) -> list[IntArray]:
    """Return the nodes that enter each layer, first layer first, and last those wanted, ascending."""
    found = [np.unique(nodes)]
    for _ in range(depth):
        entering = np.zeros(propagation.shape[1], dtype=np.bool_)
        entering[found[-1]] = itself
        for rows in pieces(found[-1], rows_at_once):
            starts = propagation.indptr[rows]
            entering[propagation.indices[ranges(starts, propagation.indptr[rows + 1] - starts)]] = True
        found.append(np.flatnonzero(entering))
    return found[::-1]


def _row_tensors(reached: Sequence[IntArray], device: torch.device | str) -> list[Tensor]:
    return [torch.as_tensor(rows, dtype=torch.int32, device=device) for rows in reached]


def _places(reached: Sequence[IntArray], device: torch.device | str, itself: bool) -> tuple[Tensor | None, ...]:
    """Return where the outputs of each layer stand among its inputs, if a network asks for it."""
    if not itself:
        return ()
    return tuple(
        None if len(rows) == len(columns) else torch.as_tensor(np.searchsorted(columns, rows), device=device)
        for columns, rows in pairwise(reached)
    )
