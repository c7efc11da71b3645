"""Changes of low rank: X = V C Vᵀ with a symmetric C."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.errors import InputError
from fishergcn.operators import SparseMatrix, SparsePlusLowRank
from fishergcn.perturbation._family import Factor, Family, laplacian_diagonal, root


class LowRank(Family):
    """x holds C in the orthonormal basis of symmetric matrices: diagonal first, then √2 C_ab for a < b."""

    constants = ("basis", "gram", "seen", "symmetric")

    def __init__(self, propagation: CSRArray, basis: FloatArray) -> None:
        trace = laplacian_diagonal(propagation)[1]
        basis = np.array(basis, dtype=np.float64)
        nodes = propagation.shape[0]
        if basis.ndim != 2 or basis.shape[0] != nodes or basis.shape[1] < 1:
            raise InputError(f"basis must have shape ({nodes}, r), got {basis.shape}.")
        if not np.isfinite(basis).all():
            raise InputError("basis must hold finite numbers, got NaN or infinity.")
        rank = basis.shape[1]
        self.basis = torch.from_numpy(basis)
        self.gram = torch.from_numpy(basis.T @ basis)  # VᵀV
        self.seen = torch.from_numpy((basis.T @ basis - basis.T @ (propagation @ basis)) / trace)  # VᵀρV
        self.trace = trace
        self.symmetric = torch.from_numpy(_symmetric_basis(rank))  # (k, r, r)
        metric = torch.einsum("kab,bc,kcd,da->k", self.symmetric, self.gram, self.symmetric, self.seen)
        if not (metric > 0).all():
            raise InputError("every direction of the basis must move the graph, got one in the kernel of L.")
        self.diagonal = metric
        self.unit = (len(metric) * metric).rsqrt()

    def _core(self, x: Tensor) -> Tensor:
        return torch.einsum("...k,kab->...ab", x, self.symmetric)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return tr C VᵀρV and the standard deviation of X in ρ."""
        core = self._core(x)
        mean = (core * self.seen).sum((-1, -2))
        square = ((core @ self.gram @ core) * self.seen).sum((-1, -2))
        return mean, root(square - mean.square())

    def factor(self, x: Tensor) -> Factor:
        return Factor(_times_low_rank, self.basis, self._core(x))

    def smallest(self, x: FloatArray) -> float:
        """Return the smallest eigenvalue of I + X; the eigenvalues of V C Vᵀ that are not 0 are those of C VᵀV."""
        core = self._core(torch.from_numpy(x).to(self.basis.device)).cpu().numpy()
        return float(1.0 + min(0.0, np.linalg.eigvals(core @ self.gram.cpu().numpy()).real.min()))

    def mean_operator(self, matrix: SparseMatrix, radius: float) -> SparsePlusLowRank:
        """E[XLX] = V K Vᵀ with K = Σ_a σ_a² S_a VᵀLV S_a."""
        variance = (radius * self.unit).square()
        seen = self.seen * self.trace
        change = torch.einsum("k,kab,bc,kcd->ad", variance, self.symmetric, seen, self.symmetric)
        values, turn = torch.linalg.eigh(change)
        plain, grown = matrix.scipy, 1.0 + radius**2
        rest = sparse.csr_array((plain + radius**2 * sparse.eye_array(plain.shape[0])) / grown)
        place = SparseMatrix.from_scipy(rest, device=matrix.device, dtype=matrix.dtype)
        return SparsePlusLowRank(place, self.basis @ turn, values / grown)


def _times_low_rank(matrix: SparseMatrix, dense: Tensor, basis: Tensor, core: Tensor) -> Tensor:
    moments = torch.einsum("nr,nbd->brd", basis, dense)
    return dense + torch.einsum("nr,brd->nbd", basis, core @ moments)


def _symmetric_basis(rank: int) -> FloatArray:
    """Return an orthonormal basis of the symmetric matrices, shape (r (r + 1) / 2, r, r)."""
    count = rank * (rank + 1) // 2
    found = np.zeros((count, rank, rank))
    found[np.arange(rank), np.arange(rank), np.arange(rank)] = 1.0
    above, beside = np.triu_indices(rank, 1)
    found[np.arange(rank, count), above, beside] = found[np.arange(rank, count), beside, above] = math.sqrt(0.5)
    return found
