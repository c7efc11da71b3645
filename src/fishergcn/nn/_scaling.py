"""What the network sees of a table of numbers: its rows or its columns on a common scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.reprs import one_line
from fishergcn._base.types import CSRArray, FloatArray, MatrixLike
from fishergcn._settings.choices import Scaling


@dataclass(frozen=True, eq=False)
class FeatureScaling:
    """``x_ij / Σ_j |x_ij|`` by rows, (x_ij - center_j) / scale_j by columns, or x_ij itself; sparse stays sparse.

    Rows of zeros stay. Sparse features have no center: they would lose their zeros.
    """

    by_rows: bool = False
    center: FloatArray | None = None
    scale: FloatArray | None = None

    __repr__ = one_line

    @classmethod
    def learn(cls, features: MatrixLike, kind: Scaling) -> FeatureScaling:
        """Return the scaling of X: by columns, the standard deviation (1 where it is 0) and, if dense, the mean."""
        if kind != "columns":
            return cls(by_rows=kind == "rows")
        given: Any = features
        if not sparse.issparse(given):
            dense = np.asarray(given, dtype=np.float64)
            mean = dense.mean(axis=0)
            return cls(center=mean, scale=_scales(dense.var(axis=0), mean, len(dense)))
        matrix: Any = sparse.csc_array(given, dtype=np.float64)  # type: ignore[call-overload]
        matrix.sum_duplicates()
        (rows, columns), stored = matrix.shape, np.diff(matrix.indptr)
        mean = np.asarray(matrix.sum(axis=0), dtype=np.float64) / rows
        column = np.repeat(np.arange(columns), stored)
        # Around the mean, in two passes: E[x²] - E[x]² would cancel where a column hardly varies.
        squares = np.bincount(column, (matrix.data - mean[column]) ** 2, minlength=columns)
        return cls(scale=_scales((squares + (rows - stored) * mean**2) / rows, mean, rows))

    def apply(self, features: MatrixLike) -> CSRArray | FloatArray:
        """Return the scaled features in float64, as a new array or a new CSR array with sorted entries."""
        given: Any = features
        if sparse.issparse(given):
            matrix: CSRArray = sparse.csr_array(given, dtype=np.float64, copy=True)  # type: ignore[call-overload]
            matrix.sum_duplicates()  # also sorts: masks count stored entries, so their order must be a fixed one
            if self.by_rows:
                matrix.data *= np.repeat(_row_factors(abs(matrix).sum(axis=1)), np.diff(matrix.indptr))
            elif self.scale is not None:
                matrix.data /= self.scale[matrix.indices]
            return matrix
        dense = np.array(features, dtype=np.float64)
        if self.by_rows:
            dense *= _row_factors(np.abs(dense).sum(axis=1))[:, None]
        if self.center is not None:
            dense -= self.center
        if self.scale is not None:
            dense /= self.scale
        return dense


def _scales(variance: FloatArray, mean: FloatArray, rows: int) -> FloatArray:
    """Return standard deviations, and 1 for columns that are constant up to rounding."""
    rounding = rows * np.finfo(np.float64).eps
    return np.where(variance > rounding * variance + (rounding * mean) ** 2, np.sqrt(variance), 1.0)


def _row_factors(sums: FloatArray) -> FloatArray:
    return np.divide(1.0, sums, out=np.ones_like(sums), where=sums != 0)
