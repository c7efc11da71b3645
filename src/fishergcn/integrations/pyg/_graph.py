"""The propagation matrix that PyTorch Geometric's layers multiply with, as a SciPy matrix."""

from __future__ import annotations

from typing import Any

import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.imports import require
from fishergcn._base.matrices import SYMMETRY, symmetric_or_raise
from fishergcn._base.types import CSRArray
from fishergcn.errors import InputError
from fishergcn.spectrum import Spectrum

gcn_conv = require("torch_geometric.nn.conv.gcn_conv", extra="pyg", purpose="fishergcn.integrations.pyg")

BASIS, EIGENVALUES, TRACE = "bures_basis", "bures_eigenvalues", "bures_trace"


def data_propagation(data: Any, self_links: int) -> CSRArray:
    """Return Ã of ``data.edge_index`` and, if there, ``data.edge_weight``: exactly that of GCNConv."""
    if getattr(data, "edge_index", None) is None:
        raise InputError("data must have an edge_index; torch_geometric.utils converts from other forms.")
    if data.num_nodes is None:
        raise InputError("data must say how many nodes it has: set data.num_nodes or data.x.")
    nodes = int(data.num_nodes)
    arcs, weight = _checked(data.edge_index, getattr(data, "edge_weight", None), nodes)
    matrix = _normalized(arcs, weight, nodes, self_links)
    try:
        return symmetric_or_raise(matrix, name="edge_index", rounding=SYMMETRY)
    except InputError as error:
        raise InputError(
            "edge_index must list both arcs of a link, with equal weights; build the adversary from "
            "T.ToUndirected()(data)."
        ) from error


def learned_propagation(edge_index: Tensor, edge_weight: Tensor | None, nodes: int, self_links: int) -> CSRArray:
    """Return Ã of (A + Aᵀ)/2 for a learned A; weights with several columns (heads) are averaged."""
    if edge_weight is not None and edge_weight.ndim > 1:
        edge_weight = edge_weight.flatten(1).mean(dim=1)
    arcs, weight = _checked(edge_index, edge_weight, nodes)
    weight = torch.ones(arcs.shape[1], dtype=torch.float64) if weight is None else weight
    matrix = sparse.csr_array((weight.numpy(), arcs.numpy()), shape=(nodes, nodes))
    symmetric = sparse.coo_array((matrix + matrix.T) / 2)
    arcs = torch.stack([torch.from_numpy(index).long() for index in symmetric.coords])
    return _normalized(arcs, torch.from_numpy(symmetric.data), nodes, self_links)


def _checked(edge_index: Tensor, edge_weight: Tensor | None, nodes: int) -> tuple[Tensor, Tensor | None]:
    """Return arcs and weights on the CPU, without gradients, or raise if they are not those of a graph."""
    arcs = edge_index.detach().cpu()
    if arcs.ndim != 2 or arcs.shape[0] != 2:
        raise InputError(f"edge_index must have shape (2, arcs), got {tuple(arcs.shape)}.")
    outside = arcs[(arcs < 0) | (arcs >= nodes)]
    if outside.numel():
        raise InputError(f"edge_index must hold node numbers from 0 to {nodes - 1}, got {int(outside[0])}.")
    if edge_weight is None:
        return arcs, None
    weight = edge_weight.detach().cpu().double().reshape(-1)
    if weight.numel() != arcs.shape[1]:
        raise InputError(f"edge_weight must have {arcs.shape[1]} entries, got {weight.numel()}.")
    wrong = weight[~(weight.isfinite() & (weight >= 0))]
    if wrong.numel():
        raise InputError(f"edge_weight must be finite and not negative, got {float(wrong[0])}.")
    return arcs, weight


def _normalized(arcs: Tensor, weight: Tensor | None, nodes: int, self_links: int) -> CSRArray:
    arcs, values = gcn_conv.gcn_norm(
        arcs, weight, nodes, improved=self_links == 2, add_self_loops=self_links > 0, dtype=torch.float64
    )
    matrix: CSRArray = sparse.csr_array((values.numpy(), arcs.numpy()), shape=(nodes, nodes))
    matrix.sum_duplicates()
    return matrix


def store_spectrum(data: Any, spectrum: Spectrum) -> Any:
    """Put a spectrum on ``data``: a row of the basis for each node, and what all nodes share."""
    device = data.edge_index.device
    data[BASIS] = torch.tensor(spectrum.eigenvectors, device=device)
    data[EIGENVALUES] = torch.tensor(spectrum.eigenvalues, device=device)
    data[TRACE] = torch.tensor(spectrum.trace, dtype=torch.float64, device=device)
    return data


def stored_spectrum(data: Any) -> Spectrum | None:
    """Return the spectrum that :func:`store_spectrum` put on ``data``, or None."""
    if BASIS not in data:
        return None
    basis, eigenvalues = (data[key].detach().cpu().double().numpy() for key in (BASIS, EIGENVALUES))
    return Spectrum(eigenvalues, basis, float(data[TRACE]), residual=0.0)
