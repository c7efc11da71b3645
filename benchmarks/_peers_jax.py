"""A GCN in JAX whose runs are stacked by ``vmap``: the strongest peer that needs no code of ours.

The graph is a segment sum over links or a dense matrix. Networks, dropout, Adam and weight decay are those of the other
peers; every epoch is one compiled step, and the mean validation scores of all runs are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from _peers import DROPOUT, LEARNING_RATE, WEIGHT_DECAY, row_normalized

from fishergcn import Graph, renormalized
from fishergcn.splits import Split

_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8  # of Adam


def has_jax() -> bool:
    return find_spec("jax") is not None


class Stacked:
    """As many runs as there are splits times seeds."""

    def __init__(self, graph: Graph, splits: Sequence[Split], seeds: int, hidden: int, *, dense: bool) -> None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU's memory is shared with others
        import jax
        import jax.numpy as jnp

        matrix = renormalized(graph.adjacency).tocoo()
        self.jax, self.jnp = jax, jnp
        self.features = jnp.asarray(row_normalized(graph).toarray())
        self.labels = jnp.asarray(graph.labels)
        self.times = self._product(matrix, dense=dense)
        self.runs = len(splits) * seeds
        parts = ([each.train for each in splits], [each.val for each in splits])
        self.train, self.val = (jnp.asarray(np.repeat(np.stack(part), seeds, axis=0)) for part in parts)
        self.keys = jax.random.split(jax.random.PRNGKey(0), self.runs)
        sizes = graph.num_features, hidden, graph.num_classes
        self.weights = jax.vmap(lambda key: self._initial(key, sizes))(self.keys)
        zeros = jax.tree_util.tree_map(jnp.zeros_like, self.weights)
        self.moments = zeros, zeros
        self.step = jax.jit(jax.vmap(self._step, in_axes=(0, 0, 0, None, 0, 0)))

    def epoch(self, index: int) -> tuple[float, float]:
        """Take one step of all runs, then a validation pass; return mean validation loss and accuracy."""
        self.weights, self.moments, scores = self.step(
            self.weights, self.moments, self.keys, index, self.train, self.val
        )
        loss, accuracy = np.asarray(scores).mean(axis=0)
        return float(loss), float(accuracy)

    def _product(self, matrix: Any, *, dense: bool) -> Callable[[Any], Any]:
        jax, jnp, nodes = self.jax, self.jnp, matrix.shape[0]
        if dense:
            whole = jnp.asarray(matrix.toarray(), dtype=jnp.float32)
            return lambda lines: whole @ lines
        rows, columns = (jnp.asarray(each) for each in matrix.coords)
        values = jnp.asarray(matrix.data, dtype=jnp.float32)[:, None]
        return lambda lines: jax.ops.segment_sum(values * lines[columns], rows, nodes, indices_are_sorted=True)

    def _initial(self, key: Any, sizes: tuple[int, int, int]) -> Any:
        keys = self.jax.random.split(key)
        shapes = zip(keys, (sizes[:2], sizes[1:]), strict=True)
        weights = [self.jax.nn.initializers.glorot_uniform()(each, shape, self.jnp.float32) for each, shape in shapes]
        return [(weight, self.jnp.zeros(weight.shape[1])) for weight in weights]

    def _logits(self, weights: Any, key: Any = None) -> Any:
        jax, jnp = self.jax, self.jnp
        lines = self.features
        for layer, (weight, bias) in enumerate(weights):
            if key is not None:
                kept = jax.random.bernoulli(jax.random.fold_in(key, layer), 1 - DROPOUT, lines.shape)
                lines = jnp.where(kept, lines / (1 - DROPOUT), 0)
            lines = self.times(lines @ weight) + bias
            lines = jax.nn.relu(lines) if layer == 0 else lines
        return lines

    def _loss(self, logits: Any, nodes: Any) -> Any:
        chances = self.jax.nn.log_softmax(logits[nodes])
        return -chances[self.jnp.arange(nodes.shape[0]), self.labels[nodes]].mean()

    def _step(self, weights: Any, moments: Any, key: Any, index: Any, train: Any, val: Any) -> Any:
        jax, jnp = self.jax, self.jnp
        dropped = jax.random.fold_in(key, index)
        slopes = jax.grad(lambda at: self._loss(self._logits(at, dropped), train))(weights)
        slopes[0] = tuple(slope + WEIGHT_DECAY * at for slope, at in zip(slopes[0], weights[0], strict=True))
        every = jax.tree_util.tree_map
        first = every(lambda old, new: _FIRST * old + (1 - _FIRST) * new, moments[0], slopes)
        second = every(lambda old, new: _SECOND * old + (1 - _SECOND) * new**2, moments[1], slopes)
        time = index + 1.0

        def moved(at: Any, one: Any, two: Any) -> Any:
            size = jnp.sqrt(two / (1 - _SECOND**time)) + _TINY
            return at - LEARNING_RATE * one / (1 - _FIRST**time) / size

        weights = every(moved, weights, first, second)
        logits = self._logits(weights)
        accuracy = (logits[val].argmax(1) == self.labels[val]).mean()
        return weights, (first, second), jnp.stack([self._loss(logits, val), accuracy])
