"""A graph made ready for mini-batches: nothing is held twice, and several processes compute the spectrum once."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn._settings.config import TrainConfig
from fishergcn.errors import FisherGCNError, InputError
from fishergcn.graph import Graph
from fishergcn.perturbation import Neighborhood, choose_directions
from fishergcn.spectrum import Spectrum
from fishergcn.training._distributed import Group
from fishergcn.training._methods import Method
from fishergcn.training._problem import Problem, make_neighborhood, prepare

if TYPE_CHECKING:
    from fishergcn._settings.choices import Directions

_MOST_HIGH_ORDER = 100_000  # nodes; the matrix of higher order holds hundreds of entries a node and more


def prepare_batches(
    graph: Graph,
    method: Method,
    config: TrainConfig,
    *,
    propagation: CSRArray | None = None,
    spectrum: Spectrum | None = None,
    group: Group | None = None,
) -> tuple[Problem, FloatArray | None]:
    """Make a graph ready for mini-batches: Ã, the neighborhood in its own coordinates, and the basis Ū, n x k.

    The spectrum is computed once, by the first process. The neighborhood that is returned has the k directions for
    nodes: it knows all about φ and c, and holds no second copy of the graph. With ``directions="nodes"`` there is no
    spectrum and no basis: of the graph, the neighborhood needs the diagonal alone.
    """
    group = Group() if group is None else group
    if graph.targets is not None:
        raise InputError(
            f"mini-batches are for classes, and the task is {graph.task!r}; train the whole graph at once."
        )
    if method.solved:
        raise InputError(f"method {method.name!r} is solved on the whole graph, so there are no mini-batches of it.")
    if method.consistent:
        raise InputError(f"method {method.name!r} compares samples on all nodes, which mini-batches do not hold.")
    if method.perturbed and config.perturbation != "spectral":
        raise InputError(f"perturbation must be 'spectral' in mini-batches, got {config.perturbation!r}.")
    if method.perturbed and config.noise == "mean":
        raise InputError("noise must be 'uniform' or 'gaussian' in mini-batches, got 'mean'.")
    if method.perturbed and config.congruent and config.directions != "nodes":
        raise InputError(
            "directions must be 'high', 'low', 'random' or 'nodes' in mini-batches, which do not hold what "
            f"{config.directions!r} needs."
        )
    if method.high_order and graph.num_nodes > _MOST_HIGH_ORDER:
        raise InputError(
            f"method {method.name!r} needs a graph of at most {_MOST_HIGH_ORDER:,} nodes, got {graph.num_nodes:,}: the "
            f"high-order matrix would not fit in memory; use {method.name.replace('-t', '')!r}."
        )
    # Of the unperturbed method: the neighborhood below is another one.
    plain = dataclasses.replace(method, perturbed=False)
    problem = prepare(graph, plain, config, propagation=propagation)
    if not method.perturbed or config.radius == 0:
        return dataclasses.replace(problem, method=method), None
    if config.congruent:
        alone = sparse.csr_array(sparse.diags_array(problem.propagation.diagonal()))
        return dataclasses.replace(problem, method=method, neighborhood=make_neighborhood(alone, config, None)), None
    if spectrum is None or group.size > 1:
        spectrum = _shared_spectrum(problem, spectrum, group)
    neighborhood = _in_own_coordinates(spectrum, config)
    return dataclasses.replace(problem, method=method, neighborhood=neighborhood), spectrum.eigenvectors


def _shared_spectrum(problem: Problem, spectrum: Spectrum | None, group: Group) -> Spectrum:
    config, error = problem.config, None
    if group.first and spectrum is None:
        try:
            spectrum = choose_directions(
                problem.propagation, config.rank, cast("Directions", config.directions), seed=0
            )
        except FisherGCNError as raised:
            error = raised
    group.agree(error)
    return group.spectrum_of_first(spectrum, problem.graph.num_nodes, config.rank)


def _in_own_coordinates(spectrum: Spectrum, config: TrainConfig) -> Neighborhood:
    # One node more than directions: a graph has at least two, and the kernel of L is kept.
    rank = spectrum.rank
    diagonal = np.append(1.0 - spectrum.eigenvalues, 1.0)
    small = Spectrum(spectrum.eigenvalues, np.eye(rank + 1, rank), spectrum.trace, spectrum.residual)
    options: dict[str, Any] = {name: getattr(config, name) for name in ("radius", "noise", "scale")}
    return Neighborhood.from_spectrum(sparse.csr_array(np.diag(diagonal)), small, **options)
