"""Names for the array types that signatures share."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

AnyArray: TypeAlias = npt.NDArray[Any]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
CSRArray: TypeAlias = "sparse.csr_array[np.float64, tuple[int, int]]"
# What a caller may hand in as a matrix: any SciPy sparse container or something NumPy turns into an array.
MatrixLike: TypeAlias = "sparse.sparray | sparse.spmatrix | npt.ArrayLike"
# The features of a graph, n x D.
FeatureMatrix: TypeAlias = "sparse.csr_array[np.float32, tuple[int, int]] | npt.NDArray[np.float32]"
