"""Which predictions no reweighting of links can change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy import sparse

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.types import BoolArray, CSRArray, FloatArray, IntArray
from fishergcn.certificates._certify import covered, nodes_of
from fishergcn.certificates._network import SpectralNetwork
from fishergcn.certificates._reweighted import Reweighted, errors
from fishergcn.certificates._verdicts import Decisions
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.models import TrainedModel
from fishergcn.operators import SparseMatrix

_STEPS = 8
_DOUBLE, _SINGLE = 2.0**-53, 2.0**-24


@dataclass(frozen=True, repr=False)
class LinkCertificate(Decisions):
    """What is known of the classes of N nodes over all reweightings of links; see :func:`certify_links`.

    Attributes
    ----------
    nodes, classes : ndarray of int, shape (N,)
        The nodes, and the class of each on the graph itself.
    lower, upper : ndarray, shape (N,)
        Bounds of the smallest margin: the logit of the class less the largest of the others. ``lower`` includes all
        rounding of a pass in float64; ``upper`` is the margin on the graph itself, or on the worst one found.
    certified, broken, undecided : ndarray of bool, shape (N,)
        No reweighting changes the class; one was found that does; neither is known.
    others : ndarray of int, shape (N,)
        The class to which the worst reweighting changes a node, or comes closest to.
    percent, own
        The family: by how much at most, and whether of the node's own links alone.
    rounding : ndarray, shape (N,)
        How much a pass in float32 can move the margin at most: where ``lower`` is above it, the certificate holds for
        such passes too.

    Examples
    --------
    See :func:`certify_links`.

    >>> LinkCertificate.__name__
    'LinkCertificate'
    """

    percent: float
    own: bool
    rounding: FloatArray
    _adjacency: CSRArray = field(repr=False)
    _moved: Mapping[int, FloatArray] = field(repr=False)

    def adjacency(self, node: int) -> CSRArray:
        """Return A of the reweighted graph that changes the class of a broken node."""
        found = self._moved.get(check_integer("node", node, minimum=0))
        if found is None:
            raise InputError(f"node must be one that is broken, got {node}.")
        return _reweighted(self._adjacency, found)


def certify_links(
    model: TrainedModel, percent: float, nodes: Sequence[int] | IntArray | None = None, *, own: bool = False
) -> LinkCertificate:
    """Say for each node whether reweighting links by up to ±percent can change its class.

    The graphs are A' with a'_ij = a'_ji = a_ij (1 + t_ij), t_ij from -percent/100 to percent/100, any t for any link,
    self-links of A included; no link appears or vanishes. Degrees change with them: the propagation matrix is
    (D' + I)^-½ (A' + I) (D' + I)^-½, and the bounds go through its normalization. Nodes that the bounds leave open are
    attacked by signs of gradients; a broken one is verified by the model's own pass over the reweighted graph.

    Parameters
    ----------
    model : TrainedModel
        One network, ``linear`` or ``gcn`` of one or two layers, with biases and own weights, on the renormalized graph.
    percent : float
        Above 0 and below 100.
    nodes : sequence of int, optional
        Which nodes; all by default.
    own : bool
        Only links of the node itself are reweighted, for each node anew.

    Returns
    -------
    LinkCertificate

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> records = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=50), keep_weights=True)
    >>> model = fishergcn.TrainedModel.from_records(graph, records, split)
    >>> certify_links(model, 10).words
    ['certified', 'certified', 'certified', 'certified']
    >>> bool((certify_links(model, 10, own=True).lower >= certify_links(model, 10).lower).all())
    True
    """
    one, network = _prepared(model)
    chosen = nodes_of(nodes, one.graph.num_nodes)
    share = check_real("percent", percent, above=0.0, below=100.0) / 100
    links = check_adjacency(one.graph.adjacency)
    logits = network.logits(np.zeros(0))
    classes: IntArray = logits.argmax(1)[chosen]
    each = np.full(links.nnz, share)
    low, high = (_with_itself(_reweighted(links, sign * each)) for sign in (-1, 1))
    bounds = np.full((len(chosen), network.classes), np.inf)
    _bound(network, low, high, chosen, classes, bounds)
    off = [errors(network, low, high, unit)[-1][chosen] for unit in (_DOUBLE, _SINGLE)]
    off = [here[np.arange(len(chosen)), classes] + here.max(1) for here in off]
    bounds -= off[0][:, None]
    for at in np.flatnonzero(bounds.min(1) <= 0) if own else ():  # what holds for all links holds for a node's own
        closer = np.full((1, network.classes), np.inf)
        _bound(network, *_own(links, share, chosen[at]), chosen[[at]], classes[[at]], closer)
        bounds[at] = np.maximum(bounds[at], closer[0] - off[0][at])
    attack = _Attack(one, network, links, share, own=own)
    return attack.decided(chosen, classes, bounds, logits[chosen], off[1], percent)


def _prepared(model: Any) -> tuple[TrainedModel, SpectralNetwork]:
    """Return the only network, checked, and its weights."""
    one = covered(model)
    matrix = one.method.matrix
    if matrix.normalization != (1.0, 0.5, 0.5):
        raise InputError(f"links can be reweighted in (D + I)^-½ (A + I) (D + I)^-½, got {matrix.title}.")
    if one.depth > 2:
        raise InputError(f"reweighted links are bounded through one or two layers, got {one.depth}.")
    if abs(one.propagation - matrix.of(one.graph, one.config)).max() > 1e-12:
        raise InputError("the model has a propagation matrix of its own, which is not that of its graph's links.")
    return one, SpectralNetwork.of(one, None)


def _reweighted(links: CSRArray, moved: FloatArray) -> CSRArray:
    """Return A with a_ij (1 + t_ij), for t in the order of the entries."""
    return sparse.csr_array((links.data * (1.0 + moved), links.indices, links.indptr), shape=links.shape)


def _with_itself(links: CSRArray) -> CSRArray:
    found = sparse.csr_array(links + sparse.eye_array(links.shape[0], format="csr"))
    found.sort_indices()
    return found


def _own(links: CSRArray, share: float, node: int) -> tuple[CSRArray, CSRArray]:
    """Return bounds of A + I where only links of a node are reweighted."""
    moved = np.where(_touching(links, node), share, 0.0)
    return _with_itself(_reweighted(links, -moved)), _with_itself(_reweighted(links, moved))


def _touching(links: CSRArray, node: int) -> BoolArray:
    found: BoolArray = links.indices == node
    found[links.indptr[node] : links.indptr[node + 1]] = True
    return found


def _bound(
    network: SpectralNetwork, low: CSRArray, high: CSRArray, nodes: IntArray, classes: IntArray, out: FloatArray
) -> None:
    """Write lower bounds of the margin of each node over every other class, (N, C)."""
    family = Reweighted.of(network, low, high, np.unique(low[nodes].indices).astype(np.int64))
    columns = np.eye(network.classes)
    for own in np.unique(classes):
        at = np.flatnonzero(classes == own)
        for other in np.delete(np.arange(network.classes), own):
            out[at, other] = family.margins(nodes[at], columns[own] - columns[other])


class _Attack:
    """Signs of gradients of a margin in the weights of links, again and again, and the pass that verifies a graph."""

    def __init__(self, model: TrainedModel, network: SpectralNetwork, links: CSRArray, share: float, *, own: bool):
        self.model, self.network, self.links, self.share, self.own = model, network, links, share, own
        self.rows = np.repeat(np.arange(links.shape[0]), np.diff(links.indptr))
        order = sparse.csr_array((np.arange(links.nnz), links.indices, links.indptr), shape=links.shape)
        self.mate: IntArray = sparse.csr_array(order.T).data  # the entry (j, i) of each (i, j)

    def decided(
        self,
        nodes: IntArray,
        classes: IntArray,
        bounds: FloatArray,
        logits: FloatArray,
        rounding: FloatArray,
        percent: float,
    ) -> LinkCertificate:
        """Attack what is not certified, and return the certificate."""
        lower, picked = bounds.min(1), np.arange(len(nodes))
        margins = logits[picked, classes][:, None] - logits
        margins[picked, classes] = np.inf
        upper, others, moves = margins.min(1), margins.argmin(1), {}
        certified = lower > 0
        for at in np.flatnonzero(~certified):
            for other in np.flatnonzero(bounds[at] <= 0).tolist():
                if other != classes[at] and int(nodes[at]) not in moves:
                    value, moved = self._worst(nodes[at], classes[at], other)
                    if value < upper[at]:
                        upper[at], others[at] = value, other
                    if value <= 0 and (margin := self._margin(nodes[at], classes[at], moved)) < 0:
                        moves[int(nodes[at])], upper[at] = moved, margin
        broken = np.array([int(node) in moves for node in nodes], dtype=np.bool_)
        return LinkCertificate(
            nodes, classes, lower, upper, certified & ~broken, broken, others,
            float(percent), self.own, rounding, self.links, moves,
        )  # fmt: skip

    def _worst(self, node: int, own: int, other: int) -> tuple[float, FloatArray]:
        direction = np.zeros(self.network.classes)
        direction[own], direction[other] = 1.0, -1.0
        best, found = np.inf, np.zeros(self.links.nnz)
        moved, mask = found, _touching(self.links, node) if self.own else None
        for _ in range(_STEPS + 1):
            value, slope = self.descent(moved, node, direction)
            if value < best:
                best, found = value, moved
            step = -self.share * np.sign(slope if mask is None else np.where(mask, slope, 0.0))
            if (step == moved).all():
                break
            moved = step
        return best, found

    def descent(self, moved: FloatArray, node: int, direction: FloatArray) -> tuple[float, FloatArray]:
        """Return the margin of a node at t, and its gradient in t, for both entries of a link at once."""
        network, links = self.network, self.links
        weights = _reweighted(links, moved)
        root = (np.asarray(weights.sum(1)) + 1.0) ** -0.5
        entries = weights.data * root[self.rows] * root[links.indices]
        matrix = sparse.csr_array((entries, links.indices, links.indptr), shape=links.shape)
        slopes = np.zeros_like(entries)  # in ã_ij
        itself = np.zeros(links.shape[0])  # in ã_ii, as far as it is 1/d_i

        def spread(row: int, values: FloatArray) -> FloatArray:
            """Return row ``row`` of Ã times values."""
            span = slice(links.indptr[row], links.indptr[row + 1])
            return entries[span] @ values[links.indices[span]] + root[row] ** 2 * values[row]  # type: ignore[no-any-return]

        def credit(row: int, factor: FloatArray, values: FloatArray) -> None:
            span = slice(links.indptr[row], links.indptr[row + 1])
            slopes[span] += values[links.indices[span]] @ factor
            itself[row] += values[row] @ factor

        if not network.layers:
            value = float((spread(node, network.first) + network.own[node]) @ direction)
            credit(node, direction, network.first)
        else:
            (layer,) = (each.toward(direction[:, None]) for each in network.layers)
            span = slice(links.indptr[node], links.indptr[node + 1])
            near = np.unique(np.append(links.indices[span], node))
            hidden = np.zeros_like(network.own)
            inner = np.asarray(matrix[near] @ network.first) + root[near, None] ** 2 * network.first[near]
            hidden[near] = inner + network.own[near]
            active = (hidden > 0) if network.relu else np.ones_like(hidden)
            hidden = network.activated(hidden)
            product = hidden @ layer.weight
            constant = layer.constant[node] if layer.constant.ndim == 2 else layer.constant
            value = float((spread(node, product) + constant)[0])
            credit(node, np.ones(1), product)
            back = np.zeros(links.shape[0])
            back[links.indices[span]] = entries[span]
            back[node] += root[node] ** 2
            if layer.own is not None:
                value += float(hidden[node] @ layer.own[:, 0])
            for row in near:
                factor = back[row] * layer.weight[:, 0]
                if layer.own is not None and row == node:
                    factor = factor + layer.own[:, 0]
                credit(row, factor * active[row], network.first)
        # ã_ij = w_ij (d_i d_j)^-½: its slope in each degree is -ã_ij / (2 d), that of 1/d_i is -1/d_i².
        through = slopes * entries
        both = np.concatenate([self.rows, links.indices]), np.tile(through, 2)
        degrees = -0.5 * np.bincount(both[0], both[1], links.shape[0]) * root**2 - itself * root**4
        gradient = slopes * root[self.rows] * root[links.indices] + degrees[self.rows]
        gradient = np.where(self.mate == np.arange(len(gradient)), gradient, gradient + gradient[self.mate])
        return value, gradient * links.data

    @torch.no_grad()
    def _margin(self, node: int, own: int, moved: FloatArray) -> float:
        """Return the margin by the model's own pass over the reweighted graph."""
        wide = self.model.to("cpu", torch.float64)
        matrix = wide.method.matrix.of(Graph(_reweighted(self.links, moved)), wide.config)
        out = wide.logits(SparseMatrix.from_scipy(matrix, dtype=torch.float64))[node, 0]
        rest = torch.cat([out[:own], out[own + 1 :]])
        return float(out[own] - rest.max())
