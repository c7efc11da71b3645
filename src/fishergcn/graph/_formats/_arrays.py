"""A graph as arrays by name, which several processes can share: those of files that are mapped, or of shared memory.

Reading copies nothing and trusts nothing: what the constructor of a graph checks is checked here too,
a block of entries at a time, so that a graph need not fit into memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fishergcn._base.arrays import row_blocks
from fishergcn._base.npz import pack_json, unpack_json
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, InputError
from fishergcn.graph._node_data import PARTS

if TYPE_CHECKING:
    from fishergcn.graph._graph import Graph

_MOST = 1 << 19  # numbers of a block
_ROWS = 1 << 20  # of a block that is hashed
NAMES = ("name", "node_ids", "class_names", "feature_names")
_PUBLISHED = ("split", "masks")
_INDEX = (np.dtype(np.int32), np.dtype(np.int64))


def graph_arrays(graph: Graph) -> dict[str, AnyArray]:
    """Return a graph as arrays that share its memory."""
    found = _csr_arrays("adjacency_", graph.adjacency)
    if sparse.issparse(graph.features):
        found |= _csr_arrays("features_", graph.features)
    elif graph.features is not None:
        found["features"] = graph.features
    if graph.labels is not None:
        found["labels"] = graph.labels
    if graph.targets is not None:
        found["targets"] = graph.targets
    for kind, parts in zip(_PUBLISHED, (graph.standard_split, graph.masks), strict=True):
        found |= {f"{kind}_{part}": values for part, values in (parts or {}).items()}
    named = (*NAMES, "reading", *(("task",) if graph.targets is not None else ()))
    return found | {"description": pack_json({name: getattr(graph, name) for name in named})}


def graph_from_arrays(kind: type[Graph], arrays: Mapping[str, AnyArray]) -> Graph:
    """Return the graph of arrays, without copies of the large ones; raise an InputError for anything else."""
    facts = unpack_json(arrays["description"]) if "description" in arrays else None
    if not isinstance(facts, dict):
        raise DataFileError("the arrays of a graph must have a description.")
    graph = object.__new__(kind)
    adjacency = _matrix("adjacency", arrays, np.dtype(np.float64))
    nodes = adjacency.shape[0]
    if adjacency.shape[0] != adjacency.shape[1] or nodes < 2:
        raise InputError(f"adjacency must be square with at least 2 nodes, got shape {adjacency.shape}.")
    _check_links(adjacency)
    graph._adjacency = adjacency
    graph._features = _features(arrays, nodes)
    described = [*(facts.get(name) for name in NAMES), *published(arrays), facts.get("reading"), facts.get("task")]
    graph._describe(arrays.get("labels", arrays.get("targets")), *described)
    return graph


def published(arrays: Mapping[str, AnyArray]) -> list[dict[str, AnyArray] | None]:
    """Return the split and the masks among the arrays of a graph, None for those that are not there."""
    found = [{part: arrays[f"{kind}_{part}"] for part in PARTS if f"{kind}_{part}" in arrays} for kind in _PUBLISHED]
    return [each or None for each in found]


def graph_digest(graph: Graph) -> str:
    """Return the SHA-256 of everything a computation sees; names of nodes and classes do not count."""
    total = hashlib.sha256()
    for name, array in _content(graph):
        # Indices count as int64, whatever they are stored in; a block at a time, since a graph may be mapped.
        wide = array.dtype if array.dtype.kind != "i" else np.dtype(np.int64)
        total.update(f"{name} {wide.str} {array.shape}\n".encode())
        for start in range(0, len(array), _ROWS):
            total.update(np.ascontiguousarray(array[start : start + _ROWS], dtype=wide).data)
    return total.hexdigest()


def _content(graph: Graph) -> Iterator[tuple[str, AnyArray]]:
    for name, data in (("adjacency", graph.adjacency), ("features", graph.features)):
        if isinstance(data, sparse.csr_array):
            yield from _csr_arrays(f"{name} ", data).items()
        elif data is not None:
            yield name, data
    if graph.labels is not None:
        yield "labels", graph.labels
    if graph.targets is not None:
        yield f"targets, {graph.task}", graph.targets
    yield from (graph.standard_split or {}).items()
    for part, mask in (graph.masks or {}).items():  # a graph without masks has the digest that it always had
        yield f"{part} masks", mask


def _csr_arrays(prefix: str, matrix: Any) -> dict[str, AnyArray]:
    shape = np.array(matrix.shape, dtype=np.int64)
    parts = {"shape": shape, "indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data}
    return {f"{prefix}{part}": values for part, values in parts.items()}


def _features(arrays: Mapping[str, AnyArray], nodes: int) -> Any:
    if "features" in arrays:
        found: Any = _read_only(arrays["features"])
        if found.ndim != 2 or found.dtype != np.float32 or not found.flags.c_contiguous:
            raise InputError(f"features must be a contiguous float32 matrix, got {found.dtype} of shape {found.shape}.")
        values = found.ravel()
    elif "features_shape" in arrays:
        found = _matrix("features", arrays, np.dtype(np.float32))
        values = found.data
    else:
        return None
    if found.shape[0] != nodes:
        raise InputError(f"features must have one row for each of the {nodes} nodes, got {found.shape[0]} rows.")
    if not all(np.isfinite(values[at : at + _MOST]).all() for at in range(0, len(values), _MOST)):
        raise InputError("features must be finite numbers in float32, got NaN or infinity.")
    return found


def _matrix(name: str, arrays: Mapping[str, AnyArray], dtype: np.dtype[Any]) -> Any:
    """Return a canonical CSR matrix on the given arrays, or raise if they are none."""
    parts = [_read_only(arrays[f"{name}_{part}"]) for part in ("data", "indices", "indptr")]
    shape = tuple(int(size) for size in arrays[f"{name}_shape"])
    data, indices, indptr = parts
    if any(part.ndim != 1 or not part.flags.c_contiguous for part in parts) or len(shape) != 2 or min(shape) < 0:
        raise InputError(f"{name} must be held in contiguous arrays of one dimension.")
    if data.dtype != dtype or indices.dtype != indptr.dtype or indices.dtype not in _INDEX:
        raise InputError(f"{name} must hold {dtype} with int32 or int64 indices, got {data.dtype} and {indices.dtype}.")
    ordered = len(indptr) == shape[0] + 1 and indptr[0] == 0 and (np.diff(indptr) >= 0).all()
    if not ordered or not indptr[-1] == len(indices) == len(data):
        raise InputError(f"{name} must have row pointers that begin with 0, ascend, and end with the entries.")
    for first, last in row_blocks(indptr):
        columns, starts = indices[indptr[first] : indptr[last]], indptr[first:last]
        if columns.size and not 0 <= columns.min() <= columns.max() < shape[1]:
            raise InputError(f"{name} must have columns below {shape[1]}, got {columns.min()} to {columns.max()}.")
        inside = np.ones(len(columns), dtype=np.bool_)
        inside[(starts - indptr[first])[np.diff(indptr[first : last + 1]) > 0]] = False
        if (np.diff(columns, prepend=-1)[inside] <= 0).any():
            raise InputError(f"{name} must have ascending columns in each row.")
    found = sparse.csr_array((data, indices, indptr), shape=shape)
    # Known from here on: SciPy would look again, and sort in place what is read-only.
    found.has_sorted_indices = found.has_canonical_format = True
    return found


def _check_links(matrix: Any) -> None:
    """Raise unless all weights are finite and positive, and the matrix equals its transpose.

    The transpose of a large matrix takes as much memory as itself. Instead of entries, sums of random numbers are
    compared: Σ h(i) g(j) a_ij and Σ h(j) g(i) a_ij, with a_ij as the bits that it is, modulo 2^64.
    """
    rng = np.random.default_rng()
    one, other = (rng.integers(0, 2**64, matrix.shape[0], dtype=np.uint64) | np.uint64(1) for _ in range(2))
    sums = np.zeros(2, dtype=np.uint64)
    for first, last in row_blocks(matrix.indptr):
        span = slice(matrix.indptr[first], matrix.indptr[last])
        values, columns = np.ascontiguousarray(matrix.data[span]), matrix.indices[span]
        if not np.isfinite(values).all() or (values <= 0).any():
            raise InputError("adjacency must hold finite positive weights, got others.")
        rows = np.repeat(np.arange(first, last), np.diff(matrix.indptr[first : last + 1]))
        bits = values.view(np.uint64)
        bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        sums[:1] += (one[rows] * other[columns] * bits).sum(dtype=np.uint64)
        sums[1:] += (one[columns] * other[rows] * bits).sum(dtype=np.uint64)
    if sums[0] != sums[1]:
        raise InputError("adjacency must be symmetric, and is not.")


def _read_only(array: AnyArray) -> AnyArray:
    found = array.view()
    found.flags.writeable = False
    return found
