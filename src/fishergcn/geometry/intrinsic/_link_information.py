"""The quantum Fisher information of link weights: the Bures metric pulled back to the links that exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
import scipy.linalg
from scipy import sparse

from fishergcn._base.checks import check_choice
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.reprs import one_line
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, IntArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import DENSE_LIMIT, support
from fishergcn.geometry.intrinsic._laplacian import Local, graph_laplacian, kernel_vector


@dataclass(frozen=True, eq=False)
class LinkInformation:
    """Links and the quantum Fisher information of their weights; see :func:`link_information`."""

    links: IntArray
    matrix: FloatArray
    __repr__ = one_line


def link_information(
    adjacency: MatrixLike, laplacian: Local = "renormalized", *, links: AnyArray | None = None
) -> LinkInformation:
    """Quantum Fisher information G_ef = tr(∂ρ/∂w_e · S_f) of the weights w of links.

    ρ = L / tr L with L the Laplacian, degrees included: a weight moves the rows of both its ends. S_f is the
    :func:`logarithmic_derivative`. G is four times the Bures metric on the graphs that have these links: if the weights
    change by dw, the graph moves by D_B² ≈ ¼ dwᵀ G dw. The result has ``links``, (m, 2), the smaller end first, and G
    as ``matrix``, (m, m).

    Parameters
    ----------
    adjacency : (n, n) array or SciPy sparse matrix
        A, symmetric and non-negative, n up to 6000.
    laplacian : {"renormalized", "normalized", "combinatorial"}
        Which Laplacian stands for the graph, see :func:`graph_laplacian`.
    links : (m, 2) array of int, optional
        The ends of those to look at; each must be a link of the graph. Default: all. Time is of the order of m²n.

    Notes
    -----
    With b_e = e_i - e_j, L = S(D - A)S and S = diag(s), the slope of L is Sb_e b_eᵀS for the combinatorial Laplacian
    (s = 1), less (KL + LK)/2 with K = diag(1/d) on the ends for the normalized ones (s = d^-½; d includes the link of a
    node to itself that the renormalized one adds). The second part is a Lyapunov equation that solves itself. In the
    first one 1/(λ_j + λ_k) is replaced by its pivoted Cholesky factor, of a rank of some dozens for all of double
    precision, so that no n x n matrix per link is needed.

    Examples
    --------
    >>> import numpy as np
    >>> path = np.diag([1.0, 1.0], k=1)
    >>> link_information(path + path.T, "combinatorial").matrix.round(12)  # scaling both alike moves nothing
    array([[ 0.1875, -0.1875],
           [-0.1875,  0.1875]])
    """
    check_choice("laplacian", laplacian, get_args(Local))
    graph = check_adjacency(adjacency)
    if graph.shape[0] > DENSE_LIMIT:
        raise InputError(
            f"adjacency must have at most {DENSE_LIMIT} rows, since the computation is dense, got {graph.shape[0]}."
        )
    ends = _checked_links(graph, links)
    matrix = graph_laplacian(graph, laplacian)
    trace = float(matrix.trace())
    inverse_degree = np.zeros(graph.shape[0])
    scale = np.ones(graph.shape[0])
    if laplacian != "combinatorial":
        scale = 1 / kernel_vector(graph, laplacian, matrix)
        inverse_degree = scale**2
    values, vectors = scipy.linalg.eigh(matrix.toarray(), driver="evd")
    kept = support(values)
    rows = vectors[:, kept] * scale[:, None]
    slopes = rows[ends[:, 0]] - rows[ends[:, 1]]  # (m, r): Sb_e in the eigenvectors of L
    information = np.zeros((len(ends), len(ends)))
    for column in _cauchy_factor(values[kept]):
        information += (slopes * column @ slopes.T) ** 2
    # Links that share an end p have more in common: (L_pp - 2) / d_p².
    diagonal = matrix.diagonal()
    both = np.repeat(np.arange(len(ends)), 2)
    incidence = sparse.csr_array((np.ones(both.size), (both, ends.ravel())), shape=(len(ends), graph.shape[0]))
    shared = incidence @ sparse.diags_array((diagonal - 2) * inverse_degree**2) @ incidence.T
    information = 2 * information + shared.toarray()
    growth = scale**2 - inverse_degree * diagonal  # what an end adds to the slope of tr L
    growths = growth[ends].sum(axis=1)
    information = information / trace - np.outer(growths, growths) / trace**2
    return LinkInformation(ends, (information + information.T) / 2)


def _checked_links(graph: CSRArray, links: AnyArray | None) -> IntArray:
    upper = sparse.triu(graph, 1, format="coo")
    if links is None:
        ends = np.stack(upper.coords, axis=1).astype(np.int64)
        if not len(ends):
            raise InputError("adjacency must have at least one link.")
        return ends[np.lexsort(ends.T[::-1])]
    given = np.asarray(links)
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu" or not len(given):
        raise InputError(
            f"links must be an array of integers of shape (m, 2) with m at least 1, got shape {given.shape} and dtype "
            f"{given.dtype}."
        )
    ends = np.sort(given.astype(np.int64), axis=1)
    if ends.min() < 0 or ends.max() >= graph.shape[0]:
        raise InputError(f"links must name nodes from 0 to {graph.shape[0] - 1}, got {given.min()} to {given.max()}.")
    known = upper.tocsr()
    for (i, j), (first, second) in zip(ends.tolist(), given.tolist(), strict=True):
        if known[i, j] == 0:
            raise InputError(f"links must be links of the graph, but there is none between {first} and {second}.")
    return ends


def _cauchy_factor(values: FloatArray) -> list[FloatArray]:
    """Return vectors c_q with 1 / (λ_j + λ_k) = Σ_q c_qj c_qk: a pivoted Cholesky factor, to rounding."""
    rest = 0.5 / values
    target = rest.copy()
    columns: list[FloatArray] = []
    while len(columns) < values.size:
        pivot = int(np.argmax(rest / target))
        if rest[pivot] <= 1e-15 * target[pivot]:
            break
        column = 1 / (values + values[pivot]) - sum(each * each[pivot] for each in columns)
        column = column / np.sqrt(rest[pivot])
        columns.append(column)
        rest = np.maximum(rest - column**2, 0.0)
    return columns
