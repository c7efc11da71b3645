"""An adversary on the features of the nodes, with the interface of the adversary on the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.warn import warn
from fishergcn.errors import InputError
from fishergcn.integrations.pyg._averaging import EVALUATION, MeanLoss, RunningStatistics
from fishergcn.integrations.pyg._entry import InForce, current, in_force
from fishergcn.perturbation import Drawing, PerturbationWarning

if TYPE_CHECKING:
    from typing_extensions import Self


class _Shift(InForce):
    """δ, in force during a pass."""

    def __init__(self, owner: FeatureAdversary, delta: Tensor | None) -> None:
        super().__init__(owner)
        self.delta = delta


class FeatureAdversary(Drawing, nn.Module):
    """Train on x + δ, with δ_0 uniform in [-α, α] and δ_{t+1} = δ_t + α sign(∂ loss / ∂ δ_t), t = 0..M-1.

    This is FLAG (Kong et al., 2022): each of the M passes of a step both adds its gradient, divided by M, to that of
    the weights and moves δ, so that M passes train on ever more harmful features. It has the interface of
    :class:`fishergcn.integrations.pyg.BuresAdversary`, to compare the two: ``backward()`` and ``step()`` stay yours.

    Parameters
    ----------
    step_size : float
        α, in the units of the features.
    samples : int
        M, the passes of one step.
    radius : float, optional
        Keeps each entry of δ within [-radius, radius]; without it δ reaches at most (M + 1) α.
    seed : int
        Of the first δ.
    argument : str
        The name under which the model takes the features; they may also be its first argument.

    Notes
    -----
    δ is dense and as large as x. Only nodes and features that the model is given are moved: with mini-batches, those of
    the batch. It has nothing to learn: :meth:`parameter_group` is empty.

    Examples
    --------
    >>> import fishergcn, torch
    >>> from torch_geometric.nn import GCNConv
    >>> data = fishergcn.datasets.load("cora").to_pyg()
    >>> model = GCNConv(1433, 7)
    >>> adversary = FeatureAdversary(step_size=1e-3, samples=3).attach(model)
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    >>> optimizer.add_param_group(adversary.parameter_group())
    >>> adversary.average(lambda: model(data.x, data.edge_index).square().mean()).backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        step_size: float = 1e-3,
        samples: int = 3,
        radius: float | None = None,
        *,
        seed: int = 0,
        argument: str = "x",
    ) -> None:
        super().__init__(seed)
        self.step_size = check_real("step_size", step_size, minimum=0.0)
        self.samples = check_integer("samples", samples, minimum=1)
        self.radius = None if radius is None else check_real("radius", radius, minimum=0.0)
        self.argument = argument
        self._models: list[nn.Module] = []
        self._handles: list[Any] = []
        self._announced = False

    def attach(self, *modules: nn.Module) -> Self:
        """Let the adversary into the input of a model; as a context manager it leaves at the end."""
        for module in modules:
            if not isinstance(module, nn.Module):
                raise InputError(f"a model must be a torch.nn.Module, got {type(module).__name__}.")
            if any(module is each for each in self._models):
                raise InputError("the model is attached already; detach() first.")
            self._handles.append(module.register_forward_pre_hook(self._move, with_kwargs=True))
            self._models.append(module)
        return self

    def detach(self) -> None:
        """Leave the model: it is what it was before :meth:`attach`."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._models = [], []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def parameter_group(self, lr: float | None = None) -> dict[str, Any]:
        """Return an empty group, so that a loop for the adversary on the graph takes this one too."""
        return {"params": [], "maximize": True, "weight_decay": 0.0} | ({} if lr is None else {"lr": lr})

    def average(self, closure: Callable[[], Tensor], batch: Any = None) -> Tensor:
        """Return the mean of a loss over the M passes; ``backward()`` of it hands on the mean of their gradients.

        In evaluation mode it is the loss of one plain pass.

        Parameters
        ----------
        closure : callable
            Runs the model and returns the loss, a scalar.
        batch : optional
            Not needed, since δ is that of what the model is given; for the interface.
        """
        if not self._models:
            raise InputError("the adversary must be attached to a model first: adversary.attach(model).")
        if not any(model.training for model in self._models) or not torch.is_grad_enabled():
            if torch.is_grad_enabled() and not self._announced:
                self._announced = True
                warn(EVALUATION, PerturbationWarning)
            return closure()
        mean = MeanLoss(self.samples)
        delta: Tensor | None = None
        with RunningStatistics(self._models) as statistics:
            for _ in range(self.samples):
                with self._in_force(delta) as shift:
                    loss = closure()
                    if not isinstance(loss, Tensor) or loss.numel() != 1:
                        raise InputError("closure must return the loss as a tensor with one number.")
                    delta = shift.delta
                    gradient = mean.add(loss, also=delta, at_once=True)
                if mean.blocked:
                    raise InputError(
                        "each step on the features needs its gradient at once, which float16 losses and reentrant "
                        "checkpoints do not allow; use bfloat16, or checkpoints with use_reentrant=False."
                    )
                statistics.end_of_pass()
                if gradient is not None and delta is not None:
                    delta = self._limited(delta.detach() + self.step_size * gradient.sign()).requires_grad_()
        return mean.result()

    @contextmanager
    def perturbed(self, delta: Tensor) -> Iterator[None]:
        """Run the attached models on x + δ, in training and in evaluation mode."""
        with self._in_force(delta):
            yield

    @contextmanager
    def _in_force(self, delta: Tensor | None) -> Iterator[_Shift]:
        shift = _Shift(self, delta)
        with in_force(shift):
            yield shift
        if not shift.seen:
            raise InputError("no attached model ran during the pass: it may be a copy of the attached one.")

    def _move(self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Add δ to the features, drawing the first one in their shape."""
        shift = current(self)
        if shift is None:
            return None
        x = named[self.argument] if self.argument in named else (given[0] if given else None)
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.layout != torch.strided:
            raise InputError(
                f"the model must take its features, a dense tensor of floating-point numbers, as {self.argument!r} or "
                f"as its first argument, got {type(x).__name__}."
            )
        if shift.delta is None:
            drawn = torch.rand(x.shape, generator=self._generator, dtype=torch.float32) * 2 - 1
            shift.delta = self._limited(self.step_size * drawn.to(x)).requires_grad_()
        if shift.delta.shape != x.shape:
            raise InputError(
                "the model must be given the same features in all passes of a step, of shape "
                f"{tuple(shift.delta.shape)}, got {tuple(x.shape)}."
            )
        shift.seen["input"] = True
        moved = x + shift.delta
        if self.argument in named:
            return given, {**named, self.argument: moved}
        return (moved, *given[1:]), named

    def _limited(self, delta: Tensor) -> Tensor:
        return delta if self.radius is None else delta.clamp(-self.radius, self.radius)

    def extra_repr(self) -> str:
        """What ``print(adversary)`` shows."""
        return f"step_size={self.step_size:g}, samples={self.samples}, radius={self.radius}"
