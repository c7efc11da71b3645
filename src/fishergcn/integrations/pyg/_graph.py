"""The matrices that PyTorch Geometric's layers multiply with, read from ``Data`` as PyG reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.imports import require
from fishergcn._base.matrices import SYMMETRY, symmetric_or_raise
from fishergcn._base.types import CSRArray
from fishergcn.errors import InputError

gcn_conv = require("torch_geometric.nn.conv.gcn_conv", extra="pyg", purpose="fishergcn.integrations.pyg")
data_module = require("torch_geometric.data", extra="pyg", purpose="fishergcn.integrations.pyg")
utils = require("torch_geometric.utils", extra="pyg", purpose="fishergcn.integrations.pyg")

BaseTransform: Any = require(
    "torch_geometric.transforms", extra="pyg", purpose="fishergcn.integrations.pyg"
).BaseTransform

AUTO = "auto"


class Reading(NamedTuple):
    """How ``Data`` is read: the weight of added self-links, whether to normalize, and which attribute has weights."""

    self_links: int
    normalize: bool
    weights: str | None


class Links(NamedTuple):
    """Arcs (2, m) and weights (m,), None if all are 1, of one or more graphs side by side."""

    arcs: Tensor
    weight: Tensor | None
    nodes: int
    source: str


def read_links(data: Any, reading: Reading) -> Links:
    """Return the links of ``Data`` or ``Batch``, on the CPU: from ``edge_index``, or else from ``adj_t``."""
    if isinstance(data, data_module.HeteroData):
        raise InputError(
            "data must be a homogeneous graph, got HeteroData; the adversary takes data.to_homogeneous(), with all "
            "node types in one matrix of features."
        )
    index = getattr(data, "edge_index", None)
    given = reading.weights
    if index is None:
        matrix = getattr(data, "adj_t", None)
        if matrix is None:
            raise InputError("data must have an edge_index; torch_geometric.utils converts from other forms.")
        index, weight = utils.to_edge_index(matrix)
        weight, source = (None if given is None else weight), "adj_t"
    else:
        weight, source = _weights(data, given)
    if data.num_nodes is None:
        raise InputError("data must say how many nodes it has: set data.num_nodes or data.x.")
    nodes = int(data.num_nodes)
    return Links(*_checked(index, weight, nodes, source), nodes, source)


def _weights(data: Any, given: str | None) -> tuple[Tensor | None, str]:
    """Return the weights of the links and where they stand; by default ``edge_weight``, or a column ``edge_attr``."""
    if given is None:
        return None, "edge_index"
    if given != AUTO:
        found = getattr(data, given, None)
        if found is None:
            raise InputError(f"data must have the link weights {given!r} that weights names, got none.")
        return found, given
    if getattr(data, "edge_weight", None) is not None:
        return data.edge_weight, "edge_weight"
    # Where T.GDC and many data sets put weights; features of links have several columns.
    column = getattr(data, "edge_attr", None)
    if column is not None and column.is_floating_point() and column.numel() == data.edge_index.shape[1]:
        return column, "edge_attr"
    return None, "edge_index"


def propagation_of(links: Links, reading: Reading) -> CSRArray:
    """Return Ã: exactly that of GCNConv, or the weights themselves where they are normalized already."""
    if reading.normalize:
        matrix = _normalized(links.arcs, links.weight, links.nodes, reading.self_links)
    else:
        if links.weight is None:
            raise InputError("normalize=False needs link weights, as T.GCNNorm() leaves them, got none.")
        matrix = _matrix(links.arcs, links.weight, links.nodes)
    try:
        return symmetric_or_raise(matrix, name="edge_index", rounding=SYMMETRY)
    except InputError as error:
        raise InputError(
            "edge_index must list both arcs of a link, with equal weights; build the adversary from "
            "T.ToUndirected()(data)."
        ) from error


def graph_of_nodes(data: Any) -> Tensor | None:
    """Return which graph of a batch each node belongs to, ascending, or None where ``data`` is one graph."""
    graph: Tensor | None = getattr(data, "batch", None)
    if not isinstance(graph, Tensor) or not isinstance(data, data_module.Batch):
        return None
    return graph.detach()


def as_batch(data: Any) -> Any:
    """Return several graphs, in a list or a data set, as one ``Batch``; a graph or a batch as it is."""
    if isinstance(data, Sequence) or (hasattr(data, "__len__") and hasattr(data, "get") and hasattr(data, "indices")):
        graphs = [data[index] for index in range(len(data))]
        if not graphs or not all(isinstance(each, data_module.Data) for each in graphs):
            raise InputError("a list of graphs must hold Data objects, at least one.")
        keys = set.intersection(*(set(each.keys()) for each in graphs))
        wanted = keys & {"edge_index", "edge_weight", "edge_attr", "adj_t", *STORED}
        bare = [data_module.Data(num_nodes=each.num_nodes, **{key: each[key] for key in wanted}) for each in graphs]
        return data_module.Batch.from_data_list(bare)
    return data


STORED = ("bures_basis", "bures_eigenvalues", "bures_trace", "bures_digest")


def slices_of(graph: Tensor, graphs: int) -> list[slice]:
    """Return where the nodes of each graph of a batch stand."""
    ends = torch.bincount(graph.cpu(), minlength=graphs).cumsum(0).tolist()
    return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def blocks_of(matrix: CSRArray, graph: Tensor, graphs: int) -> list[CSRArray]:
    """Return the diagonal blocks of the matrix of a batch, or raise if a link leaves its graph."""
    blocks = [matrix[part, part] for part in slices_of(graph, graphs)]
    if sum(each.nnz for each in blocks) != matrix.nnz:
        raise InputError("a link of the batch must stay in its graph, got one between two graphs.")
    return blocks


def learned_propagation(edge_index: Tensor, edge_weight: Tensor | None, nodes: int, self_links: int) -> CSRArray:
    """Return Ã of (A + Aᵀ)/2 for a learned A; weights with several columns (heads) are averaged."""
    if edge_weight is not None and edge_weight.ndim > 1:
        edge_weight = edge_weight.flatten(1).mean(dim=1)
    arcs, weight = _checked(edge_index, edge_weight, nodes, "edge_weight")
    weight = torch.ones(arcs.shape[1], dtype=torch.float64) if weight is None else weight
    matrix = _matrix(arcs, weight, nodes)
    symmetric = sparse.coo_array((matrix + matrix.T) / 2)
    arcs = torch.stack([torch.from_numpy(index).long() for index in symmetric.coords])
    return _normalized(arcs, torch.from_numpy(symmetric.data), nodes, self_links)


def _checked(edge_index: Tensor, edge_weight: Tensor | None, nodes: int, name: str) -> tuple[Tensor, Tensor | None]:
    """Return arcs and weights on the CPU, without gradients, or raise if they are not those of a graph."""
    arcs = edge_index.detach().cpu()
    if arcs.ndim != 2 or arcs.shape[0] != 2:
        raise InputError(f"edge_index must have shape (2, arcs), got {tuple(arcs.shape)}.")
    if arcs.dtype not in (torch.int64, torch.int32):
        raise InputError(f"edge_index must hold whole numbers, of torch.int64, got {arcs.dtype}.")
    outside = arcs[(arcs < 0) | (arcs >= nodes)]
    if outside.numel():
        raise InputError(f"edge_index must hold node numbers from 0 to {nodes - 1}, got {int(outside[0])}.")
    if edge_weight is None:
        return arcs, None
    weight = edge_weight.detach().cpu().double().reshape(-1)
    if weight.numel() != arcs.shape[1]:
        raise InputError(f"{name} must have {arcs.shape[1]} entries, got {weight.numel()}.")
    wrong = weight[~(weight.isfinite() & (weight >= 0))]
    if wrong.numel():
        raise InputError(
            f"{name} must be finite and not negative, got {float(wrong[0])}"
            + ("; weights=None leaves it out." if name == "edge_attr" else ".")
        )
    return arcs, weight


def _normalized(arcs: Tensor, weight: Tensor | None, nodes: int, self_links: int) -> CSRArray:
    arcs, values = gcn_conv.gcn_norm(
        arcs, weight, nodes, improved=self_links == 2, add_self_loops=self_links > 0, dtype=torch.float64
    )
    return _matrix(arcs, values, nodes)


def _matrix(arcs: Tensor, weight: Tensor, nodes: int) -> CSRArray:
    matrix: CSRArray = sparse.csr_array((weight.numpy(), arcs.numpy()), shape=(nodes, nodes))
    matrix.sum_duplicates()
    return matrix


def device_of(data: Any) -> torch.device:
    """Return where the links of some data are."""
    index = getattr(data, "edge_index", None)
    found: torch.device = (data.adj_t if index is None else index).device
    return found
