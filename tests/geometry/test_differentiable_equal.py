"""Where two matrices are equal the distance has slope 0, whatever rounding leaves of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fishergcn.geometry.differentiable import bures_distance


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("nodes", [3, 5, 30])
def test_the_slope_at_equal_matrices_is_zero(dtype, nodes):
    rng = np.random.default_rng(0)
    for _ in range(30):
        basis = np.linalg.qr(rng.normal(size=(nodes, nodes)))[0]
        matrix = (basis * np.logspace(0, -rng.uniform(0, 15), nodes)) @ basis.T
        fixed = torch.tensor((matrix + matrix.T) / (2 * np.trace(matrix)), dtype=dtype)
        moving = fixed.clone().requires_grad_()
        (slope,) = torch.autograd.grad(bures_distance(fixed, moving), moving)
        assert float(slope.abs().max()) == 0.0
