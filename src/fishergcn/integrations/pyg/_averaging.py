"""A step of several passes: the mean of their losses, in the memory of one, and what batch normalization keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fishergcn.errors import InputError

# Of a reentrant checkpoint, which hides its parameters and refuses torch.autograd.grad.
REENTRANT = "CheckpointFunctionBackward"


class MeanLoss:
    """(1/M) Σ_j loss_j, added up pass by pass.

    :meth:`add` takes the gradients of a pass at once, so that its activations can go before the next one comes.
    :meth:`result` is a loss whose ``backward()`` hands them on, times whatever scales it: optimizers, gradient scalers,
    accumulation and distributed training see what they would see of an ordinary loss.

    A pass is kept whole, as PyTorch does by itself, where its gradients cannot be taken yet: the loss is no scalar, a
    float16 loss still has to be scaled, a hook on a parameter must see the sum alone, or it holds a reentrant
    checkpoint.
    ``keep`` does so with all M ``passes``, for second derivatives.
    """

    def __init__(self, passes: int, keep: bool = False) -> None:
        self.passes, self.keep = passes, keep
        self._center: Tensor | None = None
        self._rest: Tensor | float = 0.0
        self._gradients: dict[Tensor, Tensor] = {}
        self._before = _sequence_number()

    def add(self, loss: Tensor, also: Tensor | None = None) -> Tensor | None:
        """Add one loss; return its gradient, divided by M, with respect to ``also``, or None if it was kept whole.

        What ``also`` was computed from does not get its gradient: the caller does that with :meth:`deposit`.
        """
        if self._center is None:
            self._center = loss.detach()  # around the first, so that equal ones average to exactly themselves
        if not loss.requires_grad:
            self._rest = self._rest + (loss - self._center) / self.passes
            return None
        leaves, shared, whole = _leaves(loss, self._before, also)
        if self.keep or whole or loss.numel() != 1:
            self.keep = True
            self._rest = self._rest + (loss - self._center) / self.passes
            return None
        self._rest = self._rest + (loss.detach() - self._center) / self.passes
        with _without_autocast():
            inputs = leaves if also is None else [*leaves, also]
            found = torch.autograd.grad(loss / self.passes, inputs, retain_graph=shared, allow_unused=True)
        for leaf, gradient in zip(leaves, found, strict=False):
            if gradient is not None:
                self.deposit(leaf, gradient)
        return None if also is None else found[-1]

    def deposit(self, leaf: Tensor, gradient: Tensor) -> None:
        """Add a gradient of a leaf that was found in another way."""
        self._gradients[leaf] = self._gradients[leaf] + gradient if leaf in self._gradients else gradient

    def result(self) -> Tensor:
        """Return the mean."""
        if self._center is None:
            raise InputError("a mean needs at least one loss.")
        value = self._center + self._rest
        if not self._gradients:
            return value
        leaves = list(self._gradients)
        gradients = [self._gradients[leaf] for leaf in leaves]
        deposited: Tensor = _Deposit.apply(value.detach(), gradients, *leaves)  # type: ignore[no-untyped-call]
        return deposited if not value.requires_grad else deposited + (value - value.detach())


class RunningStatistics:
    """Keep what batch normalization remembers at where a step began, and end with the mean over its passes.

    A pass takes r to (1 - m) r + m s_j; after the step it is (1 - m) r + m mean_j s_j, and one batch was counted.
    """

    def __init__(self, roots: Iterable[nn.Module]) -> None:
        layers = {id(each): each for root in roots for each in root.modules() if isinstance(each, _BatchNorm)}
        self._buffers = [
            buffer
            for each in layers.values()
            if each.training and each.track_running_stats
            for buffer in (each.running_mean, each.running_var, each.num_batches_tracked)
            if buffer is not None
        ]
        self._before = [buffer.clone() for buffer in self._buffers]
        self._after: list[list[Tensor]] = []

    def end_of_pass(self) -> None:
        """Remember the statistics of a pass, and go back to before it."""
        if self._buffers:
            self._after.append([buffer.clone() for buffer in self._buffers])
            self._set(self._before)

    def end_of_step(self) -> None:
        """Move by the mean over the passes."""
        if self._after:
            means = [torch.stack(each).double().mean(dim=0) for each in zip(*self._after, strict=True)]
            self._set(means)

    def _set(self, values: Iterable[Tensor]) -> None:
        with torch.no_grad():
            for buffer, value in zip(self._buffers, values, strict=True):
                buffer.copy_(value)


class _Deposit(torch.autograd.Function):
    """A number whose gradients are known."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor], *leaves: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise InputError(
                "the mean loss has its gradients already, so that it has no second derivatives; keep the passes with "
                "average(…, keep=True)."
            )
        return None, None, *(each * scale.to(each) for each in ctx.gradients)


def _leaves(loss: Tensor, before: int, also: Tensor | None) -> tuple[list[Tensor], bool, bool]:
    """Return the leaves that a loss depends on, whether by way of older nodes, and whether it must be kept whole.

    Nodes behind ``also`` do not count.
    """
    leaves: dict[Tensor, None] = {}
    shared = whole = False
    seen: set[Any] = set() if also is None else {also.grad_fn}
    left: list[Any] = [loss.grad_fn]
    while left:
        node: Any = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            if variable is also:
                continue
            leaves[variable] = None
            whole |= bool(variable._backward_hooks)
            continue
        shared |= node._sequence_nr() < before
        whole |= node.name() == REENTRANT or any(each.dtype == torch.float16 for each in node._input_metadata)
        left += [parent for parent, _ in node.next_functions]
    return list(leaves), shared, whole


def _sequence_number() -> int:
    """Return the number of the next node of the graph: all older nodes have smaller ones."""
    with torch.enable_grad():
        node: Any = torch.zeros((), requires_grad=True).clone().grad_fn
    return int(node._sequence_nr())


@contextmanager
def _without_autocast() -> Iterator[None]:
    """Leave autocast, under which no backward pass should run."""
    with ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield
