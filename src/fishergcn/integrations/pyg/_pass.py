"""One perturbed pass: what is subtracted from each product of an attached layer with its graph."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.utils import checkpoint

from fishergcn.errors import InputError
from fishergcn.integrations.pyg._entry import InForce
from fishergcn.integrations.pyg._layers import Layer
from fishergcn.integrations.pyg._stored import Rows

_HALF = (torch.float16, torch.bfloat16)
_CHECKPOINT = checkpoint.CheckpointFunction.forward.__code__


class Pass(InForce):
    """out - Ū (c ∘ (Ūᵀ x)), c of shape (k,), or (G, k) where there are several graphs, block by block."""

    def __init__(self, owner: Any, coefficients: Tensor, rows: Rows, only_training: bool) -> None:
        super().__init__(owner, only_training, rows.part, rows.numbers)
        self.coefficients, self.basis, self.graph = coefficients, rows.basis, rows.graph

    def __call__(self, layer: Layer, module: Any, edge_index: Any, given: dict[str, Any], out: Tensor) -> Tensor:
        """Return the perturbed product."""
        self.seen[layer.name] = True
        if self.only_training and not module.training:
            return out
        if not torch.compiler.is_compiling():
            note_pass(layer)
        x = layer.propagated(module, given)
        x = x[0] if isinstance(x, tuple | list) else x
        if x.layout != torch.strided:
            raise InputError(f"{layer.name} propagates sparse features; the adversary needs dense ones, x.to_dense().")
        x, result = x.movedim(module.node_dim, 0), out.movedim(module.node_dim, 0)
        if x.shape[1:] != result.shape[1:]:
            raise InputError(
                f"{layer.name} turns features of shape {tuple(x.shape[1:])} into {tuple(result.shape[1:])} "
                "while it propagates them: its messages are not of the form a_ij x_j."
            )
        rows = len(self.basis)
        if not (len(result) <= len(x) <= rows if self.part else len(result) == len(x) == rows):
            raise InputError(
                f"{layer.name} propagates from {len(x)} to {len(result)} nodes, but the basis has {rows} "
                "rows; give mini-batches to average(…, batch)."
            )
        if not torch.compiler.is_compiling():
            self.most = max(self.most, len(x))
            self.owner._note(self, layer, module, edge_index, given)
        if torch.is_autocast_enabled(x.device.type):
            with torch.autocast(x.device.type, enabled=False):
                correction = self._correction(x.flatten(1), len(result))
        else:
            correction = self._correction(x.flatten(1), len(result))
        return (result - correction.view_as(result).to(result.dtype)).movedim(0, module.node_dim)

    def _correction(self, x: Tensor, targets: int) -> Tensor:
        """Return the first rows of Ū (c ∘ (Ūᵀ x)): samplers put the targets of a layer first among its sources."""
        dtype = torch.float32 if x.dtype in _HALF else x.dtype
        x, basis = x.to(dtype), self.basis[: len(x)].to(device=x.device, dtype=dtype)
        c = self.coefficients.to(device=x.device, dtype=dtype)
        if self.graph is None:
            return basis[:targets] @ (c.unsqueeze(-1) * (basis.T @ x))
        graph = self.graph[: len(x)].to(x.device)
        total = torch.zeros(targets, x.shape[1], dtype=dtype, device=x.device)
        for i in range(basis.shape[1]):  # a column of all graphs at once, instead of a graph at a time
            column = basis[:, i : i + 1]
            products = torch.zeros(len(c), x.shape[1], dtype=dtype, device=x.device).index_add(0, graph, column * x)
            total = total + column[:targets] * (c[:, i : i + 1] * products)[graph[:targets]]
        return total


def note_pass(layer: Layer) -> None:
    """Remember that a perturbed pass of a layer may have its backward pass before it.

    Refuse a layer that runs inside the ``forward`` of an autograd function (reversible layers, reentrant checkpoints)
    whose backward pass computes gradients by itself: ξ would get none, and the layer would be recomputed unperturbed.
    """
    layer.waiting = torch.is_grad_enabled()
    if layer.waiting:
        return
    frame = sys._getframe(2)
    while frame is not None:
        function = frame.f_locals.get("ctx") if frame.f_code.co_name == "forward" else None
        # Without edges to other nodes it needs no gradient, as under torch.no_grad().
        if isinstance(function, FunctionCtx) and function.next_functions:  # type: ignore[attr-defined]
            if frame.f_code is _CHECKPOINT:
                raise InputError(
                    f"{layer.name} runs in a reentrant checkpoint, which forgets the perturbation when it recomputes "
                    "the layer; call torch.utils.checkpoint with use_reentrant=False."
                )
            raise InputError(
                f"{layer.name} runs inside {type(function).__name__.removesuffix('Backward')}, which computes its "
                "gradients itself and would leave ξ without one; set disable=True on reversible layers (GroupAddRev), "
                "or leave them unattached."
            )
        frame = frame.f_back  # type: ignore[assignment]
