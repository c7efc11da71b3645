"""Graphs from and to NetworkX and PyTorch Geometric."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fishergcn._base.imports import require
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.graph._formats._columns import Columns
from fishergcn.graph._formats._nodes import read_nodes
from fishergcn.graph._formats._reading import NO_WEIGHT
from fishergcn.graph._formats._records import Records, records_of_nodes
from fishergcn.graph._formats._source import opened
from fishergcn.graph._formats._tables import node_arguments
from fishergcn.graph._formats._text import cell_of

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

    from fishergcn.graph._graph import Graph

_MASKS = {"train": "train_mask", "val": "val_mask", "test": "test_mask"}


def networkx_arguments(
    graph: networkx.Graph, weight: str, attributes: bool | Sequence[str], columns: Columns
) -> dict[str, Any]:
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
    arguments = {"adjacency": adjacency, "node_ids": [str(node) for node in graph.nodes]}
    wanted = [attributes] if isinstance(attributes, str) else attributes
    if not wanted and columns.label is None and not columns.splits:
        return arguments
    kept = None if wanted is True else [*(wanted or ()), *map(str, (*columns.label_columns, *columns.split_columns))]
    table = records_of_nodes("graph", graph.nodes(data=True), kept)
    nodes = read_nodes(table, columns, (), announced=True, trusted=True)
    missing = [name for name in (wanted if isinstance(wanted, Sequence) else ()) if name not in _roots(nodes.names)]
    if missing:
        there = sorted({repr(str(name)) for _, found in graph.nodes(data=True) for name in found})
        raise InputError(f"no node has the attribute {missing[0]!r}; there are {', '.join(there) or 'none'}.")
    return arguments | node_arguments(nodes, columns)


def _roots(names: Sequence[str] | None) -> set[str]:
    """Return names of attributes: those of lists are numbered, and stand without their number as well."""
    return {*(names or ()), *(name.rpartition(".")[0] for name in names or ())}


def graphml_records(path: Path, weight: str | int | None) -> tuple[Records, Records, bool]:
    """Return the links and the nodes of a GraphML file as tables, and whether it says that links are arcs."""
    networkx = require("networkx", extra="pyg", purpose=f"reading {path}")
    with opened(path) as stream:
        text = stream.read()
    # Entities make much of little; no graph needs them.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise DataFileError(f"{path} is refused: GraphML must not declare a document type or entities.")
    try:
        graph = networkx.read_graphml(io.BytesIO(text.encode()), force_multigraph=True)
        name = str("weight" if weight in (None, NO_WEIGHT) else weight)
        data = [(str(first), str(second), found) for first, second, found in graph.edges(data=True)]
    except Exception as error:
        # The parser trusts its file; whatever a damaged one makes it raise means the same.
        raise DataFileError(f"{path} is not a GraphML file, or it is damaged ({_short(error)}).") from error
    weighted = weight != NO_WEIGHT and any(name in found for _, _, found in data)
    if weight not in (None, NO_WEIGHT) and not weighted:
        raise DataFileError(f"{path}: no link has the attribute {name!r}.")
    rows = [
        (at, [first, second, *([cell_of(found.get(name, 1))] if weighted else [])])
        for at, (first, second, found) in enumerate(data, 1)
    ]
    head = ["source", "target", *([name] if weighted else [])]
    nodes = records_of_nodes(str(path), graph.nodes(data=True), None)
    return Records(str(path), "link", [(0, head), *rows]), nodes, bool(graph.is_directed())


def _short(error: Exception) -> str:
    return " ".join(reason(error).split())[:200].rstrip(".")


def pyg_arguments(data: Data) -> dict[str, Any]:
    """Return the arguments of ``Graph.from_edges`` for a PyG ``Data`` (duck-typed: torch alone is needed)."""
    index, weight = getattr(data, "edge_index", None), getattr(data, "edge_weight", None)
    matrix = getattr(data, "adj_t", None)
    if index is None and matrix is None:
        raise InputError("data must have an edge_index or adj_t; torch_geometric.utils converts from other forms.")
    if index is None:
        utils = require("torch_geometric.utils", extra="pyg", purpose="Graph.from_pyg with adj_t")
        index, weight = utils.to_edge_index(matrix)
        index = index.flip(0)  # a row of adj_t receives
    # Where T.GDC and many data sets put weights; features of links have several columns.
    column = getattr(data, "edge_attr", None)
    if weight is None and column is not None and column.is_floating_point() and column.numel() == index.shape[1]:
        weight = column.reshape(-1)
    if data.num_nodes is None:
        raise InputError("data must say how many nodes it has: set data.num_nodes or data.x.")
    arguments: dict[str, Any] = {"edges": _array(index).T, "num_nodes": int(data.num_nodes), "directed": "refuse"}
    if weight is not None:
        arguments["weights"] = _array(weight)
    for field, argument in (("x", "features"), ("y", "labels")):
        if getattr(data, field, None) is not None:
            found = getattr(data, field)
            arguments[argument] = _sparse(found) if field == "x" and _is_sparse(found) else _array(found)
    labels = arguments.get("labels")
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
        arguments["labels"] = labels[:, 0]  # a column, as in the OGB data sets
    masks = {part: getattr(data, field, None) for part, field in _MASKS.items()}
    if all(mask is not None and mask.ndim == 1 for mask in masks.values()):
        arguments["standard_split"] = {part: np.flatnonzero(_array(mask)) for part, mask in masks.items()}
    elif all(mask is not None and mask.ndim == 2 for mask in masks.values()):  # several splits, one a column
        arguments["masks"] = {part: _array(mask).T for part, mask in masks.items()}
    return arguments


def _is_sparse(tensor: Any) -> bool:
    return str(tensor.layout) != "torch.strided"


def _array(tensor: Any) -> AnyArray:
    plain = tensor.detach().cpu()
    return np.asarray((plain.to_dense() if _is_sparse(plain) else plain).numpy())


def _sparse(tensor: Any) -> Any:
    """Return a sparse tensor of any layout as a SciPy matrix, without making it dense."""
    plain = tensor.detach().cpu().to_sparse_coo().coalesce()
    return sparse.csr_array((plain.values().numpy(), tuple(plain.indices().numpy())), shape=tuple(plain.shape))


def to_pyg(graph: Graph, keep_sparse: bool) -> Data:
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
    if graph.features is not None and keep_sparse and not isinstance(graph.features, np.ndarray):
        entries = sparse.coo_array(graph.features)
        fields["x"] = torch.sparse_coo_tensor(
            torch.from_numpy(np.stack(entries.coords).astype(np.int64)),
            torch.from_numpy(entries.data.copy()),
            entries.shape,
            check_invariants=True,
            is_coalesced=True,
        )
    elif graph.features is not None:
        dense = np.array(graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray())
        fields["x"] = torch.from_numpy(dense)
    if graph.labels is not None:
        fields["y"] = torch.from_numpy(graph.labels.copy())
    if graph.targets is not None:  # several labels as whole numbers, -1 for unknown; a number in float32
        kind = np.int64 if graph.task == "multilabel" else np.float32
        fields["y"] = torch.from_numpy(graph.targets.astype(kind))
    for part, index in (graph.standard_split or {}).items():
        mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
        mask[torch.from_numpy(index.copy())] = True
        fields[_MASKS[part]] = mask
    if graph.standard_split is None:  # PyG has one place for both
        for part, rows in (graph.masks or {}).items():
            fields[_MASKS[part]] = torch.from_numpy(rows.T.copy())
    return data_module.Data(**fields)
