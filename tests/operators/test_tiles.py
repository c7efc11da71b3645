"""Products with full rows: tiles, pairs of rows and renumbered nodes change nothing but rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

pytest.importorskip("numba")

from fishergcn._kernels import cpu_tiles
from fishergcn.operators import SparseMatrix, SparsePlusLowRank


def full_rows(rows: int, columns: int, seed: int = 0, share: float = 0.6) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    return sparse.csr_array(rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < share))


@pytest.fixture(autouse=True)
def count_tiles(monkeypatch):
    """Count the products that are made of tiles."""
    calls = []
    times = cpu_tiles.times
    monkeypatch.setattr(cpu_tiles, "times", lambda *arguments: (calls.append(arguments), times(*arguments))[1])
    return calls


@pytest.mark.parametrize(("rows", "columns"), [(80, 80), (81, 81), (1, 60), (65, 130), (130, 65)])
@pytest.mark.parametrize(("batch", "width"), [(1, 1), (5, 7), (5, 64), (2, 33), (3, 16), (1, 200)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tiles_equal_the_dense_product(rows, columns, batch, width, dtype, count_tiles) -> None:
    matrix = full_rows(rows, columns)
    dense = torch.randn(columns, batch, width, dtype=dtype, generator=torch.Generator().manual_seed(1))
    found = SparseMatrix.from_scipy(matrix, dtype=dtype).propagate(dense)
    expected = np.einsum("ij,jbd->ibd", matrix.toarray(), dense.double().numpy())
    assert len(count_tiles) == 1
    tolerance = 1e-13 if dtype == torch.float64 else 2e-5
    np.testing.assert_allclose(found.numpy(), expected, atol=tolerance, rtol=tolerance)


def test_empty_rows_and_nodes_without_links_give_zero(count_tiles) -> None:
    matrix = full_rows(90, 90, share=0.9).tolil()
    matrix[[0, 7, 8, 89]] = 0
    matrix[:, [3, 8]] = 0
    dense = torch.randn(90, 1, 20, dtype=torch.float64)
    found = SparseMatrix.from_scipy(matrix).propagate(dense)
    assert len(count_tiles) == 1
    np.testing.assert_allclose(found[:, 0].numpy(), matrix.toarray() @ dense[:, 0].numpy(), atol=1e-13)
    assert (found[[0, 7, 8, 89]] == 0).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_reaches_the_linked_rows_alone(value, count_tiles) -> None:
    matrix = full_rows(70, 70)
    dense = torch.ones(70, 1, 3, dtype=torch.float64)
    dense[4, 0, 1] = value
    found = SparseMatrix.from_scipy(matrix).propagate(dense)[:, 0].numpy()
    linked = matrix.toarray()[:, 4] != 0
    assert not count_tiles
    assert np.isfinite(found[:, [0, 2]]).all()
    np.testing.assert_array_equal(np.isfinite(found[:, 1]), ~linked)


def test_derivatives_of_every_kind_pass_through_tiles(count_tiles) -> None:
    sparse_part = SparseMatrix.from_scipy(full_rows(60, 60))
    basis = torch.randn(60, 3, dtype=torch.float64)

    def function(dense, coefficients):
        return SparsePlusLowRank(sparse_part, basis, coefficients).propagate(dense)

    inputs = [
        torch.randn(60, 2, 2, dtype=torch.float64, requires_grad=True),
        torch.randn(2, 3, dtype=torch.float64, requires_grad=True),
    ]
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)
    assert count_tiles


def test_few_entries_in_a_row_are_multiplied_as_before(count_tiles) -> None:
    fuller = [SparseMatrix.from_scipy(full_rows(200, 200, share=share)) for share in np.linspace(0.02, 0.5, 49)]
    few = [matrix for matrix in fuller if not matrix.full_rows]
    assert 0 < len(few) < len(fuller)
    few[-1].propagate(torch.ones(200, 1, 8, dtype=torch.float64))
    assert not count_tiles
