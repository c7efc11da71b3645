"""The propagation operator of a changed graph, where the networks run.

Every change of the graph needs Algorithm 1 anew for the high-order methods. On a GPU that is done with dense matrices,
in float64 as elsewhere; entries that equal the threshold up to rounding may fall on the other side of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fishergcn.graph import Graph
from fishergcn.operators import DenseOperator
from fishergcn.propagation import dense_high_order

if TYPE_CHECKING:
    from fishergcn._base.types import CSRArray
    from fishergcn.models import TrainedModel
    from fishergcn.operators import Operator

_DENSE_NODES = 32_768  # up to here a dense matrix is built on a GPU: 8 GB in float64


def operator_of(model: TrainedModel, adjacency: CSRArray) -> Operator:
    """Return Ã that a model has on another graph of its nodes, where its networks run.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> from fishergcn.attacks import add_links
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2)], features=np.eye(3))
    >>> model = fishergcn.TrainedModel.from_network(fishergcn.GCN(3, (2,), 2), graph)
    >>> operator_of(model, add_links(graph.adjacency, 1, seed=0))
    SparseMatrix(3 × 3, 9 entries, torch.float32, cpu)
    """
    model.check_network()
    config, device = model.config, model.device
    if model.method.high_order and device.type != "cpu" and adjacency.shape[0] <= _DENSE_NODES:
        dense = dense_high_order(adjacency, config.order, config.threshold, device=device)
        return DenseOperator(dense.to(model.dtype))
    return model.operator_of(Graph(adjacency))
