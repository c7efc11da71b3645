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


def graph_digest(graph: Graph) -> str:
    """Return the SHA-256 of everything a computation sees; names of nodes and classes do not count."""
    total = hashlib.sha256()
    for name, array in _content(graph):
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def _content(graph: Graph) -> Iterator[tuple[str, AnyArray]]:
    for name, data in (("adjacency", graph.adjacency), ("features", graph.features)):
        if isinstance(data, sparse.csr_array):
            yield f"{name} shape", np.array(data.shape, dtype=np.int64)
            yield f"{name} indptr", data.indptr.astype(np.int64)
            yield f"{name} indices", data.indices.astype(np.int64)
            yield f"{name} data", data.data
        elif data is not None:
            yield name, data
    if graph.labels is not None:
        yield "labels", graph.labels
    yield from (graph.standard_split or {}).items()
    for part, mask in (graph.masks or {}).items():  # a graph without masks has the digest that it always had
        yield f"{part} masks", mask
