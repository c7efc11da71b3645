"""Whether a layer multiplies with the matrix whose spectrum the adversary moves; seen in the layer's first pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.imports import require
from fishergcn._base.types import CSRArray, IntArray
from fishergcn.integrations.pyg._graph import Reading
from fishergcn.integrations.pyg._layers import Layer

utils = require("torch_geometric.utils", extra="pyg", purpose="fishergcn.integrations.pyg")

# Largest difference of two entries that normalization in another precision can make; entries are at most 1.
ROUNDING = 1e-5
HALF_ROUNDING = 2e-2


def difference(
    layer: Layer,
    module: Any,
    edge_index: Any,
    given: dict[str, Any],
    adversary: CSRArray,
    reading: Reading,
    source: str,
) -> str | None:
    """Say in one sentence how the matrix in ``propagate`` differs from the adversary's, or None if it does not."""
    matrix, dtype = _layer_matrix(module, edge_index, given, adversary.shape[0])
    if not layer.normalizing:
        other = _count_of_other_links(matrix, adversary)
        if other:
            return f"{layer.name} sends messages along other links than the adversary's graph has ({other} differ)."
        return None
    gap = sparse.coo_array(abs(matrix - adversary))
    worst = int(np.argmax(gap.data)) if gap.nnz else -1
    rounding = HALF_ROUNDING if dtype in (torch.float16, torch.bfloat16) else ROUNDING
    if worst < 0 or gap.data[worst] <= rounding * max(1.0, float(abs(matrix).max())):
        return None
    row, column = (int(index[worst]) for index in gap.coords)
    return (
        f"{layer.name} multiplies with another matrix than the adversary, which moves the spectrum of that from "
        f"data.{source}: entry ({row}, {column}) is {matrix[row, column]:.4g}, the adversary's "
        f"{adversary[row, column]:.4g}, and its perturbed graph is in general no density matrix. "
        f"{_advice(module, reading, source)}"
    )


def _advice(module: Any, reading: Reading, source: str) -> str:
    if not getattr(module, "normalize", True) and reading.normalize:
        return "If data holds normalized weights, as T.GCNNorm() leaves them, build the adversary with normalize=False."
    if source in ("edge_weight", "edge_attr"):
        return f"Give data.{source} to the model, or build the adversary with weights=None."
    return "Put the weights that the model is given on data.edge_weight before the adversary is built."


def _layer_matrix(module: Any, edge_index: Any, given: dict[str, Any], nodes: int) -> tuple[CSRArray, torch.dtype]:
    """Return the a with out_i = Σ_j a_ij x_j that ``propagate`` was given; without weights, all are 1."""
    weight = given.get("edge_weight")
    if utils.is_sparse(edge_index):
        (target, source), values = utils.to_edge_index(edge_index)  # of adj_t: a row receives
        weight = values if weight is None else weight
    else:
        source, target = edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index
        if module.flow == "target_to_source":
            source, target = target, source
    weight = torch.ones(source.numel(), dtype=torch.float64, device=source.device) if weight is None else weight
    values = weight.detach().double().reshape(-1).cpu().numpy()
    places = (_numbers(target), _numbers(source))
    matrix: CSRArray = sparse.csr_array((values, places), shape=(nodes, nodes))
    matrix.sum_duplicates()
    return matrix, weight.dtype


def _numbers(index: Tensor) -> Any:
    return index.detach().cpu().numpy()


def _count_of_other_links(matrix: CSRArray, adversary: CSRArray) -> int:
    """Return how many arcs, self-links aside, one of two graphs has and the other has not."""
    one, other = (_pairs(each) for each in (matrix, adversary))
    return int(np.setxor1d(one, other, assume_unique=True).size)


def _pairs(matrix: CSRArray) -> IntArray:
    """Return i n + j for each stored entry off the diagonal."""
    coordinates = sparse.coo_array(matrix)
    rows, columns = (index.astype(np.int64) for index in coordinates.coords)
    return np.unique((rows * matrix.shape[0] + columns)[rows != columns])
