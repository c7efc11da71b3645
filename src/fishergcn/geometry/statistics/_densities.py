"""A graph as a density matrix, by either of two geometries: L / tr L, or its pseudo-inverse L† / tr L†."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.linalg
from scipy import sparse

from fishergcn._base.checks import check_choice
from fishergcn._base.types import CSRArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import DENSE_LIMIT, support
from fishergcn.geometry.intrinsic._laplacian import Local, kernel_vector
from fishergcn.geometry.statistics._collection import GraphCollection

# Of which matrix the density is, and how densities are compared.
Geometry: TypeAlias = Literal["laplacian", "pseudoinverse"]
Measure: TypeAlias = Literal["bures", "wasserstein", "jensen-shannon", "entropy"]


@dataclass(frozen=True, eq=False)
class Densities:
    """The density matrices of a collection on those nodes that have a link in some graph.

    ``laplacians`` are L / tr L, sparse, on the ``nodes`` (indices in the collection); elsewhere they are zero, and so
    are all densities, distances and means. :meth:`dense` is the density matrix of one graph, :meth:`root` a factor X
    of it, (n, rank), with ρ = XXᵀ. ``kernels`` are vectors v > 0 with Lv = 0.
    """

    laplacians: list[CSRArray]
    nodes: IntArray
    geometry: Geometry
    kernels: list[FloatArray]

    __repr__ = object.__repr__

    def __len__(self) -> int:
        return len(self.laplacians)

    @property
    def size(self) -> int:
        """The number of nodes with a link in some graph."""
        return self.nodes.size

    def dense(self, index: int) -> FloatArray:
        """Return the density matrix of a graph."""
        if self.geometry == "laplacian":
            return np.asarray(self.laplacians[index].toarray())
        factor = self.root(index)
        return np.asarray(factor @ factor.T)

    def matrices(self) -> list[Any]:
        """Return all density matrices: sparse ones of Laplacians, dense ones of pseudo-inverses."""
        return list(self.laplacians) if self.geometry == "laplacian" else [self.dense(at) for at in range(len(self))]

    def spectrum(self, index: int) -> tuple[FloatArray, FloatArray]:
        """Return the positive eigenvalues of a density matrix, which add up to one, and its eigenvectors."""
        matrix, own = self.laplacians[index], np.flatnonzero(self.laplacians[index].diagonal() > 0)
        values, inner = scipy.linalg.eigh(
            matrix[own][:, own].toarray(), driver="evd", overwrite_a=True, check_finite=False
        )
        kept = support(values)
        found = values[kept] if self.geometry == "laplacian" else 1 / values[kept]
        vectors = np.zeros((self.size, int(kept.sum())))
        vectors[own] = inner[:, kept]
        return found / found.sum(), vectors

    def eigenvalues(self, index: int) -> FloatArray:
        """Return the positive eigenvalues of a density matrix alone."""
        values = np.asarray(
            scipy.linalg.eigvalsh(self.laplacians[index].toarray(), driver="evd", check_finite=False), dtype=np.float64
        )
        kept = values[support(values)]
        found = kept if self.geometry == "laplacian" else 1 / kept
        return np.asarray(found / found.sum())

    def root(self, index: int) -> FloatArray:
        """Return X with ρ = XXᵀ, eigenvectors times the roots of the positive eigenvalues."""
        values, vectors = self.spectrum(index)
        return np.asarray(vectors * np.sqrt(values))


def densities_of(graphs: GraphCollection, geometry: Geometry, laplacian: Local, *, dense: bool = True) -> Densities:
    """Return the density matrices of all graphs; refuse sizes that a ``dense`` computation cannot have."""
    check_choice("geometry", geometry, get_args(Geometry))
    check_choice("laplacian", laplacian, get_args(Local))
    matrices: list[Any] = list(graphs.laplacians(laplacian))
    nodes = np.flatnonzero(sum(np.asarray(matrix.diagonal() > 0, dtype=np.int64) for matrix in matrices))
    if dense and nodes.size > DENSE_LIMIT:
        raise InputError(
            f"graphs must have at most {DENSE_LIMIT} nodes with links, as the computation is dense, got {nodes.size}."
        )
    if nodes.size < graphs.num_nodes:
        matrices = [sparse.csr_array(matrix[nodes][:, nodes]) for matrix in matrices]
    return Densities(
        [sparse.csr_array(matrix / matrix.trace()) for matrix in matrices],
        nodes,
        geometry,
        [kernel_vector(each, laplacian, each)[nodes] for each in graphs.adjacencies],
    )


def traces_of(graphs: GraphCollection, geometry: Geometry, laplacian: Local) -> FloatArray:
    """Return tr L of every graph, or tr L† = Σ 1/λ over the positive eigenvalues."""
    traces = np.array([float(matrix.trace()) for matrix in graphs.laplacians(laplacian)])
    if geometry == "laplacian":
        return traces
    plain = densities_of(graphs, "laplacian", laplacian)
    return np.asarray([float((1 / plain.eigenvalues(at)).sum()) for at in range(len(plain))] / traces)
