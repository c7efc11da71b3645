"""What adversaries share that enter the layers of a model: attaching, averaging, several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from fishergcn._base.warn import warn
from fishergcn.errors import InputError
from fishergcn.integrations.pyg._averaging import MeanLoss, RunningStatistics
from fishergcn.integrations.pyg._entry import InForce, eagerly, enter, in_force, leave
from fishergcn.integrations.pyg._graph import Reading
from fishergcn.integrations.pyg._layers import Layer, difference, find_layers
from fishergcn.perturbation import Coordinates, PerturbationWarning, SpectralAdversary

if TYPE_CHECKING:
    from typing_extensions import Self


class LayerAdversary(SpectralAdversary):
    """An adversary inside the layers of a model: :class:`BuresAdversary` or :class:`NodeAdversary`.

    ``reading`` and ``source`` say how the graph was read from the data, and from where.

    Examples
    --------
    >>> from fishergcn.integrations.pyg import BuresAdversary, NodeAdversary
    >>> issubclass(BuresAdversary, LayerAdversary), issubclass(NodeAdversary, LayerAdversary)
    (True, True)
    """

    def __init__(
        self,
        neighborhood: Coordinates,
        samples: int,
        seed: int,
        adversarial: bool,
        *,
        reading: Reading,
        source: str,
    ) -> None:
        super().__init__(neighborhood, samples=samples, seed=seed, adversarial=adversarial)
        self._reading, self._source = reading, source
        self._layers: list[Layer] = []
        self._roots: list[nn.Module] = []
        self._refreshed = self._started = False
        self._group: Any = None
        self._ascent = _Ascent()

    def _check_layer(self, layer: Layer) -> None:
        """Raise, or warn, if a layer does not multiply with a graph that this adversary can perturb."""
        raise NotImplementedError

    def _passes(self, batch: Any) -> tuple[Tensor, Callable[[Tensor], InForce]]:
        """Return M draws, whose gradient reaches ξ, and what makes a perturbed pass of one of them."""
        raise NotImplementedError

    def attach(self, *modules: nn.Module, also: Mapping[type[Any], str] | None = None) -> Self:
        """Let the adversary into all message passing layers of a model, or into the layers given.

        Parameters
        ----------
        *modules : nn.Module
            A model, compiled or not, or single layers of it. Batch normalization in them moves its running statistics
            once in each :meth:`average`, by the mean over the passes.
        also : mapping from layer class to str, optional
            Layers of your own whose messages are a_ij x_j, with the keyword of ``propagate`` that holds x.

        Returns
        -------
        LayerAdversary
            Itself; as a context manager it detaches at the end.

        Raises
        ------
        InputError
            If a layer does not sum or average such messages (the error names it), or is attached already.
        """
        layers = find_layers(modules, also or {})
        attached = {id(layer.module) for layer in self._layers}
        for layer in layers:
            if id(layer.module) in attached:
                raise InputError(f"{layer.name} is attached already; detach() first.")
            self._check_layer(layer)
        for layer in layers:
            enter(layer.module, self, layer)
        self._layers += layers
        self._roots += modules
        for root in modules:
            for module in root.modules():
                if isinstance(module, DistributedDataParallel):
                    self._join(module.process_group)
        return self

    def detach(self) -> None:
        """Leave the model: it is what it was before :meth:`attach`."""
        for layer in self._layers:
            leave(layer.module, self)
        self._layers, self._roots = [], []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def average(self, closure: Callable[[], Tensor], batch: Any = None, *, keep: bool = False) -> Tensor:
        """Return the mean of a loss over M perturbed passes, each with its own φ and dropout masks.

        The backward pass of each is run at once, so that M passes need the memory of one; ``backward()`` of the result
        hands the gradients on. In evaluation mode it is the loss of one unperturbed pass.

        Parameters
        ----------
        closure : callable
            Runs the model and returns the loss, a tensor of any shape. Passes whose loss is no scalar are kept.
        batch : Data or Tensor, optional
            What the model sees, if not the graph that the adversary was built from: see ``perturbed``.
        keep : bool
            Keep all M passes for your ``backward()``, in M times the memory: for second derivatives, and for compiled
            float16 models with a gradient scaler.
        """
        if not self._layers:
            raise InputError("the adversary must be attached to a model first: adversary.attach(model).")
        if not callable(closure):
            raise InputError(f"closure must be a function that returns the loss, got {type(closure).__name__}.")
        if not any(layer.module.training for layer in self._layers):
            return _tensor(closure())
        if self._group is None:  # a process of several knows only a part of the gradient
            self._ascent.judge(self.xi)
        draws, make_pass = self._passes(batch)
        mean, statistics = MeanLoss(self.samples, keep), RunningStatistics(self._roots)
        gradients: list[Tensor | None] = []
        for draw in draws:
            with self._in_force(make_pass(draw)):
                gradients.append(mean.add(_tensor(closure()), also=draw if draw.requires_grad else None))
            statistics.end_of_pass()
        statistics.end_of_step()
        if not mean.keep:
            for layer in self._layers:
                layer.waiting = False
        if any(each is not None for each in gradients):
            known = torch.stack([torch.zeros_like(draws[0]) if each is None else each for each in gradients])
            (gradient,) = torch.autograd.grad(draws, self.xi, known, retain_graph=mean.keep)
            mean.deposit(self.xi, gradient)
            self._ascent.remember(self.xi, gradient)
        return mean.result()

    @contextmanager
    def _in_force(self, perturbation: InForce) -> Iterator[None]:
        # Compiled layers run as they are written in the first pass, so that their matrices can be compared.
        with nullcontext() if self._started else eagerly(), in_force(perturbation):
            yield
        if not perturbation.seen:
            raise InputError(
                "no attached layer multiplied with its graph during the pass: the model that ran may be a copy of the "
                "attached one, or another one."
            )
        if not self._started:
            left = [layer.name for layer in self._layers if layer.name not in perturbation.seen]
            if left:
                warn(f"{', '.join(left)} did not run in the first perturbed pass: only layers that run are perturbed.")
            self._started = True

    def _note(self, perturbation: InForce, layer: Layer, module: Any, edge_index: Any, given: dict[str, Any]) -> None:
        """See, in a layer's first pass, with which matrix it multiplies and whether it is one of several processes."""
        if self._group is None and distributed.is_available() and distributed.is_initialized():
            wrapper = getattr(DistributedDataParallel, "_active_ddp_module", None)
            if wrapper is not None:
                self._join(wrapper.process_group)
        if layer.compared or perturbation.part or self._refreshed:
            return
        layer.compared = True
        matrix = self.neighborhood.propagation.scipy
        said = difference(layer, module, edge_index, given, matrix, self._reading, self._source)
        if said is not None:
            warn(said, PerturbationWarning)

    def _join(self, group: Any) -> None:
        """Keep ξ equal in the processes of a group from now on."""
        if self._group is not None or distributed.get_world_size(group) == 1:
            return
        self._group = group
        first = distributed.get_global_rank(group, 0) if group is not None else 0
        distributed.broadcast(self.xi.data, first, group=group)
        # After each backward(): the mean of what has been added up, of which all earlier parts are equal already.
        self.xi.register_post_accumulate_grad_hook(self._synchronize)  # type: ignore[no-untyped-call]

    def _synchronize(self, xi: Tensor) -> None:
        if xi.grad is not None:
            distributed.all_reduce(xi.grad, group=self._group)
            xi.grad /= distributed.get_world_size(self._group)

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle the adversary by itself, since copies of the layers are plain layers."""
        alone: dict[str, Any] = {"_layers": [], "_roots": [], "_group": None, "_started": False}
        return self.__dict__ | alone

    def extra_repr(self) -> str:
        """What ``print(adversary)`` shows."""
        return f"{super().extra_repr()}, layers={[layer.name for layer in self._layers]}"


class _Ascent:
    """Adds up the gradients of ξ until the first step moves it, and says so if that went against all of them.

    Only the first step is judged: later ones may go against their gradient by momentum.
    """

    def __init__(self) -> None:
        self._last: tuple[Tensor, Tensor] | None = None
        self._judged = False

    def remember(self, xi: Tensor, gradient: Tensor) -> None:
        """Note the gradient that was found at ξ."""
        now = xi.detach().clone()
        if self._last is not None and torch.equal(self._last[0], now):
            gradient = self._last[1] + gradient
        self._last = now, gradient

    def judge(self, xi: Tensor) -> None:
        """Compare where ξ is now with where its gradient pointed."""
        if self._last is None or self._judged:
            return
        before, gradient = self._last
        moved, there = xi.detach() - before, gradient != 0
        if not bool(moved.any()):
            return
        self._judged = True
        if bool(there.any()) and bool((moved[there].sign() == -gradient[there].sign()).all()):
            warn(
                "the optimizer moved ξ down: it does not know the option maximize=True of parameter_group(). Give ξ an "
                "optimizer of its own that does: torch.optim.Adam([adversary.parameter_group()], lr=0.01).",
                PerturbationWarning,
            )


def _tensor(loss: Any) -> Tensor:
    """Return what a closure did if it can be averaged and differentiated."""
    if not isinstance(loss, Tensor):
        raise InputError(f"closure must return the loss as a tensor (without .item()), got {type(loss).__name__}.")
    return loss
