"""How the weight of a link acts on a network's loss, or on one prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.reprs import one_line
from fishergcn._base.types import AnyArray, CSRArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.geometry.extrinsic._link_scores import Order, graph_gradient, largest, ranking
from fishergcn.geometry.extrinsic._model import check_nodes, check_range, loss, one_network
from fishergcn.models import Ensemble, LinkScores, TrainedModel, entry_scores, raw_scores
from fishergcn.propagation import renormalized

Links: TypeAlias = Literal["present", "absent", "all"]
# Of one block of scores with all that is made from it.
MEMORY_LIMIT = 256 * 2**20


@dataclass(frozen=True)
class LinkSensitivity:
    """Links and the derivative of a network's output in the weight of each; see :func:`link_sensitivity`."""

    links: IntArray
    values: FloatArray
    present: AnyArray

    __repr__ = one_line

    def __len__(self) -> int:
        return len(self.values)

    def top(self, count: int, order: Order = "magnitude") -> LinkSensitivity:
        """Return the ``count`` links that rank first by magnitude, by increase or by decrease."""
        key = ranking(order)(self.values)
        best = np.argsort(-key, kind="stable")[: check_integer("count", count, minimum=1)]
        return LinkSensitivity(self.links[best], self.values[best], self.present[best])

    def named(self, names: Sequence[str]) -> list[tuple[str, str, bool, float]]:
        """Return (node, other node, whether it is a link of the graph, derivative) of each, nodes by their names."""
        pairs = zip(self.links.tolist(), self.present.tolist(), self.values.tolist(), strict=True)
        return [(names[i], names[j], is_link, value) for (i, j), is_link, value in pairs]


def link_sensitivity(
    model: TrainedModel,
    nodes: Sequence[int] | AnyArray | None = None,
    through_normalization: bool = True,
    *,
    links: Links | Sequence[tuple[int, int]] | AnyArray = "present",
    top: int | None = None,
    order: Order = "magnitude",
    score_of: int | tuple[int, int] | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> LinkSensitivity:
    """Return ∂ℓ/∂a_ij, the effect of a small change of a link's weight on the loss of a network.

    A link is changed in both directions at once. With ∂ℓ/∂Ã = Σ_l S_l Z_lᵀ (Z_l = H^l W^l and
    S_l = Δ_{l+1} ∘ σ'_{l+1} in a GCN), an entry of the propagation matrix has

        ∂ℓ/∂ã_ij = Σ_l (S_l,i · Z_l,j + Z_l,i · S_l,j) = Σ_l (E_l,i · h_l,j + h_l,i · E_l,j),  E_l = S_l W^lᵀ,

    and a raw link a_ij in Ã = (D+I)^-½ (A+I) (D+I)^-½ the same over sqrt((d_i+1)(d_j+1)), less what the
    growing degrees of i and j take from all their links.

    Parameters
    ----------
    model : TrainedModel
        As in :func:`fisher_information`; its graph has labels, unless a score is asked for. Or an ensemble of networks
        that each have a derivative in the weight of a link: not of high-order ones, nor with links as features.
    nodes : sequence of int, optional
        ℓ is the mean of -log p(y_i) over these nodes; all labeled ones by default.
    through_normalization : bool
        The derivative in the raw weight a_ij of the renormalized graph; False for the entry ã_ij of any propagation
        matrix. The high-order one cuts off small entries, and has no derivative in a raw link.
    links : {"present", "absent", "all"} or pairs of shape (m, 2)
        Which pairs of nodes: links of the graph, all others, or both; a high-order matrix has entries for many
        pairs that are no links. "absent" and "all" stand for up to n(n-1)/2 pairs and need ``top``; they leave out
        links of a node to itself, which may be asked for as pairs.
    top, order : int, {"magnitude", "increase", "decrease"}
        Return only this many, those that rank first by absolute value, by value or by -value.
    score_of : int or (int, int), optional
        Instead of the loss take log p(c) of this node, c the given class or else the predicted one.
    memory_limit : int
        Bytes for the blocks in which the best of all pairs are searched.

    Returns
    -------
    LinkSensitivity
        ``links``, (m, 2), i < j unless chosen otherwise, in the order of the pairs or, with ``top``, first in rank
        first; ``values``, their derivatives; ``present``, whether each is a link of the graph. ``found.top(count,
        order)`` selects the first in rank, and ``found.named(names)`` lists all by the names of their ends.

    Examples
    --------
    >>> import torch, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], labels=[0, 0, 1, 1])
    >>> ideal = torch.eye(2, dtype=torch.float64)[torch.tensor(graph.labels)]  # a node votes for its class
    >>> model = fishergcn.TrainedModel.from_network(lambda operator: operator @ ideal, graph)
    >>> found = link_sensitivity(model)
    >>> found.links.tolist(), found.values.round(3)
    ([[0, 1], [1, 2], [2, 3]], array([-0.023,  0.09 , -0.023]))
    >>> found.top(1, "increase").links  # a heavier link between the classes harms most
    array([[1, 2]])
    """
    ranking(order)
    count = None if top is None else check_integer("top", top, minimum=1)
    network: TrainedModel = model if isinstance(model, Ensemble) else one_network(model)
    scores = _scores(network, nodes, through_normalization, score_of)
    there = network.graph.adjacency
    if isinstance(links, str):
        check_choice("links", links, get_args(Links))
        if links != "present":
            return _best(scores, there, links, count, order, memory_limit)
        pairs = _stored_pairs(there)
    else:
        pairs = _check_pairs(network, links)
    found = LinkSensitivity(pairs, scores.of(pairs), _stored(there, pairs))
    return found if count is None else found.top(count, order)


def _scores(
    model: TrainedModel,
    nodes: Sequence[int] | AnyArray | None,
    through_normalization: bool,
    score_of: int | tuple[int, int] | None,
) -> LinkScores:
    if score_of is None:
        chosen = check_nodes(model, nodes, labeled=True)
    elif nodes is not None:
        raise InputError("nodes must not be given with score_of: the one averages a loss, the other is a node.")

    def output(logits: Tensor) -> Tensor:
        return loss(model, logits, chosen) if score_of is None else _log_probability(logits, score_of)

    if isinstance(model, Ensemble):
        if not through_normalization:
            raise InputError(
                "through_normalization=False is for one network; the members of an ensemble have their own matrices."
            )
        return _of_members(model, output)
    if through_normalization:
        _check_renormalized(model)
    gradient = graph_gradient(model, output)
    if not through_normalization:
        return entry_scores(*gradient)
    return raw_scores(*gradient, model.graph.adjacency, model.propagation)


def check_links(model: TrainedModel) -> None:
    """Raise where :func:`link_sensitivity` does not know the derivative in the weight of a link."""
    if not isinstance(model, Ensemble):
        model.check_network(links=True, symmetric=True)
        return
    if model.graph.targets is not None:
        raise InputError(f"this is for models that classify nodes, and the task of this one is {model.graph.task!r}.")
    for each in model.members:
        if not (each.method.trained and each.method.matrix.local) or each.config.links_as_features:
            raise InputError(
                f"a member of the ensemble, {each.method.name!r}, has no derivative in the weight of a link; "
                "fishergcn explain and model.explain(node) compute anew without each link, with any model."
            )


def _of_members(model: Ensemble, output: Callable[[Tensor], Tensor]) -> LinkScores:
    """Add up what a link does through each member, ∂ℓ/∂a_ij = Σ_k ∂ℓ/∂z_k · ∂z_k/∂a_ij."""
    check_links(model)
    members = [each.to("cpu", torch.float64) for each in model.members]
    outs = [each.logits().requires_grad_() for each in members]
    slopes = torch.autograd.grad(output(model.mixed(outs)[:, 0]), outs)
    nodes, adjacency = model.graph.num_nodes, model.graph.adjacency
    left, right, diagonal = [np.zeros((nodes, 1))], [np.zeros((nodes, 1))], np.zeros(nodes)
    for each, slope in zip(members, slopes, strict=True):
        if (normalization := each.method.matrix.normalization) is not None:
            S, Z = graph_gradient(each, lambda logits, by=slope[:, 0]: (logits * by).sum())  # type: ignore[misc]
            found = raw_scores(S, Z, adjacency, each.propagation, normalization)
            left, right, diagonal = [*left, found.left], [*right, found.right], diagonal + found.diagonal
    return LinkScores(np.hstack(left), np.hstack(right), diagonal)


def _log_probability(logits: Tensor, score_of: int | tuple[int, int]) -> Tensor:
    node, label = score_of if isinstance(score_of, tuple) else (score_of, None)
    node = check_integer("score_of", node, minimum=0, maximum=len(logits) - 1)
    row = torch.log_softmax(logits[node], dim=0)
    if label is None:
        return row[int(row.argmax())]
    return row[check_integer("the class of score_of", label, minimum=0, maximum=len(row) - 1)]


def _check_renormalized(model: TrainedModel) -> None:
    difference = model.propagation - renormalized(model.graph.adjacency)
    if difference.nnz and np.abs(difference.data).max() > 1e-9:
        raise InputError(
            "through_normalization=True needs the renormalized graph: another propagation matrix, such as "
            "the high-order one with its threshold, has no derivative in a raw link; use "
            "through_normalization=False."
        )


def _best(
    scores: LinkScores, there: CSRArray, links: str, count: int | None, order: Order, memory_limit: int
) -> LinkSensitivity:
    if count is None:
        raise InputError(f"links={links!r} needs top, the number of links to return.")
    limit = check_integer("memory_limit", memory_limit, minimum=1)
    pairs, values = largest(scores, count, order, there if links == "absent" else None, limit)
    return LinkSensitivity(pairs, values, _stored(there, pairs))


def _stored_pairs(matrix: CSRArray) -> IntArray:
    upper = sparse.triu(matrix, k=1).tocoo()
    pairs = np.stack([upper.row, upper.col], axis=1).astype(np.int64)
    return np.asarray(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))])


def _check_pairs(model: TrainedModel, links: Sequence[tuple[int, int]] | AnyArray) -> IntArray:
    pairs = np.asarray(links)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or len(pairs) == 0:
        raise InputError("links must be 'present', 'absent', 'all' or pairs of node indices, at least one.")
    check_range(model, "links", pairs.ravel())
    return pairs.astype(np.int64)


def _stored(matrix: CSRArray, pairs: IntArray) -> AnyArray:
    if len(pairs) == 0:
        return np.zeros(0, dtype=np.bool_)
    return np.asarray(matrix[pairs[:, 0], pairs[:, 1]] != 0).ravel()
