"""The embedding geometry: how a graph's embedding may move, and what that costs.

A graph is given by row-normalized node similarities W with a zero diagonal. An embedding Y ∈ R^{n x d} models
them by p_ij = exp(-‖y_i - y_j‖²)/Z_i, j ≠ i; row i of W is one observation of the distribution p_i. Then

    KL(W : P(Y)) = Σ_ij w_ij log(w_ij / p_ij)                      :func:`divergence`
    ∂KL/∂Y       = 4 L_sym(W - P) Y                                :func:`gradient`
    Y*           = a minimizer                                     :func:`fit`
    Ĝ(y^k, y^l)  = [k=l] 4 L_sym(W-P) + 8 L_sym(P∘D^kl) - 4 B^kᵀB^l   :func:`fisher_operator`
    ds²          = Σ_i Var_{p_i}(d‖y_i - y_j‖²)                    :func:`length`
    A'           = a graph after a random motion of given length   :func:`moved_graphs`

with L_sym(M) the Laplacian of (M + Mᵀ)/2, D^kl_ij = (y_ik - y_jk)(y_il - y_jl), and B^k = diag(C1) - C for
C_ij = p_ij (y_ik - y_jk), which is not symmetrized. An empty row of W is a node without observation: it
carries no term, but others may still be similar to it.
"""

from __future__ import annotations

from fishergcn.geometry.embedding._fit import EmbeddingFit, RestartSummary, fit, spectral_embedding
from fishergcn.geometry.embedding._information import FisherOperator, fisher_blocks, fisher_operator, length
from fishergcn.geometry.embedding._motions import ExtremeMotions, extreme_motions, moved_graphs, rigid_motions
from fishergcn.geometry.embedding._similarities import divergence, gradient, model_similarities, similarities

__all__ = [
    "divergence", "extreme_motions", "fisher_operator", "fit", "gradient", "length", "moved_graphs", "similarities",
    "spectral_embedding",
]  # fmt: skip

SHARED = (
    "EmbeddingFit", "ExtremeMotions", "FisherOperator", "RestartSummary", "fisher_blocks", "model_similarities",
    "rigid_motions",
)  # fmt: skip
