"""@ of congruences is the product with their dense matrices, for every shape that broadcasts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fishergcn import renormalized
from fishergcn.errors import InputError
from fishergcn.perturbation import CongruenceNeighborhood


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (1,)])
@pytest.mark.parametrize("shape", [(6,), (6, 2), (3, 6, 2), (5, 1, 3, 6, 2)])
def test_at_is_the_dense_product(batch, shape):
    ring = np.roll(np.eye(6), 1, axis=1)
    around = CongruenceNeighborhood(renormalized(ring + ring.T), "nodes")
    generator = torch.Generator().manual_seed(0)
    operator = around.operator(0.3 * torch.randn(*batch, 6, generator=generator, dtype=torch.float64))
    operand = torch.randn(*shape, generator=generator, dtype=torch.float64)
    dense = operator.to_dense()
    expected = (dense @ operand.unsqueeze(-1)).squeeze(-1) if operand.ndim == 1 else dense @ operand
    torch.testing.assert_close(operator @ operand, expected)
    np.testing.assert_allclose(operator @ operand.numpy(), expected.numpy(), atol=1e-12)
    with pytest.raises(InputError, match="6 rows"):
        operator @ torch.ones(5, 2, dtype=torch.float64)
