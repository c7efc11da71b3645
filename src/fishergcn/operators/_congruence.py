"""Graphs seen through a change of their nodes: L becomes M L M, which is positive semi-definite whatever M is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from fishergcn.errors import InputError
from fishergcn.operators._operator import Placed
from fishergcn.operators._sparse import SparseMatrix


class Factor(Protocol):
    """M, symmetric, one for each entry of a batch of B."""

    def times(self, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        """Return M Z for activations (n, B, d), given Ã."""

    def to(self, device: torch.device, dtype: torch.dtype) -> Factor:
        """Return the factor on another device or in another precision."""


class CongruenceOperator(Placed):
    """Ã′ = I - s M (I - Ã) M, for each of B symmetric factors M with its scale s.

    With L = I - Ã the new L′ = s M L M is symmetric and positive semi-definite whatever M is. Two factors and one
    product with Ã make a product with Ã′; derivatives of every kind flow to the activations, to M and to s.

    Parameters
    ----------
    sparse : SparseMatrix of shape (n, n)
        Ã.
    factor
        M, of a batch of B: an object with ``times(sparse, Z)``, the product M Z with activations (n, B, d), and
        ``to(device, dtype)``; :class:`fishergcn.perturbation.CongruenceNeighborhood` makes them.
    scale : Tensor of shape (B,)
        s; 1/tr(ρM²) with ρ = L / tr L keeps the trace of L.
    batch_shape : tuple of int
        Into which the batch falls; (B,) by default.

    Examples
    --------
    >>> import fishergcn
    >>> from fishergcn.perturbation import CongruenceNeighborhood
    >>> path = fishergcn.renormalized([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> operator = CongruenceNeighborhood(path, "nodes").operator([[0.1, 0.0, -0.1]])
    >>> operator
    CongruenceOperator(3 × 3, batch (1,), torch.float64, cpu)
    >>> dense = operator.to_dense()[0]
    >>> round(float(dense.trace()), 12) == round(float(path.trace()), 12)
    True
    """

    _parts = ("sparse", "factor", "scale", "batch_shape")

    def __init__(
        self, sparse: SparseMatrix, factor: Factor, scale: Tensor, batch_shape: Sequence[int] | None = None
    ) -> None:
        rows, columns = sparse.shape
        if rows != columns:
            raise InputError(f"The sparse part must be square, got shape {rows} × {columns}.")
        self._core = self.sparse = sparse
        self.factor = factor.to(sparse.device, sparse.dtype)
        self.scale = scale.to(sparse.device, sparse.dtype)
        self.batch_shape = (len(scale),) if batch_shape is None else tuple(batch_shape)

    def propagate(self, dense: Tensor) -> Tensor:
        """Return Ã′ Z for node-major activations (n, B, d)."""
        if dense.ndim != 3 or dense.shape[1] != len(self.scale):
            raise InputError(f"activations must be a batch of {len(self.scale)}, got shape {tuple(dense.shape)}.")
        inner = self.factor.times(self.sparse, dense)
        inner = inner - self.sparse.propagate(inner)
        return dense - self.scale.unsqueeze(-1) * self.factor.times(self.sparse, inner)

    def to_dense(self) -> Tensor:
        """Return all entries, shape (..., n, n), for checks on small graphs."""
        nodes = self.shape[0]
        eye = torch.eye(nodes, dtype=self.dtype, device=self.device)
        out = self.propagate(eye.unsqueeze(1).expand(nodes, len(self.scale), nodes))
        return out.movedim(1, 0).reshape(*self.batch_shape, nodes, nodes)


class PolynomialOperator(Placed):
    """Σ_a b_a T_a(Ã), a polynomial in Ã written with Chebyshev polynomials T_a, a = 0..p.

    Parameters
    ----------
    sparse : SparseMatrix of shape (n, n)
        Ã.
    coefficients : sequence of float or Tensor
        b; tensors are broadcast against the activations (n, B, d) and get gradients.

    Examples
    --------
    >>> import torch
    >>> from fishergcn.operators import SparseMatrix
    >>> swap = SparseMatrix.from_scipy([[0.0, 1.0], [1.0, 0.0]])
    >>> square = PolynomialOperator(swap, [0.5, 0.0, 0.5])  # Ã² = (T_0 + T_2) / 2
    >>> square.propagate(torch.tensor([1.0, 0.0]).double()[:, None, None]).flatten()
    tensor([1., 0.], dtype=torch.float64)
    """

    _parts = ("sparse", "coefficients")

    def __init__(self, sparse: SparseMatrix, coefficients: Sequence[float] | Sequence[Tensor]) -> None:
        self._core = self.sparse = sparse
        self.coefficients = coefficients

    def propagate(self, dense: Tensor) -> Tensor:
        """Return the product with node-major activations (n, B, d): p products, T_{a+1} = 2 Ã T_a - T_{a-1}."""
        before, current = dense, dense
        out = self.coefficients[0] * dense
        rest: Sequence[Any] = self.coefficients[1:]
        for order, coefficient in enumerate(rest):
            following = self.sparse.propagate(current)
            before, current = current, following if order == 0 else 2 * following - before
            out = out + coefficient * current
        return out
