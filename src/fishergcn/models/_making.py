"""What a trained model is made of: the records of training, or a network that was trained elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.matrices import as_square_csr
from fishergcn._base.types import CSRArray, MatrixLike
from fishergcn._settings.choices import Scaling
from fishergcn.errors import InputError
from fishergcn.execution import check_graph, check_records
from fishergcn.graph import Graph
from fishergcn.models._matching import matched_features
from fishergcn.nn import GCN, by_layer
from fishergcn.operators import Operator, SparseMatrix
from fishergcn.splits import Split, choose
from fishergcn.training import Run, RunRecord, TrainConfig, find_task, input_size, parse_method

_PARTS = ("train", "val", "test")


def record_arguments(
    graph: Graph,
    records: RunRecord | Iterable[RunRecord],
    splits: Split | str | Iterable[Split | str],
    device: torch.device | str,
) -> dict[str, Any]:
    """Return the arguments of ``TrainedModel`` for runs of one method, whose weights were kept."""
    graph = check_graph(graph)
    found = check_records([records] if isinstance(records, RunRecord) else records)
    named = {split.name: split for split in choose(graph, splits)}
    first = found[0]
    if any((record.method, record.config) != (first.method, first.config) for record in found):
        raise InputError("records must be of one method with the same settings.")
    if any(record.graph_digest != graph.digest or record.split not in named for record in found):
        raise InputError("the record, the graph and the split do not match.")
    for record in found:
        if record.status != "ok":
            raise InputError(f"{record.method} on {record.dataset}, split {record.split}: {record.status}.")
        if record.weights is None:
            raise InputError("the record has no weights; train with keep_weights=True.")
    config, method = TrainConfig.from_dict(first.config), parse_method(first.method)
    runs = tuple(Run(named[record.split], record.seed) for record in found)
    known: dict[str, Any] = {
        "graph": graph,
        "method": method,
        "config": config,
        "records": tuple(found),
        "runs": runs,
        "chosen_by": find_task(graph.task).score,
        "_sizes": tuple({part: len(getattr(run.split, part)) for part in _PARTS} for run in runs),
    }
    if not method.trained:
        return known | {"weights": {}, "_learned_from": tuple((record.weights or {})["train"] for record in found)}
    options: dict[str, Any] = {"dtype": getattr(torch, config.dtype), "device": device}
    wanted = method.network.tensors(input_size(graph, config), graph.num_classes, config)
    weights = {}
    for name, each in wanted.items():
        arrays = [(record.weights or {}).get(name) for record in found]
        if any(array is None or array.shape != each.shape for array in arrays):
            raise InputError(f"the weights of a record must have {name!r} of shape {each.shape}.")
        weights[name] = torch.as_tensor(np.stack([array for array in arrays if array is not None]), **options)
    return known | {"weights": weights}


def network_arguments(
    network: GCN | Callable[[Operator], Tensor],
    graph: Graph,
    propagation: SparseMatrix | MatrixLike | None,
    scaling: Scaling,
) -> dict[str, Any]:
    """Return the arguments of ``TrainedModel`` for a network that fits a graph."""
    graph = check_graph(graph)
    if graph.targets is not None:
        raise InputError(f"a network that was trained elsewhere must classify nodes, and the task is {graph.task!r}.")
    if not callable(network):
        raise InputError(f"network must be a GCN or map an operator to logits, got {type(network).__name__}.")
    given = dict(network.named_parameters()) if isinstance(network, GCN) else {}
    weights = {name: each.detach().clone().unsqueeze(0) for name, each in given.items()}
    layers = by_layer(weights, "weights")
    hidden, bias = tuple(each.shape[2] for each in layers[:-1]), "biases.0" in weights
    arguments: dict[str, Any] = {
        "graph": graph,
        "method": parse_method("gcn"),
        "config": TrainConfig(scaling=scaling, hidden=hidden, bias=bias) if layers else TrainConfig(scaling=scaling),
        "weights": weights,
        "_outputs": layers[-1].shape[2] if layers else None,
        "_function": None if weights else network,
        "_matrix": None if propagation is None else _checked_matrix(graph, propagation),
        "_matrix_is_given": propagation is not None,
    }
    if weights:
        matched_features(graph, graph, layers[0].shape[1])  # raises where they are too few or too many
        if (known := layers[-1].shape[2]) < graph.num_classes:
            raise InputError(f"the network must fit the graph: it knows {known} classes, not {graph.num_classes}.")
    return arguments


def _checked_matrix(graph: Graph, propagation: SparseMatrix | MatrixLike) -> CSRArray:
    given = propagation.scipy if isinstance(propagation, SparseMatrix) else propagation
    matrix = as_square_csr(given, name="propagation")
    if matrix.shape[0] != graph.num_nodes:
        raise InputError(f"propagation must have a row for each of {graph.num_nodes} nodes, got {matrix.shape[0]}.")
    return matrix
