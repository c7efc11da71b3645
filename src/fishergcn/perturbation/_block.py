"""The neighborhoods of several graphs at once: each graph has its own spectrum, and none reaches into another."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.checks import check_integer
from fishergcn._base.matrices import as_square_csr, check_propagation
from fishergcn._base.tensors import ArrayOrTensor
from fishergcn._base.types import CSRArray, MatrixLike
from fishergcn._settings.choices import Noise
from fishergcn.errors import InputError
from fishergcn.graph import largest_component
from fishergcn.operators import SparseMatrix
from fishergcn.perturbation._directions import KERNEL_TOLERANCE
from fishergcn.perturbation._neighborhood import Neighborhood
from fishergcn.perturbation._perturbation import Coordinates
from fishergcn.spectrum import Spectrum, top_spectrum


class BlockNeighborhood(Neighborhood):
    """Ã(φ) = diag(Ã_1(φ_1), …, Ã_G(φ_G)): G graphs side by side, each moved in its own neighborhood.

    Block g is Ã_g - Ū_g diag(c_g) Ū_gᵀ, with the eigenpairs of L_g = I - Ã_g on the largest component of graph g and
    c_g from φ_g as in :class:`Neighborhood`. A graph with fewer than ``rank`` directions (few nodes, no links) has
    zeros in their place: those entries of φ have no effect. ``graph``, (n,), says which graph each node belongs to.
    """

    local = False
    graph: Tensor

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
        Coordinates.__init__(self, radius, noise, seed)
        rank = check_integer("rank", rank, minimum=1)
        self.directions, self.scale, self.metric = "high", "projected", "bures"
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
        self._propagation = SparseMatrix.from_scipy(sparse.csr_array(sparse.block_diag(matrices, format="csr")))
        self._eigenvalues = torch.tensor(
            np.stack([np.pad(each.eigenvalues, (0, rank - each.rank)) for each in spectra]), dtype=torch.float64
        )
        self._rows = torch.tensor(
            np.concatenate([np.pad(each.eigenvectors, ((0, 0), (0, rank - each.rank))) for each in spectra]),
            dtype=torch.float64,
        )
        self.graph = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self._trace = float(sum(each.trace for each in spectra))
        if self.radius > 0:
            self._warn_beyond()

    def like(self, eigenvalues: Tensor) -> BlockNeighborhood:
        """Return the neighborhoods of other graphs known by w, (G, k), alone: they draw φ but have no operator."""
        if eigenvalues.ndim != 2 or eigenvalues.shape[1] != self.rank:
            raise InputError(f"eigenvalues must have shape (graphs, {self.rank}), got {tuple(eigenvalues.shape)}.")
        other = copy.copy(self)
        other._eigenvalues = eigenvalues.detach().to(self.device, torch.float64)
        other.graph = torch.empty(0, dtype=torch.long)
        other._rows = torch.empty(0, self.rank, dtype=torch.float64)
        return other

    @property
    def eigenvalues(self) -> Tensor:
        """w, shape (G, k); zero where a graph has no more directions."""
        return self._eigenvalues

    @property
    def rows(self) -> Tensor:
        """Ū_g of each node's graph, shape (n, k), in float64."""
        return self._rows

    @property
    def basis(self) -> Tensor:
        """Ū as one matrix of shape (n, G·k), zero where a direction belongs to another graph."""
        if not len(self.graph):
            raise InputError("these graphs are known by their eigenvalues alone, so that they have no operator.")
        blocks = torch.zeros(len(self.rows), *self._shape, dtype=self.dtype, device=self.device)
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

    def _lengths(self) -> Tensor:
        shares = self.projected_spectrum
        return torch.where(shares > 0, shares.sqrt(), torch.inf)  # where a graph has no direction, nothing moves

    def _place(self) -> None:
        self._propagation = self._propagation.to(self.device, self.dtype)
        for name in ("_eigenvalues", "_rows", "graph"):
            setattr(self, name, getattr(self, name).to(self.device))

    def _log_ratio(self, phi: ArrayOrTensor) -> Tensor:
        # Where a graph has no direction the entry must neither shift nor enter the sum.
        phi = self._coordinates("phi", phi)
        absent = self._eigenvalues <= 0
        largest = phi.detach().masked_fill(absent, -torch.inf).amax(dim=-1, keepdim=True)
        largest = torch.where(largest.isfinite(), largest, 0.0)
        return super()._log_ratio(torch.where(absent, largest, phi))

    def __repr__(self) -> str:
        return (
            f"BlockNeighborhood({self.graphs} graphs, {self.propagation.shape[0]} nodes, rank {self.rank}, "
            f"radius {self.radius:g}, {self.noise_kind} noise)"
        )


def graph_spectrum(propagation: CSRArray, rank: int, seed: int) -> Spectrum:
    """Return the k largest eigenpairs of L = I - Ã on the largest component, or all outside its kernel."""
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
