"""One number for the content of a graph, so that runs and files can name the data they stand on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from fishergcn._base.types import AnyArray

if TYPE_CHECKING:
    from fishergcn.graph._graph import Graph


_BLOCK = 1 << 20  # rows


def graph_digest(graph: Graph) -> str:
    """Return the SHA-256 of everything a computation sees; names of nodes and classes do not count."""
    total = hashlib.sha256()
    for name, array in _content(graph):
        # Indices count as int64, whatever they are stored in; a block at a time, since a graph may be mapped.
        wide = array.dtype if array.dtype.kind != "i" else np.dtype(np.int64)
        total.update(f"{name} {wide.str} {array.shape}\n".encode())
        for start in range(0, len(array), _BLOCK):
            total.update(np.ascontiguousarray(array[start : start + _BLOCK], dtype=wide).data)
    return total.hexdigest()


def _content(graph: Graph) -> Iterator[tuple[str, AnyArray]]:
    for name, data in (("adjacency", graph.adjacency), ("features", graph.features)):
        if isinstance(data, sparse.csr_array):
            yield f"{name} shape", np.array(data.shape, dtype=np.int64)
            yield f"{name} indptr", data.indptr
            yield f"{name} indices", data.indices
            yield f"{name} data", data.data
        elif data is not None:
            yield name, data
    if graph.labels is not None:
        yield "labels", graph.labels
    yield from (graph.standard_split or {}).items()
    for part, mask in (graph.masks or {}).items():  # a graph without masks has the digest that it always had
        yield f"{part} masks", mask
