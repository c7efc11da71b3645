"""Eigenvectors of a Laplacian as positional encodings: signs fixed, repeatable, residuals checked."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from scipy import sparse

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.errors import ConvergenceError, InputError
from fishergcn.graph import largest_component
from fishergcn.integrations.pyg._graph import (
    AUTO,
    BaseTransform,
    Reading,
    device_of,
    graph_of_nodes,
    propagation_of,
    read_links,
)
from fishergcn.spectrum import bottom_spectrum, top_spectrum

Laplacian: TypeAlias = Literal["plain", "sym", "rw", "renormalized"]
End: TypeAlias = Literal["bottom", "top"]

TOLERANCE = 1e-8


class AddSpectralEncoding(BaseTransform):  # type: ignore[misc]
    """Store k eigenvectors of a Laplacian as features of position, a row for each node.

    With A the weighted adjacency matrix without self-links and D its degrees, L u = w u for

        plain         L = D - A
        sym           L = I - D^{-1/2} A D^{-1/2}
        rw            L = I - D^{-1} A
        renormalized  L = I - (D + I)^{-1/2} (A + I) (D + I)^{-1/2}

    on the largest connected component; elsewhere the encoding is zero. Columns have unit length.

    Parameters
    ----------
    rank : int
        k. Where the component has fewer eigenvectors, the last columns are zero.
    laplacian : {"sym", "plain", "rw", "renormalized"}
        L.
    end : {"bottom", "top"}
        The smallest eigenvalues but for the zero of the constant direction, ascending, or the largest, descending.
    attr : str
        Where on ``Data`` the encoding is put, shape (n, k); the eigenvalues go to ``attr + "_values"``, shape (1, k).
    seed : int
        Of the eigen-solver.
    weights : str, optional
        As in :class:`fishergcn.integrations.pyg.BuresAdversary`.

    Raises
    ------
    ConvergenceError
        If no solver finds eigenvectors with a relative residual of at most 1e-8.

    Notes
    -----
    The largest entry of each column (the first, among equals) is positive: the same graph has the same encoding in
    every run, as PyG's ``AddLaplacianEigenvectorPE`` with its random signs has not. Where an eigenvalue
    repeats, which basis of its eigenvectors is taken is a matter of the seed and of the order of the nodes.

    Examples
    --------
    >>> import fishergcn
    >>> data = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)]).to_pyg()
    >>> data = AddSpectralEncoding(rank=1, laplacian="plain")(data)
    >>> data.encoding.T, data.encoding_values
    (tensor([[ 0.6533,  0.2706, -0.2706, -0.6533]]), tensor([[0.5858]]))
    """

    def __init__(
        self,
        rank: int = 8,
        laplacian: Laplacian = "sym",
        end: End = "bottom",
        attr: str = "encoding",
        *,
        seed: int = 0,
        weights: str | None = AUTO,
    ) -> None:
        self.rank = check_integer("rank", rank, minimum=1)
        check_choice("laplacian", laplacian, get_args(Laplacian))
        check_choice("end", end, get_args(End))
        self.laplacian, self.end, self.attr, self.weights = laplacian, end, attr, weights
        self.seed = check_integer("seed", seed, minimum=0)

    def forward(self, data: Any) -> Any:
        """Return ``data`` with the encoding on it."""
        if graph_of_nodes(data) is not None:
            raise InputError("positions are those of one graph; apply the transform before graphs are batched.")
        reading = Reading(1, True, self.weights)
        links = read_links(data, reading)
        if self.laplacian == "renormalized":
            propagation, scale, unit = propagation_of(links, reading), np.ones(links.nodes), 1.0
        else:
            propagation, scale, unit = self._propagation(links.arcs.numpy(), links.weight, links.nodes)
        values, vectors = self._eigenpairs(propagation)
        vectors = _signed(vectors * scale[:, None])
        _check(propagation, scale, values, vectors)
        values = unit * values
        missing, device = self.rank - values.size, device_of(data)
        data[self.attr] = torch.tensor(np.pad(vectors, ((0, 0), (0, missing))), dtype=torch.float32, device=device)
        data[f"{self.attr}_values"] = torch.tensor(
            np.pad(values, (0, missing))[None], dtype=torch.float32, device=device
        )
        return data

    def _propagation(self, arcs: Any, weight: Any, nodes: int) -> tuple[CSRArray, FloatArray, float]:
        """Return I - L/s, symmetric, what takes its eigenvectors to those of the L that was asked for, and s."""
        values = np.ones(arcs.shape[1]) if weight is None else weight.numpy()
        matrix = sparse.csr_array((values, arcs), shape=(nodes, nodes))
        if abs(matrix - matrix.T).max() > 1e-6 * max(1.0, abs(matrix).max()):
            raise InputError("edge_index must list both arcs of a link, with equal weights; use T.ToUndirected().")
        matrix = matrix - sparse.diags_array(matrix.diagonal())
        degree = np.asarray(matrix.sum(axis=1)).ravel()
        if self.laplacian == "plain":
            unit = max(float(degree.max(initial=0.0)), np.finfo(float).tiny)  # so that eigenvalues are at most 2
            plain: Any = sparse.csr_array(sparse.eye_array(nodes) + (matrix - sparse.diags_array(degree)) / unit)
            return plain, np.ones(nodes), unit
        root = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1.0)), 0.0)
        normalized: Any = sparse.csr_array(sparse.diags_array(root) @ matrix @ sparse.diags_array(root))
        return normalized, root if self.laplacian == "rw" else np.ones(nodes), 1.0

    def _eigenpairs(self, propagation: CSRArray) -> tuple[FloatArray, FloatArray]:
        nodes = propagation.shape[0]
        component = int(largest_component(propagation).sum())
        most = min(self.rank, component - 1 if self.end == "bottom" or component == nodes else component)
        if nodes < 2 or most < 1 or component < 2:
            return np.empty(0), np.empty((nodes, 0))
        solve = bottom_spectrum if self.end == "bottom" else top_spectrum
        found = solve(propagation, rank=most, seed=self.seed)
        order = slice(None, None, -1) if self.end == "bottom" else slice(None)
        return found.eigenvalues[order].copy(), found.eigenvectors[:, order].copy()

    def __repr__(self) -> str:
        return f"AddSpectralEncoding(rank={self.rank}, laplacian={self.laplacian!r}, end={self.end!r})"


def _signed(vectors: FloatArray) -> FloatArray:
    """Return columns of unit length whose first largest entry is positive."""
    if not vectors.shape[1]:
        return vectors
    vectors = vectors / np.linalg.norm(vectors, axis=0)
    magnitude = np.abs(vectors)
    leading = np.argmax(magnitude >= (1 - 1e-6) * magnitude.max(axis=0), axis=0)
    signs = np.where(vectors[leading, np.arange(leading.size)] < 0, -1.0, 1.0)
    signed: FloatArray = vectors * signs
    return signed


def _check(propagation: CSRArray, scale: FloatArray, values: FloatArray, vectors: FloatArray) -> None:
    """Raise unless L u = w u for what is stored, up to rounding; L has eigenvalues between 0 and 2."""
    if not values.size:
        return
    inverse = np.where(scale > 0, 1 / np.where(scale > 0, scale, 1.0), 0.0)[:, None]
    image = vectors - scale[:, None] * (propagation @ (inverse * vectors))
    residual = float(np.linalg.norm(image - vectors * values, axis=0).max())
    if not residual <= TOLERANCE:
        raise ConvergenceError(f"the eigenvectors have a residual of {residual:.1e}, more than {TOLERANCE:.0e}.")
