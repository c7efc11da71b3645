"""With which matrix a layer multiplies, and how it differs from the one whose neighborhood an adversary knows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.types import CSRArray, IntArray
from fishergcn._base.warn import warn
from fishergcn.errors import InputError
from fishergcn.integrations.pyg._entry import InForce, original_class, outside_transforms
from fishergcn.integrations.pyg._graph import Reading, utils
from fishergcn.integrations.pyg._layers import Layer, conv
from fishergcn.perturbation import PerturbationWarning

# Largest difference of two entries that normalization in another precision can make; entries are at most 1.
ROUNDING = 1e-5
HALF_ROUNDING = 2e-2
# An odd number with random bits, for digests.
_ODD = -7046029254386353131


class Comparison:
    """Compares what layers multiply with to the adversary's ``matrix``, again whenever they are given other links.

    ``reading`` and ``source`` say how the matrix was read from the data, and from where.
    """

    def __init__(self, matrix: CSRArray, reading: Reading, source: str) -> None:
        self.matrix, self.reading, self.source = matrix, reading, source
        self._pairs: Tensor | None = None
        self._last_part: int | None = None

    def note(self, perturbation: InForce, layer: Layer, module: Any, edge_index: Any, given: dict[str, Any]) -> None:
        """Look at a pass of a layer; refuse it, or warn once, where the perturbation does not fit."""
        if not layer.known:
            layer.known = True
            if not _is_product(layer, module, edge_index, given):
                warn(
                    f"{layer.name} does not send messages of the form a_ij x_j with x={layer.argument!r}, to which the "
                    "correction belongs: its sum is not linear in it, or a node hears itself.",
                    PerturbationWarning,
                )
        if layer.settled or (perturbation.part and perturbation.index is None):
            return
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return
        with outside_transforms():
            arcs = _arcs_of(module, edge_index, given)
            if arcs.weight is not None and arcs.weight.numel() != arcs.source.numel():
                return  # several matrices at once, of torch.func.vmap
            said = (
                self._whole(layer, arcs) if perturbation.index is None else self._part(layer, perturbation.index, arcs)
            )
        if said is not None:
            layer.settled = True
            warn(said, PerturbationWarning)

    def _whole(self, layer: Layer, arcs: Arcs) -> str | None:
        digest = arcs.digest(self.matrix.shape[0])
        if digest == layer.digest:
            return None
        layer.digest = digest
        return _difference(layer, arcs, self.matrix, self.reading, self.source)

    def _part(self, layer: Layer, index: Tensor, arcs: Arcs) -> str | None:
        """Look up the links of a batch in the whole graph: with wrong node numbers, most are not there."""
        nodes, index = self.matrix.shape[0], index.to(arcs.source.device)
        ends = Arcs(index[arcs.target], index[arcs.source], None)
        digest = ends.digest(nodes)
        if digest == self._last_part:
            return None
        if self._pairs is None or self._pairs.device != index.device:
            self._pairs = torch.from_numpy(_pairs(self.matrix)).to(index.device)
        codes = (ends.target * nodes + ends.source)[ends.target != ends.source]
        unknown = int((~torch.isin(codes, self._pairs)).sum())
        if unknown > codes.numel() // 2:
            raise InputError(
                f"the node numbers of the batch do not fit: {unknown} of the {codes.numel()} links that {layer.name} "
                "sees are not in the graph of the adversary; give them in the order of the nodes of the batch."
            )
        self._last_part = digest
        return (
            f"{unknown} links that {layer.name} sees in a batch are not in the adversary's graph." if unknown else None
        )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pairs": None}


def check_rows(perturbation: InForce, batch: Any) -> None:
    """Raise if a tensor of node numbers is longer than the batch that layers have seen."""
    if isinstance(batch, Tensor) and 0 < perturbation.most < len(batch):
        raise InputError(
            f"the batch has {len(batch)} node numbers, but no attached layer saw more than {perturbation.most} "
            "nodes; give one for each node of the batch, or the batch itself with its n_id."
        )


class Arcs(NamedTuple):
    """Where the messages of a pass go, m of them, and their weights, None if all are 1."""

    target: Tensor
    source: Tensor
    weight: Tensor | None

    def digest(self, nodes: int) -> int:
        """Return a number that another matrix hardly has, whatever the order of its arcs."""
        word = (self.target * nodes + self.source) * _ODD
        word = word ^ (word >> 32)
        if self.weight is not None:
            bits = self.weight.detach().reshape(-1).double().view(torch.int64)
            word = word * (2 * (bits ^ (bits >> 29)) + 1)
        return int(word.sum())


def _arcs_of(module: Any, edge_index: Any, given: dict[str, Any]) -> Arcs:
    """Return the links and weights that ``propagate`` was given."""
    weight = given.get("edge_weight")
    if utils.is_sparse(edge_index):
        (target, source), values = utils.to_edge_index(edge_index)  # of adj_t: a row receives
        weight = values if weight is None else weight
    else:
        source, target = _plain(edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index)
        if module.flow == "target_to_source":
            source, target = target, source
    return Arcs(target, source, None if weight is None else _plain(weight))


def _plain(tensor: Tensor) -> Tensor:
    """Return what a transform of torch.func has wrapped."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def _is_product(layer: Layer, module: Any, edge_index: Any, given: dict[str, Any]) -> bool:
    """Whether ``propagate`` is linear in x, up to a constant, and a node without a self-link hears others only."""
    x, kind = given[layer.argument], original_class(module)
    if not isinstance(x, Tensor):
        return True

    def moved(change: Tensor | float) -> Tensor:
        with torch.random.fork_rng([x.device] if x.is_cuda else []):  # the same dropout each time
            out: Tensor = kind.propagate(module, edge_index, size=None, **(given | {layer.argument: change * x}))
        return out.movedim(module.node_dim, 0)

    arcs = _arcs_of(module, edge_index, given)
    with torch.no_grad():
        rest = moved(0.0)
        once = moved(1.0) - rest
        rounding = 1e-2 * float(once.abs().max())
        linear = max(float((moved(factor) - rest - factor * once).abs().max()) for factor in (-1.0, 2.0)) <= rounding
        quiet = torch.ones(len(once), dtype=torch.bool, device=x.device)
        quiet[arcs.target[arcs.source == arcs.target]] = False
        if not linear or not bool(quiet.any()):
            return linear
        # From one node alone, which has the most links, nothing comes back to it.
        node = int((torch.bincount(arcs.source, minlength=len(quiet)) * quiet).argmax())
        alone = torch.zeros(len(quiet), dtype=x.dtype, device=x.device)
        alone[node] = 1.0
        heard = moved(alone.view(-1, *[1] * (x.ndim - 1)).movedim(0, module.node_dim)) - rest
        return float(heard[node].abs().max()) <= rounding


def _difference(layer: Layer, arcs: Arcs, adversary: CSRArray, reading: Reading, source: str) -> str | None:
    """Say in one sentence how the matrix in ``propagate`` differs from the adversary's, or None if it does not."""
    matrix, dtype = _layer_matrix(arcs, adversary.shape[0])
    other = np.setxor1d(_pairs(matrix), _pairs(adversary), assume_unique=True).size  # self-links aside
    if other:
        return (
            f"{layer.name} sends messages along other links than the adversary's graph has ({other} differ). Build the "
            "adversary from the graph that the model is given, and give parts of it to average(…, batch)."
        )
    if not layer.normalizing:
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
        f"{_advice(layer.module, reading, source)}"
    )


def _advice(module: Any, reading: Reading, source: str) -> str:
    if isinstance(module, conv.APPNP) and module.dropout > 0 and module.training:
        return f"Its dropout={module.dropout:g} drops links in training, which the correction does not follow."
    if not getattr(module, "normalize", True) and reading.normalize:
        return "If data holds normalized weights, as T.GCNNorm() leaves them, build the adversary with normalize=False."
    if source in ("edge_weight", "edge_attr"):
        return f"Give data.{source} to the model, or build the adversary with weights=None."
    return "Put the weights that the model is given on data.edge_weight before the adversary is built."


def _layer_matrix(arcs: Arcs, nodes: int) -> tuple[CSRArray, torch.dtype]:
    """Return the a with out_i = Σ_j a_ij x_j."""
    weight = torch.ones(arcs.source.numel(), dtype=torch.float64) if arcs.weight is None else arcs.weight
    values = weight.detach().double().reshape(-1).cpu().numpy()
    places: Any = tuple(each.detach().cpu().numpy() for each in (arcs.target, arcs.source))
    matrix: CSRArray = sparse.csr_array((values, places), shape=(nodes, nodes))
    matrix.sum_duplicates()
    return matrix, weight.dtype


def _pairs(matrix: CSRArray) -> IntArray:
    """Return i n + j for each stored entry off the diagonal."""
    coordinates = sparse.coo_array(matrix)
    rows, columns = (index.astype(np.int64) for index in coordinates.coords)
    return np.unique((rows * matrix.shape[0] + columns)[rows != columns])
