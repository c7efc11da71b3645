"""Graphs from and to NetworkX and PyTorch Geometric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fishergcn._base.imports import require
from fishergcn._base.types import AnyArray
from fishergcn.errors import InputError, reason

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

    from fishergcn.graph._graph import Graph

_MASKS = {"train": "train_mask", "val": "val_mask", "test": "test_mask"}


def networkx_arguments(graph: networkx.Graph, weight: str) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for a NetworkX graph; parallel links add their weights."""
    networkx = require("networkx", extra="pyg", purpose="Graph.from_networkx")
    if not isinstance(graph, networkx.Graph):
        raise InputError(f"graph must be a NetworkX graph, got {type(graph).__name__}.")
    if graph.number_of_nodes() < 2:
        raise InputError(f"graph must have at least 2 nodes, got {graph.number_of_nodes()}.")
    try:
        adjacency = networkx.to_scipy_sparse_array(graph, weight=weight, dtype=float, format="csr")
    except (TypeError, ValueError) as error:
        raise InputError(f"the link attribute {weight!r} must be a number ({reason(error)}).") from error
    return {"adjacency": adjacency, "node_ids": [str(node) for node in graph.nodes]}


def pyg_arguments(data: Data) -> dict[str, Any]:
    """Return the arguments of ``Graph.from_edges`` for a PyG ``Data`` (duck-typed: torch alone is needed)."""
    if getattr(data, "edge_index", None) is None:
        raise InputError("data must have an edge_index; torch_geometric.utils converts from other forms.")
    if data.num_nodes is None:
        raise InputError("data must say how many nodes it has: set data.num_nodes or data.x.")
    arguments: dict[str, Any] = {
        "edges": _array(data.edge_index).T,
        "num_nodes": int(data.num_nodes),
        "directed": "refuse",
    }
    for field, argument in (("edge_weight", "weights"), ("x", "features"), ("y", "labels")):
        if getattr(data, field, None) is not None:
            arguments[argument] = _array(getattr(data, field))
    labels = arguments.get("labels")
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
        arguments["labels"] = labels[:, 0]  # a column, as in the OGB data sets
    masks = {part: getattr(data, field, None) for part, field in _MASKS.items()}
    if all(mask is not None and mask.ndim == 1 for mask in masks.values()):
        arguments["standard_split"] = {part: np.flatnonzero(_array(mask)) for part, mask in masks.items()}
    elif all(mask is not None and mask.ndim == 2 for mask in masks.values()):  # several splits, one a column
        arguments["masks"] = {part: _array(mask).T for part, mask in masks.items()}
    return arguments


def _array(tensor: Any) -> AnyArray:
    plain = tensor.detach().cpu()
    return np.asarray((plain if str(plain.layout) == "torch.strided" else plain.to_dense()).numpy())


def to_pyg(graph: Graph) -> Data:
    """Return a PyG ``Data`` with the arcs, features, labels and masks of ``graph``; floats are float32."""
    import torch

    data_module = require("torch_geometric.data", extra="pyg", purpose="Graph.to_pyg")
    links = sparse.coo_array(graph.adjacency)
    fields: dict[str, Any] = {
        "edge_index": torch.from_numpy(np.stack(links.coords).astype(np.int64)),
        "num_nodes": graph.num_nodes,
    }
    if np.any(links.data != 1.0):
        fields["edge_weight"] = torch.from_numpy(links.data.astype(np.float32))
    if graph.features is not None:
        dense = np.array(graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray())
        fields["x"] = torch.from_numpy(dense)
    if graph.labels is not None:
        fields["y"] = torch.from_numpy(graph.labels.copy())
    for part, index in (graph.standard_split or {}).items():
        mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
        mask[torch.from_numpy(index.copy())] = True
        fields[_MASKS[part]] = mask
    if graph.standard_split is None:  # PyG has one place for both
        for part, rows in (graph.masks or {}).items():
            fields[_MASKS[part]] = torch.from_numpy(rows.T.copy())
    return data_module.Data(**fields)
