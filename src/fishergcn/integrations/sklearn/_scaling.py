"""What the network sees of a table of numbers in arbitrary units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.types import FloatArray

SCALINGS = ("global", "columns", "rows", "none")


@dataclass(frozen=True, eq=False)
class Scaling:
    """(x_ij - center_j) / scale_j and a column of ones or, by rows, x_ij / Σ_j |x_ij|; sparse stays sparse.

    The ones give the first layer a bias, without which features of both signs are hard to tell apart.

    Attributes
    ----------
    center, scale : ndarray of shape (D,)
        Of the columns.
    by_rows : bool
        Whether each row is divided by the sum of its magnitudes instead.
    ones : bool
        Whether a column of ones is added.

    Examples
    --------
    >>> Scaling.learn(np.array([[1.0, 0.0], [3.0, 0.0]]), "columns").apply(np.array([[4.0, 0.0]]))
    array([[2., 0., 1.]])
    >>> Scaling.learn(np.zeros((1, 2)), "rows").apply(np.array([[1.0, -3.0]]))
    array([[ 0.25, -0.75]])
    """

    center: FloatArray
    scale: FloatArray
    by_rows: bool = False
    ones: bool = False

    @classmethod
    def learn(cls, features: Any, kind: str) -> Scaling:
        """Take means and scales from X; those of a sparse X are 0 and root mean squares."""
        columns = features.shape[1]
        center = np.zeros(columns)
        if kind in ("rows", "none"):
            return cls(center, np.ones(columns), by_rows=kind == "rows")
        if sparse.issparse(features):
            squares: Any = features.multiply(features)  # type: ignore[attr-defined]
        else:
            center = features.mean(axis=0)
            squares = (features - center) ** 2
        variances = np.asarray(squares.mean(axis=0), dtype=np.float64).reshape(-1)
        if kind == "global":
            variances = np.full(columns, variances.mean())
        return cls(center, np.where(variances > 0, np.sqrt(variances), 1.0), ones=True)

    def apply(self, features: Any) -> Any:
        """Return what the network sees, in float64."""
        ones = np.ones((features.shape[0], int(self.ones)))
        if not sparse.issparse(features):
            if self.by_rows:
                return features / _row_sums(features)[:, None]
            return np.hstack([(features - self.center) / self.scale, ones])
        matrix: Any = features
        if self.by_rows:
            return sparse.csr_array(sparse.diags_array(1.0 / _row_sums(matrix)) @ matrix)
        columns: list[Any] = [matrix @ sparse.diags_array(1.0 / self.scale), sparse.csr_array(ones)]
        return sparse.csr_array(sparse.hstack(columns))


def _row_sums(features: Any) -> FloatArray:
    """Return Σ_j |x_ij|, and 1 for empty rows."""
    sums = np.asarray(abs(features).sum(axis=1), dtype=np.float64).reshape(-1)
    return np.where(sums > 0, sums, 1.0)
