"""What all runs of one method on one graph share: computed once."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.reprs import one_line
from fishergcn._base.types import AnyArray, CSRArray, FeatureMatrix, FloatArray, IntArray
from fishergcn._base.warn import warn
from fishergcn.errors import InputError
from fishergcn.graph import known_nodes
from fishergcn.nn import Dropout, Features, FeatureScaling, Parameter, View, make_features, ready_features, with_links
from fishergcn.operators import SparseMatrix
from fishergcn.perturbation import CongruenceNeighborhood, Neighborhood, PerturbationWarning
from fishergcn.splits import Split
from fishergcn.streams import keys_of
from fishergcn.training._methods import samples_of
from fishergcn.training._scores import Score, find_score
from fishergcn.training.tasks import Task, find_task

if TYPE_CHECKING:
    from fishergcn._settings.choices import Congruence, Directions
    from fishergcn._settings.config import TrainConfig
    from fishergcn.graph import Graph
    from fishergcn.spectrum import Spectrum
    from fishergcn.training._methods import Method


@dataclass(frozen=True)
class Run:
    """One run to be trained: a split of the labeled nodes and a seed.

    Examples
    --------
    >>> Run(Split("mine", train=[0, 3], val=[1], test=[2]), seed=2019).seed
    2019
    """

    split: Split
    seed: int


@dataclass(frozen=True)
class Problem:
    """A graph made ready for a method.

    ``neighborhood`` has the graphs around Ã, None where the method does not perturb the spectrum; ``moved`` the link
    weights of the graphs that ``perturbation="spatial"`` draws from, shape (K, m); ``scaled`` and ``operator`` are X
    scaled and in the precision of training, and Ã ready for products, where other processes share them.
    """

    graph: Graph
    method: Method
    config: TrainConfig
    propagation: CSRArray
    neighborhood: Neighborhood | CongruenceNeighborhood | None
    moved: FloatArray | None = None
    scaled: CSRArray | AnyArray | None = None
    operator: SparseMatrix | None = None

    __repr__ = one_line

    @property
    def samples(self) -> int:
        """M, the number of samples per step."""
        return samples_of(self.method, self.config)

    @property
    def task(self) -> Task:
        """What is predicted of a node."""
        return find_task(self.graph.task)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.method.network.depth(self.config)

    @property
    def tensors(self) -> dict[str, Parameter]:
        """What a run learns, by name."""
        return self.method.network.tensors(input_size(self.graph, self.config), self.graph.num_classes, self.config)

    def logits(
        self, weights: Mapping[str, Tensor], view: View, dropout: Dropout | None = None, *, once: bool = False
    ) -> Tensor:
        """Run the networks of these weights over a view: see :meth:`fishergcn.nn.Network.logits`."""
        network = self.method.network
        out = network.logits(weights, view, self.config, dropout, once=once)
        runs, samples = len(next(iter(weights.values()))), dropout.samples if dropout else 1
        return network.check_logits(out, view.operators[-1].shape[0], runs * samples, self.graph.num_classes)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the products."""
        found: torch.dtype = getattr(torch, self.config.dtype)
        return found

    @property
    def dataset(self) -> str:
        """The name of the graph in records and in random keys; its digest if it has none."""
        return self.graph.name or self.graph.digest

    @property
    def watched(self) -> Score | None:
        """The score that picks the best epoch, if it is another than the loss, which every epoch has."""
        return None if self.config.score == "loss" else find_score(self.config.score)

    def keys(self, runs: Sequence[Run]) -> Tensor:
        """Return the random key of each run, shape (R,)."""
        return keys_of(self.dataset, [(run.split.name, run.seed) for run in runs])

    @cached_property
    def inputs(self) -> FeatureMatrix:
        """What the network reads of each node, before it is scaled."""
        return network_inputs(self.graph, self.config)

    def features(self, device: torch.device | str = "cpu", rows: IntArray | None = None) -> Features:
        """Return the features, or some rows of them, as the network reads them."""
        given: Any = self.inputs
        if self.scaled is not None and rows is None:
            return ready_features(self.scaled, device, self.dtype)
        return make_features(
            given if rows is None else given[rows], scaling=self.scaling, device=device, dtype=self.dtype
        )

    @cached_property
    def scaling(self) -> FeatureScaling:
        """How the features are scaled, learned from all nodes."""
        return FeatureScaling.learn(self.inputs, self.config.scaling)


def network_inputs(graph: Graph, config: TrainConfig) -> FeatureMatrix:
    """Return what a network reads of each node, before it is scaled: X, or [X, A] with ``links_as_features``."""
    found: Any = graph.features
    if config.links_as_features:
        found = with_links(found, graph.adjacency)
    made: FeatureMatrix = found
    return made


def input_size(graph: Graph, config: TrainConfig) -> int:
    """Return how many columns that has."""
    return graph.num_features + graph.num_nodes * config.links_as_features


def learnable(graph: Graph, methods: Iterable[Method] = ()) -> Graph:
    """Return a graph that methods can learn from, or raise.

    A graph without features gets the identity matrix, which is one feature for each node, and a warning says so; unless
    methods are given of which none reads features.
    """
    if not known_nodes(graph).any():
        raise InputError(f"graph {graph.name or 'given'!r} has no labels to learn from.")
    if graph.targets is None and graph.num_classes < 2:
        only = graph.class_names[0] if graph.class_names else "0"
        raise InputError(f"labels must name at least two classes, got only {only!r}.")
    methods = list(methods)
    if (graph.features is not None and graph.num_features > 0) or (methods and not any(m.trained for m in methods)):
        return graph
    warn(f"no features were given: each of the {graph.num_nodes} nodes gets its own (identity matrix).")
    return graph.replace(features=sparse.eye_array(graph.num_nodes, format="csr"))


def has_negative_features(graph: Graph) -> bool:
    """Say whether features are negative somewhere: then sums of rows may be near 0, and one must not divide by them."""
    values: Any = graph.features.data if isinstance(graph.features, sparse.csr_array) else graph.features
    return values is not None and bool(np.min(values, initial=0.0) < 0)


def prepare(
    graph: Graph,
    method: Method,
    config: TrainConfig,
    *,
    propagation: CSRArray | None = None,
    spectrum: Spectrum | None = None,
    moved: FloatArray | None = None,
    operator: SparseMatrix | None = None,
    scaled: CSRArray | AnyArray | None = None,
) -> Problem:
    """Compute the propagation matrix and, for a perturbed method, the spectrum, unless they are given.

    The graphs of ``perturbation="spatial"`` are always given, by their link weights
    (:func:`fishergcn.perturbation.pool_weights`).

    What the data asks for is settled here, and the problem holds the outcome: missing features (see
    :func:`learnable`), and whether rows of features are divided by their sum. A radius of 0 is no perturbation at all,
    so ``fishergcn`` with radius 0 *is* the control.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> from fishergcn.training import parse_method
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2)], features=np.eye(3), labels=[0, 0, 1])
    >>> prepare(graph, parse_method("fishergcn"), fishergcn.TrainConfig(rank=2)).neighborhood
    Neighborhood(3 nodes, rank 2, radius 0.1, uniform noise, high directions, projected scale)
    """
    graph = learnable(graph, [method])
    score = find_score(config.score).check_classes(graph.num_classes, graph.task).name
    if graph.targets is not None:
        _check_task(graph, config, score)
    config = dataclasses.replace(config, score=score)
    if method.trained and config.scaling == "rows" and has_negative_features(graph):
        warn("some features are negative, so their rows are not divided by their sum (scaling='none').")
        config = dataclasses.replace(config, scaling="none")
    if method.consistent and samples_of(method, config) < 2:
        raise InputError(f"method {method.name!r} needs samples to be at least 2, got {config.samples}.")
    by_links = method.perturbed and config.perturbation != "spectral"
    if by_links and method.matrix.name != "renormalized":
        raise InputError(
            f"perturbation={config.perturbation!r} works on the renormalized graph, not with {method.name!r}."
        )
    spatial = method.perturbed and config.perturbation == "spatial"
    if spatial and moved is None:
        raise InputError(
            "perturbation='spatial' needs moved, the graphs to draw from, which "
            "fishergcn.geometry.embedding.moved_graphs makes; studies make them by themselves."
        )
    if propagation is None:
        propagation = method.matrix.of(graph, config)
    neighborhood = None
    if method.perturbed and not by_links and config.radius > 0:
        neighborhood = make_neighborhood(propagation, config, spectrum, operator)
    return Problem(graph, method, config, propagation, neighborhood, moved if spatial else None, scaled, operator)


def _check_task(graph: Graph, config: TrainConfig, score: str) -> None:
    """Raise for settings that are for classes alone."""
    if score != "loss":
        raise InputError(f"score must be 'loss' where the task is {graph.task!r}, which stops by it, got {score!r}.")
    if config.class_weight != "none":
        raise InputError(
            f"class_weight must be 'none' where the task is {graph.task!r}, since there are no classes to weigh, got "
            f"{config.class_weight!r}."
        )


def make_neighborhood(
    propagation: CSRArray, config: TrainConfig, spectrum: Spectrum | None, operator: SparseMatrix | None = None
) -> Neighborhood | CongruenceNeighborhood:
    """Return the graphs around Ã that a configuration draws from."""
    # Without noise the neighborhood is asked for its mean alone.
    noise: Any = "uniform" if config.noise == "mean" else config.noise
    if config.congruent:
        directions = cast("Congruence", config.directions)
        return CongruenceNeighborhood(propagation, directions, config.radius, noise, config.degree)
    with warnings.catch_warnings():
        # Whoever sets scale="trace" in a configuration has read what it does; one warning per run is noise.
        warnings.filterwarnings("ignore", message="scale='trace'", category=PerturbationWarning)
        return Neighborhood(
            SparseMatrix.from_symmetric(propagation) if operator is None else operator,
            rank=config.rank,
            radius=config.radius,
            noise=noise,
            directions=cast("Directions", config.directions),
            scale=config.scale,
            metric=config.metric,
            spectrum=spectrum,
        )


def check_runs(problem: Problem, runs: Sequence[Run]) -> None:
    """Raise for splits that do not fit the graph; warn of a class without training nodes."""
    labels, classes, known = problem.graph.labels, problem.graph.num_classes, known_nodes(problem.graph)
    if not known.any():
        raise InputError("the graph has no labels to learn from.")
    if not runs:
        raise InputError("splits must hold at least one split.")
    names: dict[str, Split] = {}
    for split in {id(run.split): run.split for run in runs}.values():
        if names.setdefault(split.name, split) is not split:
            raise InputError(f"splits must have distinct names, got {split.name!r} twice.")
        split.check(problem.graph.num_nodes)
        for part in ("train", "val", "test"):
            nodes = getattr(split, part)
            if len(nodes) == 0 and part != "test":
                raise InputError(f"split {split.name!r} has no {part} nodes; at least one is needed.")
            unknown = nodes[~known[nodes]]
            if len(unknown):
                raise InputError(f"split {split.name!r}: {part} node {unknown[0]} has no label.")
        if split.node_weight is not None and not problem.method.trained:
            raise InputError(f"method {problem.method.name!r} trains no network: it has no use for node_weight.")
        if labels is None:
            continue
        missing = np.flatnonzero(np.bincount(labels[split.train], minlength=classes) == 0)
        if len(missing):
            warn(f"split {split.name!r} has no training node of class {missing[0]}.")
