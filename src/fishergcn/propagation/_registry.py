"""The matrices that a network can multiply with: each is one entry that knows all about itself.

Whoever needs a propagation matrix asks its entry: how it is made, in memory or in mapped files, how new nodes join it,
how many entries it will have, and the key under which it is kept. No other module tells them apart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.errors import InputError, suggestion
from fishergcn.graph import Graph
from fishergcn.propagation._mapped import renormalized_into
from fishergcn.propagation._matrices import (
    high_order,
    high_order_size,
    neighbor_mean,
    normalized_adjacency,
    renormalized,
)
from fishergcn.propagation._new_nodes import high_order_rows, joined, mean_rows, normalized_rows, renormalized_rows

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig

#: What new nodes take from the old ones, m x n, and from themselves, (m,).
NewRows = tuple[CSRArray, FloatArray]


def _links(adjacency: CSRArray) -> float:
    """Return the number of entries of A, which a matrix has too if nothing else is said."""
    return float(adjacency.nnz)


@dataclass(frozen=True)
class Matrix:
    """One kind of propagation matrix P, n x n.

    Attributes
    ----------
    name, title
        What it is called, and what it is.
    make
        Maps A, and the settings by name, to P.
    new_rows
        Maps the links (m x n) of new nodes, A, P and the settings by name to what the new nodes take from the old ones
        and from themselves.
    settings
        The settings of :class:`fishergcn.TrainConfig` that it depends on.
    symmetric
        Whether P equals its transpose exactly; only then does its Laplacian have a neighborhood.
    linked
        Whether it depends on the links at all.
    into
        Maps A of a graph in mapped files, and a folder, to P in mapped files; None where it must fit in memory.
    size
        Maps A and the settings by name to the number of entries that P will have, or about.
    clustered
        Whether entries stand together once the nodes are in a good order.
    normalization
        κ, α, β if P_ij = b_i^-α (A + κI)_ij b_j^-β, where b are the row sums of A + κI; None for any other matrix. Then
        derivatives in single links are known.

    Examples
    --------
    >>> from fishergcn import Graph, TrainConfig
    >>> matrix, pair = find_matrix("mean"), Graph.from_edges([(0, 1)])
    >>> matrix.symmetric, matrix.key(TrainConfig()), matrix.of(pair, TrainConfig()).toarray().tolist()
    (False, ('mean',), [[0.0, 1.0], [1.0, 0.0]])
    """

    name: str
    title: str
    make: Callable[..., CSRArray]
    new_rows: Callable[..., NewRows]
    settings: tuple[str, ...] = ()
    symmetric: bool = True
    linked: bool = True
    into: Callable[[CSRArray, Path], CSRArray] | None = None
    size: Callable[..., float] | None = None
    clustered: bool = False
    normalization: tuple[float, float, float] | None = None

    def __repr__(self) -> str:
        return f"Matrix({self.name!r}, {self.title})"

    @property
    def local(self) -> bool:
        """Whether P_ij is known to be 0 unless i and j are linked or the same, and to depend on their links alone."""
        return self.normalization is not None or not self.linked

    def _chosen(self, config: TrainConfig) -> dict[str, Any]:
        return {name: getattr(config, name) for name in self.settings}

    def key(self, config: TrainConfig) -> tuple[Any, ...]:
        """Return what tells this matrix from all others of a graph: its name and the settings that it depends on."""
        return self.name, *self._chosen(config).values()

    def of(self, graph: Graph, config: TrainConfig) -> CSRArray:
        """Return P of a graph; it is made once for as long as the graph is in use."""
        known = _KEPT.setdefault(graph, {})
        key = self.key(config)
        if key not in known:
            made = self.make(graph.adjacency, **self._chosen(config))
            known[key] = made if self.name in _BUILT_IN else self._checked(made, graph.num_nodes)
        return known[key]

    def _checked(self, found: Any, nodes: int) -> CSRArray:
        """Refuse what is not what the entry says: compiled kernels and gradients rely on it."""
        what = f"the matrix {self.name!r}"
        shape = getattr(found, "shape", None)
        if not sparse.issparse(found) or shape != (nodes, nodes):
            got = type(found).__name__ if shape is None else f"{type(found).__name__} of shape {shape}"
            raise InputError(f"{what} must be sparse with {nodes} rows and columns, got {got}.")
        made: CSRArray = sparse.csr_array(found, dtype=np.float64)  # type: ignore[call-overload]
        made.sum_duplicates()
        if not np.isfinite(made.data).all():
            raise InputError(f"{what} must hold finite numbers, got NaN or infinity.")
        if self.symmetric:
            gap = abs(made - made.T)
            if gap.nnz and gap.max() > 0:
                raise InputError(f"{what} is declared symmetric, but differs from its transpose by {gap.max():.3g}.")
        return made

    def joined(self, graph: Graph, links: CSRArray, config: TrainConfig, matrix: CSRArray) -> CSRArray:
        """Return P of a graph with new nodes that join it one by one, (n + m) x (n + m); the old ones do not see them.

        Parameters
        ----------
        graph
            The graph, n nodes.
        links
            Weights of the links of m new nodes to its nodes, m x n.
        config
            The settings.
        matrix
            P of the graph itself.
        """
        return joined(matrix, *self.new_rows(links, graph.adjacency, matrix, **self._chosen(config)))

    def entries(self, graph: Graph, config: TrainConfig) -> float:
        """Return about how many entries P of a graph has."""
        count = _links if self.size is None else self.size
        return count(graph.adjacency, **self._chosen(config))


# Matrices of graphs that are in use: one of high order takes as long as some hundred epochs.
_KEPT: WeakKeyDictionary[Graph, dict[object, CSRArray]] = WeakKeyDictionary()


def share_matrices(graph: Graph, other: Graph) -> None:
    """Let a graph with the same links have the matrices of another one, made before or after."""
    _KEPT[other] = _KEPT.setdefault(graph, {})


_MATRICES: dict[str, Matrix] = {}
_MODULES: dict[str, str] = {}  # which module registered each


def register_matrix(matrix: Matrix) -> Matrix:
    """Make a matrix known by its name, so that networks can ask for it.

    Examples
    --------
    >>> register_matrix(find_matrix("mean")).name  # the same again is no change
    'mean'
    """
    if not isinstance(matrix, Matrix):
        raise InputError(f"a matrix must be described by a Matrix, got {type(matrix).__name__}.")
    known = _MATRICES.get(matrix.name)
    if known is not None and known != matrix:
        raise InputError(f"there is a matrix {matrix.name!r} already; choose another name.")
    _MATRICES[matrix.name] = matrix
    _MODULES.setdefault(matrix.name, sys._getframe(1).f_globals.get("__name__", ""))
    return matrix


def find_matrix(name: str) -> Matrix:
    """Return the matrix of a name.

    Examples
    --------
    >>> find_matrix("renormalized").title
    '(D + I)^-½ (A + I) (D + I)^-½'
    """
    if name not in _MATRICES:
        known = ", ".join(_MATRICES)
        raise InputError(f"matrix must be one of {known}, got {name!r}{suggestion(name, _MATRICES)}.")
    return _MATRICES[name]


def matrices() -> tuple[Matrix, ...]:
    """Return all matrices that are known."""
    return tuple(_MATRICES.values())


def outside_modules() -> tuple[str, ...]:
    """Return the modules outside this package that registered matrices: worker processes import them."""
    return tuple(dict.fromkeys(module for name, module in _MODULES.items() if name not in _BUILT_IN))


def _with_itself(adjacency: CSRArray) -> float:
    return float(adjacency.nnz + adjacency.shape[0] - np.count_nonzero(adjacency.diagonal()))


def _identity(adjacency: CSRArray) -> CSRArray:
    return sparse.eye_array(adjacency.shape[0], format="csr")


def _identity_rows(links: CSRArray, *_: CSRArray) -> NewRows:
    return sparse.csr_array(links.shape), np.ones(links.shape[0])


for _each in (
    Matrix(
        "renormalized",
        "(D + I)^-½ (A + I) (D + I)^-½",
        renormalized,
        lambda links, adjacency, _: renormalized_rows(links, adjacency),
        into=renormalized_into,
        size=_with_itself,
        normalization=(1.0, 0.5, 0.5),
    ),
    Matrix(
        "high-order",
        "where random walks of up to T steps end (Algorithm 1)",
        high_order,
        high_order_rows,
        settings=("order", "threshold"),
        size=high_order_size,
        clustered=True,
    ),
    Matrix(
        "labels",
        "D^-½ A D^-½",
        normalized_adjacency,
        lambda links, adjacency, _: normalized_rows(links, adjacency),
        normalization=(0.0, 0.5, 0.5),
    ),
    Matrix(
        "mean",
        "D⁻¹ A, the mean of the neighbors without the node itself",
        neighbor_mean,
        lambda links, adjacency, _: mean_rows(links),
        symmetric=False,
        normalization=(0.0, 1.0, 0.0),
    ),
    Matrix(
        "identity",
        "I, which does not look at the links",
        _identity,
        _identity_rows,
        linked=False,
        size=lambda adjacency: float(adjacency.shape[0]),
    ),
):
    register_matrix(_each)
_BUILT_IN = frozenset(_MATRICES)  # whose promises the tests check
