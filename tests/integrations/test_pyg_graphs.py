"""Several graphs: each has its own spectrum, none reaches into another, and no stored spectrum outlives its links."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("torch_geometric")
import torch_geometric.transforms as T
from hypothesis import given, settings
from hypothesis import strategies as st
from pyg_cases import CLASSES, FEATURES, NODES, Net, dense_net, loss_of, random_data
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader, RandomNodeLoader
from torch_geometric.nn import GCNConv

from fishergcn.errors import InputError
from fishergcn.integrations.pyg import AddBuresSpectrum, BuresAdversary

SIZES = (12, 25, 2, 9)


@pytest.fixture
def graphs() -> list[Data]:
    tiny = Data(
        x=torch.randn(2, FEATURES).double(),
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        y=torch.tensor([0, 1]),
        num_nodes=2,
    )
    return [tiny if size == 2 else random_data(size, size, 0.3) for size in SIZES]


def alone(graph: Data, phi: torch.Tensor, model: Net) -> torch.Tensor:
    """One graph's perturbed pass, dense, from its own eigenpairs."""
    graph = Data(x=graph.x, edge_index=graph.edge_index)
    adversary = BuresAdversary(graph, rank=min(4, graph.num_nodes - 1), radius=1.0)
    around = adversary.neighborhood
    return dense_net(model, graph.x, around.operator(phi[: around.rank]).to_dense())


def test_each_graph_of_a_batch_is_perturbed_by_itself(graphs) -> None:
    batch, model = Batch.from_data_list(graphs), Net()
    adversary = BuresAdversary(batch, rank=4, radius=1.0).attach(model)
    phi = adversary.draw()[0]
    assert phi.shape == (4, 4)
    with adversary.perturbed(phi):
        result = model(batch.x, batch.edge_index)
    expected = torch.cat([alone(graph, phi[g], model) for g, graph in enumerate(graphs)])
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)
    moved = (result - model(batch.x, batch.edge_index)).abs().amax(dim=1)
    for g in (0, 1, 3):  # a pair has a single direction, and nowhere to go
        assert moved[batch.batch == g].max() > 1e-3
    whole = dense_net(model, batch.x, adversary.neighborhood.operator(phi).to_dense())
    torch.testing.assert_close(result, whole, rtol=0, atol=1e-12)


def test_a_batch_is_the_same_as_the_list_of_its_graphs(graphs) -> None:
    one, other = BuresAdversary(Batch.from_data_list(graphs), 4), BuresAdversary(graphs, 4)
    assert torch.equal(one.draw(), other.draw())
    assert torch.equal(one.neighborhood.rows, other.neighborhood.rows)


def test_batches_of_a_loader_bring_their_own_spectra(graphs) -> None:
    stored = [AddBuresSpectrum(rank=4)(graph) for graph in graphs]
    model = Net()
    adversary = BuresAdversary(stored, radius=1.0, samples=2).attach(model)
    seen = 0
    for batch in DataLoader(stored, batch_size=3, shuffle=True):
        phi = torch.randn(batch.num_graphs, 4, dtype=torch.float64)
        with adversary.perturbed(phi, batch):
            result = model(batch.x, batch.edge_index)
        expected = torch.cat([alone(graph, phi[g], model) for g, graph in enumerate(batch.to_data_list())])
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)
        adversary.average(lambda batch=batch: loss_of(model, batch), batch).backward()
        seen += batch.num_graphs
    assert seen == 4
    assert adversary.xi.grad.abs().max() > 0


def test_no_graph_sees_another(graphs) -> None:
    """The Jacobian between nodes of different graphs is zero."""
    batch = Batch.from_data_list([AddBuresSpectrum(rank=4)(graph) for graph in graphs])
    layer = GCNConv(FEATURES, 1, bias=False).double()
    adversary = BuresAdversary(batch, radius=1.0).attach(layer)
    phi = adversary.draw()[0]

    def run(x: torch.Tensor) -> torch.Tensor:
        with adversary.perturbed(phi, batch):
            return layer(x, batch.edge_index).sum(dim=1)

    jacobian = torch.autograd.functional.jacobian(run, batch.x).abs().sum(dim=2)
    other = batch.batch[:, None] != batch.batch[None, :]
    assert jacobian[other].max() == 0
    assert jacobian[~other].max() > 0


def test_the_gradient_of_the_shared_xi(graphs) -> None:
    batch, model = Batch.from_data_list(graphs), Net()
    adversary = BuresAdversary(batch, rank=4, radius=1.0, samples=3).attach(model)
    state = adversary.get_generator_state()
    adversary.average(lambda: loss_of(model, batch)).backward()
    adversary.set_generator_state(state)
    losses = []
    for phi in adversary.draw():
        logits = dense_net(model, batch.x, adversary.neighborhood.operator(phi).to_dense())
        losses.append(torch.nn.functional.cross_entropy(logits, batch.y))
    (expected,) = torch.autograd.grad(torch.stack(losses).mean(), adversary.xi)
    torch.testing.assert_close(adversary.xi.grad, expected, rtol=0, atol=1e-12)
    assert expected.abs().max() > 1e-6


def test_random_parts_of_a_batch_keep_their_graphs(graphs) -> None:
    batch = AddBuresSpectrum(rank=4)(Batch.from_data_list(graphs))
    model = Net()
    adversary = BuresAdversary(batch, radius=1.0).attach(model.first)
    phi, rows = adversary.draw()[0], adversary.neighborhood.basis
    c = adversary.neighborhood.coefficients(phi).flatten()
    batch.number = torch.arange(batch.num_nodes)
    for part in RandomNodeLoader(batch, num_parts=3, shuffle=True):
        with adversary.perturbed(phi, part):
            result = model.first(part.x, part.edge_index)
        mine = rows[part.number]
        expected = model.first(part.x, part.edge_index) - mine @ torch.diag(c) @ mine.T @ model.first.lin(part.x)
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


def test_graphs_without_directions_are_left_alone() -> None:
    lonely = Data(x=torch.randn(3, FEATURES).double(), edge_index=torch.empty(2, 0, dtype=torch.long))
    single = Data(x=torch.randn(1, FEATURES).double(), edge_index=torch.empty(2, 0, dtype=torch.long))
    batch = Batch.from_data_list([lonely, random_data(1), single])
    model = Net()
    adversary = BuresAdversary(batch, rank=4, radius=1.0).attach(model)
    with adversary.perturbed(adversary.draw()[0]):
        moved = (model(batch.x, batch.edge_index) - model(batch.x, batch.edge_index)).abs()
        result = model(batch.x, batch.edge_index)
    assert moved.max() == 0
    difference = (result - model(batch.x, batch.edge_index)).abs().amax(dim=1)
    assert difference[batch.batch == 1].max() > 1e-3
    assert difference[batch.batch != 1].max() == 0
    adversary.average(lambda: model(batch.x, batch.edge_index).square().mean()).backward()
    assert adversary.xi.grad.isfinite().all()


def test_what_is_no_batch_of_known_graphs_is_refused(graphs) -> None:
    stored = [AddBuresSpectrum(rank=4)(graph) for graph in graphs]
    model = Net()
    batch = Batch.from_data_list(stored[:2])
    single = BuresAdversary(stored[0], radius=1.0).attach(model)
    with pytest.raises(InputError, match="holds other graphs than the one that the adversary was built from"):
        single.average(lambda: loss_of(model, batch), batch)
    single.detach()
    several = BuresAdversary(stored).attach(model)
    with pytest.raises(InputError, match="a batch must hold n_id"):
        several.average(lambda: loss_of(model, graphs[0]), Batch.from_data_list(graphs))
    other = Batch.from_data_list([AddBuresSpectrum(rank=3)(graph) for graph in graphs])
    with pytest.raises(InputError, match="must hold a spectrum of rank 4, as the adversary has, got 3"):
        several.average(lambda: loss_of(model, other), other)
    looser = Batch.from_data_list([AddBuresSpectrum(rank=4, self_links=0)(graph) for graph in graphs])
    with pytest.raises(InputError, match="other self-links than the adversary's"):
        several.average(lambda: loss_of(model, looser), looser)
    changed = Batch.from_data_list(stored)
    changed.edge_index = changed.edge_index[:, 2:]
    with pytest.raises(InputError, match="stored on graph 0 of the batch is that of other links"):
        several.average(lambda: loss_of(model, changed), changed)
    with pytest.raises(InputError, match="must hold Data objects, at least one"):
        BuresAdversary([])
    with pytest.raises(InputError, match=r"got HeteroData; the adversary takes data\.to_homogeneous"):
        BuresAdversary(HeteroData())
    with pytest.raises(InputError, match="was built from several graphs"):
        several.refresh(graphs[0].edge_index)
    crossing = Batch.from_data_list(graphs)
    crossing.edge_index = torch.cat([crossing.edge_index, torch.tensor([[0, 20], [20, 0]])], dim=1)
    with pytest.raises(InputError, match="must stay in its graph"):
        BuresAdversary(crossing)


def replaced(data: Data) -> Data:
    """The same nodes with one link moved: as many links as before."""
    arcs = data.edge_index.clone()
    present = set(map(tuple, arcs.T.tolist()))
    new = next((i, j) for i in range(NODES) for j in range(i) if (i, j) not in present)
    old = tuple(arcs[:, 0].tolist())
    keep = [pair for pair in present if pair not in (old, old[::-1])]
    data = data.clone()
    data.edge_index = torch.tensor([*keep, new, new[::-1]]).T
    return data


def test_a_stored_spectrum_that_no_longer_fits_is_refused() -> None:
    stored = AddBuresSpectrum(rank=4)(random_data(5))
    assert BuresAdversary(stored, rank=4).neighborhood.rank == 4
    with pytest.raises(InputError, match="that of other links than data has now; apply AddBuresSpectrum again"):
        BuresAdversary(replaced(stored))
    weighted = stored.clone()
    weighted.edge_weight = torch.full((stored.num_edges,), 2.0)
    with pytest.raises(InputError, match="that of other links"):
        BuresAdversary(weighted)
    with pytest.raises(InputError, match="rank must be that of the spectrum stored on data, 4, got 10"):
        BuresAdversary(stored, rank=10)
    with pytest.raises(InputError, match="computed with self_links=1, the adversary has self_links=0"):
        BuresAdversary(stored, self_links=0)
    old = stored.clone()
    del old.bures_digest
    with pytest.raises(InputError, match="a spectrum without bures_digest"):
        BuresAdversary(old)
    part = stored.subgraph(torch.arange(20))
    with pytest.raises(InputError, match="that of other links"):
        BuresAdversary(part)


def test_a_spectrum_fits_its_links_in_any_order_and_with_weights_of_one() -> None:
    stored = AddBuresSpectrum(rank=4)(random_data(5))
    stored.edge_index = stored.edge_index[:, torch.randperm(stored.num_edges)]
    stored.edge_weight = torch.ones(stored.num_edges)
    first, second = BuresAdversary(stored), BuresAdversary(T.NormalizeFeatures()(stored))
    assert first.neighborhood.spectrum.solver == second.neighborhood.spectrum.solver == "given"


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_digests_differ_where_graphs_do(seed: int, other: int) -> None:
    one, two = random_data(seed, 8, 0.4), random_data(other, 8, 0.4)
    first, second = (AddBuresSpectrum(rank=2)(each).bures_digest for each in (one, two))
    same = set(map(tuple, one.edge_index.T.tolist())) == set(map(tuple, two.edge_index.T.tolist()))
    assert torch.equal(first, second) == same
    together = AddBuresSpectrum(rank=2)(Batch.from_data_list([one, two])).bures_digest
    assert torch.equal(together, torch.cat([first, second]))


def test_heterogeneous_models_are_refused() -> None:
    layer = GCNConv(FEATURES, CLASSES).double()
    data = random_data()
    adversary = BuresAdversary(data, 4).attach(layer)
    with pytest.raises(InputError, match="propagates from 20 to 20 nodes, but the basis has 30 rows"):
        adversary.average(lambda: layer(data.x[:20], torch.tensor([[0], [1]])).sum())
