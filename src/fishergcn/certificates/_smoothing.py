"""Certificates for any network, by randomized smoothing in the chart of the neighborhood.

With x = √λ̄ ∘ φ and noise ε ~ N(0, σ² I), the smoothed class of a node at x is the most probable one of the network at
x + ε. If its probability at x = 0 is at least p > 1/2, it is the same at every x with ‖x‖ < σ Φ⁻¹(p) (Cohen, Rosenfeld
and Kolter, 2019). What is certified is the smoothed class, not that of the network itself.

A graph with shares q has φ = log(q/λ̄) + any constant, so ‖x‖² ≤ Σ_j λ̄_j log²(q_j/λ̄_j). With y_j = √(q_j/λ̄_j) - 1 and
D_B²(q) = s Σ_j λ̄_j y_j² ≤ r² every |y_j| is at most ρ/√λ̄_j, ρ = r/√s, and |log(1 + y)| ≤ |y| log(1 - a)/(-a) for
|y| ≤ a < 1. Hence the ball of Bures radius r lies in that of the radius

    ‖x‖ ≤ 2 ρ max_j [-log(1 - a_j)/a_j],   a_j = ρ/√λ̄_j,

of the chart, which is infinite where some a_j reaches 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import beta, norm
from torch import Tensor

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.reprs import one_line
from fishergcn._base.types import BoolArray, FloatArray, IntArray
from fishergcn.certificates._certify import neighborhood_of, nodes_of
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel
from fishergcn.perturbation import Neighborhood

_FIRST = 100  # draws that choose the class, apart from those that count
_QUANTILE = 1.5  # σ is the chart's radius over it: a class must have 93.3 % to be certified


@dataclass(frozen=True)
class SmoothedCertificate:
    """What is known of the smoothed classes of N nodes; see :func:`certify_smoothed`.

    ``classes`` are the smoothed classes, ``votes`` how many of the ``samples`` they had, ``radii`` the Bures radius
    that this certifies for each node, each with the confidence, and ``certified`` whether that is at least ``radius``.
    ``sigma`` is the noise in the chart.

    Examples
    --------
    See :func:`certify_smoothed`.

    >>> SmoothedCertificate.__name__
    'SmoothedCertificate'
    """

    radius: float
    nodes: IntArray
    classes: IntArray
    certified: BoolArray
    radii: FloatArray
    votes: IntArray
    samples: int
    sigma: float
    confidence: float

    __repr__ = one_line

    @property
    def undecided(self) -> BoolArray:
        """Not certified: smoothing finds no graph that changes a class."""
        return ~self.certified


def chart_radius(neighborhood: Neighborhood, radius: float) -> float:
    """Return a radius in x = √λ̄ ∘ φ that holds the ball of a Bures radius, or infinity."""
    shares = neighborhood.projected_spectrum.double().cpu().numpy()
    rho = radius / math.sqrt(neighborhood.captured_mass)
    reach = rho / math.sqrt(shares.min())
    if reach >= 1.0:
        return math.inf
    return 2.0 * rho * (-math.log1p(-reach) / reach if reach > 0 else 1.0) * (1 + 1e-12)


def certify_smoothed(
    model: TrainedModel | Callable[[Tensor], Tensor],
    radius: float,
    nodes: Sequence[int] | IntArray | None = None,
    *,
    neighborhood: Neighborhood | None = None,
    samples: int = 1000,
    sigma: float | None = None,
    confidence: float = 0.999,
    seed: int = 0,
) -> SmoothedCertificate:
    """Certify the smoothed classes of any network, by drawing graphs.

    Parameters
    ----------
    model : TrainedModel or callable
        A model that reads the links, or a function from φ, shape (k,), to logits (n, C), which needs a
        ``neighborhood``. Of a model of PyTorch Geometric with an attached ``BuresAdversary`` that is its call within
        ``adversary.perturbed(φ)``, beside ``adversary.neighborhood``.
    radius : float
        r, above 0: what ``certified`` is about. λ_max is not bounded.
    nodes : sequence of int, optional
        Which nodes; all by default.
    neighborhood : Neighborhood, optional
        Around the propagation matrix; that of the model by default.
    samples : int
        Graphs that are drawn to estimate probabilities, after 100 that choose the class.
    sigma : float, optional
        σ; by default two thirds of the chart's radius.
    confidence : float
        For each node, by Clopper and Pearson's interval.
    seed : int
        Of the draws.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> model = fishergcn.TrainedModel.from_network(lambda operator: operator @ torch.eye(4)[:, :2].double(), graph,
    ...     propagation=fishergcn.renormalized(graph.adjacency))
    >>> around = fishergcn.Neighborhood(model.propagation, rank=2, radius=0)
    >>> found = certify_smoothed(model, 0.01, nodes=[0, 1], neighborhood=around, samples=200)
    >>> found.certified.tolist(), found.samples
    ([True, True], 200)
    """
    radius = check_real("radius", radius, above=0.0)
    samples = check_integer("samples", samples, minimum=1)
    confidence = check_real("confidence", confidence, above=0.5, below=1.0)
    logits, around = _evaluated(model, neighborhood)
    chart = chart_radius(around, radius)
    if math.isinf(chart):
        most = math.sqrt(around.captured_mass * float(around.projected_spectrum.min()))
        raise InputError(f"radius must be below {most:.6g} for smoothing, where a share can become 0, got {radius:g}.")
    sigma = chart / _QUANTILE if sigma is None else check_real("sigma", sigma, above=0.0)
    chosen = nodes_of(nodes, around.propagation.shape[0])
    generator = torch.Generator().manual_seed(check_integer("seed", seed, minimum=0))
    first = _votes(logits, around, sigma, _FIRST, generator, chosen)
    classes = first.argmax(1)
    votes = _votes(logits, around, sigma, samples, generator, chosen)[np.arange(len(chosen)), classes]
    least = beta.ppf(1.0 - confidence, np.maximum(votes, 1), samples - votes + 1)
    least = np.where(votes > 0, least, 0.0)
    reached = np.where(least > 0.5, sigma * norm.ppf(least), 0.0)
    radii = np.array([_bures_radius(around, each) for each in reached])
    return SmoothedCertificate(
        radius, chosen, classes, reached > chart, radii, votes, samples, float(sigma), confidence
    )


def _evaluated(model: Any, neighborhood: Neighborhood | None) -> tuple[Callable[[Tensor], Tensor], Neighborhood]:
    """Return the function from φ to logits, and the neighborhood."""
    if not isinstance(model, TrainedModel):
        if not callable(model) or not isinstance(neighborhood, Neighborhood) or neighborhood.graph is not None:
            raise InputError(
                "model must be a TrainedModel, or a function from φ to logits beside the neighborhood of one graph, "
                f"got {type(model).__name__} and {type(neighborhood).__name__}."
            )
        return model, neighborhood
    model.check_network(links=True, symmetric=True)
    one, around = model.only(), neighborhood_of(model, neighborhood)
    placed = around.to(one.device, one.dtype) if one.weights else around
    return lambda phi: one.logits(placed.operator(phi))[:, 0], around


@torch.no_grad()
def _votes(
    logits: Callable[[Tensor], Tensor],
    around: Neighborhood,
    sigma: float,
    samples: int,
    generator: torch.Generator,
    nodes: IntArray,
) -> IntArray:
    """Return how often each class was the largest, (N, C), over graphs that are drawn around the graph."""
    lengths = around.projected_spectrum.double().cpu().sqrt()
    found: IntArray | None = None
    for _ in range(samples):
        phi = sigma * torch.randn(around.rank, dtype=torch.float64, generator=generator) / lengths
        out = logits(phi.to(around.device))
        if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != around.propagation.shape[0]:
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise InputError(f"model must return logits of shape ({around.propagation.shape[0]}, C), got {got}.")
        found = np.zeros((len(nodes), out.shape[1]), dtype=np.int64) if found is None else found
        found[np.arange(len(nodes)), out.argmax(1).cpu().numpy()[nodes]] += 1
    if found is None:
        raise AssertionError("at least one sample is drawn")
    return found


def _bures_radius(around: Neighborhood, chart: float) -> float:
    """Return the largest Bures radius whose ball a radius of the chart is known to hold."""
    low, high = 0.0, math.sqrt(around.captured_mass)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if chart_radius(around, middle) < chart else (low, middle)
    return low
