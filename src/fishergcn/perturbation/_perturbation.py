"""What all perturbations share: graphs that are drawn, their mean, and which steps of training can use them."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor

from fishergcn._base.checks import check_choice, check_integer, check_real
from fishergcn._base.tensors import ArrayOrTensor, as_tensor
from fishergcn._base.types import CSRArray
from fishergcn._settings.choices import Noise
from fishergcn.errors import InputError
from fishergcn.operators import Operator, SparseMatrix
from fishergcn.spectrum import Spectrum
from fishergcn.streams import noise_block, wide_noise

if TYPE_CHECKING:
    from typing_extensions import Self

_WIDE = 1024  # directions from which on noise is drawn step by step, where it is used
_DENSE = 256  # nodes up to which all eigenvalues are found sooner than one by Lanczos
_ROUNDING = 1e-5  # of eigenvalues of matrices that may have been made in float32


class Perturbation(ABC):
    """Graphs around a graph, one of which takes the place of Ã in each sample of a training step.

    What can be done with a perturbation is asked of the object, never of its class: ``low_rank``, whether a draw is Ã -
    Ū diag(c) Ūᵀ, so that compiled steps need nothing but c; ``local``, whether a mini-batch can be perturbed knowing
    its own nodes only; ``spectrum``, the eigenpairs of the graph, where they were needed: others of the graph can use
    them.

    Examples
    --------
    >>> import torch, fishergcn
    >>> from fishergcn.perturbation import CongruenceNeighborhood, LinkNoise, Neighborhood
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    >>> matrix = fishergcn.renormalized(graph.adjacency)
    >>> drop = LinkNoise(graph.adjacency, 0.1, flip=False, device=torch.device("cpu"), dtype=torch.float64)
    >>> for around in (Neighborhood(matrix, rank=2), CongruenceNeighborhood(matrix, "nodes"), drop):
    ...     print(around.draw(torch.tensor([7]), samples=5, epoch=0).shape, around.low_rank, around.local)
    (4, 4) True True
    (4, 4) False True
    (4, 4) False False
    """

    low_rank: bool = False
    local: bool = False
    spectrum: Spectrum | None = None

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device, self._dtype = device, dtype

    @property
    @abstractmethod
    def propagation(self) -> SparseMatrix:
        """Ã, in the precision and on the device of the operators."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the operators."""
        return self._dtype

    @property
    def device(self) -> torch.device:
        """Where the operators live."""
        return self._device

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """Return the perturbation with operators on ``device`` in ``dtype``; the two share the generator of draws."""
        moved = copy.copy(self)
        moved._device = torch.empty(0, device=device or self._device).device  # with its number, where there are several
        moved._dtype = dtype or self._dtype
        moved._place()
        return moved

    @abstractmethod
    def _place(self) -> None:
        """Put what draws are made of where the operators work."""

    @abstractmethod
    def draw(self, keys: Tensor, samples: int, epoch: int) -> Operator:
        """Return the graphs of one step, for R runs with M samples each: they depend on its key and the step alone."""

    @abstractmethod
    def mean_operator(self) -> Operator:
        """Return the mean of the graphs that are drawn, as one operator without noise."""


class Coordinates(Perturbation):
    """A perturbation with coordinates x of shape (..., k), or (..., G, k) of several graphs: noise e, scaled by ϕ.

    Examples
    --------
    >>> import fishergcn
    >>> around = fishergcn.Neighborhood(fishergcn.renormalized([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), rank=2)
    >>> around.noise(5).shape, around.sample(5).shape
    (torch.Size([5, 2]), torch.Size([5, 2]))
    """

    _propagation: SparseMatrix
    directions: str

    def __init__(self, radius: float, noise: Noise, seed: int) -> None:
        super().__init__(torch.device("cpu"), torch.float64)
        self.radius = check_real("radius", radius, minimum=0.0)
        check_choice("noise", noise, get_args(Noise))
        self.noise_kind: Noise = noise
        self._generator = torch.Generator().manual_seed(check_integer("seed", seed, minimum=0))

    @property
    def propagation(self) -> SparseMatrix:
        """Ã, in the dtype and on the device in which :meth:`operator` works."""
        return self._propagation

    @property
    @abstractmethod
    def rank(self) -> int:
        """k, the number of directions."""

    @property
    def _shape(self) -> tuple[int, ...]:
        """The shape of the coordinates of one draw."""
        return (self.rank,)

    def noise(self, samples: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw e, shape (M, k), or (M, G, k) of several graphs, each entry of mean 0 and variance 1/12.

        Drawn on the device of the generator (the CPU unless given): the same draws wherever they are used.
        """
        generator = self._generator if generator is None else generator
        rows = check_integer("samples", samples, minimum=1) * math.prod(self._shape[:-1])
        place: dict[str, Any] = {"dtype": torch.float64, "device": generator.device, "generator": generator}
        if self.noise_kind == "uniform":
            drawn = torch.rand(rows, self.rank, **place) - 0.5
        else:
            drawn = torch.randn(rows, self.rank, **place) / math.sqrt(12.0)
        return drawn.view(samples, *self._shape).to(self.device)

    @property
    def wide(self) -> bool:
        """Whether there are as many directions as nodes or links, whose noise is drawn step by step."""
        return math.prod(self._shape) >= _WIDE

    def noise_of(self, keys: Tensor, samples: int, steps: range) -> Tensor:
        """Return e of some steps of R runs, shape (steps, R, M, k): it depends on a run's key and the step alone."""
        count = math.prod(self._shape)
        if self.wide:
            each = [wide_noise(keys, samples, step, count, self.noise_kind) for step in steps]
            drawn = each[0].unsqueeze(0) if len(each) == 1 else torch.stack(each)
        else:
            drawn = torch.from_numpy(noise_block(keys, steps, samples, count, self.noise_kind))
        return drawn.to(self.device).view(*drawn.shape[:-1], *self._shape)

    @abstractmethod
    def phi(self, noise: ArrayOrTensor, shape: ArrayOrTensor | float | None = None) -> Tensor:
        """Return the coordinates that noise e and the scale ϕ of each direction give."""

    def sample(
        self, samples: int, generator: torch.Generator | None = None, shape: ArrayOrTensor | float | None = None
    ) -> Tensor:
        """Draw M perturbations, shape (M, k): :meth:`phi` of :meth:`noise`."""
        return self.phi(self.noise(samples, generator), shape)

    @abstractmethod
    def operator(self, phi: ArrayOrTensor | None = None, /) -> Operator:
        """Return the graphs at some coordinates; without any, the graph itself."""

    def draw(self, keys: Tensor, samples: int, epoch: int) -> Operator:
        """Return the graphs of one step with ϕ = ε, for R runs with M samples each."""
        return self.operator(self.phi(self.noise_of(keys, samples, range(epoch, epoch + 1))[0]))

    def noise_gradient(self, phi: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient in e (for ϕ = 1) from that in c, where draws are of low rank."""
        raise AssertionError("only what is of low rank says how c depends on the noise")

    def for_batch(self, phi: Tensor) -> tuple[Tensor, ...]:
        """Return what a part of the graph needs of a draw, where it is local: c, or the weights of nodes and s."""
        raise AssertionError("not what a mini-batch can be perturbed with")

    def _scale(self, shape: ArrayOrTensor | float | None) -> Tensor | float:
        """Return ϕ as a number or as a tensor of shape (k,), the radius if none is given."""
        if shape is None or isinstance(shape, int | float):
            # A number stays one: its copy to a GPU could not be recorded in a CUDA graph.
            return self.radius if shape is None else float(shape)
        scale = torch.as_tensor(shape, dtype=torch.float64, device=self.device)
        if scale.ndim > 1 or (scale.ndim == 1 and scale.shape[0] != self.rank):
            raise InputError(f"shape must be a number or have shape ({self.rank},), got {tuple(scale.shape)}.")
        return scale

    def _coordinates(self, name: str, value: ArrayOrTensor) -> Tensor:
        """Return coordinates in float64; an array must be finite."""
        if not isinstance(value, Tensor):
            value = np.asarray(value, dtype=np.float64)
            if not np.isfinite(value).all():
                where = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
                raise InputError(f"{name} must be finite, got {value[where]} at index {where}.")
        tensor, own = as_tensor(value, torch.float64, self.device), self._shape
        if tensor.ndim < len(own) or tensor.shape[-len(own) :] != own:
            wanted = ", ".join(["...", *map(str, own)])
            raise InputError(f"{name} must have shape ({wanted}), got {tuple(tensor.shape)}.")
        return tensor


def check_contraction(propagation: CSRArray) -> None:
    """Raise if Ã has an eigenvalue above 1, so that L = I - Ã is no Laplacian and L / tr L no density matrix.

    A matrix without negative entries has none if Ãv ≤ v for some v > 0 (Collatz and Wielandt); that of a graph with
    loops keeps v_i = Ã_ii^-½. Otherwise Lanczos looks for one: it never finds more than there is.
    """
    nodes, diagonal = propagation.shape[0], propagation.diagonal()
    if diagonal.min() > 0 and propagation.data.min(initial=0.0) >= 0:
        kept = diagonal**-0.5
        if (np.asarray(propagation @ kept) <= (1.0 + _ROUNDING) * kept).all():
            return
    if nodes <= _DENSE:
        largest = float(np.linalg.eigvalsh(propagation.toarray())[-1])
    else:
        start = np.random.default_rng(0).uniform(0.5, 1.5, nodes)
        search: dict[str, Any] = {"v0": start, "tol": 1e-4, "ncv": 30, "maxiter": 10}
        try:
            largest = float(eigsh(propagation, k=1, which="LA", return_eigenvectors=False, **search)[0])
        except ArpackNoConvergence as error:
            largest = float(max(error.eigenvalues, default=0.0))
    if largest > 1.0 + _ROUNDING:
        raise InputError(
            f"propagation must have eigenvalues at most 1, got {largest:.6g}; renormalized(adjacency) makes such a "
            "matrix of a graph."
        )


def largest_eigenvalue(operator: Operator) -> float:
    """Return λ_max(I - Ã) of a single symmetric operator on the CPU in float64, by Lanczos."""
    nodes = operator.shape[0]

    def laplacian(vector: Any) -> Any:
        dense = torch.as_tensor(vector.reshape(nodes, 1, -1))
        return (dense - operator.propagate(dense)).reshape(vector.shape).numpy()

    with torch.no_grad():
        if nodes <= _DENSE:
            return float(np.linalg.eigvalsh(laplacian(np.eye(nodes)))[-1])
        start = np.random.default_rng(0).standard_normal(nodes)
        linear = LinearOperator((nodes, nodes), matvec=laplacian, dtype=np.float64)
        return float(
            eigsh(linear, k=1, which="LA", return_eigenvectors=False, v0=start, tol=1e-7, ncv=min(nodes, 40))[0]
        )
