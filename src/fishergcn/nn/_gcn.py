"""The forward pass of the family of networks, written once for every operator, device and number of runs.

    Z^l = P H^l W^l + H^l V^l + b^l,   H⁰ = X,   H^{l+1} = σ(norm(Z^l)),   logits = Z^{L-1}

with ReLU σ, dropout on the input of every layer, and V^l (own weights), b^l (biases) and norm that may be left out. The
paper's graph convolutional network has none of them, and P = Ã.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.types import MatrixLike
from fishergcn.errors import InputError
from fishergcn.nn._activation import words_per_node
from fishergcn.nn._dropout import Dropout, MappedDropout
from fishergcn.nn._features import DenseFeatures, SparseFeatures, make_features
from fishergcn.nn._first_layer import half_first_product
from fishergcn.nn._layer import activated_times_weight
from fishergcn.nn._norm import Norm
from fishergcn.nn._view import Features, View, full_view
from fishergcn.operators import Operator, SparseMatrix


def logits(
    weights: Sequence[Tensor],
    view: View,
    dropout: Dropout | None = None,
    *,
    biases: Sequence[Tensor] = (),
    own: Sequence[Tensor] = (),
    norms: Sequence[Norm] = (),
    once: bool = False,
) -> Tensor:
    """Run R networks with M samples each over a view: entry r * M + m of (p, R * M, C) is sample m of run r.

    W^l (``weights``) and V^l (``own``) have shape (R, d_l, d_{l+1}), b^l (``biases``) shape (R, d_{l+1}). ``norms``
    are those of the hidden layers. Without ``dropout``, which says that this is training, M is 1, unless the operators
    are a larger batch. ``once``: no derivative of a derivative will be asked for.
    """
    samples, rate = (dropout.samples, dropout.rate) if dropout else (1, 0.0)
    if own:
        weights = [torch.cat(pair, dim=2) for pair in zip(weights, own, strict=True)]
    nodes, product = view.features.shape[0], None
    words = dropout.words(0, view.features.mask_words) if dropout else None
    if len(weights) > 1 and not own:
        product = half_first_product(view, weights[0], words, samples, rate, once=once)
    if product is None:
        hidden = view.times(weights[0], words, samples, rate)
    for layer, weight in enumerate(weights[1:], start=1):
        words = dropout.words(layer, nodes * words_per_node(weight.shape[1])) if dropout else None
        bias, norm = biases[layer - 1] if biases else None, norms[layer - 1] if norms else None
        normed = None if norm is None else partial(norm.of, training=dropout is not None)
        then = partial(_activate, bias=bias, norm=normed, words=words, rate=rate, weight=weight, once=once)
        if layer == 1 and product is not None:
            hidden = then(product, view.rows[0])
        else:
            hidden = view.propagate(layer - 1, hidden, then, own=bool(own))
    last = biases[-1] if biases else None
    return view.propagate(-1, hidden, lambda values, _: _shifted(values, last), own=bool(own))


def _activate(
    values: Tensor,
    rows: Tensor | None,
    bias: Tensor | None,
    norm: Callable[[Tensor], Tensor] | None,
    words: Tensor | None,
    rate: float,
    weight: Tensor,
    once: bool,
) -> Tensor:
    """Return H^l W^l of what a layer's product made, for these rows."""
    values = _shifted(values, bias)
    if norm is not None:
        values = norm(values)
    return activated_times_weight(values, rows, words, rate, weight, once=once)


def _shifted(values: Tensor, bias: Tensor | None) -> Tensor:
    """Add each run's bias (R, d) to all samples of it, (p, R * M, d)."""
    return values if bias is None else values + bias.repeat_interleave(values.shape[1] // len(bias), dim=0)


class GCN(nn.Module):
    """A graph convolutional network of any depth over any propagation operator.

    Parameters
    ----------
    in_features
        D, the number of feature columns.
    hidden
        The sizes of the hidden layers, a tuple or one number; () gives a linear model.
    num_classes
        C, the number of outputs.
    dropout
        The probability to drop an input of a layer during training.
    generator
        Draws the initial weights; torch's default generator if None.
    dtype
        float32, or float64 for tests.
    bias
        Add b^l, at first 0, after the propagation of each layer.

    Notes
    -----
    Derivatives of every order are those of plain torch, and so are the transforms of ``torch.func`` (``grad``,
    ``vmap``, ``jvp``, ``jacrev``, …) through ``functional_call``, in weights, dense features and the coefficients of an
    operator; ``vmap`` over ``stack_module_state`` runs an ensemble. In training ``vmap`` needs
    ``randomness="different"``, or ``"same"`` for shared dropout masks.

    Under autocast products with weights run in half precision and those with the graph in float32; a network in
    bfloat16 or float16 (``model.bfloat16()``) adds up over links in float32, too.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from fishergcn import renormalized
    >>> model = GCN(in_features=2, hidden=(4,), num_classes=3).eval()
    >>> path = renormalized(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> model(np.eye(3, 2), path).shape
    torch.Size([3, 3])
    """

    def __init__(
        self,
        in_features: int,
        hidden: int | Sequence[int],
        num_classes: int,
        dropout: float = 0.5,
        *,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
        bias: bool = False,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(in_features, hidden, num_classes)
        self.dropout = check_real("dropout", dropout, minimum=0.0, below=1.0)
        self.weights = nn.ParameterList(
            nn.Parameter(_glorot(fan_in, fan_out, generator, dtype)) for fan_in, fan_out in pairwise(sizes)
        )
        self.biases = nn.ParameterList(
            nn.Parameter(torch.zeros(size, dtype=dtype)) for size in (sizes[1:] if bias else ())
        )

    def __repr__(self) -> str:
        sizes = [len(self.weights[0]), *(each.shape[1] for each in self.weights)]
        bias = ", bias=True" if len(self.biases) else ""
        first = self.weights[0]
        return f"GCN({' → '.join(map(str, sizes))}, dropout={self.dropout:g}{bias}, {first.dtype}, {first.device})"

    def forward(self, features: MatrixLike | Tensor | Features, operator: Operator | MatrixLike) -> Tensor:
        """Return logits: (n, C) for one operator, (M, n, C) for a batch of M perturbed ones.

        Parameters
        ----------
        features
            X: a SciPy sparse matrix, an array, a tensor, or prepared by ``make_features``. Rows are taken as
            they are; normalize them first if the network was trained so.
        operator
            Ã: a SciPy sparse matrix or any :class:`fishergcn.operators.Operator`, plain or batched.
        """
        weight = self.weights[0]
        prepared = _prepare_features(features, weight)
        if prepared.shape[1] != weight.shape[0]:
            raise InputError(f"features must have {weight.shape[0]} columns, got {prepared.shape[1]}.")
        linear = _prepare_operator(operator, weight)
        rows = linear.shape[0]
        if rows != prepared.shape[0]:
            raise InputError(f"operator and features must have as many rows, got {rows} and {prepared.shape[0]}.")
        batch = getattr(linear, "batch_shape", ())
        samples = math.prod(batch)
        rate = self.dropout if self.training else 0.0
        key = torch.randint(2**62, (1,)) if rate else torch.zeros(1, dtype=torch.int64)
        dropout = MappedDropout(key.to(weight.device), samples, 0, rate)
        view = full_view(prepared, linear, len(self.weights))
        weights, biases = ([each.unsqueeze(0) for each in part] for part in (self.weights, self.biases))
        out = logits(weights, view, dropout, biases=biases)
        return out.movedim(1, 0).reshape(*batch, rows, -1) if batch else out[:, 0]


def layer_sizes(in_features: int, hidden: int | Sequence[int], num_classes: int) -> tuple[int, ...]:
    """Return the sizes of all layers, checked."""
    inner = tuple(hidden) if isinstance(hidden, Iterable) else (hidden,)
    return (
        check_integer("in_features", in_features, minimum=1),
        *(check_integer("hidden", size, minimum=1) for size in inner),
        check_integer("num_classes", num_classes, minimum=1),
    )


def _glorot(fan_in: int, fan_out: int, generator: torch.Generator | None, dtype: torch.dtype) -> Tensor:
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    return (torch.rand((fan_in, fan_out), generator=generator, dtype=dtype) * 2 - 1) * bound


def _prepare_features(features: MatrixLike | Tensor | Features, weight: Tensor) -> Features:
    if isinstance(features, SparseFeatures | DenseFeatures):
        if features.values.dtype != weight.dtype:
            raise InputError(f"features must be prepared in {weight.dtype}, got {features.values.dtype}.")
        return features
    if isinstance(features, Tensor):
        dense = features if features.layout == torch.strided else features.to_dense()
        return DenseFeatures(dense.to(weight))
    return make_features(features, scaling="none", device=weight.device, dtype=weight.dtype)


def _prepare_operator(operator: Operator | MatrixLike, weight: Tensor) -> Operator:
    given: Any = operator
    if hasattr(given, "propagate"):
        moved: Operator = given.to(weight.device, weight.dtype)
        return moved
    return SparseMatrix.from_scipy(given, device=weight.device, dtype=weight.dtype)
