"""What adversaries share that enter the layers of a model: attaching, averaging, several processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from fishergcn._base.types import CSRArray
from fishergcn._base.warn import warn
from fishergcn.errors import InputError
from fishergcn.integrations.pyg._averaging import EVALUATION, MeanLoss, RunningStatistics
from fishergcn.integrations.pyg._comparison import Comparison, check_rows
from fishergcn.integrations.pyg._entry import InForce, current, eagerly, enter, in_force, leave
from fishergcn.integrations.pyg._graph import Reading
from fishergcn.integrations.pyg._layers import Layer, find_layers
from fishergcn.perturbation import Coordinates, PerturbationWarning, SpectralAdversary

if TYPE_CHECKING:
    from typing_extensions import Self

# Steps of the weights after which ξ should have moved: some loops move it less often than the weights.
IDLE_STEPS = 10


class Diagnosis(NamedTuple):
    """What the adversary does to a model at this moment, from :meth:`LayerAdversary.diagnose`.

    Examples
    --------
    >>> import fishergcn
    >>> from fishergcn.integrations.pyg import BuresAdversary
    >>> from torch_geometric.nn import GCNConv
    >>> data, layer = fishergcn.datasets.load("cora").to_pyg(), GCNConv(1433, 7)
    >>> adversary = BuresAdversary(data, rank=2, radius=0.0).attach(layer)
    >>> found = adversary.diagnose(lambda: layer(data.x, data.edge_index).square().mean())
    >>> abs(found.perturbed / found.plain - 1) < 1e-6, found.moved
    (True, 0.0)
    """

    plain: float  #: The loss of an unperturbed pass.
    perturbed: float  #: The mean loss of M perturbed ones, with the same dropout masks.
    effect: float  #: Mean absolute change of the logits; NaN if the closure returns the loss alone.
    moved: float  #: Largest change of an entry of ξ since the last diagnosis, or since the adversary was made.


class LayerAdversary(SpectralAdversary):
    """An adversary inside the layers of a model: :class:`BuresAdversary` or :class:`NodeAdversary`.

    ``matrix`` is Ã; ``reading`` and ``source`` say how it was read from the data, and from where.

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
        matrix: CSRArray,
        reading: Reading,
        source: str,
    ) -> None:
        super().__init__(neighborhood, samples=samples, seed=seed, adversarial=adversarial)
        self._comparison: Comparison | None = Comparison(matrix, reading, source)  # None: of a learned graph
        self._layers: list[Layer] = []
        self._roots: list[nn.Module] = []
        self._started = False
        self._said: set[str] = set()
        self._group: Any = None
        self._ascent = _Ascent()
        self._diagnosed = self.xi.detach().clone()

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
        self._started = False
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

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def average(self, closure: Callable[[], Tensor], batch: Any = None, *, keep: bool = False) -> Tensor:
        """Return the mean of a loss over M perturbed passes, each with its own φ and dropout masks.

        The backward pass of each is run at once, so that M passes need the memory of one; ``backward()`` of the result
        hands the gradients on. In evaluation mode it is the loss of one unperturbed pass. Passes are kept, in M times
        the memory, where their gradients cannot be taken yet: a loss that is no scalar, float16, hooks, tensors that
        need a gradient and were computed outside the closure.

        Parameters
        ----------
        closure : callable
            Runs the model and returns the loss, a tensor of any shape.
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
            loss = _tensor(closure())
            if loss.requires_grad:
                self._say(EVALUATION)
            return loss
        if self.adversarial and self.radius > 0:
            # A process of several knows only a part of the gradient.
            self._ascent.judge(self.xi, self._roots, alone=self._group is None)
        draws, make_pass = self._passes(batch)
        mean = MeanLoss(self.samples, keep)
        gradients: list[Tensor | None] = []
        with RunningStatistics(self._roots) as statistics:
            for draw in draws:
                perturbation = make_pass(draw)
                perturbation.statistics = statistics
                with self._in_force(perturbation):
                    gradients.append(mean.add(_tensor(closure()), also=draw if draw.requires_grad else None))
                check_rows(perturbation, batch)
                statistics.end_of_pass()
        if draws.requires_grad and mean.requires_grad and not mean.reached:
            self._say(
                "the loss does not depend on the perturbed layers, or they ran without gradients: ξ gets no gradient."
            )
        if not mean.keep:
            for layer in self._layers:
                layer.waiting = False
        if any(each is not None for each in gradients):
            known = torch.stack([torch.zeros_like(draws[0]) if each is None else each for each in gradients])
            (gradient,) = torch.autograd.grad(draws, self.xi, known, retain_graph=mean.keep)
            mean.deposit(self.xi, gradient)
            self._ascent.remember(self.xi, gradient)
        return mean.result()

    @torch.no_grad()
    def diagnose(self, closure: Callable[[], Any], batch: Any = None) -> Diagnosis:
        """Return what the adversary does now, from M + 1 passes that leave no trace in draws, dropout and statistics.

        Parameters
        ----------
        closure : callable
            Runs the model and returns the loss, or the pair of loss and logits.
        batch : Data or Tensor, optional
            As for :meth:`average`.
        """
        if not self._layers:
            raise InputError("the adversary must be attached to a model first: adversary.attach(model).")
        state, devices = self.get_generator_state(), [self.xi.device] if self.xi.is_cuda else []

        def run() -> tuple[Tensor, Tensor | None]:
            with torch.random.fork_rng(devices):  # the same dropout masks
                given = closure()
            loss, logits = given if isinstance(given, tuple) else (given, None)
            return _tensor(loss).detach().mean(), None if logits is None else _tensor(logits).detach()

        found = []
        try:
            with RunningStatistics(self._roots) as statistics:
                draws, make_pass = self._passes(batch)
                for draw in draws:
                    perturbation = make_pass(draw)
                    perturbation.only_training, perturbation.statistics = False, statistics
                    with self._in_force(perturbation):
                        found.append(run())
                    check_rows(perturbation, batch)
                plain, logits = run()
        finally:
            self.set_generator_state(state)
        moves = [
            math.nan if logits is None or each is None else float((each - logits).abs().mean()) for _, each in found
        ]
        last, self._diagnosed = self._diagnosed, self.xi.detach().clone()
        moved = float((self.xi - last.to(self.xi.device)).abs().max())
        perturbed = float(torch.stack([loss for loss, _ in found]).mean())
        return Diagnosis(float(plain), perturbed, sum(moves) / len(moves), moved)

    @contextmanager
    def _in_force(self, perturbation: InForce) -> Iterator[None]:
        # Compiled layers run as they are written in the first pass, so that their matrices can be compared.
        with ExitStack() as stack:
            if not self._started:
                stack.enter_context(eagerly())
                stack.callback(register_module_forward_pre_hook(self._discover).remove)
            stack.enter_context(in_force(perturbation))
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

    def _discover(self, module: nn.Module, *_: object) -> None:
        """Find normalization layers of the first pass that are in no attached module: their statistics count too."""
        perturbation = current(self) if isinstance(module, _NormBase) else None
        if perturbation is not None and not any(module is each for root in self._roots for each in root.modules()):
            self._roots.append(module)
            if perturbation.statistics is not None:
                perturbation.statistics.add(module)

    def _note(self, perturbation: InForce, layer: Layer, module: Any, edge_index: Any, given: dict[str, Any]) -> None:
        """See with which matrix a layer multiplies, and whether it is one of several processes."""
        if self._group is None and distributed.is_available() and distributed.is_initialized():
            wrapper = getattr(DistributedDataParallel, "_active_ddp_module", None)
            if wrapper is not None:
                self._join(wrapper.process_group)
        if self._comparison is not None:
            self._comparison.note(perturbation, layer, module, edge_index, given)

    def _say(self, message: str) -> None:
        """Warn once."""
        if message not in self._said:
            self._said.add(message)
            warn(message, PerturbationWarning)

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
    """Sees whether the optimizer moves ξ, and in its first step whether it moves it up.

    The gradients of ξ are added up until the first step moves it. Only that one is judged: later ones may go against
    their gradient by momentum.
    """

    def __init__(self) -> None:
        self._last: tuple[Tensor, Tensor] | None = None
        self._judged = False
        self._start: Tensor | None = None
        self._versions, self._steps = 0, 0

    def remember(self, xi: Tensor, gradient: Tensor) -> None:
        """Note the gradient that was found at ξ."""
        if self._judged:
            return
        now = xi.detach().clone()
        if self._last is not None and torch.equal(self._last[0], now):
            gradient = self._last[1] + gradient
        self._last = now, gradient

    def judge(self, xi: Tensor, roots: Iterable[nn.Module], alone: bool) -> None:
        """Compare where ξ is now with where it was and, of one process, with where its gradient pointed."""
        if self._judged:
            return
        if self._start is None:
            self._start = xi.detach().clone()
        if torch.equal(self._start, xi.detach()):
            self._count(roots)
            return
        self._judged = True
        if not alone or self._last is None:
            return
        before, gradient = self._last
        moved, there = xi.detach() - before, gradient != 0
        if bool(there.any()) and bool((moved[there].sign() == -gradient[there].sign()).all()):
            warn(
                "the optimizer moved ξ down: it does not know the option maximize=True of parameter_group(), or got ξ "
                "without it, from adversary.parameters() or those of a model that holds the adversary. Give ξ an "
                "optimizer of its own: torch.optim.Adam([adversary.parameter_group()], lr=0.01).",
                PerturbationWarning,
            )

    def _count(self, roots: Iterable[nn.Module]) -> None:
        """Count the steps in which the weights moved and ξ did not."""
        versions = sum(each._version for root in roots for each in root.parameters() if not each.is_inference())
        self._steps += versions != self._versions
        self._versions = versions
        if self._steps > IDLE_STEPS:  # the first is that of the first look
            self._judged = True
            warn(
                f"ξ has not moved in {IDLE_STEPS} steps of the weights; give it to the optimizer: "
                "optimizer.add_param_group(adversary.parameter_group()).",
                PerturbationWarning,
            )


def _tensor(loss: Any) -> Tensor:
    """Return what a closure did if it can be averaged and differentiated."""
    if not isinstance(loss, Tensor):
        raise InputError(f"closure must return the loss as a tensor (without .item()), got {type(loss).__name__}.")
    return loss
