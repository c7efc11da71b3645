"""Which predictions no graph of a neighborhood can change, and how far that is so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.types import BoolArray, FloatArray, IntArray
from fishergcn.certificates._ball import Ball
from fishergcn.certificates._network import SpectralNetwork, check_covered
from fishergcn.certificates._search import Search
from fishergcn.certificates._verdicts import Decisions
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel
from fishergcn.operators import SparsePlusLowRank
from fishergcn.perturbation import Neighborhood

ROUNDS, PARTS = 6, 64
_STEPS = 6
_SINGLE = 2.0**-24


@dataclass(frozen=True, repr=False)
class Certificate(Decisions):
    """What is known of the classes of N nodes over all graphs of a ball; see :func:`certify`.

    Attributes
    ----------
    radius, bound
        r in Bures distance, and the bound of λ_max(L), None for none.
    nodes, classes : ndarray of int, shape (N,)
        The nodes, and the class of each on the graph itself.
    lower, upper : ndarray, shape (N,)
        Bounds of the smallest margin over the ball: the logit of the class less the largest of the others. ``lower``
        includes all rounding of a pass in float64; ``upper`` is that of a graph of the ball.
    certified, broken, undecided : ndarray of bool, shape (N,)
        No graph of the ball changes the class; ``shares`` is one that does; neither is known.
    shares : ndarray, shape (N, k)
        q of the worst graph that was found; that of the graph itself for nodes that were certified at once.
    others : ndarray of int, shape (N,)
        The class to which the worst graph changes a node, or comes closest to.
    rounding : ndarray, shape (N,)
        How much a pass in float32 can move the margin at most, whatever the order of its sums: where ``lower`` is
        above it, the certificate holds for such passes too.

    Examples
    --------
    See :func:`certify`.

    >>> Certificate.__name__
    'Certificate'
    """

    radius: float
    bound: float | None
    shares: FloatArray
    rounding: FloatArray
    _around: Neighborhood = field(repr=False)

    def operator(self, node: int) -> SparsePlusLowRank:
        """Return Ã(q) of the worst graph that was found for a node, in float64."""
        at = np.flatnonzero(self.nodes == check_integer("node", node, minimum=0))
        if not len(at):
            raise InputError(f"node must be one that was certified, got {node}.")
        return _operator(self._around, self.shares[at[0]])


def certify(
    model: TrainedModel,
    radius: float,
    nodes: Sequence[int] | IntArray | None = None,
    *,
    neighborhood: Neighborhood | None = None,
    bound: float | None = 2.0,
    rounds: int = ROUNDS,
) -> Certificate:
    """Say for each node whether a graph within a Bures distance can change its class.

    The graphs are Ã(q) = Ã - Σw Ū diag(q - λ̄) Ūᵀ with D_B(ρ, ρ(q)) ≤ radius and λ_max(L(q)) ≤ bound. One layer
    (``hidden=()``) is decided exactly, up to rounding. For ``linear`` and for networks with ReLU linear bounds
    (CROWN) are followed by branch and bound over q, which may leave nodes undecided.

    Parameters
    ----------
    model : TrainedModel
        One network: ``linear``, or ``gcn`` with what may stand around its name, of any depth, with biases and own
        weights; not with normalized layers. For others there is :func:`certify_smoothed`.
    radius : float
        r, above 0 and at most the distance of the farthest graph.
    nodes : sequence of int, optional
        Which nodes; all by default.
    neighborhood : Neighborhood, optional
        Around the model's propagation matrix; by default the ``rank`` largest eigenpairs of the model's settings.
    bound : float or None
        Of λ_max(L(q)): 2 is that of normalized graphs; None leaves it out.
    rounds : int
        How often the ball is cut in two for nodes that are undecided; 0 for bounds over the whole ball alone.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> records = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=50), keep_weights=True)
    >>> model = fishergcn.TrainedModel.from_records(graph, records, split)
    >>> found = certify(model, 0.05, neighborhood=fishergcn.Neighborhood(model.propagation, rank=2, radius=0))
    >>> found.words, bool((found.lower <= found.upper).all())
    (['certified', 'certified', 'certified', 'certified'], True)
    """
    one, around, chosen = prepared(model, nodes, neighborhood)
    rounds = check_integer("rounds", rounds, minimum=0, maximum=20)
    network = SpectralNetwork.of(one, around)
    ball = ball_of(around, network, radius, bound)
    search = Search.of(network, ball, chosen)
    if rounds and network.layers:
        search.branch(rounds, PARTS)
    reach = np.maximum(ball.high - ball.shares, ball.shares - ball.low)
    off = network.errors(_SINGLE, reach)[-1][chosen]
    broken = _verified(one, around, search)
    return Certificate(
        chosen, search.classes, search.lower, search.upper, search.certified & ~broken, broken, search.other,
        float(radius), bound, search.shares, off[np.arange(len(chosen)), search.classes] + off.max(1), around,
    )  # fmt: skip


def certified_radius(
    model: TrainedModel,
    nodes: Sequence[int] | IntArray | None = None,
    *,
    neighborhood: Neighborhood | None = None,
    bound: float | None = 2.0,
    steps: int = _STEPS,
) -> FloatArray:
    """Return for each node a radius up to which no graph changes its class, shape (N,); 0 if none was found.

    Bisection over the 2^steps radii R t², t = 1/2^steps, …, 1, with R that of the farthest graph, and bounds over the
    whole ball alone: what holds at a radius holds at all smaller ones. Other arguments are those of :func:`certify`.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> records = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=50), keep_weights=True)
    >>> model = fishergcn.TrainedModel.from_records(graph, records, split)
    >>> around = fishergcn.Neighborhood(model.propagation, rank=2, radius=0)
    >>> radii = certified_radius(model, neighborhood=around, steps=3)
    >>> bool(certify(model, radii.min(), neighborhood=around).certified.all())
    True
    """
    one, around, chosen = prepared(model, nodes, neighborhood)
    steps = check_integer("steps", steps, minimum=1, maximum=12)
    network, most, found = SpectralNetwork.of(one, around), _farthest(around, bound), np.zeros(len(chosen))
    open_ = [(0, 2**steps + 1, np.arange(len(chosen)))]  # certified at the first step, not known to be at the last
    while open_:
        low, high, at = open_.pop()
        found[at] = most * (low / 2**steps) ** 2
        if high - low < 2 or not len(at):
            continue
        middle = (low + high) // 2
        ball = ball_of(around, network, most * (middle / 2**steps) ** 2, bound)
        kept = Search.of(network, ball, chosen[at], attack=False).certified
        open_ += [(middle, high, at[kept]), (low, middle, at[~kept])]
    return found


def prepared(
    model: Any, nodes: Sequence[int] | IntArray | None, neighborhood: Neighborhood | None
) -> tuple[TrainedModel, Neighborhood, IntArray]:
    """Return the only network, its neighborhood and the nodes, checked."""
    one = covered(model)
    around = neighborhood_of(one, neighborhood)
    return one, around, nodes_of(nodes, one.graph.num_nodes)


def covered(model: Any) -> TrainedModel:
    """Return the only network, of which there are bounds."""
    check_covered(model)
    one: TrainedModel = model.only()
    if one.num_classes < 2:
        raise InputError("a certificate needs a network of at least two classes, got one.")
    return one


def neighborhood_of(model: TrainedModel, neighborhood: Neighborhood | None) -> Neighborhood:
    """Return the neighborhood, by default that of the model's own matrix, in float64 on the CPU."""
    if neighborhood is None:
        return Neighborhood(model.propagation, rank=model.config.rank, radius=0.0)
    if not isinstance(neighborhood, Neighborhood) or neighborhood.graph is not None:
        raise InputError(f"neighborhood must be a Neighborhood of one graph, got {type(neighborhood).__name__}.")
    if neighborhood.directions == "random" or neighborhood.scale != "projected":
        raise InputError(
            "neighborhood must be along eigenvectors with the projected scale, got "
            f"directions={neighborhood.directions!r} and scale={neighborhood.scale!r}."
        )
    if (nodes := neighborhood.propagation.shape[0]) != model.graph.num_nodes:
        raise InputError(f"neighborhood must be that of the model's {model.graph.num_nodes} nodes, got {nodes}.")
    return neighborhood.to("cpu", torch.float64)


def nodes_of(nodes: Sequence[int] | IntArray | None, count: int) -> IntArray:
    """Return node numbers, all without any given."""
    if nodes is None:
        return np.arange(count)
    found = np.asarray(nodes)
    if found.ndim != 1 or not len(found) or not np.issubdtype(found.dtype, np.integer):
        raise InputError("nodes must be a list of whole numbers, at least one.")
    if found.min() < 0 or found.max() >= count:
        raise InputError(f"nodes must be from 0 to {count - 1}, got {found.min()} to {found.max()}.")
    return found.astype(np.int64)


def ball_of(around: Neighborhood, network: SpectralNetwork, radius: float, bound: float | None) -> Ball:
    """Return the ball of a radius, or raise if it is beyond the neighborhood."""
    radius, most = check_real("radius", radius, above=0.0), _farthest(around, bound)
    if radius > most * (1 + 1e-12):
        within = "" if bound is None else f" with eigenvalues of L up to {bound:g}"
        raise InputError(f"radius must be at most {most:.6g}, that of the farthest graph{within}, got {radius:g}.")
    cap = None if bound is None else bound / float(around.spectrum.eigenvalues.sum())
    return Ball.of(network.shares, around.captured_mass, radius, cap)


def _farthest(around: Neighborhood, bound: float | None) -> float:
    if bound is not None:
        largest = float(around.spectrum.eigenvalues.max())
        if check_real("bound", bound, above=0.0) < largest:
            raise InputError(
                f"bound must be at least {largest:.6g}, the graph's own largest eigenvalue, got {bound:g}."
            )
    return around.farthest(bound)


def _operator(around: Neighborhood, shares: FloatArray) -> SparsePlusLowRank:
    phi = np.log(np.maximum(shares, 1e-300)) - np.log(around.projected_spectrum.cpu().numpy())
    return around.operator(torch.as_tensor(phi))


@torch.no_grad()
def _verified(model: TrainedModel, around: Neighborhood, search: Search) -> BoolArray:
    """Return which nodes a pass over the graph that was found puts in another class: by the library's own operator."""
    broken, wide = np.zeros(len(search.nodes), dtype=np.bool_), model.to("cpu", torch.float64)
    for at in np.flatnonzero(search.broken):
        out = wide.logits(_operator(around, search.shares[at]))[search.nodes[at], 0]
        broken[at] = int(out.argmax()) != search.classes[at]
    return broken
