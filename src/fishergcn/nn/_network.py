"""What a network says about itself: everything that the rest of the library knows of it is read from here.

A network is one file in ``nn/networks``, or an object that :func:`register` is given. An installed package offers its
own by an entry point of the group ``fishergcn.plugins``, a module that registers them when it is imported.
"""

from __future__ import annotations

import importlib.metadata
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from fishergcn._base.types import FloatArray, IntArray
from fishergcn.errors import InputError, suggestion
from fishergcn.operators import Operator
from fishergcn.propagation import Matrix, find_matrix
from fishergcn.streams import initial_weights

if TYPE_CHECKING:
    from fishergcn._settings.config import TrainConfig
    from fishergcn.nn._dropout import Dropout
    from fishergcn.nn._view import View

Initial: TypeAlias = Literal["glorot", "zeros", "ones"]
Role: TypeAlias = Literal["perturbed", "control", "plain"]
#: Color and marker of a method in figures.
Look: TypeAlias = tuple[str, str]
#: What may stand around a network's name, by a letter: ``fisher…``, ``-t``, ``-xM``, ``-c``.
SUFFIXES = "ftxc"


@dataclass(frozen=True)
class Parameter:
    """One tensor that a network learns.

    Attributes
    ----------
    shape
        Of one run; a stack of R runs has one dimension more, R, before it.
    decayed
        Whether its squared norm is in the loss.
    initial
        ``"glorot"``: uniform, by the two dimensions that it must have; ``"zeros"`` or ``"ones"``.
    stream
        Which random numbers of the run it starts from, below 1000; Glorot tensors of one network must not share them.
    learned
        Whether the loss moves it; otherwise a forward pass in training may write to it, as moving averages do.

    Examples
    --------
    >>> Parameter((1433, 64)).decayed
    True
    """

    shape: tuple[int, ...]
    decayed: bool = True
    initial: Initial = "glorot"
    stream: int = 0
    learned: bool = True

    def start(self, keys: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the values that the runs of these keys start from, with R before the shape."""
        if self.initial == "glorot":
            fan_in, fan_out = self.shape
            return initial_weights(keys, self.stream, fan_in, fan_out, dtype)
        fill = torch.zeros if self.initial == "zeros" else torch.ones
        return fill((len(keys), *self.shape), dtype=dtype, device=keys.device)


class Base(ABC):
    """A way to predict, as methods name it: a :class:`Network`, or a :class:`Rule` that trains nothing."""

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    suffixes: ClassVar[str] = ""
    matrix: ClassVar[str] = "renormalized"
    without_links: ClassVar[str | None] = None
    trained: ClassVar[bool] = False

    def look(self, *, high_order: bool, consistent: bool, role: Role) -> Look | None:
        """Return color and marker in figures; None takes the next that is free."""
        return None

    def matrix_of(self, *, high_order: bool) -> Matrix:
        """Return the matrix that it multiplies with; with suffix ``-t`` that of high order."""
        return find_matrix("high-order" if high_order else self.matrix)


class Rule(Base):
    """A way to predict from labels and links alone, without training; it has the attributes of a :class:`Network`.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from fishergcn.operators import DenseOperator
    >>> [majority] = [each for each in bases() if each.name == "majority"]
    >>> path = DenseOperator(torch.eye(3, dtype=torch.float64))
    >>> majority.log_probabilities(path, np.array([0, 0, 1]), [np.array([0])], 2)[2].exp()
    tensor([[0.6667, 0.3333]], dtype=torch.float64)
    """

    @abstractmethod
    def log_probabilities(
        self, operator: Operator, labels: IntArray, nodes: Sequence[IntArray], classes: int
    ) -> Tensor:
        """Return log P, by node, run and class, shape (n, R, C), in float64.

        Parameters
        ----------
        operator
            The matrix in float64, n x n; it says where, too.
        labels
            The classes of all nodes, of which only those of the training nodes are read.
        nodes
            The training nodes of each run.
        classes
            C.
        """

    def expectations(self, operator: Operator, values: FloatArray, nodes: Sequence[IntArray]) -> Tensor:
        """Return what to expect of each node instead of a class, by node, run and value, (n, R, T), in float64.

        ``values`` (n, T) are those of all nodes, of which only those of the training nodes are read. A rule that is for
        classes alone refuses.
        """
        raise InputError(f"method {self.name!r} is for classes alone.")


class Network(Base):
    """A network with named tensors. Subclass it, say what it is, and :func:`register` an instance.

    Attributes
    ----------
    name
        With which the names of its methods begin, after ``fisher``: lower-case letters and digits.
    title
        What it is, for cards: "a graph convolutional network".
    summary
        One line for help, pages and the documentation.
    suffixes
        What may stand around the name: ``f`` for ``fisher…``, ``t`` for ``-t``, ``x`` for ``-xM``, ``c`` for ``-c``.
    matrix
        The name of the matrix that it multiplies with: see :func:`fishergcn.propagation.find_matrix`.
    without_links
        The name of the same without the links, by comparison with which one learns what they add, if there is one.
    linear
        Whether the logits are linear in the tensors, of which ``biases.0``, if there is one, is added to all of them as
        it is: the network is then not trained in epochs but solved, as :mod:`fishergcn.training` says.

    Examples
    --------
    >>> from fishergcn import TrainConfig
    >>> gcn = find_network("gcn")
    >>> {name: each.shape for name, each in gcn.parameters(1433, 7, TrainConfig()).items()}
    {'weights.0': (1433, 64), 'weights.1': (64, 7)}
    >>> gcn.widths(7, TrainConfig()), gcn.sees_itself(TrainConfig())
    ((64, 7), False)
    """

    trained = True
    linear: ClassVar[bool] = False

    @abstractmethod
    def parameters(self, inputs: int, classes: int, config: TrainConfig) -> dict[str, Parameter]:
        """Return what is learned, by names of the form ``group.number``, for these numbers of features and classes."""

    @abstractmethod
    def logits(
        self,
        weights: Mapping[str, Tensor],
        view: View,
        config: TrainConfig,
        dropout: Dropout | None = None,
        *,
        once: bool = False,
    ) -> Tensor:
        """Run R networks with M samples each over a view of the graph.

        Parameters
        ----------
        weights
            The tensors by name, each (R, …).
        view
            Features, and for each layer its operator and its rows.
        config
            The settings.
        dropout
            Masks for training, or None for prediction.
        once
            Whether no derivative of a derivative will be asked for, which makes the first one faster on a GPU.

        Returns
        -------
        Tensor of shape (p, R * M, C)
            Batch entry r * M + m is sample m of run r.
        """

    def widths(self, classes: int, config: TrainConfig) -> tuple[int, ...]:
        """Return how many columns each product with the graph has, first layer first; one product a layer."""
        return (*config.hidden, classes)

    def depth(self, config: TrainConfig) -> int:
        """Return the number of products with the graph: a node's output depends on nodes that many links away."""
        return len(self.widths(1, config))

    def sees_itself(self, config: TrainConfig) -> bool:
        """Whether a layer reads the nodes that it outputs, besides what the matrix leads to."""
        return False

    def needs_all_nodes(self, config: TrainConfig) -> bool:
        """Whether a step of training must compute every node, and not only those that labeled ones depend on."""
        return False

    def has_compiled_step(self, config: TrainConfig) -> bool:
        """Whether the compiled step for the CPU computes what :meth:`logits` does, with these settings."""
        return False

    def tensors(self, inputs: int, classes: int, config: TrainConfig) -> dict[str, Parameter]:
        """Return the parameters, or raise where they are not what training, files and models rely on."""
        found = self.parameters(inputs, classes, config)
        if not isinstance(found, dict) or not found:
            raise InputError(f"the network {self.name!r} must name at least one parameter to train.")
        streams: dict[int, str] = {}
        for name, each in found.items():
            where = f"parameter {name!r} of the network {self.name!r}"
            if not isinstance(each, Parameter) or not re.fullmatch(r"[a-z_]+\.[0-9]+", str(name)):
                raise InputError(f"{where} must be a Parameter with a name like 'weights.0'.")
            if each.initial != "glorot":
                continue
            if len(each.shape) != 2 or not 0 <= each.stream < 1000:
                raise InputError(
                    f"{where} must have two dimensions and a stream below 1000 to start from Glorot's law, got "
                    f"{each.shape} and {each.stream}."
                )
            if streams.setdefault(each.stream, name) != name:
                raise InputError(f"{where} must have a stream of its own, got that of {streams[each.stream]!r}.")
        return found

    def check_logits(self, out: Tensor, rows: int, batch: int, classes: int) -> Tensor:
        """Return the logits, or raise where their shape is not what the loss relies on."""
        if not isinstance(out, Tensor) or tuple(out.shape) != (rows, batch, classes):
            got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise InputError(
                f"the network {self.name!r} must return logits of shape {rows, batch, classes}, got {got}."
            )
        return out


_BASES: dict[str, Base] = {}
_TEXTS = ("name", "title", "summary", "suffixes", "matrix")


def register(base: Base) -> Base:
    """Make a network known by its name, so that methods, commands and pages have it.

    Worker processes import the module in which its class is defined, so that must not be the main program.

    Examples
    --------
    >>> register(find_network("gcn")).name  # registering the same again changes nothing
    'gcn'
    """
    if not isinstance(base, Base):
        raise InputError(f"a network must be an instance of a subclass of Network, got {type(base).__name__}.")
    for name in _TEXTS:
        if not isinstance(getattr(base, name, None), str):
            raise InputError(f"the network {type(base).__name__} must have a {name}, as a text.")
    if not re.fullmatch("[a-z][a-z0-9]*", base.name) or base.name.startswith("fisher"):
        raise InputError(f"the name of a network must be lower-case letters and digits, got {base.name!r}.")
    if not set(base.suffixes) <= set(SUFFIXES):
        raise InputError(f"suffixes of the network {base.name!r} must be letters of {SUFFIXES}, got {base.suffixes!r}.")
    if not find_matrix(base.matrix).symmetric and "f" in base.suffixes:
        raise InputError(
            f"the network {base.name!r} cannot be perturbed: its matrix {base.matrix!r} is not symmetric, so its "
            "Laplacian has no neighborhood."
        )
    known = _BASES.get(base.name)
    if known is not None and _class_name(known) != _class_name(base):
        raise InputError(f"there is a network {base.name!r} already; choose another name.")
    _BASES[base.name] = base
    return base


def _class_name(base: Base) -> tuple[str, str]:
    """Return by what a class is known: a module that is imported again makes another class of the same name."""
    return type(base).__module__, type(base).__qualname__


def unregister(name: str) -> None:
    """Forget a network.

    Examples
    --------
    >>> unregister("no-such-network")
    """
    _BASES.pop(name, None)


def find_base(name: str) -> Base:
    """Return the network or the rule of a name."""
    if name not in _BASES:
        raise InputError(f"there is no network {name!r}{suggestion(name, _BASES)}; known are {', '.join(_BASES)}.")
    return _BASES[name]


def find_network(name: str) -> Network:
    """Return the network of a name; a rule that trains nothing is refused.

    Examples
    --------
    >>> find_network("mlp").matrix
    'identity'
    """
    found = find_base(name)
    if not isinstance(found, Network):
        raise InputError(f"method {name!r} trains no network, which is needed here; gcn does.")
    return found


def bases() -> tuple[Base, ...]:
    """Return all networks, then the rules that train nothing, in the order of tables.

    Examples
    --------
    >>> {"gcn", "linear", "mlp", "sage", "lp", "majority"} <= {each.name for each in bases()}
    True
    """
    return tuple(sorted(_BASES.values(), key=lambda each: (not each.trained, each.name)))


@lru_cache(maxsize=1)
def load_plugins() -> None:
    """Import what installed packages offer under the entry points ``fishergcn.plugins``, once."""
    for each in importlib.metadata.entry_points(group="fishergcn.plugins"):
        each.load()


def outside_modules() -> tuple[str, ...]:
    """Return the modules outside this package that registered something: other processes import them."""
    found = (type(each).__module__ for each in _BASES.values())
    return tuple(dict.fromkeys(each for each in found if not each.startswith("fishergcn.")))
