"""What the network sees of a table of numbers in arbitrary units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from fishergcn.nn import FeatureScaling

Kind: TypeAlias = Literal["global", "columns", "rows", "none"]
SCALINGS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, eq=False)
class Scaling:
    """Features on a common scale, those by columns with a column of ones.

    The ones give the first layer a bias, without which features of both signs are hard to tell apart.
    """

    features: FeatureScaling
    ones: bool = False

    @classmethod
    def learn(cls, features: Any, kind: Kind) -> Scaling:
        """Take means and scales from X; those of a sparse X are 0 and root mean squares."""
        dense = not sparse.issparse(features)
        if kind in ("rows", "none") or (kind == "columns" and dense):
            return cls(FeatureScaling.learn(features, kind), ones=kind == "columns")
        center = features.mean(axis=0) if dense else None
        squares: Any = (features - center) ** 2 if dense else features.multiply(features)
        variances = np.asarray(squares.mean(axis=0), dtype=np.float64).reshape(-1)
        if kind == "global":
            variances = np.full(len(variances), variances.mean())
        return cls(FeatureScaling(center=center, scale=np.where(variances > 0, np.sqrt(variances), 1.0)), ones=True)

    def apply(self, features: Any) -> Any:
        """Return what the network sees, in float64."""
        scaled = self.features.apply(features)
        if not self.ones:
            return scaled
        ones = np.ones((features.shape[0], 1))
        if sparse.issparse(scaled):
            columns: list[Any] = [scaled, sparse.csr_array(ones)]
            return sparse.csr_array(sparse.hstack(columns))
        return np.hstack([scaled, ones])
