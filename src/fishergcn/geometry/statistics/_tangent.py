"""Main directions in which graphs differ from their mean: principal components in the tangent space there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fishergcn._base.checks import check_integer
from fishergcn._base.reprs import one_line
from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._laplacian import Local
from fishergcn.geometry.statistics._collection import Graphs, as_collection
from fishergcn.geometry.statistics._densities import Densities, Geometry, densities_of
from fishergcn.geometry.statistics._mean import GraphMean, barycenter, check_weights, overlaps, roots_of

# Memory for tangent vectors, in bytes.
_MOST = 4_000_000_000


@dataclass(frozen=True, eq=False)
class TangentPCA:
    """Principal components of graphs at their mean; see :func:`tangent_pca`."""

    mean: GraphMean
    scores: FloatArray
    variances: FloatArray
    shares: FloatArray
    tangents: FloatArray
    __repr__ = one_line

    def link_changes(self, component: int = 0) -> FloatArray:
        """Return by how much each link's weight changes over one standard deviation, (n, n), symmetric.

        Weights are those of ``mean.adjacency()``. To first order, the graph at a score s has the mean's weights plus
        s / σ times these, with σ the root of the component's variance.
        """
        check_integer("component", component, minimum=0, maximum=len(self.tangents) - 1)
        size, place = self.mean.num_nodes, np.ix_(self.mean.nodes, self.mean.nodes)
        found = np.zeros((size, size))
        tangent = self.tangents[component] * np.sqrt(self.variances[component])
        found[place] = weight_changes(self.mean.dense, tangent, self.mean.geometry)
        return found

    def top_links(self, component: int = 0, most: int = 20) -> tuple[IntArray, FloatArray]:
        """Return the links that change most, (k, 2), and their changes over one standard deviation."""
        check_integer("most", most, minimum=1)
        return largest_changes(self.link_changes(component), most)


def tangent_pca(
    graphs: Graphs,
    weights: Sequence[float] | AnyArray | None = None,
    *,
    components: int = 2,
    geometry: Geometry = "laplacian",
    laplacian: Local = "combinatorial",
) -> TangentPCA:
    """Principal components of graphs in the tangent space at their Bures mean τ.

    With H_i = (τ^½ ρ_i τ^½)^½ and θ_i the Bures angle from τ to ρ_i, cos θ_i = tr H_i, the geodesic to ρ_i leaves along
    V_i = θ_i / sin θ_i (τ^-½ H_i - cos θ_i τ^½), a tangent of the sphere of factors of τ, with ‖V_i‖ = θ_i. Components
    are eigenvectors of Σ w_i (V_i - V̄)(V_i - V̄)ᵀ, found from the inner products of all pairs of graphs; V̄ is small at
    the mean. A component E stands for the change dρ = E τ^½ + τ^½ Eᵀ of the density matrix, whose entries off the
    diagonal are changes of weights of links.

    Parameters
    ----------
    graphs : GraphCollection, or graphs as it takes them
        At least two, with up to 6000 linked nodes; a matrix for each graph is kept in memory.
    weights
        One for each graph, as in :func:`mean`.
    components : int
        How many, at most one less than there are graphs.
    geometry, laplacian
        Which density matrix stands for a graph, see :func:`pairwise`.

    Returns
    -------
    TangentPCA
        ``scores`` of the graphs, (m, components), in units of the Bures angle; ``variances`` of the components, and
        their ``shares`` of the whole variance; ``tangents``, the changes dρ of unit speed, on the ``mean.nodes``. The
        methods ``link_changes`` and ``top_links`` are what a component does to links.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(8), 1, axis=1)
    >>> ring = ring + ring.T
    >>> graphs = []
    >>> for weight in (0.5, 1.0, 1.5, 2.0):  # one link grows
    ...     graphs.append(ring.copy())
    ...     graphs[-1][2, 3] = graphs[-1][3, 2] = weight
    >>> found = tangent_pca(graphs, components=1)
    >>> found.top_links(0, 1)[0].tolist(), bool(found.shares[0] > 0.99)
    ([[2, 3]], True)
    """
    collection = as_collection(graphs, at_least=2, why=" for principal components")
    check_integer("components", components, minimum=1, maximum=len(collection) - 1)
    shares = check_weights(weights, len(collection))
    densities = densities_of(collection, geometry, laplacian)
    check_memory(densities)
    found = barycenter(densities.matrices(), shares, 1e-10, 500)
    center = GraphMean(found[0], densities.nodes, shares, *found[1:], collection.num_nodes, geometry)
    root, lifts = logarithms(densities.matrices(), center.dense)
    lifts -= np.tensordot(shares, lifts, 1)
    inner = np.einsum("iab,jab->ij", lifts, lifts, optimize=True)
    scale = np.sqrt(shares)
    values, vectors = np.linalg.eigh(scale[:, None] * inner * scale)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    top, kept = values[:components], vectors[:, :components]
    # E = Σ_i c_i V_i of unit length; the score of a graph is its inner product with E.
    combine = scale[:, None] * kept / np.sqrt(np.where(top > 0, top, np.inf))
    combine *= np.where(combine[np.argmax(np.abs(combine), axis=0), np.arange(components)] < 0, -1.0, 1.0)
    tangents = [lift @ root for lift in np.tensordot(combine.T, lifts, 1)]
    total = float(values.sum()) or 1.0
    return TangentPCA(center, inner @ combine, top, top / total, np.array([each + each.T for each in tangents]))


def check_memory(densities: Densities) -> None:
    """Refuse collections whose tangent vectors are too large for memory."""
    needed = 8 * len(densities) * densities.size**2
    if needed > _MOST:
        raise InputError(
            f"graphs must be fewer or smaller: their {len(densities)} matrices of {densities.size} nodes would take "
            f"{needed / 1e9:.1f} GB, more than {_MOST / 1e9:g}."
        )


def logarithms(matrices: Sequence[Any], base: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return τ^½ and the tangents V_i at it of the geodesics to density matrices, (m, n, n)."""
    root, inverse, _ = roots_of(base)
    lifts = np.empty((len(matrices), *base.shape))
    for at, (fidelity, image) in enumerate(overlaps(matrices, root)):
        angle = float(np.arccos(min(1.0, fidelity)))
        lifts[at] = (inverse @ image - fidelity * root) * (angle / np.sin(angle) if angle > 0 else 1.0)
    return root, lifts


def weight_changes(density: FloatArray, tangent: FloatArray, geometry: Geometry) -> FloatArray:
    """Return the changes of weights of links, for a Laplacian of trace 1, where its density matrix changes by dρ."""
    if geometry == "laplacian":
        found = -tangent
    else:  # L = τ† / tr τ†, and dτ† = -τ† dτ τ†
        inverse = np.linalg.pinv(density, hermitian=True)
        moved = -inverse @ tangent @ inverse
        trace = float(np.trace(inverse))
        found = -(moved / trace - inverse * (float(np.trace(moved)) / trace**2))
    found = (found + found.T) / 2
    np.fill_diagonal(found, 0.0)
    return found


def largest_changes(changes: FloatArray, most: int) -> tuple[IntArray, FloatArray]:
    """Return the pairs of nodes with the largest changes, and these."""
    rows, columns = np.triu_indices(len(changes), 1)
    values = changes[rows, columns]
    order = np.argsort(-np.abs(values), kind="stable")[:most]
    order = order[values[order] != 0]
    return np.stack([rows[order], columns[order]], axis=1), values[order]
