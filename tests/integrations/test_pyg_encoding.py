"""Positional encodings against dense eigenvectors, networkx and PyG."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch

pytest.importorskip("torch_geometric")
from pyg_cases import random_data
from torch_geometric.data import Batch, Data
from torch_geometric.utils import get_laplacian, to_dense_adj, to_networkx

from fishergcn.errors import ConvergenceError, InputError
from fishergcn.integrations.pyg import AddSpectralEncoding

KINDS = ["plain", "sym", "rw", "renormalized"]


def connected(seed: int = 0, nodes: int = 40) -> Data:
    data = random_data(seed, nodes, 0.2)
    assert networkx.is_connected(to_networkx(data, to_undirected=True))
    data.edge_weight = 0.5 + (data.edge_index.sum(dim=0) % 5).double()
    return data


def laplacian(data: Data, kind: str) -> np.ndarray:
    if kind == "renormalized":
        matrix = to_dense_adj(data.edge_index, edge_attr=data.edge_weight)[0].numpy() + np.eye(data.num_nodes)
        root = 1 / np.sqrt(matrix.sum(axis=1))
        return np.eye(data.num_nodes) - root[:, None] * matrix * root
    index, weight = get_laplacian(data.edge_index, data.edge_weight, None if kind == "plain" else kind)
    return to_dense_adj(index, edge_attr=weight)[0].numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["bottom", "top"])
def test_the_encodings_are_eigenvectors_of_pygs_laplacian(kind, end) -> None:
    data = connected()
    found = AddSpectralEncoding(5, kind, end)(data)
    vectors, values = found.encoding.double().numpy(), found.encoding_values[0].double().numpy()
    matrix = laplacian(data, kind)
    spectrum = np.sort(np.linalg.eigvals(matrix).real)
    expected = spectrum[1:6] if end == "bottom" else spectrum[::-1][:5]
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=2e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1.0, atol=1e-6)
    assert (vectors[np.abs(vectors).argmax(axis=0), np.arange(5)] > 0).all()


def test_they_repeat_and_do_not_depend_on_the_seed_where_eigenvalues_are_simple() -> None:
    data = connected(1, 700)  # large enough for an iterative solver
    one, again, other = (AddSpectralEncoding(4, seed=seed)(data).encoding for seed in (0, 0, 1))
    assert torch.equal(one, again)
    torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_outside_of_the_largest_component_and_beyond_the_rank_they_are_zero() -> None:
    pair = Data(edge_index=torch.tensor([[0, 1, 2, 3, 3, 4], [1, 0, 3, 2, 4, 3]]), num_nodes=6)
    found = AddSpectralEncoding(4, "plain")(pair)
    assert found.encoding.shape == (6, 4)
    assert found.encoding[[0, 1, 5]].abs().max() == 0
    assert found.encoding[:, 2:].abs().max() == 0
    np.testing.assert_allclose(found.encoding_values[0], [1, 3, 0, 0], atol=1e-6)
    lonely = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=3)
    assert AddSpectralEncoding(2)(lonely).encoding.abs().max() == 0
    batch = Batch.from_data_list([AddSpectralEncoding(2)(each) for each in (pair, lonely)])
    assert batch.encoding.shape == (9, 2)
    assert batch.encoding_values.shape == (2, 2)


def test_the_fiedler_vector_of_networkx() -> None:
    data = connected(2)
    graph = to_networkx(data, to_undirected=True, edge_attrs=["edge_weight"])
    expected = networkx.fiedler_vector(graph, weight="edge_weight", seed=0, method="lanczos", tol=1e-12)
    found = AddSpectralEncoding(1, "plain")(data).encoding[:, 0].numpy()
    assert abs(found @ expected / np.linalg.norm(expected)) == pytest.approx(1, abs=1e-6)


def test_refusals(monkeypatch) -> None:
    with pytest.raises(InputError, match="laplacian must be one of"):
        AddSpectralEncoding(2, "random")
    data = connected()
    with pytest.raises(InputError, match="before graphs are batched"):
        AddSpectralEncoding(2)(Batch.from_data_list([data]))
    one_way = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
    with pytest.raises(InputError, match="must list both arcs"):
        AddSpectralEncoding(1)(one_way)
    monkeypatch.setattr("fishergcn.integrations.pyg._encoding.TOLERANCE", 1e-30)
    with pytest.raises(ConvergenceError, match="the eigenvectors have a residual of"):
        AddSpectralEncoding(2)(data)
    assert repr(AddSpectralEncoding(2)) == "AddSpectralEncoding(rank=2, laplacian='sym', end='bottom')"
