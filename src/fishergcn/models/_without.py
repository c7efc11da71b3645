"""What a model says of one node when a link or a feature is taken away: computed anew on the changed graph.

A network with a local matrix (see :class:`fishergcn.propagation.Matrix`) and L products sees of a node i the nodes
within L links, and of their normalization what is one link further. The graph is therefore cut down to the nodes within
L + 1 links, which changes no number; with any other matrix, such as the high-order one, it stays whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse

from fishergcn._base.types import CSRArray, FeatureMatrix, FloatArray, IntArray
from fishergcn.graph import Graph
from fishergcn.models._ensemble import Ensemble
from fishergcn.models._matching import links_to, matched_features, node_names_of
from fishergcn.models._tape import InputTape, Tape, entry_scores, raw_scores
from fishergcn.models._trained import TrainedModel
from fishergcn.nn import with_links
from fishergcn.propagation import share_matrices


def parts_of(model: TrainedModel) -> list[tuple[TrainedModel, float, float]]:
    """Return the single models that predict together, each with its share and its temperature."""
    if isinstance(model, Ensemble):
        return list(zip(model.members, model.shares, model.temperatures, strict=True))
    return [(model, 1.0, 1.0)]


def reads_links(model: TrainedModel) -> bool:
    """Say whether the links make a difference, in a matrix or as features."""
    return any(each.method.uses_graph or each.config.links_as_features for each, _, _ in parts_of(model))


def reads_features(model: TrainedModel) -> bool:
    """Say whether the features make a difference."""
    return any(each.method.trained for each, _, _ in parts_of(model))


def usual_values(features: FeatureMatrix) -> FloatArray:
    """Return the median of each column, shape (D,), which is 0 where most nodes have 0; a number of float32."""
    if isinstance(features, np.ndarray):
        return np.asarray(np.median(features, axis=0), dtype=np.float32).astype(np.float64)
    columns: Any = sparse.csc_array(features)
    found = np.zeros(columns.shape[1])
    for column in np.flatnonzero(2 * np.diff(columns.indptr) >= columns.shape[0]):
        found[column] = np.float32(np.median(columns[:, [column]].toarray()))
    return found


@dataclass(frozen=True)
class Place:
    """A node in the part of a graph that the model sees of it; features are in the columns of training."""

    model: TrainedModel
    graph: Graph
    node: int

    @classmethod
    def of(cls, model: TrainedModel, graph: Graph, node: int) -> Place:
        """Cut a graph down to what the predictions of a model for a node depend on."""
        near = _within(graph.adjacency, node, _reach(model))
        features: Any = None
        if reads_features(model):
            features = matched_features(model.graph, graph, model.graph.num_features)[near]
        names, adjacency = node_names_of(graph), graph.adjacency
        part = Graph(
            adjacency if len(near) == graph.num_nodes else adjacency[near][:, near],
            features,
            node_ids=[names[each] for each in near],
            feature_names=model.graph.feature_names if features is not None else None,
        )
        return cls(model, part, int(np.searchsorted(near, node)))

    def probabilities(self, graph: Graph | None = None) -> FloatArray:
        """Return what the model says of the node, shape (C,), here or on a changed graph of the same nodes."""
        found: FloatArray = self.model.probabilities(self.graph if graph is None else graph)[self.node]
        return found

    @cached_property
    def neighbors(self) -> IntArray:
        """The nodes that it is linked to, without itself."""
        start, stop = self.graph.adjacency.indptr[self.node : self.node + 2]
        found = self.graph.adjacency.indices[start:stop]
        return np.asarray(found[found != self.node], dtype=np.int64)

    def without_links(self, others: IntArray | None = None) -> Graph:
        """Return the graph without the links of the node to some others; without all, also to itself."""
        links = sparse.coo_array(self.graph.adjacency)
        row, column = links.coords
        gone = (row == self.node) | (column == self.node)
        if others is not None:
            gone &= np.isin(row, others) | np.isin(column, others)
            gone &= row != column
        parts = links.data[~gone], (row[~gone], column[~gone])
        return self.graph.replace(adjacency=sparse.csr_array(parts, shape=links.shape))

    def with_feature(self, column: int, value: float) -> Graph:
        """Return the graph with another value of one feature of the node."""
        given: Any = self.graph.features
        row = self._row.copy()
        row[column] = value
        if isinstance(given, np.ndarray):
            features: Any = given.copy()
            features[self.node] = row
        else:
            above, below = given[: self.node], given[self.node + 1 :]
            features = sparse.vstack([above, sparse.csr_array(row[None]), below], format="csr")
        changed = self.graph.replace(features=features, feature_names=self.graph.feature_names)
        share_matrices(self.graph, changed)
        return changed

    @cached_property
    def _row(self) -> Any:
        """The features of the node, shape (D,), in float32."""
        given: Any = self.graph.features
        if given is None:
            return np.zeros(0, dtype=np.float32)
        row: Any = given[[self.node]]
        return (row if isinstance(row, np.ndarray) else row.toarray())[0]

    @property
    def features(self) -> FloatArray:
        """The features of the node, shape (D,)."""
        return np.asarray(self._row, dtype=np.float64)

    def foretold(self, label: int, columns: IntArray, usual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return about how the probability of a class changes without each link, and with usual values of features.

        To first order, -a_ij ∂p/∂a_ij; for a matrix without that derivative the two entries that the link has in P.
        Changed rows of features are scaled as they will be.
        """
        links, features = np.zeros(len(self.neighbors)), np.zeros(len(columns))
        for model, share, heat in parts_of(self.model):
            found = self._foretold_by(model, heat, label, columns, usual)
            links += share * found[0]
            features += share * found[1]
        return links, features

    def _foretold_by(
        self, model: TrainedModel, heat: float, label: int, columns: IntArray, usual: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        operator = model.operator_of(self.graph)
        tape = Tape(operator)
        inputs = InputTape(model.features_of(self.graph)) if model.method.trained else None
        with torch.enable_grad():
            over: Any = tape, inputs
            if inputs is None:
                out = model.method.rule.log_probabilities(over[0], *model._known_labels(self.graph), model.num_classes)
            else:
                out = model._logits(*over)
            value = torch.softmax(out[self.node, 0].double() / heat, dim=0)[label]
            S, Z, rest = tape.gradient(value, *(inputs.probes if inputs else ()))
        matrix, node, others = operator.scipy, self.node, self.neighbors
        pairs = np.stack([np.full_like(others, node), others], axis=1)
        known, adjacency = model.method.matrix.normalization, self.graph.adjacency
        scores = entry_scores(S, Z) if known is None else raw_scores(S, Z, adjacency, matrix, known)
        weights: Any = (matrix if known is None else adjacency)[[node]]
        links = -weights.toarray()[0, others] * scores.of(pairs)
        if inputs is None:
            return links, np.zeros(len(columns))
        slope = inputs.row(rest, node)
        if model.config.links_as_features:
            own: Any = with_links(sparse.csr_array(self._row[None]), links_to(model.graph, self.graph)[[node]])
            place = {name: at for at, name in enumerate(model.node_names)}
            names = node_names_of(self.graph)
            at = [place.get(names[other], -1) for other in others]
            shifted = [self.graph.num_features + each if each >= 0 else -1 for each in at]
            links += _effects(model, own, np.array(shifted, dtype=np.int64), np.zeros(len(others)), slope)
        else:
            own = self.graph.features
            own = own[[node]]
        return links, _effects(model, own, columns, usual[columns], slope)


def _effects(model: TrainedModel, row: Any, columns: IntArray, values: FloatArray, slope: FloatArray) -> FloatArray:
    """Return g·(x' - x) of scaled features for each changed entry of a row; a column of -1 changes nothing."""
    here = np.asarray(model.scaling.apply(row) @ slope).ravel()[0]
    found = np.zeros(len(columns))
    for at in _pieces(np.flatnonzero(columns >= 0)):
        changed: Any = sparse.lil_array(sparse.vstack([sparse.csr_array(row)] * len(at)))
        changed[np.arange(len(at)), columns[at]] = values[at]
        rows = changed.tocsr() if sparse.issparse(row) else changed.toarray()
        found[at] = np.asarray(model.scaling.apply(rows) @ slope).ravel() - here
    return found


def _pieces(places: IntArray, size: int = 256) -> Sequence[IntArray]:
    return [places[start : start + size] for start in range(0, len(places), size)]


def _reach(model: TrainedModel) -> int | None:
    """Return within how many links of a node all is that a prediction depends on; None where that is not known."""
    found = 0
    for each, _, _ in parts_of(model):
        if not (each.method.trained and each.method.matrix.local):
            return None
        found = max(found, 1 + each.depth * each.method.matrix.linked)
    return found


def _within(adjacency: CSRArray, node: int, reach: int | None) -> IntArray:
    """Return the nodes within ``reach`` links of a node, ascending, at least two of them; all nodes without a reach."""
    count = adjacency.shape[0]
    if reach is None:
        return np.arange(count)
    seen, edge = np.zeros(count, dtype=np.bool_), np.array([node])
    seen[node] = True
    for _ in range(reach):
        reached = np.unique(adjacency[edge].indices)
        edge = reached[~seen[reached]]
        seen[edge] = True
        if 2 * seen.sum() > count:
            return np.arange(count)
    if not len(edge) and seen.sum() == 1:  # a graph has two nodes
        seen[(node + 1) % count] = True
    return np.flatnonzero(seen)
