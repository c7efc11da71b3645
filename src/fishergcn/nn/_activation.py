"""Kernel 3: ReLU with dropout.

    Y[p, b, h] = mask[b, i(p), h] max(V[p, b, h], 0) / keep

where i(p) is the node of row p: the mask belongs to nodes, so it does not change when only some rows are
computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.autograd import in_derivative, kernel
from fishergcn._base.backend import backend_of
from fishergcn.errors import InputError
from fishergcn.nn._features import check_words
from fishergcn.streams import keep_probability, unpack


def words_per_node(width: int) -> int:
    """Return how many 32-bit words hold the mask of one node with ``width`` hidden units."""
    return (width + 31) // 32


def relu_dropout(values: Tensor, rows: Tensor | None, words: Tensor | None, dropout: float) -> Tensor:
    """Apply ReLU, then dropout, to V of shape (p, B, H).

    ``rows`` (p,) are the nodes of its rows, None for all in order; ``words`` (B, ≥ n * words_per_node(H)) the packed
    masks, None for no dropout.
    """
    if words is None:
        return torch.relu(values)
    check_activation(values, rows, words)
    if backend_of(values) == "reference":
        return reference(values, rows, words, dropout)
    if rows is None:
        rows = torch.arange(len(values), dtype=torch.int32, device=values.device)
    result: Tensor = _Activation.apply(values, rows, words, dropout)  # type: ignore[no-untyped-call]
    return result


def check_activation(values: Tensor, rows: Tensor | None, words: Tensor) -> None:
    """Raise unless the shapes are what compiled code takes them for; on the CPU it also follows the rows."""
    if values.ndim != 3 or (rows is not None and rows.shape != values.shape[:1]):
        got = f"{tuple(values.shape)} with {None if rows is None else tuple(rows.shape)} rows"
        raise InputError(f"values must have shape (p, B, H) and p rows, got {got}.")
    nodes = len(values)
    if rows is not None and len(rows) and rows.device.type == "cpu" and not torch.compiler.is_compiling():
        mapped = torch._C._functorch.is_batchedtensor(rows)  # inside vmap there are no numbers to look at
        nodes = nodes if mapped else int(rows.max()) + 1
        if not mapped and int(rows.min()) < 0:
            raise InputError(f"rows must be numbers of nodes, got {int(rows.min())}.")
    if not torch._C._functorch.is_batchedtensor(words):
        check_words(words, values.shape[1], nodes * words_per_node(values.shape[2]))


def reference(values: Tensor, rows: Tensor | None, words: Tensor, dropout: float) -> Tensor:
    """The kernel in plain differentiable torch."""
    batch, width = values.shape[1:]
    stride = words_per_node(width)
    nodes = words.shape[1] // stride
    bits = unpack(words[:, : nodes * stride].reshape(batch * nodes, stride), width).view(batch, nodes, width)
    kept = bits[:, : len(values)] if rows is None else bits[:, rows.long()]
    return torch.relu(values) * kept.movedim(0, 1) / keep_probability(dropout)


@kernel
class _Activation(torch.autograd.Function):
    """A unit passes its gradient exactly if its output is positive, so the mask need not be kept."""

    @staticmethod
    def forward(values: Tensor, rows: Tensor, words: Tensor, dropout: float) -> Tensor:
        values = values.detach().contiguous()
        scale = 1.0 / keep_probability(dropout)
        out = torch.empty_like(values)
        if backend_of(values) == "triton":
            from fishergcn._kernels import cuda

            cuda.relu_dropout(out, values, rows, words, scale)
        else:
            from fishergcn._kernels import cpu

            stride = words_per_node(values.shape[2])
            masks = words.numpy().view(np.uint32)
            masks = masks[:, : masks.shape[1] // stride * stride].reshape(len(masks), -1, stride)
            number = values.numpy().dtype.type
            cpu.relu_dropout(out.numpy(), values.numpy(), rows.numpy(), masks, number(scale))
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.scale = 1.0 / keep_probability(inputs[3])
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return in_derivative(_Gate, grad, ctx.saved_tensors[0], ctx.scale), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        return _gate(tangent, ctx.saved_tensors[0], ctx.scale)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], values: Tensor, rows: Tensor, words: Tensor, dropout: float
    ) -> tuple[Tensor, int]:
        """The mapped dimension joins the rows; or the batch, if masks differ."""
        size = info.batch_size
        values = values.expand(size, *values.shape) if in_dims[0] is None else values.movedim(in_dims[0], 0)
        if in_dims[2] is None:
            out: Tensor = _Activation.apply(values.flatten(0, 1), rows.repeat(size), words, dropout)  # type: ignore[no-untyped-call]
            return out.view_as(values), 0
        wide = values.movedim(0, 1)
        masks = words.movedim(in_dims[2], 0).flatten(0, 1)
        out = _Activation.apply(wide.flatten(1, 2), rows, masks, dropout)  # type: ignore[no-untyped-call]
        return out.view_as(wide), 1


def _gate(grad: Tensor, result: Tensor, scale: float) -> Tensor:
    gated: Tensor = _Gate.apply(grad, result, scale)  # type: ignore[no-untyped-call]
    return gated


@kernel
class _Gate(torch.autograd.Function):
    """scale · G where a unit's output is positive, else 0: linear in G, and constant around the unit's output."""

    @staticmethod
    def forward(grad: Tensor, result: Tensor, scale: float) -> Tensor:
        grad, result = grad.detach().contiguous(), result.detach().contiguous()
        out = torch.empty_like(grad)
        if backend_of(grad) == "triton":
            from fishergcn._kernels import cuda

            cuda.relu_dropout_backward(out, grad, result, scale)
        else:
            from fishergcn._kernels import cpu

            arrays = out.numpy(), grad.numpy(), result.numpy()
            cpu.relu_dropout_backward(*arrays, arrays[0].dtype.type(scale))
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.scale = inputs[2]
        ctx.save_for_backward(inputs[1])
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return in_derivative(_Gate, grad, ctx.saved_tensors[0], ctx.scale), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor | None, *_: Any) -> Tensor | None:
        return None if tangent is None else _gate(tangent, ctx.saved_tensors[0], ctx.scale)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Tensor, int]:
        grad, result = (
            each.expand(info.batch_size, *each.shape) if dim is None else each.movedim(dim, 0)
            for each, dim in zip(arguments[:2], in_dims[:2], strict=True)
        )
        return _gate(grad, result, arguments[2]), 0
