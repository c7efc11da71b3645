"""A trained network as a function of the shares q of its graph's spectrum, in float64.

    Ã(q) = Ã - B diag(δ) Bᵀ,   δ = q - λ̄,   B = √(Σw) Ū
    Z^l = Ã(q) H^l W^l + H^l V^l + b^l,   H⁰ = X,   H^{l+1} = σ(Z^l)

with σ the ReLU or, for the network ``linear``, nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from torch import Tensor

from fishergcn._base.types import CSRArray, FloatArray, IntArray
from fishergcn.errors import InputError
from fishergcn.models import TrainedModel
from fishergcn.nn import Features, by_layer
from fishergcn.perturbation import Neighborhood

_SMOOTH = "certify_smoothed takes any network"


@dataclass(frozen=True)
class Layer:
    """W and V, of shape (d, d'), V None if there are none, and what is added, (d',) or (n, d')."""

    weight: FloatArray
    own: FloatArray | None
    constant: FloatArray

    def toward(self, columns: FloatArray) -> Layer:
        """Return the layer with its outputs multiplied by a matrix."""
        own = None if self.own is None else self.own @ columns
        return Layer(self.weight @ columns, own, self.constant @ columns)


@dataclass(frozen=True)
class SpectralNetwork:
    """A network of known weights on a graph and its neighborhood.

    ``first`` and ``own`` are X W⁰ and X V⁰ + b⁰, both (n, d_1), ``first_size`` and ``own_size`` are |X||W⁰| and
    |X||V⁰| + |b⁰|, and ``longest`` is the number of entries of a row of X; ``layers`` are those after the first.
    """

    matrix: CSRArray
    basis: FloatArray
    shares: FloatArray
    first: FloatArray
    own: FloatArray
    layers: tuple[Layer, ...]
    relu: bool
    longest: int
    first_size: FloatArray
    own_size: FloatArray

    @classmethod
    def of(cls, model: TrainedModel, around: Neighborhood | None) -> SpectralNetwork:
        """Read the only network of a model, or raise where no bounds are known; k = 0 without a neighborhood."""
        check_covered(model)
        inputs: Any = features_matrix(model.features)
        sizes: Any = abs(inputs)
        width = int(np.diff(inputs.indptr).max(initial=0))
        basis, shares = np.zeros((inputs.shape[0], 0)), np.zeros(0)
        if around is not None:
            total = float(around.spectrum.eigenvalues.sum())
            basis = np.sqrt(total) * around.spectrum.eigenvectors
            shares = np.asarray(around.spectrum.eigenvalues / total)
        place = sparse.csr_array(model.propagation), basis, shares
        if model.method.solved:
            bias = _tensors(model, "biases")
            zero, one, two = _tensors(model, "weights")
            last = Layer(np.eye(two.shape[1]), None, inputs @ zero + (bias[0] if bias else 0.0))
            return cls(*place, inputs @ two, inputs @ one, (last,), False, width, sizes @ abs(two), sizes @ abs(one))
        weights, biases, owns = (_tensors(model, name) for name in ("weights", "biases", "own"))
        biases = biases or [np.zeros(each.shape[1]) for each in weights]
        added = np.broadcast_to(biases[0], (inputs.shape[0], len(biases[0])))
        own, own_size = (inputs @ owns[0] + added, sizes @ abs(owns[0]) + abs(added)) if owns else (added, abs(added))
        layers = tuple(
            Layer(weight, owns[at] if owns else None, biases[at]) for at, weight in enumerate(weights[1:], start=1)
        )
        return cls(*place, inputs @ weights[0], own, layers, True, width, sizes @ abs(weights[0]), own_size)

    @property
    def classes(self) -> int:
        """C."""
        return int((self.layers[-1].weight if self.layers else self.first).shape[1])

    @cached_property
    def center(self) -> FloatArray:
        """Return Z of the first layer at δ = 0, shape (n, d_1)."""
        return np.asarray(self.matrix @ self.first) + self.own

    @cached_property
    def moments(self) -> FloatArray:
        """Return Bᵀ X W⁰, shape (k, d_1): the first layer is ``center`` - B diag(δ) times it."""
        return self.basis.T @ self.first

    def activated(self, values: FloatArray) -> FloatArray:
        """Return σ."""
        return np.maximum(values, 0.0) if self.relu else values

    def pre_activations(self, moved: FloatArray) -> Iterator[FloatArray]:
        """Yield Z of every layer at δ of shape (k,); the last are the logits."""
        values = self.center - (self.basis * moved) @ self.moments
        yield values
        for layer in self.layers:
            hidden = self.activated(values)
            product = hidden @ layer.weight
            values = np.asarray(self.matrix @ product) - (self.basis * moved) @ (self.basis.T @ product)
            values += layer.constant + (0.0 if layer.own is None else hidden @ layer.own)
            yield values

    def logits(self, moved: FloatArray) -> FloatArray:
        """Return the logits of all nodes at δ, shape (n, C)."""
        *_, last = self.pre_activations(moved)
        return last

    def descent(self, moved: FloatArray, node: int, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logits of a node at δ, (C,), and the gradient of their product with ``columns`` in δ, (k,)."""
        values = list(self.pre_activations(moved))
        slope = np.zeros_like(values[-1])
        slope[node] = columns
        gradient = np.zeros_like(moved)
        for at in range(len(self.layers) - 1, -1, -1):
            layer, hidden = self.layers[at], self.activated(values[at])
            product = hidden @ layer.weight
            there, here = self.basis.T @ slope, self.basis.T @ product
            gradient -= (there * here).sum(-1)
            back = np.asarray(self.matrix @ slope) - (self.basis * moved) @ there
            entering = back @ layer.weight.T + (0.0 if layer.own is None else slope @ layer.own.T)
            slope = entering * (values[at] > 0) if self.relu else entering
        gradient -= ((self.basis.T @ slope) * self.moments).sum(-1)
        return values[-1][node], gradient

    def errors(self, unit: float, reach: FloatArray, sizes: list[FloatArray] | None = None) -> list[FloatArray]:
        """Bound how far rounding moves Z^l, for each layer, at any |δ_j| ≤ reach_j, in any order of summation.

        With |H| ≤ A and an error of H of at most E, the product H W of d terms has an error of at most
        E|W| + γ_d (A + E)|W|, γ_d = d u/(1 - d u); likewise the products with Ã and with the low-rank part. σ makes no
        error larger. ``unit`` is u of the precision; ``sizes`` are bounds of |Z^l|, by default from absolute values.
        """
        n, k = self.basis.shape
        entries = int(np.diff(self.matrix.indptr).max(initial=1))
        around, rows = abs(self.matrix), np.abs(self.basis)

        def gamma(terms: int) -> float:
            return terms * unit / (1.0 - terms * unit)

        def spread(size: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
            """Return bounds of |P S| and of its error from those of S."""
            both = np.concatenate([size + error, error], axis=1)
            plain, low = np.asarray(around @ both), (rows * reach) @ (rows.T @ both)
            width = size.shape[1]
            made = gamma(entries + 4) * plain[:, :width] + gamma(n + k + 8) * low[:, :width]
            return plain[:, :width] + low[:, :width], plain[:, width:] + low[:, width:] + made

        size, error = spread(self.first_size, gamma(self.longest + 4) * self.first_size)
        size, error = size + self.own_size, error + gamma(self.longest + 8) * (size + self.own_size)
        found = [error]
        for at, layer in enumerate(self.layers):
            size = size if sizes is None else np.minimum(size, sizes[at])
            terms = gamma(layer.weight.shape[0] + 4)
            product, off = ((each @ np.abs(layer.weight)) for each in (size + error, error))
            next_size, next_error = spread(product, off + terms * product)
            added = np.abs(layer.constant)
            if layer.own is not None:
                mine, off = ((each @ np.abs(layer.own)) for each in (size + error, error))
                added, next_error = added + mine, next_error + off + terms * mine
            size = next_size + added
            error = next_error + gamma(8) * (size + next_error)
            found.append(error)
        return found


def check_covered(model: Any) -> None:
    """Raise if there is no graph operator, or if the bounds do not cover the network, and say what can be done."""
    if not isinstance(model, TrainedModel):
        what = "an ensemble" if hasattr(model, "members") else type(model).__name__
        raise InputError(f"bounds are known for one network, got {what}; {_SMOOTH}.")
    model.check_network(links=True, symmetric=True)
    if not model.weights:
        raise InputError(f"bounds need the weights of the network, and those of a function are not known; {_SMOOTH}.")
    if model.config.norm != "none" and not model.method.solved:
        raise InputError(f"the bounds do not cover normalized layers (norm={model.config.norm!r}); {_SMOOTH}.")
    groups = {name.partition(".")[0] for name in model.weights}
    if not groups <= {"weights", "biases", "own"} or model.method.base not in ("gcn", "linear"):
        raise InputError(f"the bounds do not cover the network {model.method.base!r}, but gcn and linear; {_SMOOTH}.")


def _tensors(model: TrainedModel, group: str) -> list[FloatArray]:
    return [each[0].detach().cpu().double().numpy() for each in by_layer(model.weights, group)]


def features_matrix(features: Features) -> CSRArray:
    """Return the features that the network reads, with the values of its precision, as CSR in float64."""
    values = features.values.detach().cpu().double().numpy()
    if values.ndim == 2:
        return sparse.csr_array(values)
    parts: list[IntArray] = [_numbers(getattr(features, name)) for name in ("indices", "indptr")]
    return sparse.csr_array((values, *parts), shape=features.shape)


def _numbers(tensor: Tensor) -> IntArray:
    found: IntArray = tensor.cpu().numpy().astype(np.int64)
    return found
