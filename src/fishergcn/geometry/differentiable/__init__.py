"""The Bures geometry in torch: batches of density matrices, on CPU or GPU, differentiable twice.

The functions are those of :mod:`fishergcn.geometry.intrinsic`, with its conventions, for tensors of shape (..., n, n)
in float32 or float64. Leading dimensions broadcast.

Values and gradients are finite everywhere, also where two matrices are equal and where they are singular, as those of
graphs always are. On a singular matrix the derivatives are those along curves of constant rank, the only ones that
exist: first and second derivatives are right on every such curve, also where the kernel turns, as long as the
overlap of two matrices keeps its rank too (two orthogonal pure states have none); what would fill the kernel, where the
slope is infinite, is left out.

Eigenvalues up to n·eps·λ_max, with the eps of the dtype, are rounding noise and count as zero. Symmetry, trace 1 and
p.s.d.-ness may be off by 1e-3, so that rounding in float32 and finite differences pass.
"""

from __future__ import annotations

from fishergcn.geometry.differentiable._functions import (
    bures_distance,
    density_matrix,
    fidelity,
    geodesic,
    squared_bures_distance,
    von_neumann_entropy,
)

__all__ = [
    "bures_distance", "density_matrix", "fidelity", "geodesic", "squared_bures_distance", "von_neumann_entropy",
]  # fmt: skip
