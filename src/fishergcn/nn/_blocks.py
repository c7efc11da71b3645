"""Large graphs in blocks of rows: a block is made when it is multiplied, and dropped thereafter. For prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.arrays import ranges
from fishergcn._base.types import CSRArray, IntArray
from fishergcn.errors import InputError
from fishergcn.operators import SparseMatrix

if TYPE_CHECKING:
    from fishergcn.nn._features import DenseFeatures, SparseFeatures

ROWS_AT_ONCE = 65_536


def pieces(rows: IntArray, size: int) -> list[IntArray]:
    """Cut rows into pieces of at most ``size``."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def row_block(propagation: CSRArray, rows: IntArray, number: IntArray, columns: int) -> CSRArray:
    """Return some rows of Ã with the columns renumbered; ``number`` keeps their order."""
    starts = propagation.indptr[rows]
    lengths = propagation.indptr[rows + 1] - starts
    entries = ranges(starts, lengths)
    parts = (propagation.data[entries], number[propagation.indices[entries]], np.append(0, np.cumsum(lengths)))
    return sparse.csr_array(parts, shape=(len(rows), columns))


class FeatureBlocks:
    """Rows of X, prepared block by block when they are multiplied."""

    def __init__(
        self, prepare: Callable[[IntArray], SparseFeatures | DenseFeatures], rows: IntArray, rows_at_once: int
    ) -> None:
        self.prepare, self.rows, self.rows_at_once = prepare, rows, rows_at_once
        self.shape = (len(rows), prepare(rows[:0]).shape[1])
        self.mask_words = 0

    def times(self, weight: Tensor, words: Tensor | None, samples: int, dropout: float) -> Tensor:
        """Return X W of shape (rows, R, H) for weights (R, D, H), without dropout."""
        if words is not None:
            raise InputError("blocks of rows are for prediction; dropout must be None or of rate 0.")
        blocks = (self.prepare(rows) for rows in pieces(self.rows, self.rows_at_once))
        return torch.cat([block.times(weight, None, samples, dropout) for block in blocks])


class RowBlocks:
    """Ã_RC for nodes R and C of a large graph, as an operator."""

    def __init__(
        self,
        propagation: CSRArray,
        rows: IntArray,
        columns: IntArray,
        rows_at_once: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.propagation, self.rows, self.columns, self.rows_at_once = propagation, rows, columns, rows_at_once
        self.shape, self.device, self.dtype = (len(rows), len(columns)), device, dtype

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> RowBlocks:
        """Return the operator on another device or in another precision."""
        place = torch.device(device or self.device), dtype or self.dtype
        return RowBlocks(self.propagation, self.rows, self.columns, self.rows_at_once, *place)

    def each(self, dense: Tensor) -> Iterator[Tensor]:
        """Yield the product with node-major activations (q, B, d), a block of rows at a time."""
        number = np.zeros(self.propagation.shape[1], dtype=np.int64)
        number[self.columns] = np.arange(len(self.columns))
        for rows in pieces(self.rows, self.rows_at_once):
            block = row_block(self.propagation, rows, number, len(self.columns))
            yield SparseMatrix.from_scipy(block, device=self.device, dtype=self.dtype).propagate(dense)

    def propagate(self, dense: Tensor) -> Tensor:
        """Return the whole product, shape (p, B, d)."""
        return torch.cat(list(self.each(dense)))
