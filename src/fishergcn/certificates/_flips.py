"""Which predictions no flipping of links can change: of label propagation, and of personalized PageRank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from scipy import sparse

from fishergcn._base.checks import check_choice, check_integer, check_real
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import BoolArray, CSRArray, FloatArray, IntArray, MatrixLike
from fishergcn.certificates._certify import nodes_of
from fishergcn.certificates._policy import Choices
from fishergcn.certificates._verdicts import Decisions
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel
from fishergcn.operators import SparseMatrix
from fishergcn.propagation import normalized_adjacency

Change = Literal["both", "remove", "add"]
_ROUNDS, _NEAR, _BEST, _OTHERS = 2, 64, 8, 2


@dataclass(frozen=True, repr=False)
class FlipCertificate(Decisions):
    """What is known of the classes of N nodes over all flips of links; see :func:`certify_flips`.

    Attributes
    ----------
    nodes, classes : ndarray of int, shape (N,)
        The nodes, and the class of each on the graph itself.
    lower, upper : ndarray, shape (N,)
        Bounds of the smallest margin, rounding included: the score of the class less the largest of the others. For
        label propagation scores are divided by the square root of the node's degree.
    certified, broken, undecided : ndarray of bool, shape (N,)
        No choice of flips changes the class; one was found that does; neither is known.
    others : ndarray of int, shape (N,)
        The class to which the worst graph changes a node, or comes closest to.
    change
        What may be done to links: ``"remove"``, ``"add"`` or ``"both"``.

    Examples
    --------
    See :func:`certify_flips`.

    >>> FlipCertificate.__name__
    'FlipCertificate'
    """

    change: Change
    _graphs: Mapping[int, CSRArray] = field(repr=False)

    def adjacency(self, node: int) -> CSRArray:
        """Return A of the graph that changes the class of a broken node."""
        found = self._graphs.get(check_integer("node", node, minimum=0))
        if found is None:
            raise InputError(f"node must be one that is broken, got {node}.")
        return found


def certify_pagerank(
    adjacency: MatrixLike,
    scores: FloatArray,
    flips: int | Sequence[int] | IntArray,
    nodes: Sequence[int] | IntArray | None = None,
    *,
    alpha: float = 0.1,
    change: Change = "both",
) -> FlipCertificate:
    """Say for each node whether flipped links can change its class under personalized propagation, exactly.

    The class is the largest of (Π H)_v with Π = α (I - (1 - α) D⁻¹A)⁻¹, where H are scores that do not depend on the
    links, such as the logits of an ``mlp`` (APPNP). Each node v may change at most ``flips`` (or ``flips[v]``) of its
    outgoing links, of which one must stay: u → v and v → u change independently. Policy iteration finds the worst of
    these graphs, so that no node stays undecided but for rounding. It also holds for undirected graphs with as many
    changes at each node, for which it is a lower bound.

    Parameters
    ----------
    adjacency : array_like or SciPy sparse, shape (n, n)
        A: symmetric, of zeros and ones.
    scores : ndarray, shape (n, C)
        H.
    flips : int or sequence of int
        b, of every node or of each.
    nodes : sequence of int, optional
        Which nodes; all by default.
    alpha : float
        α, the probability to stop, above 0 and below 1.
    change : {"both", "remove", "add"}
        What may be done to links.

    Returns
    -------
    FlipCertificate

    Examples
    --------
    >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> found = certify_pagerank(path, np.array([[1.0, 0.0], [0.6, 0.4], [0.0, 1.0]]), 1, alpha=0.5)
    >>> found.words, found.adjacency(1).toarray()[1].tolist()
    (['certified', 'broken', 'certified'], [0.0, 0.0, 1.0])
    """
    links = _unweighted(check_adjacency(adjacency))
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != links.shape[0] or table.shape[1] < 2 or not np.isfinite(table).all():
        raise InputError(f"scores must be finite, of shape ({links.shape[0]}, C) with C ≥ 2, got {table.shape}.")
    choices = _choices(links, flips, change, check_real("alpha", alpha, above=0.0, below=1.0))
    chosen = nodes_of(nodes, links.shape[0])
    plain = np.stack([choices.value(links, column) for column in table.T], axis=1)
    classes: IntArray = plain.argmax(1)[chosen]
    lower, upper = (np.full((len(chosen), table.shape[1]), np.inf) for _ in range(2))
    graphs: dict[tuple[int, int], CSRArray] = {}
    for own, other, at in _pairs(classes, table.shape[1]):
        below, value, graphs[own, other] = choices.worst(table[:, own] - table[:, other])
        lower[at, other], upper[at, other] = below[chosen[at]], value[chosen[at]]
    others = upper.argmin(1)
    slack = choices.rounding(float(np.abs(table).max(initial=0.0))) / choices.alpha
    broken = upper.min(1) < -2 * slack
    worst = {
        int(node): graphs[own, other]
        for node, own, other, found in zip(chosen.tolist(), classes.tolist(), others.tolist(), broken, strict=True)
        if found
    }
    low = lower.min(1)
    return FlipCertificate(chosen, classes, low, upper.min(1), low > 0, broken, others, change, worst)


def certify_flips(
    model: TrainedModel,
    flips: int | Sequence[int] | IntArray,
    nodes: Sequence[int] | IntArray | None = None,
    *,
    change: Change = "both",
) -> FlipCertificate:
    """Say for each node whether flipped links can change its class under label propagation.

    The graphs are undirected, with at most ``flips`` (or ``flips[v]``) links of every node v removed or added; every
    node with links keeps one. ``lp`` spreads labels over S = D^-½ A D^-½ = D^½ (D⁻¹A) D^-½, so that its scores are
    √d_v x_v with x spread over D⁻¹A from labels divided by √d. The bound is that of :func:`certify_pagerank`, with
    scores that depend on the choice, over as many steps as ``lp`` takes. Since each node chooses there for itself, and
    anew at each step, it is not exact here; nodes that it leaves open are attacked, and a broken one is verified by the
    model's own pass.

    Parameters
    ----------
    model : TrainedModel
        Label propagation, ``lp``, on a graph without weights.
    flips, nodes, change
        As in :func:`certify_pagerank`.

    Returns
    -------
    FlipCertificate

    Examples
    --------
    >>> import fishergcn
    >>> links = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)]
    >>> graph = fishergcn.Graph.from_edges(links, labels=[0, 0, 0, 1, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 5], val=[1], test=[2, 3, 4])
    >>> records = fishergcn.train(graph, "lp", split, keep_weights=True)
    >>> model = fishergcn.TrainedModel.from_records(graph, records, split)
    >>> certify_flips(model, [0, 1, 1, 0, 0, 0]).words
    ['certified', 'certified', 'certified', 'certified', 'certified', 'certified']
    >>> certify_flips(model, 1, nodes=[2, 3]).words
    ['broken', 'broken']
    """
    if not isinstance(model, TrainedModel) or model.method.base != "lp":
        what = model.method.name if isinstance(model, TrainedModel) else type(model).__name__
        raise InputError(
            f"flipped links are certified for label propagation (lp), got {what}; certify_pagerank takes scores that "
            "do not depend on the links, and certify_links reweights the links of linear and gcn."
        )
    one = model.only()
    links = _unweighted(check_adjacency(one.graph.adjacency))
    rule: Any = one.method.rule
    choices = _choices(links, flips, change, 1.0 - rule.alpha, power=0.5, mutual=True)
    chosen, attack = nodes_of(nodes, one.graph.num_nodes), _SymmetricAttack(one, choices)
    classes = attack.classes(links)[chosen]
    bounds = np.full((len(chosen), one.num_classes), np.inf)
    last: dict[tuple[int, int], FloatArray] = {}
    for own, other, at in _pairs(classes, one.num_classes):
        below, last[own, other] = choices.after(attack.margin(own, other), rule.steps)
        bounds[at, other] = below[chosen[at]]
    lower, graphs = bounds.min(1), {}
    certified, others, upper = lower > 0, bounds.argmin(1), attack.margins(chosen, classes)
    for place in np.flatnonzero(~certified).tolist():
        own, row = int(classes[place]), bounds[place]
        for other in np.argsort(row)[: min(_OTHERS, int((row <= 0).sum()))].tolist():
            found, value = attack.breaks(int(chosen[place]), own, other, last[own, other])
            if found is not None:
                graphs[int(chosen[place])], others[place], upper[place] = found, other, value
                break
    broken = np.array([int(node) in graphs for node in chosen], dtype=np.bool_)
    return FlipCertificate(chosen, classes, lower, upper, certified & ~broken, broken, others, change, graphs)


def _unweighted(links: CSRArray) -> CSRArray:
    if (links.data != 1).any():
        raise InputError(
            f"flipped links need a graph of weights 1, got a weight of {links.data[links.data != 1][0]:g}."
        )
    return links


def _choices(links: CSRArray, flips: Any, change: str, alpha: float, **more: Any) -> Choices:
    check_choice("change", change, get_args(Change))
    budgets = np.asarray(flips)
    if not np.issubdtype(budgets.dtype, np.integer) or budgets.shape not in ((), links.shape[:1]) or budgets.min() < 0:
        raise InputError(f"flips must be a whole number from 0 on, or one for each of {links.shape[0]} nodes.")
    budgets = np.broadcast_to(budgets, links.shape[:1]).astype(np.int64)
    return Choices(links, budgets, change != "add", change != "remove", alpha, **more)


def _pairs(classes: IntArray, count: int) -> list[tuple[int, int, IntArray]]:
    """Return every class that is there, with every other one and the places of its nodes."""
    return [
        (int(own), other, np.flatnonzero(classes == own))
        for own in np.unique(classes)
        for other in range(count)
        if other != own
    ]


class _SymmetricAttack:
    """Undirected flips within the budgets, taken greedily by what they are worth to a node to first order."""

    def __init__(self, model: TrainedModel, choices: Choices):
        rule: Any = model.method.rule
        self.model, self.choices, self.rule = model.to("cpu", torch.float64), choices, rule
        labels, (train, *_) = model._known_labels(model.graph)
        self.labels, self.train = np.asarray(labels)[train], np.asarray(train)
        counts = np.bincount(self.labels, minlength=model.num_classes) + 1.0
        self.shares = counts / counts.sum()

    def margin(self, own: int, other: int) -> FloatArray:
        """Return r with √d x the margin of P, times the sum of F: P mixes F with the classes' shares."""
        share: float = self.rule.share
        found = np.zeros(self.choices.links.shape[0])
        signs = (self.labels == own) * 1.0 - (self.labels == other)
        found[self.train] = (1 - share) * signs + share * (self.shares[own] - self.shares[other])
        return found

    def spread(self, links: CSRArray, own: int, other: int) -> FloatArray:
        """Return x over given links."""
        return self.choices.value(links, self.margin(own, other), steps=self.rule.steps)

    def margins(self, nodes: IntArray, classes: IntArray) -> FloatArray:
        """Return the margins of nodes on the graph itself."""
        found = np.full(len(nodes), np.inf)
        for own, other, at in _pairs(classes, self.model.num_classes):
            found[at] = np.minimum(found[at], self.spread(self.choices.links, own, other)[nodes[at]])
        return found

    @torch.no_grad()
    def classes(self, links: CSRArray) -> IntArray:
        """Return the classes by the model's own pass over other links."""
        operator = SparseMatrix.from_scipy(normalized_adjacency(links), dtype=torch.float64)
        found: IntArray = self.model.logits(operator)[:, 0].argmax(-1).numpy()
        return found

    def breaks(self, node: int, own: int, other: int, x: FloatArray) -> tuple[CSRArray | None, float]:
        """Return a graph that changes the class of a node, or None, and the margin there."""
        links = self.choices.links
        for _ in range(_ROUNDS):
            links = self._flipped(links, node, x)
            x = self.spread(links, own, other)
            if x[node] <= 0 and self.classes(links)[node] != own:
                return links, float(x[node])
        return None, np.inf

    def _flipped(self, current: CSRArray, node: int, x: FloatArray) -> CSRArray:
        """Return the graph with flips that lower x of a node by most, given x, and visits on the current links."""
        choices, n = self.choices, len(x)
        start = np.zeros(n)
        start[node] = choices.alpha
        walk = sparse.diags_array((1 - choices.alpha) / np.maximum(np.diff(current.indptr), 1)) @ current
        visits, back = start, sparse.csr_array(walk.T)
        for _ in range(30):
            visits = start + back @ visits
        base, degrees = choices.links, choices.degrees
        means = np.asarray(base @ x) / np.maximum(degrees, 1)
        near = np.argsort(-visits)[:_NEAR]
        near = near[visits[near] > 0]
        lowest = np.argsort(x).tolist()
        pairs: set[tuple[int, int, int]] = set()
        for v in near.tolist():
            linked = set(base.indices[base.indptr[v] : base.indptr[v + 1]].tolist())
            if choices.remove:
                pairs.update((min(v, u), max(v, u), -1) for u in linked if u != v)
            if choices.add:
                pairs.update((min(v, u), max(v, u), 1) for u in lowest[:_BEST] if u != v and u not in linked)
        if not pairs:
            return base
        one, two, sign = np.array(sorted(pairs)).T
        worth = -sign * (
            visits[one] * (x[two] - means[one]) / np.maximum(degrees[one] + (sign > 0), 1)
            + visits[two] * (x[one] - means[two]) / np.maximum(degrees[two] + (sign > 0), 1)
        )
        return _flip(base, choices.budgets, one, two, sign, worth)


def _flip(
    links: CSRArray, budgets: IntArray, one: IntArray, two: IntArray, sign: IntArray, worth: FloatArray
) -> CSRArray:
    """Flip pairs, the worthiest first, as far as budgets allow and both nodes keep a link."""
    left, sizes = budgets.copy(), np.diff(links.indptr).astype(np.int64)
    taken: BoolArray = np.zeros(len(one), dtype=np.bool_)
    for at in np.argsort(-worth):
        if worth[at] <= 0:
            break
        ends = [one[at], two[at]]
        if (left[ends] > 0).all() and (sizes[ends] + sign[at] > 0).all():
            left[ends] -= 1
            sizes[ends] += sign[at]
            taken[at] = True
    values = np.tile(sign[taken].astype(np.float64), 2)
    ends_of = np.concatenate([one[taken], two[taken]]), np.concatenate([two[taken], one[taken]])
    found = sparse.csr_array(links + sparse.csr_array((values, ends_of), shape=links.shape))
    found.eliminate_zeros()
    return found
