"""Graphs as plain arrays without a description: links as pairs, features in compressed rows, labels, masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError
from fishergcn.graph._links import link_matrix
from fishergcn.graph._node_data import PARTS

_LONGEST = 2**31 - 1
_FEATURES = ("x_shape", "x_indptr", "x_indices", "x_data")


def is_plain(arrays: Mapping[str, AnyArray]) -> bool:
    """Say whether an archive holds a graph as plain arrays."""
    return "edges" in arrays


def plain_arguments(arrays: Mapping[str, AnyArray]) -> dict[str, Any]:
    """Return the arguments of ``Graph``; see ``Graph.load`` for the arrays. What is missing of a group is an error."""
    features, labels = None, arrays.get("labels")
    if any(name in arrays for name in _FEATURES):
        shape, indptr, indices, data = (arrays[name] for name in _FEATURES)
        if indptr.ndim != 1 or indptr.dtype.kind not in "iu" or indptr.size == 0 or indptr[0] != 0:
            raise DataFileError("x_indptr must be a list of whole numbers from 0 on")
        features = csr_matrix("x", shape, np.diff(indptr), indices, data)
    if features is None and labels is None:  # a link alone must not decide how much memory is taken
        raise DataFileError("features or labels must be there to say how many nodes it has")
    count = features.shape[0] if features is not None else labels.shape[0] if labels is not None and labels.ndim else 0
    adjacency = link_matrix(arrays["edges"], count, None, "undirected")
    masks = None
    if any(f"{part}_masks" in arrays for part in PARTS):
        masks = {part: arrays[f"{part}_masks"] for part in PARTS}
    return {"adjacency": adjacency, "features": features, "labels": labels, "masks": masks}


def csr_matrix(name: str, shape: AnyArray, counts: AnyArray, indices: AnyArray, data: AnyArray) -> Any:
    """Return a matrix with so many entries in each row, after checking all that SciPy's compiled code trusts."""
    size = tuple(int(length) for length in shape)
    if len(size) != 2 or any(part.ndim != 1 for part in (counts, indices, data)):
        raise DataFileError(f"the arrays of {name} have the wrong number of dimensions")
    if not all(np.issubdtype(part.dtype, np.integer) for part in (counts, indices)):
        raise DataFileError(f"the indices of {name} are not integers")
    if max(size) > _LONGEST:
        raise DataFileError(f"the shape {size} of {name} is larger than {_LONGEST}")
    within = counts.size == 0 or (counts.min() >= 0 and counts.max() <= indices.size)
    if counts.size != size[0] or not within or int(counts.sum(dtype=np.int64)) != indices.size:
        raise DataFileError(f"the arrays of {name} do not fit its shape {size}")
    if data.size != indices.size:
        raise DataFileError(f"{name} has {indices.size} entries but {data.size} values")
    if indices.size and (indices.min() < 0 or indices.max() >= size[1]):
        raise DataFileError(f"an index of {name} lies outside its shape {size}")
    indptr = np.zeros(size[0] + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return sparse.csr_array((data, indices.astype(np.int64), indptr), shape=size)
