"""How an adversary gets into a layer: its class becomes one whose ``propagate`` asks for a perturbation.

PyG leaves its hooks out of compiled models. A subclass is traced like any other layer, keeps its place in the model,
and copies and pickles as what it was before: a copy of a model is a plain model.
"""

from __future__ import annotations

import copyreg
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from fishergcn.errors import InputError

ENTRIES = "_perturbations"


class Entries(tuple[Any, ...]):
    """The adversaries of a layer, with what they know about it; copies of the layer have none."""

    __slots__ = ()

    def __deepcopy__(self, memo: Any) -> Entries:
        return Entries()


class InForce:
    """What is in force during a pass of an adversary, in its layers or at the input of its models.

    ``only_training`` leaves layers in evaluation mode as they are; ``part`` says that layers may see other nodes than
    the adversary, those of ``index`` where their numbers are known; ``seen`` has the names of the layers that ran, and
    ``most`` is the largest number of nodes that one of them saw.
    """

    def __init__(
        self, owner: Any, only_training: bool = False, part: bool = False, index: Tensor | None = None
    ) -> None:
        self.owner, self.only_training, self.part, self.index = owner, only_training, part, index
        self.seen: dict[str, bool] = {}
        self.most = 0
        self.statistics: Any = None  # of normalization layers, during a step

    def before(self, layer: Any, module: Any, given: dict[str, Any]) -> dict[str, Any]:
        """Return what the layer is to propagate instead."""
        return given

    def __call__(self, layer: Any, module: Any, edge_index: Any, given: dict[str, Any], out: Tensor) -> Tensor:
        """Return what the layer is to give instead of ``out``; ``given`` is what it was given."""
        raise NotImplementedError


# Passes in force, the innermost last. Each context (a thread, an asyncio task) has its own. TorchDynamo cannot read
# a ContextVar, so that compiled code looks at the thread's.
_CONTEXT: ContextVar[tuple[Any, ...]] = ContextVar("perturbations", default=())
_THREAD = threading.local()
# All passes in force in any thread: on CUDA, checkpoints are recomputed in threads of the autograd engine.
_EVERYWHERE: list[Any] = []
_EAGER = threading.Lock()
_eager_passes = 0
_stance: Any = None


@contextmanager
def in_force(perturbation: InForce) -> Iterator[None]:
    """Activate a perturbation for the layers of its owner; restore the previous one on exit."""
    token = _CONTEXT.set((*_CONTEXT.get(), perturbation))
    _THREAD.passes = (*getattr(_THREAD, "passes", ()), perturbation)
    _EVERYWHERE.append(perturbation)
    try:
        yield
    finally:
        _EVERYWHERE.remove(perturbation)
        # Not what was there before: tasks of one thread may end in any order.
        _THREAD.passes = tuple(each for each in _THREAD.passes if each is not perturbation)
        _CONTEXT.reset(token)


@contextmanager
def eagerly() -> Iterator[None]:
    """Disable torch.compile while active, process-wide."""
    global _eager_passes, _stance
    # The stance of torch belongs to the process. Of threads that overlap, the first sets it and the last restores it.
    with _EAGER:
        if _eager_passes == 0:
            _stance = torch.compiler.set_stance("force_eager")
            _stance.__enter__()
        _eager_passes += 1
    try:
        yield
    finally:
        with _EAGER:
            _eager_passes -= 1
            if _eager_passes == 0:
                _stance.__exit__(None, None, None)


@contextmanager
def outside_transforms() -> Iterator[None]:
    """Leave the transforms of torch.func and inference mode, for what outlives them."""
    with temporarily_clear_interpreter_stack(), torch.inference_mode(False):
        yield


def current(owner: Any) -> Any:
    """Return the innermost perturbation of an adversary in this context, or None."""
    compiling = torch.compiler.is_compiling()
    passes = getattr(_THREAD, "passes", ()) if compiling else _CONTEXT.get() or _of_backward(owner)
    for each in reversed(passes):
        if each.owner is owner:
            return each
    return None


def _of_backward(owner: Any) -> tuple[Any, ...]:
    """Return the pass whose backward runs in a thread of the autograd engine, which has no context of its own."""
    if not _EVERYWHERE or not in_backward() or not _of_the_engine(threading.current_thread()):
        return ()
    mine = [each for each in _EVERYWHERE if each.owner is owner]
    if len({id(each) for each in mine}) > 1:
        raise InputError(
            "a checkpoint is recomputed while several passes of one adversary run: which one it belongs to is unknown; "
            "use an adversary for each thread."
        )
    return tuple(mine)


def _of_the_engine(thread: threading.Thread) -> bool:
    """Whether Python did not start a thread, as it did not start those of the autograd engine."""
    return isinstance(thread, threading._DummyThread)


def in_backward() -> bool:
    """Whether this code runs inside a backward pass, as a recomputed checkpoint does."""
    return bool(torch._C._current_graph_task_id() != -1)


def enter(module: Any, owner: Any, layer: Any) -> None:
    """Let the perturbations of ``owner`` into a layer."""
    entries = module.__dict__.get(ENTRIES, Entries())
    if any(type(other) is not type(owner) for other, _ in entries):
        raise InputError(f"{layer.name} has an adversary of another kind; detach() it first.")
    # A parametrization of an attached layer makes a class on top of the perturbed one, which then stays.
    if not hasattr(type(module), "_unperturbed"):
        base = type(module)
        own = module.__dict__.get("propagate")
        perturbed = _perturbed_class(base)  # type: ignore[arg-type]
        if own is not None:  # set where a layer is explained or decomposed
            if getattr(own, "__func__", None) is not base._orig_propagate:
                raise InputError(f"{layer.name} has a propagate of its own, into which the adversary cannot enter.")
            module.propagate = perturbed._orig_propagate.__get__(module, base)
        module.__class__ = perturbed
    module.__dict__[ENTRIES] = Entries((*entries, (owner, layer)))


def leave(module: Any, owner: Any) -> None:
    """Take the perturbations of ``owner`` out; without any the layer is of its own class again."""
    entries = Entries(each for each in module.__dict__.get(ENTRIES, ()) if each[0] is not owner)
    module.__dict__[ENTRIES] = entries
    if entries or "_unperturbed" not in type(module).__dict__:
        return
    del module.__dict__[ENTRIES]
    base = original_class(module)
    if "propagate" in module.__dict__:
        module.propagate = base._orig_propagate.__get__(module, base)
    module.__class__ = base


def original_class(module: Any) -> type[Any]:
    """Return the class of a layer as its author knows it."""
    base: type[Any] = getattr(type(module), "_unperturbed", type(module))
    return base


@functools.cache
def _perturbed_class(base: type[Any]) -> type[Any]:
    """Return the subclass of a layer class that asks for perturbations; under the same name, since it shows it."""
    propagate = _asking(base.propagate)
    body = {
        "propagate": propagate,
        "_jinja_propagate": propagate,  # what PyG sets where a layer is no longer explained
        "_orig_propagate": _asking(getattr(base, "_orig_propagate", base.propagate)),
        "_unperturbed": base,
        "__reduce_ex__": _reduce_to_base,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    return type(base.__name__, (base,), body)


def _asking(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def propagate(self: Any, edge_index: Any, size: Any = None, **given: Any) -> Tensor:
        entries = self.__dict__.get(ENTRIES, ())
        entering = given
        for owner, layer in entries:
            perturbation = current(owner)
            if perturbation is not None:
                entering = perturbation.before(layer, self, entering)
        out = original(self, edge_index, size=size, **entering)
        for owner, layer in entries:
            perturbation = current(owner)
            if perturbation is not None:
                out = perturbation(layer, self, edge_index, given, out)
            elif not torch.compiler.is_compiling():
                layer.plain()
        return out

    return propagate


def _reduce_to_base(self: Any, protocol: Any) -> Any:
    """Copy and pickle the layer as one of its own class, without an adversary."""
    whole = self.__getstate__() if hasattr(self, "__getstate__") else self.__dict__
    state = {name: value for name, value in whole.items() if name not in (ENTRIES, "propagate")}
    # Pickle accepts no other class in the newer form.
    return copyreg._reconstructor, (original_class(self), object, None), state  # type: ignore[attr-defined]
