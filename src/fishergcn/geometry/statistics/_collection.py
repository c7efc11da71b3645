"""Many graphs on the same named nodes: aligned once, checked once, in an order that may be a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias, overload

import numpy as np
from scipy import sparse

from fishergcn._base.checks import check_real
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import CSRArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._laplacian import Local, graph_laplacian
from fishergcn.graph import Graph


class GraphCollection:
    """Graphs on the same named nodes, in order: what the functions of this package take.

    A node that a graph does not name is isolated in it. So all Laplacians have one size, and their distances, means
    and differences are defined. Aligned graphs are kept as adjacency matrices; features and labels are not.

    Parameters
    ----------
    graphs
        Graphs or adjacency matrices, symmetric and non-negative, or a mapping from names to them. Either all graphs
        have node ids, which are then matched (nodes in the order in which they first occur), or none has, and all have
        the same number of nodes. Each needs a link between two nodes, and a node in common with another graph.
    names
        What the graphs are called, all different; by default the keys of a mapping, the graphs' own names if all have
        different ones, or else "0", "1", ….
    times
        When each graph was seen, as finite numbers in any unit and order; :meth:`in_time` sorts by them.

    Attributes
    ----------
    adjacencies
        The adjacency matrices as csr_array, (n, n) each, aligned.
    names, times, node_ids
        Tuples; ``times`` and ``node_ids`` are None where there are none.

    Examples
    --------
    >>> from fishergcn.graph import Graph
    >>> one = Graph.from_edges([(0, 1)], node_ids=["a", "b"])
    >>> two = Graph.from_edges([(0, 1)], node_ids=["c", "b"])
    >>> graphs = GraphCollection([one, two], times=[2001, 2002])
    >>> graphs
    <GraphCollection: 2 graphs, 3 nodes, times 2001 to 2002>
    >>> graphs.node_ids, graphs[1].num_links
    (('a', 'b', 'c'), 1)
    """

    def __init__(
        self,
        graphs: Sequence[Graph | MatrixLike] | Mapping[str, Graph | MatrixLike],
        *,
        names: Sequence[str] | None = None,
        times: Sequence[float] | None = None,
    ) -> None:
        given, found = listed(graphs, names)
        self.names: tuple[str, ...] = found
        self.times: tuple[float, ...] | None = None if times is None else _checked_times(times, len(given))
        self.adjacencies, self.node_ids = _aligned(given, self.names)
        check_links(self.names, self.adjacencies)

    @property
    def num_nodes(self) -> int:
        """The number n of nodes that any graph names."""
        return int(self.adjacencies[0].shape[0])

    def __len__(self) -> int:
        return len(self.adjacencies)

    @overload
    def __getitem__(self, index: int) -> Graph: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int]) -> GraphCollection: ...
    def __getitem__(self, index: int | slice | Sequence[int]) -> Graph | GraphCollection:
        """Return one graph on all nodes, or a collection of some, on the same nodes."""
        if isinstance(index, int | np.integer):
            return Graph(self.adjacencies[index], name=self.names[index], node_ids=self.node_ids)
        chosen = range(len(self))[index] if isinstance(index, slice) else [range(len(self))[int(at)] for at in index]
        if len(chosen) == 0:
            raise InputError("index must choose at least one graph, got none.")
        made = object.__new__(GraphCollection)
        made.adjacencies, made.node_ids = tuple(self.adjacencies[at] for at in chosen), self.node_ids
        made.names = tuple(self.names[at] for at in chosen)
        made.times = None if self.times is None else tuple(self.times[at] for at in chosen)
        return made

    def __iter__(self) -> Iterator[Graph]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        when = f", times {min(self.times):g} to {max(self.times):g}" if self.times else ""
        return f"<GraphCollection: {len(self)} graphs, {self.num_nodes} nodes{when}>"

    def in_time(self) -> GraphCollection:
        """Return the graphs sorted by their times, which must all be different."""
        if self.times is None:
            raise InputError("graphs must have times to be sorted by them; give times=[…], one number for each graph.")
        order = np.argsort(self.times, kind="stable")
        for one, other in pairwise(order):
            if self.times[one] == self.times[other]:
                raise InputError(
                    f"times must all be different, but {self.names[one]!r} and {self.names[other]!r} are both at "
                    f"{self.times[one]:g}."
                )
        return self[[int(at) for at in order]]

    def laplacians(self, kind: Local = "combinatorial") -> list[CSRArray]:
        """Return the Laplacian of every graph, see :func:`fishergcn.geometry.intrinsic.graph_laplacian`."""
        return [graph_laplacian(matrix, kind) for matrix in self.adjacencies]

    @property
    def digest(self) -> str:
        """SHA-256 of links, weights and order: equal for equal content, whatever things are called."""
        found = hashlib.sha256(f"{len(self)} {self.num_nodes}".encode())
        for matrix in self.adjacencies:
            for array, kind in ((matrix.indptr, np.int64), (matrix.indices, np.int64), (matrix.data, np.float64)):
                found.update(np.ascontiguousarray(array, dtype=kind).tobytes())
        return found.hexdigest()


Graphs: TypeAlias = "GraphCollection | Sequence[Graph | MatrixLike] | Mapping[str, Graph | MatrixLike]"


def as_collection(graphs: Graphs, *, at_least: int = 1, why: str = "") -> GraphCollection:
    """Return graphs as a collection of at least this many."""
    found = graphs if isinstance(graphs, GraphCollection) else GraphCollection(graphs)
    if len(found) < at_least:
        raise InputError(f"graphs must hold at least {at_least} graphs{why}, got {len(found)}.")
    return found


def listed(
    graphs: Sequence[Graph | MatrixLike] | Mapping[str, Graph | MatrixLike], names: Sequence[str] | None = None
) -> tuple[list[Graph | MatrixLike], tuple[str, ...]]:
    """Return graphs in a list, and their names."""
    if isinstance(graphs, Mapping):
        names, graphs = (list(map(str, graphs)) if names is None else names), list(graphs.values())
    if isinstance(graphs, Graph) or sparse.issparse(graphs) or (hasattr(graphs, "ndim") and graphs.ndim == 2):
        raise InputError("graphs must be several graphs in a list, got a single one.")
    given = list(graphs)
    if not given:
        raise InputError("graphs must hold at least one graph, got none.")
    return given, _checked_names(given, names)


def adjacencies_of(graphs: Sequence[Graph | MatrixLike], names: Sequence[str]) -> list[CSRArray]:
    """Return the adjacency matrices of graphs, each on its own nodes."""
    return [
        each.adjacency if isinstance(each, Graph) else check_adjacency(each, name=f"graph {name!r}")
        for name, each in zip(names, graphs, strict=True)
    ]


def check_links(names: Sequence[str], adjacencies: Sequence[CSRArray]) -> None:
    """Refuse a graph without links."""
    for name, matrix in zip(names, adjacencies, strict=True):
        if matrix.nnz == np.count_nonzero(matrix.diagonal()):
            raise InputError(
                f"graph {name!r} must have a link between two nodes, got none; a graph without links has no "
                "density matrix, so leave it out."
            )


def _checked_names(graphs: list[Graph | MatrixLike], names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        own = [each.name for each in graphs if isinstance(each, Graph) and each.name]
        return tuple(own) if len(set(own)) == len(graphs) else tuple(map(str, range(len(graphs))))
    found = tuple(map(str, names))
    if len(found) != len(graphs):
        raise InputError(f"names must be one for each graph, {len(graphs)}, got {len(found)}.")
    if len(set(found)) < len(found):
        again = next(name for at, name in enumerate(found) if name in found[:at])
        raise InputError(f"names must all be different, but {again!r} occurs more than once.")
    return found


def _checked_times(times: Sequence[float], count: int) -> tuple[float, ...]:
    found = tuple(check_real(f"times[{at}]", time) for at, time in enumerate(times))
    if len(found) != count:
        raise InputError(f"times must be one for each graph, {count}, got {len(found)}.")
    return found


def _aligned(
    graphs: list[Graph | MatrixLike], names: tuple[str, ...]
) -> tuple[tuple[CSRArray, ...], tuple[str, ...] | None]:
    """Return adjacency matrices on the same nodes, and the nodes' names."""
    matrices = adjacencies_of(graphs, names)
    ids = [each.node_ids if isinstance(each, Graph) else None for each in graphs]
    named = [each for each in ids if each is not None]
    if 0 < len(named) < len(ids):
        there = next(at for at, each in enumerate(ids) if each is not None)
        raise InputError(
            f"graphs must all have node ids or none of them, but {names[there]!r} has them and "
            f"{names[ids.index(None)]!r} has none."
        )
    if not named:
        sizes = [matrix.shape[0] for matrix in matrices]
        if len(set(sizes)) > 1:
            other = next(at for at, size in enumerate(sizes) if size != sizes[0])
            raise InputError(
                "graphs without node ids must have the same number of nodes, but "
                f"{names[0]!r} has {sizes[0]} and {names[other]!r} has {sizes[other]}; with node_ids, missing nodes "
                "are isolated, and spectral_distance needs no matching."
            )
        return tuple(matrices), None
    if all(each == named[0] for each in named[1:]):
        return tuple(matrices), tuple(named[0])
    return _matched(matrices, named, names)


def _matched(
    matrices: list[CSRArray], ids: Sequence[Sequence[str]], names: tuple[str, ...]
) -> tuple[tuple[CSRArray, ...], tuple[str, ...]]:
    """Return the matrices on the union of the named nodes."""
    place: dict[str, int] = {}
    count: dict[str, int] = {}
    for each in ids:
        for node in each:
            place.setdefault(node, len(place))
            count[node] = count.get(node, 0) + 1
    for name, each in zip(names, ids, strict=True):
        if all(count[node] == 1 for node in each):
            raise InputError(
                f"graph {name!r} must have nodes in common with the others, but none of its {len(each)} node ids "
                "occurs in another graph; spectral_distance compares graphs on different nodes."
            )
    size, found = len(place), []
    for matrix, each in zip(matrices, ids, strict=True):
        at = np.array([place[node] for node in each])
        entries = matrix.tocoo()
        rows, columns = entries.coords
        found.append(sparse.csr_array((entries.data, (at[rows], at[columns])), shape=(size, size)))
    return tuple(found), tuple(place)
