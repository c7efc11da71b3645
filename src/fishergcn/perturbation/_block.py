"""The neighborhoods of several graphs at once: each graph has its own spectrum, and none reaches into another."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast, get_args

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.checks import check_choice, check_integer, check_real
from fishergcn._base.matrices import as_square_csr, check_propagation
from fishergcn._base.tensors import ArrayOrTensor
from fishergcn._base.types import CSRArray, MatrixLike
from fishergcn._settings.choices import Noise
from fishergcn.errors import InputError
from fishergcn.graph import largest_component
from fishergcn.operators import SparseMatrix, SparsePlusLowRank
from fishergcn.perturbation._bound import largest_eigenvalue
from fishergcn.perturbation._directions import KERNEL_TOLERANCE
from fishergcn.perturbation._draws import check_shape
from fishergcn.perturbation._neighborhood import Neighborhood
from fishergcn.spectrum import Spectrum, top_spectrum


class BlockNeighborhood(Neighborhood):
    """Ã(φ) = diag(Ã_1(φ_1), …, Ã_G(φ_G)): G graphs side by side, each moved in its own neighborhood.

    Block g is Ã_g - Ū_g diag(c_g) Ū_gᵀ, with the eigenpairs of L_g = I - Ã_g on the largest component of graph
    g and c_g from φ_g as in :class:`Neighborhood`. A graph with fewer than k directions (few nodes, no links) has zeros
    in their place: those entries of φ have no effect.

    Parameters
    ----------
    propagations : sequence of sparse matrices of shape (n_g, n_g)
        Ã_1, …, Ã_G, as for :class:`Neighborhood`; a graph may have a single node.
    rank : int
        k, at most so many directions in each graph.
    radius, noise, seed
        As for :class:`Neighborhood`.
    spectra : sequence of Spectrum, optional
        (w_g, Ū_g) computed before, of at most k directions each.

    Attributes
    ----------
    graph : Tensor of shape (n,)
        Which graph each node belongs to.
    rows : Tensor of shape (n, k)
        Ū_g of each node's graph.

    Examples
    --------
    >>> import fishergcn
    >>> path = fishergcn.renormalized([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> pair = fishergcn.renormalized([[0, 1], [1, 0]])
    >>> around = BlockNeighborhood([path, pair], rank=2)
    >>> around.eigenvalues
    tensor([[1.1667, 0.5000],
            [1.0000, 0.0000]], dtype=torch.float64)
    >>> around.operator(around.sample(5)).batch_shape
    (5,)
    """

    graph: Tensor
    rows: Tensor

    def __init__(
        self,
        propagations: Sequence[MatrixLike],
        rank: int = 10,
        radius: float = 0.1,
        noise: Noise = "uniform",
        seed: int = 0,
        *,
        spectra: Sequence[Spectrum] | None = None,
    ) -> None:
        rank = check_integer("rank", rank, minimum=1)
        self.radius = check_real("radius", radius, minimum=0.0)
        check_choice("noise", noise, get_args(Noise))
        self.noise_kind, self.directions, self.scale, self.metric = noise, "high", "projected", "bures"
        seed = check_integer("seed", seed, minimum=0)
        if not propagations:
            raise InputError("propagations must hold at least one graph, got none.")
        matrices = [_checked(each) for each in propagations]
        if spectra is None:
            spectra = [graph_spectrum(each, rank, seed) for each in matrices]
        sizes = [each.shape[0] for each in matrices]
        for spectrum, size in zip(spectra, sizes, strict=True):
            if spectrum.eigenvectors.shape[0] != size or spectrum.rank > rank:
                raise InputError(
                    f"a spectrum must be that of its graph, with at most {rank} directions of {size} nodes, got "
                    f"{spectrum.rank} of {spectrum.eigenvectors.shape[0]}."
                )
        self.propagation = SparseMatrix.from_scipy(sparse.csr_array(sparse.block_diag(matrices, format="csr")))
        self._eigenvalues = torch.tensor(
            np.stack([np.pad(each.eigenvalues, (0, rank - each.rank)) for each in spectra]), dtype=torch.float64
        )
        self.rows = torch.tensor(
            np.concatenate([np.pad(each.eigenvectors, ((0, 0), (0, rank - each.rank))) for each in spectra]),
            dtype=torch.float64,
        )
        self.graph = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self._trace = float(sum(each.trace for each in spectra))
        self._generator = torch.Generator().manual_seed(seed)
        if self.radius > 0:
            self._warn_beyond()

    def like(self, eigenvalues: Tensor) -> BlockNeighborhood:
        """Return the neighborhoods, of the same radius and noise, of other graphs known by w, shape (G, k).

        They draw φ and know c; they hold no matrices, so that :meth:`operator` is refused.
        """
        if eigenvalues.ndim != 2 or eigenvalues.shape[1] != self.rank:
            raise InputError(f"eigenvalues must have shape (graphs, {self.rank}), got {tuple(eigenvalues.shape)}.")
        other = copy.copy(self)
        other._eigenvalues = eigenvalues.detach().to(self.device, torch.float64)
        other.graph = torch.empty(0, dtype=torch.long)
        other.rows = torch.empty(0, self.rank, dtype=torch.float64)
        return other

    @property
    def eigenvalues(self) -> Tensor:
        """w, shape (G, k); zero where a graph has no more directions."""
        return self._eigenvalues

    @property
    def rank(self) -> int:
        """k, the largest number of directions of a graph."""
        return self._eigenvalues.shape[1]

    @property
    def basis(self) -> Tensor:
        """Ū as one matrix of shape (n, G·k), zero where a direction belongs to another graph."""
        self._need_matrices()
        blocks = torch.zeros(len(self.rows), *self._eigenvalues.shape, dtype=self.dtype, device=self.device)
        blocks[torch.arange(len(self.rows), device=self.device), self.graph] = self.rows.to(blocks)
        return blocks.flatten(1)

    @property
    def captured_mass(self) -> float:
        """Share Σw / tr L of all graphs together."""
        return float(self._eigenvalues.sum() / self._trace)

    @property
    def projected_spectrum(self) -> Tensor:
        """λ̄_g = w_g / Σw_g, shape (G, k); zero where there is no direction."""
        total = self._eigenvalues.sum(dim=-1, keepdim=True)
        return self._eigenvalues / torch.where(total > 0, total, 1.0)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> BlockNeighborhood:
        """Return the neighborhoods whose operators work on ``device`` in ``dtype``; φ stays in float64."""
        moved = copy.copy(self)
        moved.propagation = self.propagation.to(device, dtype)
        for name in ("_eigenvalues", "rows", "graph"):
            setattr(moved, name, getattr(self, name).to(moved.device))
        return moved

    def noise(self, samples: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw e, shape (M, G, k): every graph has draws of its own."""
        samples, graphs = check_integer("samples", samples, minimum=1), len(self._eigenvalues)
        return super().noise(samples * graphs, generator).view(samples, graphs, self.rank)

    def phi(self, noise: ArrayOrTensor, shape: ArrayOrTensor | float | None = None) -> Tensor:
        """φ_g = exp(-θ̄_g/2) ∘ ϕ ∘ e_g, shape (..., G, k); 0 where a graph has no direction."""
        e = self._coordinates("noise", noise)
        scale = check_shape(self.radius if shape is None else shape, self.rank, self.device)
        weights = self.projected_spectrum
        return torch.where(weights > 0, scale * e / torch.where(weights > 0, weights, 1.0).sqrt(), 0.0)

    def operator(self, phi: ArrayOrTensor | None = None) -> SparsePlusLowRank:
        """Ã(φ) of all graphs as one block-diagonal operator; its basis is a dense (n, G·k) matrix."""
        coefficients = torch.zeros_like(self._eigenvalues) if phi is None else self.coefficients(phi)
        return SparsePlusLowRank(self.propagation, self.basis, coefficients.flatten(-2))

    def mean_operator(self) -> SparsePlusLowRank:
        """Return E Ã(φ), block by block."""
        drawn = self.sample(self._draws(), torch.Generator().manual_seed(0))
        return SparsePlusLowRank(self.propagation, self.basis, self.coefficients(drawn).mean(0).flatten())

    def largest_eigenvalue(self, phi: ArrayOrTensor) -> Tensor:
        """Return the largest λ_max(L_g(φ_g)) of all graphs for each φ, shape (...)."""
        moved = self.perturbed_eigenvalues(self._coordinates("phi", phi).detach())
        cpu = self.to("cpu", torch.float64)
        # Without the directions that move: their eigenvalues of L become 0.
        rest = largest_eigenvalue(SparsePlusLowRank(cpu.propagation, cpu.basis, -cpu.eigenvalues.flatten()))
        return moved.flatten(-2).amax(-1).clamp(min=rest)

    def _largest_perturbed(self, radius: float) -> Tensor:
        e = self.noise(max(self._draws() // 8, 10), torch.Generator().manual_seed(0))
        return self.perturbed_eigenvalues(self.phi(e, radius)).amax(-1).flatten()

    def _draws(self) -> int:
        """Return a number of draws whose memory does not grow with the number of graphs."""
        return max(8192 // len(self._eigenvalues), 80)

    def distance(self, phi: ArrayOrTensor) -> Tensor:
        """Bures distance between the density matrices of L = diag(L_1, …) and L(φ), for each φ; not squared."""
        weights = self._eigenvalues / self._trace
        moved: Tensor = weights.sqrt() * torch.expm1(self._log_ratio(phi) / 2)
        distance: Tensor = torch.linalg.vector_norm(moved.flatten(-2), dim=-1)
        return distance

    def _log_ratio(self, phi: ArrayOrTensor) -> Tensor:
        # Where a graph has no direction the entry must neither shift nor enter the sum.
        phi = self._coordinates("phi", phi)
        absent = self._eigenvalues <= 0
        largest = phi.detach().masked_fill(absent, -torch.inf).amax(dim=-1, keepdim=True)
        largest = torch.where(largest.isfinite(), largest, 0.0)
        return super()._log_ratio(torch.where(absent, largest, phi))

    def _coordinates(self, name: str, value: ArrayOrTensor) -> Tensor:
        tensor = super()._coordinates(name, value)
        graphs = len(self._eigenvalues)
        if tensor.ndim < 2 or tensor.shape[-2] != graphs:
            raise InputError(f"{name} must have shape (..., {graphs}, {self.rank}), got {tuple(tensor.shape)}.")
        return tensor

    def _need_matrices(self) -> None:
        if not len(self.graph):
            raise InputError("these graphs are known by their eigenvalues alone, so that they have no operator.")

    def __repr__(self) -> str:
        return (
            f"BlockNeighborhood({len(self._eigenvalues)} graphs, {self.propagation.shape[0]} nodes, rank {self.rank}, "
            f"radius {self.radius:g}, {self.noise_kind} noise)"
        )


def graph_spectrum(propagation: CSRArray, rank: int, seed: int) -> Spectrum:
    """Return the k largest eigenpairs of L = I - Ã on the largest component, or all that are not in its kernel.

    Unlike :func:`fishergcn.top_spectrum` it takes graphs of any size: those with fewer directions than k, or none.

    Examples
    --------
    >>> import fishergcn
    >>> graph_spectrum(fishergcn.renormalized([[0, 1], [1, 0]]), rank=10, seed=0).eigenvalues.round(6)
    array([1.])
    """
    size = propagation.shape[0]
    trace = size - float(propagation.trace())
    component = int(largest_component(propagation).sum())
    most = min(rank, component if component < size else size - 1)
    if most < 1 or trace <= KERNEL_TOLERANCE:
        return Spectrum(np.empty(0), np.empty((size, 0)), trace, residual=0.0)
    found = top_spectrum(propagation, rank=most, seed=seed)
    kept = int((found.eigenvalues > KERNEL_TOLERANCE * max(found.eigenvalues[0], 1.0)).sum())
    return Spectrum(found.eigenvalues[:kept], found.eigenvectors[:, :kept], found.trace, found.residual, found.solver)


def _checked(propagation: MatrixLike) -> CSRArray:
    if getattr(propagation, "shape", None) == (1, 1):
        given: Any = propagation
        return cast("CSRArray", sparse.csr_array(given, dtype=np.float64))
    return check_propagation(as_square_csr(propagation, name="propagation"))
