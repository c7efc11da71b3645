"""The spectral bound λ_max(L) ≤ 2, that is ‖Ã‖ ≤ 1, which every normalized graph keeps and a perturbed one may lose."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh

from fishergcn.operators import Operator

#: λ_max of the Laplacian I - Ã of any normalized graph is at most this; beyond it Ã makes some signals grow.
BOUND = 2.0
_TOLERANCE = 1e-7
ROUNDING = 1e-9  # of eigenvalues that are equal to the bound


def largest_eigenvalue(operator: Operator) -> float:
    """Return λ_max(I - Ã) of a single symmetric operator on the CPU in float64, by Lanczos."""
    nodes = operator.shape[0]

    def laplacian(vector: Any) -> Any:
        dense = torch.as_tensor(vector.reshape(nodes, 1, -1))
        return (dense - operator.propagate(dense)).reshape(vector.shape).numpy()

    with torch.no_grad():
        if nodes < 16:  # too small for Lanczos
            return float(np.linalg.eigvalsh(laplacian(np.eye(nodes)))[-1])
        start = np.random.default_rng(0).standard_normal(nodes)
        linear = LinearOperator((nodes, nodes), matvec=laplacian, dtype=np.float64)
        return float(
            eigsh(linear, k=1, which="LA", return_eigenvectors=False, v0=start, tol=_TOLERANCE, ncv=min(nodes, 40))[0]
        )
