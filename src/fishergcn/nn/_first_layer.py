"""The first layer's Ã X W on a GPU where Ã is nearly full: in half precision from the features on, with float32 sums.

Such an Ã is multiplied in half precision anyway (see ``SparseMatrix.nearly_full``). So X W need not be written in
float32 first; and where weights have more columns than the features, as in a stack of runs, Ã X is taken once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fishergcn._base.autograd import autocasts
from fishergcn._base.backend import backend_of
from fishergcn._kernels.choice import FEW_DIRECTIONS
from fishergcn.nn._features import SparseFeatures
from fishergcn.nn._view import View
from fishergcn.operators import SparseMatrix, SparsePlusLowRank
from fishergcn.streams import keep_probability

# Entries of X up to which it may be made dense for Ã X.
_DENSE_ENTRIES = 2**28


def half_first_product(
    view: View, weight: Tensor, words: Tensor | None, samples: int, dropout: float, *, once: bool
) -> Tensor | None:
    """Return Ã X W of shape (p, R * M, H), X with dropout; None where half precision is not what it is computed in.

    ``once``: no derivative of a derivative will be asked for.
    """
    features, operator = view.features, view.operators[0]
    perturbed = operator if isinstance(operator, SparsePlusLowRank) else None
    matrix = operator if perturbed is None else perturbed.sparse
    if not isinstance(features, SparseFeatures) or not isinstance(matrix, SparseMatrix) or not matrix.nearly_full:
        return None
    if backend_of(weight) != "triton" or matrix.dtype != weight.dtype or autocasts(weight.device):
        return None
    if not features.even:
        return None
    features.check(weight, words, samples)
    if words is None:
        plain = perturbed is None and samples == 1 and torch.is_inference_mode_enabled()
        return _smoothed(features, matrix, weight) if plain else None
    if not once:
        return None
    coefficients = basis = None
    if perturbed is not None:
        coefficients, basis = perturbed.coefficients.reshape(-1, perturbed.rank), perturbed.basis
        if perturbed.rank > FEW_DIRECTIONS or len(coefficients) != len(weight) * samples:
            return None
    result: Tensor = _FirstLayer.apply(  # type: ignore[no-untyped-call]
        weight, coefficients, features, words, samples, dropout, matrix, basis
    )
    return result


def _smoothed(features: SparseFeatures, matrix: SparseMatrix, weight: Tensor) -> Tensor | None:
    """Return (Ã X) W where that is less work than Ã (X W)."""
    from fishergcn._kernels import cuda_half

    runs, columns, width = weight.shape
    if columns > runs * width or len(features.rows) * columns > _DENSE_ENTRIES:
        return None
    tiles = matrix.half_tiles()
    if columns * (len(tiles.starts) - 1) > len(tiles.columns):  # a tile has fewer columns than the features
        return None

    def smooth() -> Any:
        return cuda_half.full_tiles(matrix.forward @ features.to_dense())

    table = cuda_half.as_half(weight.detach().transpose(0, 1).contiguous())
    return cuda_half.half_product(features.once(matrix, smooth), table)


class _FirstLayer(torch.autograd.Function):
    """Ã(c) X W, in W and in the coefficients c of a perturbation.

    As in ``operators``, with G the gradient: that of X W is Ã(c)ᵀ G, and that of c is -Σ_d (Uᵀ G) ∘ (Uᵀ X W).
    """

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        coefficients: Tensor | None,
        features: SparseFeatures,
        words: Tensor,
        samples: int,
        dropout: float,
        matrix: SparseMatrix,
        basis: Tensor | None,
    ) -> Tensor:
        from fishergcn._kernels import cuda_half

        keep = keep_probability(dropout)
        ctx.options = features, words, samples, keep, matrix, basis
        hidden = cuda_half.half_features(features.parts, weight.contiguous(), words, samples, keep, features.largest)
        moments = weighted = None
        if coefficients is not None and basis is not None:
            moments = cuda_half.half_moments(basis, hidden)
            weighted = coefficients.T.unsqueeze(-1) * moments
        ctx.save_for_backward(weight, coefficients, moments)
        return cuda_half.half_product(matrix.half_tiles(), hidden, basis, weighted)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from fishergcn._kernels import cuda, cuda_half

        weight, coefficients, moments = ctx.saved_tensors
        features, words, samples, keep, matrix, basis = ctx.options
        grad = grad.contiguous()
        weighted = for_coefficients = None
        if coefficients is not None:
            found = cuda.moments(basis, grad)
            weighted = coefficients.T.unsqueeze(-1) * found
            for_coefficients = -(found * moments).sum(-1).T
        tiles = matrix.half_tiles(transposed=True)
        back = cuda_half.half_from_product(tiles, cuda_half.as_half(grad), len(weight), basis, weighted)
        out = torch.empty_like(weight)
        cuda_half.half_features_backward(out, (*features.columns, features.values), back, words, samples, keep)
        return out, for_coefficients, *(None,) * 6
