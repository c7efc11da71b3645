"""A step of several passes: the mean of their losses, in the memory of one, and what batch normalization keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from fishergcn.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import Self

# Of a reentrant checkpoint, which hides its parameters and refuses torch.autograd.grad.
REENTRANT = "CheckpointFunctionBackward"
# Of backward hooks of modules, which must see the gradient that the loss scale belongs to.
HOOKED = "BackwardHookFunctionBackward"
EVALUATION = (
    "the model is in evaluation mode, in which average is one unperturbed pass; call model.train() before training "
    "steps, and torch.no_grad() where no step follows."
)
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class MeanLoss:
    """(1/M) Σ_j loss_j, added up pass by pass.

    :meth:`add` takes the gradients of a pass at once, so that its activations can go before the next one comes.
    :meth:`result` is a loss whose ``backward()`` hands them on, times whatever scales it: optimizers, gradient scalers,
    accumulation and distributed training see what they would see of an ordinary loss.

    A pass is kept whole, as PyTorch does by itself, where its gradients cannot be taken yet: the loss is no scalar, a
    float16 loss still has to be scaled, hooks on parameters or modules must see the final gradient, tensors computed
    outside the closure get theirs once for all passes, torch.func differentiates, or there is a reentrant checkpoint.
    ``keep`` does so with all M ``passes``, for second derivatives.
    """

    def __init__(self, passes: int, keep: bool = False) -> None:
        self.passes, self.keep = passes, keep or torch._C._functorch.maybe_current_level() is not None
        self.reached = self.blocked = self.requires_grad = False
        self._known = not self.keep or keep  # whether the graphs of losses can be looked at
        self._center: Tensor | None = None
        self._rest: Tensor | float = 0.0
        self._gradients: dict[Tensor, Tensor] = {}
        self._before = _sequence_number()

    def add(self, loss: Tensor, also: Tensor | None = None, at_once: bool = False) -> Tensor | None:
        """Add one loss; return its gradient, divided by M, with respect to ``also``, or None if it was kept whole.

        What ``also`` was computed from does not get its gradient: the caller does that with :meth:`deposit`.
        ``at_once`` returns the gradient of a pass that is kept, too, unless it is ``blocked``.
        """
        if self._center is None:
            self._center = loss.detach()  # around the first, so that equal ones average to exactly themselves
        if not loss.requires_grad:
            self._rest = self._rest + (loss - self._center) / self.passes
            return None
        self.requires_grad = True
        if not self._known:
            self.reached = True
            self._rest = self._rest + (loss - self._center) / self.passes
            return None
        found = _look_behind(loss, self._before, also)
        self.reached |= found.reached
        self.blocked |= found.blocked
        if self.keep or found.kept or found.blocked or loss.numel() != 1:
            self.keep = True
            self._rest = self._rest + (loss - self._center) / self.passes
            if not (at_once and found.reached) or self.blocked or also is None:
                return None
            return torch.autograd.grad(loss / self.passes, also, retain_graph=True)[0]
        self._rest = self._rest + (loss.detach() - self._center) / self.passes
        with _without_autocast():
            inputs = found.leaves if also is None else [*found.leaves, also]
            gradients = torch.autograd.grad(loss / self.passes, inputs, allow_unused=True)
        for leaf, gradient in zip(found.leaves, gradients, strict=False):
            if gradient is not None:
                self.deposit(leaf, gradient)
        return None if also is None else gradients[-1]

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
    """Keep what normalization layers remember at where a step began, and end with the mean over its passes.

    A pass takes r to (1 - m) r + m s_j; after the step it is (1 - m) r + m mean_j s_j, and one batch was counted.
    """

    def __init__(self, roots: Iterable[nn.Module]) -> None:
        # The tensor, its values before the step, and those after each pass, of each buffer of each layer.
        self._kept: dict[tuple[nn.Module, str], tuple[Tensor, Tensor, list[Tensor]]] = {}
        for root in roots:
            for module in root.modules():
                self.add(module)

    def add(self, module: nn.Module) -> None:
        """Take in a layer, before its first pass."""
        if not isinstance(module, _NormBase) or not (module.training and module.track_running_stats):
            return
        for name in STATISTICS:
            buffer = module._buffers.get(name)
            if buffer is not None and (module, name) not in self._kept:
                self._kept[module, name] = buffer, buffer.detach().clone(), []

    def end_of_pass(self) -> None:
        """Remember the statistics of a pass, and go back to before it."""
        for (module, name), (_, before, after) in self._kept.items():
            after.append(getattr(module, name).detach().clone())
            self._set(module, name, before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Move by the mean over the passes; after an error, be where the step began."""
        for (module, name), (_tensor, before, after) in self._kept.items():
            self._set(module, name, torch.stack(after).double().mean(dim=0) if kind is None and after else before)

    def _set(self, module: nn.Module, name: str, value: Tensor) -> None:
        # Some layers assign another tensor. Kept passes have saved this one, although they do not look at it again in
        # training: as in the layer's own update, autograd must not count the change.
        buffer = self._kept[module, name][0]
        module._buffers[name] = buffer
        buffer.data.copy_(value)


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


class _Behind(NamedTuple):
    """What a loss depends on: its leaves, and whether ``also`` is behind it; whether it must or can only be kept."""

    leaves: list[Tensor]
    reached: bool
    kept: bool
    blocked: bool


def _look_behind(loss: Tensor, before: int, also: Tensor | None) -> _Behind:
    """Walk the graph of a loss. Nodes behind ``also`` do not count."""
    leaves: dict[Tensor, None] = {}
    reached = kept = blocked = False
    seen: set[Any] = set()
    left: list[Any] = [loss.grad_fn]
    while left:
        node: Any = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if also is not None and (variable is also if also.grad_fn is None else node is also.grad_fn):
            reached = True
            continue
        if variable is not None:
            leaves[variable] = None
            kept |= bool(variable._backward_hooks)
            continue
        # Older than the passes: whoever holds its tensor may have hooks on it, or want its gradient.
        kept |= node._sequence_nr() < before or node.name() == HOOKED
        blocked |= node.name() == REENTRANT or any(each.dtype == torch.float16 for each in node._input_metadata)
        left += [parent for parent, _ in node.next_functions]
    return _Behind(list(leaves), reached, kept, blocked)


def _sequence_number() -> int:
    """Return the number of the next node of the graph: all older nodes have smaller ones."""
    with torch.inference_mode(False), torch.enable_grad():
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
