"""The neighborhood of a graph: all graphs reached by a small move of the top of its spectrum."""

from __future__ import annotations

import math
import warnings
from typing import Any, get_args

import torch
from torch import Tensor

from fishergcn._base.checks import check_choice, check_integer, check_real
from fishergcn._base.matrices import check_propagation
from fishergcn._base.tensors import ArrayOrTensor
from fishergcn._base.types import MatrixLike
from fishergcn._base.warn import warn
from fishergcn._settings.choices import Directions, Metric, Noise, Scale
from fishergcn.errors import InputError
from fishergcn.operators import SparseMatrix, SparsePlusLowRank
from fishergcn.perturbation._directions import check_spectrum, choose_directions
from fishergcn.perturbation._perturbation import Coordinates, check_contraction, largest_eigenvalue
from fishergcn.spectrum import Spectrum

#: λ_max of the Laplacian I - Ã of a normalized graph is at most 2, up to rounding; beyond it some signals grow.
_BOUND = 2.0 + 1e-9
_MEAN_DRAWS = 8192
_CHECKED_DRAWS = 1000
# Below it four terms of the series of g·exp(g) - exp(g) + 1 keep the digits that the formula would lose.
_SMALL = 1e-3


class PerturbationWarning(UserWarning):
    """A perturbation was asked for that does not keep what a graph has: a density matrix, or λ_max(L) ≤ 2.

    Examples
    --------
    >>> issubclass(PerturbationWarning, UserWarning)
    True
    """


class Neighborhood(Coordinates):
    """Ã(φ) = Ã - Ū diag(c) Ūᵀ with c = Σw (q - λ̄) and q = softmax(θ̄ + φ).

    With L = I - Ã and its k eigenpairs (w, Ū) on the largest connected component, λ̄ = w / Σw and θ̄ = log λ̄.
    The eigenvalues of L on Ū become Σw·q and the rest of L stays: trace, kernel and positive
    semi-definiteness are kept. A draw is φ = m ∘ ϕ ∘ e with m = exp(-θ̄/2), isotropic for the quantum Fisher
    information when e is Gaussian. Only k - 1 directions count: φ and φ + a·1 give the same graph.
    Noise and draws are those of :class:`Coordinates`.

    Parameters
    ----------
    propagation : sparse matrix of shape (n, n)
        Ã, symmetric, with eigenvalues at most 1.
    rank : int
        k, at least 1.
    radius : float
        ε, at least 0: the scale ϕ of each direction where no ``shape`` is given. At 0 a draw is Ã itself.
    noise : {"uniform", "gaussian"}
        e is uniform on [-1/2, 1/2]^k, or normal with the same variance 1/12.
    directions : {"high", "low", "random"}
        Ū holds the eigenvectors of the k largest eigenvalues of L, of the k smallest that are not zero, or k
        random orthonormal directions orthogonal to the kernel. For the latter w_i = u_iᵀ L u_i: trace, kernel
        and u_iᵀ L(φ) u_i = Σw·q_i still hold, but L(φ) is sure to be p.s.d. only while every c_i is above
        minus the smallest non-zero eigenvalue of L.
    scale : {"projected", "trace"}
        "trace" puts tr L in the place of Σw in c, as the formula is printed in the paper. The result is not
        p.s.d. unless min_i [φ_i - log Σ_j λ̄_j exp φ_j] ≥ log(1 - s), s = Σw / tr L; a
        :class:`PerturbationWarning` says so.
    metric : {"bures", "log-det", "frobenius"}
        For which metric a draw is isotropic: the Bures one, m = λ̄^-½; that of the log-det divergence
        tr(ρ'ρ⁻¹) - log det(ρ'ρ⁻¹) - k, m = √k; that of ‖ρ' - ρ‖²/2, m = (k / Σ_j 1/λ̄_j)^½ / λ̄. All have Σ λ̄ m² = k,
        the same squared length in the mean. The von Neumann divergence has the Bures metric along fixed eigenvectors
        (see :meth:`von_neumann_divergence`).
    seed : int
        Of the eigen-solver, of random directions, and of draws that are given no generator.
    spectrum : Spectrum, optional
        (w, Ū) and tr L, an attribute too; given where they were computed before (see :meth:`from_spectrum`).

    Notes
    -----
    Everything in φ is computed in float64 (k numbers a draw) and is differentiable, in a form exact at φ = 0:
    with g = φ - log Σ_j λ̄_j exp φ_j, q = λ̄ exp g and c = w (exp g - 1).

    λ_max(L) ≤ 2, that is ‖Ã‖ ≤ 1, holds for every normalized graph, and is not kept: on Cora, with rank 10, no draw
    leaves it at ε = 0.1, and two of three do at 0.3. A draw beyond makes some signals grow, from layer to layer. Where
    any of 1,000 draws with ϕ = ε does, a :class:`PerturbationWarning` says so and names the radius up to which none
    does (:meth:`largest_radius`); along random directions this is not checked, since it takes an eigen-solver for each
    draw (:meth:`largest_eigenvalue`). A perturbed L has positive off-diagonal entries in general: Ã(φ) is a p.s.d.
    operator with some negative weights, not the matrix of another graph in the narrow sense.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> rng = np.random.default_rng(0)
    >>> links = np.triu(rng.random((30, 30)) < 0.2, 1)
    >>> neighborhood = Neighborhood(fishergcn.renormalized(links + links.T.astype(float)), rank=3)
    >>> phi = neighborhood.sample(5)
    >>> neighborhood.operator(phi)
    SparsePlusLowRank(30 × 30, rank 3, batch (5,), torch.float64, cpu)
    >>> bool((neighborhood.perturbed_eigenvalues(phi) > 0).all())
    True
    """

    low_rank = local = True
    spectrum: Spectrum
    graph: Tensor | None = None

    def __init__(
        self,
        propagation: MatrixLike | SparseMatrix,
        rank: int = 10,
        radius: float = 0.1,
        noise: Noise = "uniform",
        directions: Directions = "high",
        scale: Scale = "projected",
        seed: int = 0,
        *,
        metric: Metric = "bures",
        spectrum: Spectrum | None = None,
    ) -> None:
        super().__init__(radius, noise, seed)
        rank = check_integer("rank", rank, minimum=1)
        check_choice("directions", directions, get_args(Directions))
        check_choice("scale", scale, get_args(Scale))
        check_choice("metric", metric, get_args(Metric))
        self.directions, self.scale, self.metric = directions, scale, metric
        if isinstance(propagation, SparseMatrix) and propagation.symmetric:
            matrix, self._propagation = propagation.scipy, propagation
            self._device, self._dtype = propagation.device, propagation.dtype
        else:
            matrix = check_propagation(propagation.scipy if isinstance(propagation, SparseMatrix) else propagation)
            check_contraction(matrix)
            self._propagation = SparseMatrix.from_scipy(matrix)
        self.spectrum = choose_directions(matrix, rank, directions, seed) if spectrum is None else spectrum
        check_spectrum(self.spectrum, matrix.shape[0])
        self._eigenvalues = torch.tensor(self.spectrum.eigenvalues, dtype=torch.float64)
        self._basis = torch.tensor(self.spectrum.eigenvectors, dtype=torch.float64)
        self._trace = self.spectrum.trace
        if self.scale == "trace":
            warnings.warn(
                "scale='trace' multiplies the perturbation by tr L instead of the sum of the k eigenvalues, "
                f"{1 / self.captured_mass:.3g} times more: trace and kernel are kept, but the perturbed "
                "Laplacian is in general not positive semi-definite, so it is no density matrix and has no "
                "distance from the graph.",
                PerturbationWarning,
                stacklevel=2,
            )
        elif directions != "random" and self.radius > 0:
            self._warn_beyond()

    def _warn_beyond(self) -> None:
        largest = self._largest_perturbed(self.radius)
        beyond = float((largest > _BOUND).double().mean())
        if beyond > 0:
            warn(
                f"at radius {self.radius:g}, {beyond:.1%} of the perturbed graphs have an eigenvalue of L beyond 2, up "
                f"to {float(largest.max()):.3g}, which no normalized graph has: they make some signals grow. None of "
                f"{len(largest):,} draws does up to radius {self.largest_radius(self.radius):.3g}.",
                PerturbationWarning,
            )

    @classmethod
    def from_spectrum(cls, propagation: MatrixLike, spectrum: Spectrum, **options: Any) -> Neighborhood:
        """Build a neighborhood on eigenpairs (w, Ū) of Ã that are known already, of their rank.

        ``options`` are those of the class; ``directions`` only records what the spectrum is.
        """
        return cls(propagation, rank=len(spectrum.eigenvalues), spectrum=spectrum, **options)

    @property
    def rank(self) -> int:
        """k, the number of directions."""
        return self._eigenvalues.shape[-1]

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self._eigenvalues.shape)

    @property
    def basis(self) -> Tensor:
        """Ū, shape (n, k), in the dtype and on the device of the operators."""
        return self._basis

    @property
    def rows(self) -> Tensor:
        """Ū of each node's graph, shape (n, k), in float64."""
        return torch.tensor(self.spectrum.eigenvectors, dtype=torch.float64)

    @property
    def graphs(self) -> int:
        """G, the number of graphs."""
        return 1 if self.graph is None else len(self._eigenvalues)

    @property
    def captured_mass(self) -> float:
        """Share s = Σw / tr L, how much of the density matrix the k directions carry."""
        return float(self.spectrum.captured_mass)

    @property
    def projected_spectrum(self) -> Tensor:
        """λ̄ = w / Σw, shape (k,): the spectrum of the rank-k projection of the density matrix."""
        return self._eigenvalues / self._eigenvalues.sum()

    def _place(self) -> None:
        self._propagation = self._propagation.to(self.device, self.dtype)
        self._basis = torch.tensor(self.spectrum.eigenvectors, dtype=self.dtype, device=self.device)
        self._eigenvalues = self._eigenvalues.to(self.device)

    def like(self, eigenvalues: Tensor) -> Neighborhood:
        """Return the neighborhoods of other graphs, where there are several (:class:`BlockNeighborhood`)."""
        raise InputError("the neighborhood of one graph knows no other graphs; use a BlockNeighborhood.")

    def phi(self, noise: ArrayOrTensor, shape: ArrayOrTensor | float | None = None) -> Tensor:
        """φ = m ∘ ϕ ∘ e, shape (..., k), in float64, differentiable in ϕ, by default the radius, and e."""
        return self._scale(shape) * self._coordinates("noise", noise) / self._lengths()

    def _lengths(self) -> Tensor:
        """Return 1/m, shape (k,): the length, in the metric, of a unit step along each coordinate of φ."""
        shares = self.projected_spectrum
        if self.metric == "bures":
            return shares.sqrt()
        if self.metric == "log-det":
            return torch.full_like(shares, self.rank**-0.5)
        return shares * (shares.reciprocal().sum() / self.rank).sqrt()

    def coefficients(self, phi: ArrayOrTensor) -> Tensor:
        """Return c = Σw (q - λ̄), shape (..., k); tr L (q - λ̄) for ``scale="trace"``. Exactly 0 at φ = 0."""
        factor = 1.0 if self.scale == "projected" else 1.0 / self.captured_mass
        return factor * self._eigenvalues * torch.expm1(self._log_ratio(phi))

    def noise_gradient(self, phi: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient in e (for ϕ = 1) from that in c = a ∘ (exp(g) - 1), with ∂g_i/∂φ_j = δ_ij - q_j."""
        ratio = torch.exp(self._log_ratio(phi))
        factor = 1.0 if self.scale == "projected" else 1.0 / self.captured_mass
        inner = gradient * (factor * self._eigenvalues) * ratio
        return (inner - self.projected_spectrum * ratio * inner.sum(-1, keepdim=True)) / self._lengths()

    def operator(self, phi: ArrayOrTensor | None = None) -> SparsePlusLowRank:
        """Ã(φ), batched like φ; without φ the unperturbed Ã, as the same kind of operator."""
        coefficients = torch.zeros_like(self._eigenvalues) if phi is None else self.coefficients(phi)
        return SparsePlusLowRank(self.propagation, self.basis, self._flat(coefficients))

    def mean_operator(self) -> SparsePlusLowRank:
        """Return E Ã(φ), the mean of the graphs that are drawn with ϕ = ε, without noise: c is averaged over draws."""
        drawn = self.sample(self._mean_draws, torch.Generator().manual_seed(0))
        return SparsePlusLowRank(self.propagation, self.basis, self._flat(self.coefficients(drawn).mean(0)))

    def for_batch(self, phi: Tensor) -> tuple[Tensor, ...]:
        """Return c, of which every part of the graph needs all."""
        return (self.coefficients(phi),)

    @property
    def _mean_draws(self) -> int:
        """How many draws a mean is taken over, so that memory does not grow with the number of graphs."""
        return max(_MEAN_DRAWS // self.graphs, 80)

    def _flat(self, values: Tensor) -> Tensor:
        """Return the coordinates of all graphs as one list."""
        return values.flatten(-len(self._shape))

    def perturbed_eigenvalues(self, phi: ArrayOrTensor) -> Tensor:
        """Eigenvalues of L(φ) = I - Ã(φ) on Ū, shape (..., k), in the order of ``spectrum``.

        Σw·q, always positive; with ``scale="trace"`` tr L (q - (1-s) λ̄), of any sign. With random directions
        these are the Rayleigh quotients u_iᵀ L(φ) u_i.
        """
        if self.scale == "projected":
            return self._eigenvalues * torch.exp(self._log_ratio(phi))
        return self._eigenvalues + self.coefficients(phi)

    def largest_eigenvalue(self, phi: ArrayOrTensor) -> Tensor:
        """Return λ_max(L(φ)) for each φ, shape (...): above 2, Ã(φ) makes some signals grow.

        Along eigenvectors it is the larger of the perturbed eigenvalues and of the largest that stays; along random
        directions, and with ``scale="trace"``, it is computed by Lanczos for each φ.
        """
        given = self._coordinates("phi", phi).detach()
        cpu = self.to("cpu", torch.float64)
        if self.directions != "random" and self.scale == "projected":
            # Ã + Ū diag(w) Ūᵀ: the perturbed eigenvalues of L become 0.
            stays = largest_eigenvalue(SparsePlusLowRank(cpu.propagation, cpu.basis, -cpu._eigenvalues.flatten()))
            return self._flat(self.perturbed_eigenvalues(given)).amax(-1).clamp(min=stays)
        found = [largest_eigenvalue(cpu.operator(each)) for each in given.reshape(-1, self.rank).cpu()]
        return torch.tensor(found, dtype=torch.float64, device=self.device).view(given.shape[:-1])

    def sure_radius(self, most: float = 1.0) -> float:
        """Return the largest ε ≤ ``most`` up to which no draw at all with ϕ ≤ ε has an eigenvalue beyond 2: a proof.

        Eigenvalue i is Σw q_i with q = softmax(θ̄ + φ), which grows with φ_i and falls with the others. Uniform noise
        keeps φ_j within ± ε m_j / 2, so that it is largest where φ_i is at its upper end and all others at their lower
        one. On Cora with rank 10 the radius is 0.1077, on CiteSeer 0.1031. Gaussian noise has no such radius.
        """
        if (
            self.directions == "random"
            or self.scale == "trace"
            or self.noise_kind != "uniform"
            or self.graph is not None
        ):
            raise InputError("the sure radius is known for uniform noise along eigenvectors of one graph only.")
        corners = torch.eye(self.rank, dtype=torch.float64, device=self.device) - 0.5

        def beyond(radius: float) -> bool:
            return bool((self.perturbed_eigenvalues(self.phi(corners, radius)).diagonal() > _BOUND).any())

        low, high = 0.0, check_real("most", most, above=0.0)
        if not beyond(high):
            return high
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if beyond(middle) else (middle, high)
        return low

    def largest_radius(self, most: float = 1.0) -> float:
        """Return the largest ε ≤ ``most`` at which none of 1,000 draws with ϕ = ε has an eigenvalue beyond 2."""
        if self.directions == "random":
            raise InputError("the largest radius is known along eigenvectors only, got directions='random'.")
        low, high = 0.0, most
        if not (self._largest_perturbed(high) > _BOUND).any():
            return high
        for _ in range(40):
            middle = (low + high) / 2
            beyond = bool((self._largest_perturbed(middle) > _BOUND).any())
            low, high = (low, middle) if beyond else (middle, high)
        return low

    def _largest_perturbed(self, radius: float) -> Tensor:
        """Return the largest perturbed eigenvalue of each graph in each of 1,000 draws with ϕ = radius."""
        draws = _CHECKED_DRAWS if self.graph is None else self._mean_draws // 8
        e = self.noise(draws, torch.Generator().manual_seed(0))
        return self.perturbed_eigenvalues(self.phi(e, radius)).amax(-1).flatten()

    def distance(self, phi: ArrayOrTensor) -> Tensor:
        """Bures distance D_B(ρ, ρ(φ)) between the density matrices of L and L(φ), for each φ; not squared.

        D_B² = 2 s (1 - Σ_i sqrt(λ̄_i q_i)) = s Σ_i (sqrt(q_i) - sqrt(λ̄_i))², from the second form, which keeps its
        digits as φ → 0. To second order D_B² ≈ (s/4) Var_λ̄(φ). Random directions are refused, since ρ and ρ(φ) do not
        commute, and so is ``scale="trace"`` where L(φ) is not p.s.d.: no density matrix is there to measure to.
        """
        if self.directions == "random":
            raise InputError(
                "The distance has a closed form only along eigenvectors: directions must be 'high' or 'low', "
                "got 'random'."
            )
        weights = self._eigenvalues / self._trace
        if self.scale == "projected":
            relative = torch.expm1(self._log_ratio(phi) / 2)
        else:
            ratio = self.perturbed_eigenvalues(phi) / self._eigenvalues
            if (ratio < 0).any():
                smallest = float(self.perturbed_eigenvalues(phi).min())
                raise InputError(
                    "The distance needs a perturbed Laplacian that is positive semi-definite, got the "
                    f"eigenvalue {smallest:.6g}; scale='projected' never does this."
                )
            relative = ratio.sqrt() - 1
        # The norm, unlike the root of a sum, has a finite (zero) gradient at φ = 0.
        distance: Tensor = torch.linalg.vector_norm(self._flat(weights.sqrt() * relative), dim=-1)
        return distance

    def farthest(self, bound: float | None = 2.0) -> float:
        """Return sup_φ D_B(ρ, ρ(φ)) over λ_max(L(φ)) ≤ bound, in closed form.

        D_B² = 2 s (1 - Σ_i sqrt(λ̄_i q_i)) is largest at a corner of {q ≥ 0, Σ q = 1, Σw q_i ≤ bound}: the smallest λ̄
        have the largest q. Without a bound (None) all of q is on one direction: sqrt(2 s (1 - sqrt(min_i λ̄_i))).
        """
        shares = self.projected_spectrum.double().cpu().sort().values
        cap = 1.0 if bound is None else bound / float(self.spectrum.eigenvalues.sum())
        left = 1.0 - cap * torch.arange(
            len(shares), dtype=torch.float64
        )  # for each direction, when those before are full
        affinity = float((shares * left.clamp(0.0, cap)).sqrt().sum())
        return math.sqrt(2.0 * self.captured_mass * max(1.0 - affinity, 0.0))

    def von_neumann_divergence(self, phi: ArrayOrTensor) -> Tensor:
        """D(ρ(φ) ‖ ρ) = s Σ_i q_i log(q_i / λ̄_i) in nats, for each φ: the quantum relative entropy.

        Along fixed eigenvectors it is that of two distributions. These have the Fisher metric, as the Bures distance: D
        ≈ (s/2) Var_λ̄(φ) ≈ 2 D_B² to second order. A neighborhood by one is a neighborhood by the other. Random
        directions and ``scale="trace"`` are refused, for the reasons that :meth:`distance` has.
        """
        if self.directions == "random" or self.scale == "trace":
            raise InputError(
                "the divergence has a closed form only along eigenvectors with the projected scale, got "
                f"directions={self.directions!r} and scale={self.scale!r}."
            )
        g = self._log_ratio(phi)
        # Σ q g = Σ λ̄ (exp(g) g - exp(g) + 1) since Σq = Σλ̄: every term is positive, and none is lost for small g.
        series = g.square() * (1 / 2 + g * (1 / 3 + g * (1 / 8 + g / 30)))
        terms = torch.where(g.abs() < _SMALL, series, g * torch.exp(g) - torch.expm1(g))
        return self._flat(self._eigenvalues / self._trace * terms).sum(dim=-1)

    def _log_ratio(self, phi: ArrayOrTensor) -> Tensor:
        """Return g = log(q / λ̄) = φ - log Σ_j λ̄_j exp φ_j, exactly 0 where φ is constant."""
        phi = self._coordinates("phi", phi)
        shifted = phi - phi.detach().amax(dim=-1, keepdim=True)  # against overflow; φ + a·1 is the same point
        mean = (self.projected_spectrum * torch.expm1(shifted)).sum(dim=-1, keepdim=True)
        return shifted - torch.log1p(mean)

    def __repr__(self) -> str:
        return (
            f"Neighborhood({self.propagation.shape[0]} nodes, rank {self.rank}, radius {self.radius:g}, "
            f"{self.noise_kind} noise, {self.directions} directions, {self.scale} scale"
            f"{'' if self.metric == 'bures' else f', {self.metric} metric'})"
        )
