"""A graph as a density matrix, and the Bures geometry of such matrices.

A graph Laplacian L is symmetric and positive semi-definite, so ρ = L / tr L is what quantum mechanics calls a
density matrix. The Bures metric measures how far ρ moves; it is a quarter of the quantum Fisher information.
:func:`graph_distance` compares two graphs; the other functions take density matrices unless they say otherwise.

Conventions, the same in every function:

- ``ds²`` is the Bures line element; the quantum Fisher information is ``4 ds²``.
- fidelity is the *root* fidelity F = tr sqrt(a^½ b a^½); Jozsa's is F².
- ``bures_distance`` is the chord D_B = sqrt(2 - 2F), not squared; ``bures_angle`` is the arc, cos(angle) = F.
- entropy is in nats.
- matrices are real, float64, dense up to 6000 nodes. Beyond, for graphs of any size, there are
  :func:`graph_distance`, :func:`estimate_entropy`, :func:`rank_projection`, and what is exact along a congruence:
  :func:`exponential_map`, :func:`congruence_distance`.
- eigenvalues up to n·eps·λ_max are rounding noise and count as zero. D_B sees their square roots: between
  singular matrices it is meaningful to about 1e-8, between well-conditioned ones to about 1e-15.
"""

from __future__ import annotations

from fishergcn.geometry.intrinsic._density import DENSE_LIMIT, density_matrix, density_spectrum
from fishergcn.geometry.intrinsic._distance import (
    bures_angle,
    bures_distance,
    fidelity,
    geodesic,
    von_neumann_divergence,
)
from fishergcn.geometry.intrinsic._exponential import (
    center,
    congruence_distance,
    exponential_map,
    logarithmic_map,
    tangent_norm,
)
from fishergcn.geometry.intrinsic._graphs import (
    GraphComparison,
    GraphDistance,
    compare_graphs,
    graph_distance,
    link_distance,
)
from fishergcn.geometry.intrinsic._laplacian import LAPLACIANS, graph_laplacian
from fishergcn.geometry.intrinsic._link_information import LinkInformation, link_information
from fishergcn.geometry.intrinsic._metric import (
    bures_metric,
    kernel_rate,
    logarithmic_derivative,
    quantum_fisher_matrix,
    rotation_metric,
    solve_lyapunov,
    spectral_metric,
)
from fishergcn.geometry.intrinsic._spectral import (
    EntropyEstimate,
    RankProjection,
    estimate_entropy,
    power,
    rank_projection,
    von_neumann_entropy,
)

__all__ = [
    "bures_angle", "bures_distance", "bures_metric", "center", "compare_graphs", "congruence_distance",
    "density_matrix", "estimate_entropy", "exponential_map", "fidelity", "geodesic", "graph_distance",
    "graph_laplacian", "kernel_rate", "link_distance", "link_information", "logarithmic_derivative",
    "logarithmic_map", "quantum_fisher_matrix", "rank_projection", "rotation_metric", "spectral_metric",
    "von_neumann_divergence", "von_neumann_entropy",
]  # fmt: skip

# What the functions return, what other packages name, and what follows from the above in one line.
SHARED = (
    "DENSE_LIMIT", "LAPLACIANS", "EntropyEstimate", "GraphComparison", "GraphDistance", "LinkInformation",
    "RankProjection", "density_spectrum", "power", "solve_lyapunov", "tangent_norm",
)  # fmt: skip
