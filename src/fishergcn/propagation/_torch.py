"""Algorithm 1 in torch: with dense matrices, as a GPU likes it, and as a product with derivatives."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fishergcn._base.types import MatrixLike
from fishergcn.operators import SparseMatrix
from fishergcn.propagation._matrices import checked_walk
from fishergcn.propagation._walk import walk_sum


def dense_high_order(
    adjacency: MatrixLike, order: int = 5, threshold: float = 1e-4, *, device: torch.device | str = "cpu"
) -> Tensor:
    """Return the matrix of :func:`high_order`, dense and in float64, computed with dense matrices in about 24 n² bytes.

    Entries that equal the threshold up to rounding may fall on the other side of it.
    """
    walk, order, threshold = checked_walk(adjacency, order, threshold)
    step = SparseMatrix.from_scipy(walk, device=device).forward
    total = walk_sum(step.to_dense(), lambda power: step @ power, order)  # P^t commutes with P
    total /= order
    total.fill_diagonal_(0.0)
    total[total <= threshold] = 0.0
    made = total + total.T
    made.diagonal().add_(2.0)
    root = made.sum(1).rsqrt()
    return made.mul_(root).mul_(root[:, None])


def propagation_product(
    times: Callable[[Tensor], Tensor], ones: Tensor, order: int | None = None
) -> Callable[[Tensor], Tensor]:
    """Return Z ↦ ÃZ, made of Z ↦ AZ alone, (n, d), and differentiable in whatever that depends on.

    Ã is the renormalized matrix or, with T given, that of Algorithm 1 without its cut: the diagonal of S and entries up
    to ν stay, since dropping them has no useful derivative. ``ones`` (n, 1) has the precision and the device of Z.
    """
    degrees = times(ones)
    linked = degrees > 0
    inverse = torch.where(linked, 1.0 / torch.where(linked, degrees, 1.0), 0.0)

    def symmetric(dense: Tensor) -> Tensor:
        """(A + I) Z, or (S + Sᵀ + 2I) Z."""
        if order is None:
            return times(dense) + dense
        forward = walk_sum(inverse * times(dense), lambda power: inverse * times(power), order)
        backward = walk_sum(times(inverse * dense), lambda power: times(inverse * power), order)
        return (forward + backward) / order + 2.0 * dense

    root = symmetric(ones).rsqrt()
    return lambda dense: root * symmetric(root * dense)
