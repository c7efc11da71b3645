"""Neighborhoods without a spectrum: graphs seen through node weights, link weights or polynomials of themselves."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.matrices import check_propagation
from fishergcn._base.tensors import ArrayOrTensor
from fishergcn._base.types import MatrixLike
from fishergcn._settings.choices import Congruence, Noise
from fishergcn.errors import InputError
from fishergcn.operators import CongruenceOperator, Operator, SparseMatrix
from fishergcn.perturbation._family import Family
from fishergcn.perturbation._family_links import Links
from fishergcn.perturbation._family_low_rank import LowRank
from fishergcn.perturbation._family_nodes import Nodes
from fishergcn.perturbation._family_polynomial import Polynomials
from fishergcn.perturbation._perturbation import Coordinates, check_contraction, largest_eigenvalue

_MOST_DEGREE = 32
_ROUNDING = 1e-12  # of eigenvalues of I + X that are 0


class CongruenceNeighborhood(Coordinates):
    """L(x) = M L M / tr ρM² with M = I + X(x), ρ = L / tr L: a point of known Bures distance for every x.

    L(x) is positive semi-definite whatever X is and has the trace of L. The path from ρ to ρ(x) is a Bures geodesic:
    with κ² = tr ρX² - (tr ρX)² over (1 + tr ρX)², the Bures angle is arctan κ and D_B² = 2 - 2/√(1 + κ²), as long as
    M ⪰ 0 on the support of ρ. No eigenvector is needed.

    Parameters
    ----------
    propagation : sparse matrix of shape (n, n)
        Ã, symmetric, with eigenvalues at most 1.
    directions : {"nodes", "polynomial", "links"}
        What X is. ``"nodes"``: diag(x), at least -1, how loud a node speaks. ``"polynomial"``: Σ_j x_j P_j(L), of
        degree up to ``degree``, orthonormal for ρ. ``"links"``: x_e Ã_ij on each link e = (i, j).
    radius : float
        ε, at least 0: a draw with shape ϕ = ε has E κ² = ε², to first order in ε, so that ε is the root mean square of
        the Bures distance (ε √(1 - 1/n) for nodes, whose mean is taken away). (The ε of :class:`Neighborhood` is on
        another scale.)
    noise, seed
        As for :class:`Neighborhood`.
    degree : int
        p, from 1 to 32, for ``"polynomial"``: a product with Ã(x) takes 2p + 1 products with Ã.
    basis : array of shape (n, r), optional
        V: X = V C Vᵀ takes the place of ``directions``, which is ``"basis"`` then; x holds the entries of the symmetric
        C, its diagonal first and then √2 C_ab for a < b.

    Notes
    -----
    A draw is x = ϕ ∘ unit ∘ √12 e. For nodes each x_i moves the graph by as much: unit_i = (n ρ_ii)^-½. Like that of
    :class:`Neighborhood`, a draw may have eigenvalues λ_max(L(x)) beyond 2, where Ã(x) expands some signals; see
    :meth:`largest_eigenvalue`.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> rng = np.random.default_rng(0)
    >>> links = np.triu(rng.random((30, 30)) < 0.2, 1)
    >>> around = CongruenceNeighborhood(fishergcn.renormalized(links + links.T.astype(float)), "nodes", radius=0.2)
    >>> x = around.sample(5)
    >>> around.operator(x)
    CongruenceOperator(30 × 30, batch (5,), torch.float64, cpu)
    >>> around.distance(x).shape, bool((around.distance(x) < 0.4).all())
    (torch.Size([5]), True)
    """

    def __init__(
        self,
        propagation: MatrixLike,
        directions: Congruence = "nodes",
        radius: float = 0.1,
        noise: Noise = "uniform",
        degree: int = 2,
        seed: int = 0,
        *,
        basis: ArrayOrTensor | None = None,
    ) -> None:
        super().__init__(radius, noise, seed)
        check_choice("directions", directions, get_args(Congruence))
        degree = check_integer("degree", degree, minimum=1, maximum=_MOST_DEGREE)
        self.directions = directions if basis is None else "basis"
        self.local = self.directions == "nodes"
        self._matrix = check_propagation(propagation)
        check_contraction(self._matrix)
        self._made: SparseMatrix | None = None
        self._family: Family
        if basis is not None:
            given = basis.detach().cpu().numpy() if isinstance(basis, Tensor) else np.asarray(basis)
            self._family = LowRank(self._matrix, given)
        elif directions == "polynomial":
            self._family = Polynomials(self._matrix, degree)
        else:
            self._family = Nodes(self._matrix) if directions == "nodes" else Links(self._matrix)

    @property
    def propagation(self) -> SparseMatrix:
        """Ã, in the dtype and on the device in which :meth:`operator` works; made when it is first asked for."""
        if self._made is None:
            self._made = SparseMatrix.from_scipy(self._matrix, device=self._device, dtype=self._dtype)
        return self._made

    @property
    def rank(self) -> int:
        """k, the number of directions: nodes, links, or the degree."""
        return len(self._family.unit)

    @property
    def unit(self) -> Tensor:
        """What e of variance 1 and ϕ = 1 make of each direction, shape (k,)."""
        return self._family.unit

    def _place(self) -> None:
        self._made = None if self._made is None else self._made.to(self.device, self.dtype)
        self._family = self._family.to(self.device)

    def phi(self, noise: ArrayOrTensor, shape: ArrayOrTensor | float | None = None) -> Tensor:
        """Return x = ϕ ∘ unit ∘ √12 e for ϕ = ``shape``, by default the radius; node weights are at least -1."""
        e = self._coordinates("noise", noise)
        return self._family.limit(self._scale(shape) * (math.sqrt(12.0) * self.unit) * e)

    def for_batch(self, phi: Tensor) -> tuple[Tensor, ...]:
        """Return the weights of all nodes, 1 + x, and s."""
        return 1.0 + phi, self.scale_of(phi)

    def scale_of(self, x: ArrayOrTensor) -> Tensor:
        """Return 1/tr ρM², shape (...): what keeps the trace of L."""
        mean, spread = self._family.moments(self._coordinates("x", x))
        return 1.0 / ((1.0 + mean).square() + spread.square())

    def operator(self, x: ArrayOrTensor | None = None) -> Operator:
        """Ã(x) = I - L(x), batched like x; without x the unperturbed Ã."""
        if x is None:
            return self.propagation
        given = self._coordinates("x", x)
        flat = given.reshape(-1, self.rank)
        return CongruenceOperator(self.propagation, self._family.factor(flat), self.scale_of(flat), given.shape[:-1])

    def mean_operator(self) -> Operator:
        """Return I - E[M L M]/(1 + ε²), the mean of the graphs drawn with ϕ = ε, node weights not bounded.

        A ratio of means, not the mean of the ratios M L M / tr ρM²: the two differ at order ε².
        """
        return self._family.mean_operator(self.propagation, self.radius)

    def tangent(self, x: ArrayOrTensor) -> Tensor:
        """Return κ, the tangent of the Bures angle if M ⪰ 0, for each x."""
        mean, spread = self._family.moments(self._coordinates("x", x))
        return spread / (1.0 + mean)

    def distance(self, x: ArrayOrTensor) -> Tensor:
        """Bures distance D_B(ρ, ρ(x)) = (2 - 2/√(1 + κ²))^½ for each x; not squared.

        Refused where I + X is not positive semi-definite, or not surely so: the distance is less than the formula
        there.
        """
        given = self._coordinates("x", x)
        smallest = float(self.smallest_factor(given).min())
        if smallest < -_ROUNDING:
            raise InputError(
                f"The distance has a closed form while I + X is positive semi-definite, got the eigenvalue "
                f"{smallest:.6g}; choose a smaller x."
            )
        kappa = self.tangent(given)
        secant = torch.sqrt(1.0 + kappa.square())
        return kappa * torch.sqrt(2.0 / (secant * (secant + 1.0)))  # 2 - 2/r = 2κ²/(r (r + 1)), exact for small κ

    def smallest_factor(self, x: ArrayOrTensor) -> Tensor:
        """Return the smallest eigenvalue of I + X on the support of ρ for each x, shape (...), or a bound below it.

        A bound is returned where it is surely not negative, and for polynomials on more than 1,000 nodes always.
        """
        given = self._coordinates("x", x).detach()
        found = [self._family.smallest(each) for each in given.reshape(-1, self.rank).cpu().numpy()]
        return torch.tensor(found, dtype=torch.float64, device=self.device).view(given.shape[:-1])

    def diagonal_metric(self) -> Tensor:
        """Return the diagonal of tr ρX_aX_b, shape (k,): how far a unit of each direction moves the graph, squared."""
        return self._family.diagonal

    def largest_eigenvalue(self, x: ArrayOrTensor) -> Tensor:
        """Return λ_max(L(x)) for each x, shape (...), by Lanczos: above 2, Ã(x) makes some signals grow.

        For polynomials on more than 1,000 nodes a bound above it: the maximum between the ends of the spectrum of L.
        """
        given = self._coordinates("x", x).detach()
        cpu = self.to("cpu", torch.float64)
        flat = given.reshape(-1, self.rank).cpu()
        known = [cpu._family.largest(each.numpy()) for each in flat]
        found = [
            largest_eigenvalue(cpu.operator(x)) if value is None else value * float(cpu.scale_of(x))
            for x, value in zip(flat, known, strict=True)
        ]
        return torch.tensor(found, dtype=torch.float64, device=self.device).view(given.shape[:-1])

    def __repr__(self) -> str:
        return (
            f"CongruenceNeighborhood({self._matrix.shape[0]} nodes, {self.directions}, {self.rank} directions, "
            f"radius {self.radius:g}, {self.noise_kind} noise)"
        )
