"""What would go wrong without a word: it is refused, announced once, or made right."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

pytest.importorskip("torch_geometric")
from pyg_dense import CLASSES, FEATURES, NODES, RANK, changes, dense_pass, graph
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.utils import dropout_edge, to_undirected

from fishergcn.errors import InputError
from fishergcn.integrations.pyg import BuresAdversary, FeatureAdversary, NodeAdversary
from fishergcn.perturbation import PerturbationWarning

KINDS = [BuresAdversary, NodeAdversary]


@pytest.fixture(params=KINDS)
def kind(request) -> type:
    return request.param


@pytest.fixture
def data() -> Data:
    return graph()


def gcn(**options) -> nn.Module:
    torch.manual_seed(1)
    return pyg.GCN(FEATURES, 8, 2, CLASSES, **options).double()


def loss_of(model: nn.Module, data: Data, edge_index: Tensor | None = None) -> Tensor:
    logits = model(data.x, data.edge_index if edge_index is None else edge_index)
    return nn.functional.cross_entropy(logits, data.y)


def said(run) -> list[str]:
    """The warnings of this package while something runs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(each.message) for each in caught if issubclass(each.category, PerturbationWarning)]


class Reversible(nn.Module):
    def __init__(self, disable: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.enter = nn.Linear(FEATURES, 8)
        self.layers = pyg.GroupAddRev(pyg.GCNConv(4, 4), num_groups=2)
        self.layers.disable, self.leave = disable, nn.Linear(8, CLASSES)
        self.double()

    def forward(self, x, edge_index):
        return self.leave(self.layers(self.enter(x), edge_index))


def test_reversible_layers_are_refused_where_a_gradient_is_needed(data, kind) -> None:
    """They run under ``no_grad`` and compute gradients by themselves, which ξ would never see."""
    model = Reversible(disable=False)
    adversary = kind(data, radius=0.3).attach(model)
    for keep in (False, True):
        with pytest.raises(InputError, match=r"GCNConv\) runs inside InvertibleFunction.* disable=True"):
            adversary.average(lambda: loss_of(model, data), keep=keep)
    with adversary.perturbed(adversary.draw()[0].detach()), pytest.raises(InputError, match="InvertibleFunction"):
        loss_of(model, data)
    plain = Reversible(disable=True)
    other = kind(data, radius=0.3).attach(plain)
    draw = adversary.draw()[0].detach()
    with torch.no_grad(), adversary.perturbed(draw), other.perturbed(draw):
        torch.testing.assert_close(model(data.x, data.edge_index), plain(data.x, data.edge_index))
    other.average(lambda: loss_of(plain, data)).backward()
    assert other.xi.grad.abs().max() > 0


def test_xi_without_a_gradient_is_announced_once(data, kind) -> None:
    model, weight = gcn(), nn.Parameter(torch.ones(()))
    adversary = kind(data, radius=0.1).attach(model)

    def closure() -> Tensor:
        return loss_of(model, data).detach() * weight

    found = said(lambda: [adversary.average(closure, keep=keep).backward() for keep in (False, True)])
    assert found == [
        "the loss does not depend on the perturbed layers, or they ran without gradients: ξ gets no gradient."
    ]
    assert adversary.xi.grad is None
    quiet = kind(data, radius=0.1).attach(gcn())
    assert not said(lambda: quiet.average(lambda: loss_of(quiet._roots[0], data)).backward())


NODES_OF_BATCH = torch.tensor([7, 3, 20, 31, 2, 11, 5, 9, 12, 30, 6, 25, 1, 0, 14])
WRONG = {
    "all nodes": (torch.arange(NODES), "do not fit|15 nodes"),
    "another order": (NODES_OF_BATCH.flip(0), "do not fit: .* links"),
    "negative": (-NODES_OF_BATCH, r"must be from 0 to 39, got -7"),
    "too large": (NODES_OF_BATCH + NODES, "must be from 0 to 39, got 47"),
    "one node": (0 * NODES_OF_BATCH, "must name each node once, got 15 numbers of 1 nodes"),
    "a mask": (torch.ones(NODES, dtype=torch.bool), "a vector of whole numbers, got torch.bool"),
    "not whole": (NODES_OF_BATCH.double(), "a vector of whole numbers, got torch.float64"),
    "a matrix": (NODES_OF_BATCH.view(3, 5), r"of shape \(3, 5\)"),
    "too few": (NODES_OF_BATCH[:9], "nodes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_node_numbers_of_a_batch_are_refused(data, kind, name) -> None:
    numbers, message = WRONG[name]
    model, batch = gcn(), data.subgraph(NODES_OF_BATCH)
    adversary = kind(data, radius=0.1).attach(model)
    adversary.average(lambda: loss_of(model, batch), NODES_OF_BATCH)  # the right ones
    batch.n_id = NODES_OF_BATCH
    adversary.average(lambda: loss_of(model, batch), batch)
    with pytest.raises(InputError, match=message):
        adversary.average(lambda: loss_of(model, batch), numbers)
    with (
        pytest.raises(InputError, match=message),
        adversary.perturbed(adversary.draw()[0].detach(), numbers),
        torch.no_grad(),
    ):
        loss_of(model, batch)


def test_more_numbers_than_nodes_are_refused_even_if_the_links_fit(data, kind) -> None:
    model, batch = gcn(), data.subgraph(NODES_OF_BATCH)
    adversary = kind(data, radius=0.1).attach(model)
    longer = torch.cat([NODES_OF_BATCH, torch.tensor([4, 8])])
    with pytest.raises(InputError, match="17 node numbers, but no attached layer saw more than 15"):
        adversary.average(lambda: loss_of(model, batch), longer)
    batch.n_id = longer
    with pytest.raises(InputError, match="must hold a number for each of its 15 nodes, got 17"):
        adversary.average(lambda: loss_of(model, batch), batch)


def test_new_links_in_a_batch_are_announced_once(data, kind) -> None:
    model, batch = gcn(), data.subgraph(torch.arange(30))
    adversary = kind(data, radius=0.1).attach(model)
    more = torch.cat([batch.edge_index, torch.tensor([[0, 29], [29, 0]])], dim=1)
    fewer = dropout_edge(batch.edge_index, 0.5)[0]
    assert not said(lambda: adversary.average(lambda: loss_of(model, batch, fewer), torch.arange(30)))
    found = said(lambda: [adversary.average(lambda: loss_of(model, batch, more), torch.arange(30)) for _ in range(2)])
    assert found == ["2 links that convs.0 (GCNConv) sees in a batch are not in the adversary's graph."]


def test_links_that_change_later_are_announced(data, kind) -> None:
    """The basis is that of the graph of the first pass."""
    model = gcn()
    adversary = kind(data, radius=0.1).attach(model)
    shuffled = data.edge_index[:, torch.randperm(data.num_edges)]
    same = lambda: [adversary.average(lambda links=links: loss_of(model, data, links)) for links in (None, shuffled)]  # noqa: E731
    assert not said(same)
    other = torch.randperm(NODES, generator=torch.Generator().manual_seed(0))[data.edge_index]
    found = said(lambda: [adversary.average(lambda: loss_of(model, data, other)) for _ in range(3)])
    assert len(found) == 2
    for number, each in enumerate(found):
        assert each.startswith(f"convs.{number} (GCNConv) sends messages along other links than the adversary's graph")


def test_weights_that_change_later_are_announced(data, kind) -> None:
    layer = pyg.GCNConv(FEATURES, CLASSES).double()
    adversary = kind(data, radius=0.1).attach(layer)
    weights = torch.ones(data.num_edges, dtype=torch.float64)
    run = lambda: adversary.average(lambda: layer(data.x, data.edge_index, weights).square().mean())  # noqa: E731
    assert not said(run)
    weights[(data.edge_index == 0).any(dim=0)] = 3.0
    assert "GCNConv multiplies with another matrix" in said(run)[0]


@pytest.mark.parametrize("hook", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_kept_passes_with_batch_normalization(data, kind, reduction, hook) -> None:
    """The statistics go back and forth between passes; the kept ones must not mind."""
    results = []
    for keep in (False, True):
        model = gcn(norm="BatchNorm")
        adversary = kind(data, radius=0.3, samples=3).attach(model)
        if hook and keep:
            next(model.parameters()).register_hook(lambda gradient: gradient)

        def closure(model=model) -> Tensor:
            logits = model(data.x, data.edge_index)
            return nn.functional.cross_entropy(logits, data.y, reduction=reduction if keep else "mean")  # noqa: B023

        adversary.average(closure, keep=keep and not hook).mean().backward()
        tensors = [each.grad for each in (*model.parameters(), adversary.xi)]
        results.append(tensors + [each.double() for each in model.buffers()])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


class Normed(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv, self.norm = pyg.GCNConv(FEATURES, 6), norm
        self.double()

    def forward(self, x, edge_index):
        return self.norm(self.conv(x, edge_index))


NORMS = [
    nn.BatchNorm1d(6), pyg.BatchNorm(6), pyg.InstanceNorm(6, track_running_stats=True), pyg.DiffGroupNorm(6, 2),
]  # fmt: skip


@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: type(norm).__name__)
@pytest.mark.parametrize("whole", [True, False])
def test_statistics_move_once_also_outside_of_the_attached_layer(data, norm, whole) -> None:
    """Without a perturbation all passes are equal, and the step must move as far as one of them."""
    model = Normed(norm)
    before = {name: each.detach().clone() for name, each in model.named_buffers()}
    model(data.x, data.edge_index)
    wanted = {name: each.detach().clone() for name, each in model.named_buffers()}
    model.load_state_dict(before, strict=False)
    adversary = BuresAdversary(data, RANK, 0.0, 5).attach(model if whole else model.conv)
    loss = adversary.average(lambda: model(data.x, data.edge_index).square().mean(), keep=True)
    loss.backward()
    for name, each in model.named_buffers():
        torch.testing.assert_close(each.detach(), wanted[name], rtol=0, atol=1e-14)


def test_an_error_takes_the_statistics_back(data) -> None:
    model = gcn(norm="BatchNorm")
    adversary = BuresAdversary(data, RANK, samples=3).attach(model)
    before = [each.clone() for each in model.buffers()]
    losses = iter([1.0])
    with pytest.raises(StopIteration):
        adversary.average(lambda: loss_of(model, data) * next(losses))
    assert all(torch.equal(one, other) for one, other in zip(model.buffers(), before, strict=True))


def test_a_forgotten_parameter_group_is_announced_once(data, kind) -> None:
    model = gcn()
    adversary = kind(data, radius=0.1, samples=1).attach(model)
    optimizer = torch.optim.Adam(model.parameters())

    def steps(count: int = 20) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            adversary.average(lambda: loss_of(model, data)).backward()
            optimizer.step()

    assert said(steps) == [
        "ξ has not moved in 10 steps of the weights; give it to the optimizer: "
        "optimizer.add_param_group(adversary.parameter_group())."
    ]
    adversary = kind(data, radius=0.1, samples=1)
    with adversary.attach(model):
        optimizer.add_param_group(adversary.parameter_group())
        assert not said(steps)
    for quiet in (kind(data, radius=0.0, samples=1), kind(data, adversarial=False, samples=1)):
        with quiet.attach(model):
            adversary = quiet
            assert not said(steps)


def test_many_averages_of_one_step_are_no_forgotten_group(data) -> None:
    model = gcn()
    adversary = BuresAdversary(data, RANK, samples=1).attach(model)
    assert not said(lambda: [adversary.average(lambda: loss_of(model, data)).backward() for _ in range(30)])


def test_parameters_instead_of_the_group_are_announced(data) -> None:
    """Adam knows ``maximize``: it was not told."""
    model = gcn()
    adversary = BuresAdversary(data, RANK, 0.3).attach(model)
    optimizer = torch.optim.Adam([*model.parameters(), *adversary.parameters()])

    def steps() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            adversary.average(lambda: loss_of(model, data)).backward()
            optimizer.step()

    (found,) = said(steps)
    assert "or got ξ without it, from adversary.parameters()" in found


def test_evaluation_mode_is_announced_once(data, kind) -> None:
    model = gcn().eval()
    for adversary in (kind(data).attach(model), FeatureAdversary().attach(model)):
        with torch.no_grad():
            assert not said(lambda adversary=adversary: adversary.average(lambda: loss_of(model, data)))
        run = lambda adversary=adversary: [adversary.average(lambda: loss_of(model, data)) for _ in range(3)]  # noqa: E731
        (found,) = said(run)
        assert "evaluation mode" in found
        assert "call model.train()" in found


class Own(pyg.MessagePassing):
    def __init__(self) -> None:
        super().__init__("add")
        self.lin = nn.Linear(FEATURES, CLASSES)
        self.double()

    def forward(self, x, edge_index):
        return self.propagate(edge_index, h=self.lin(x))

    def message(self, h_j):
        return h_j


class Bent(Own):
    def message(self, h_j):
        return h_j.relu()


class Differences(Own):
    def message(self, h_i, h_j):
        return h_j - h_i


class Dropped(Own):
    def message(self, h_j):
        return nn.functional.dropout(h_j, 0.5, self.training)


@pytest.mark.parametrize(("layer", "fits"), [(Own, True), (Dropped, True), (Bent, False), (Differences, False)])
def test_messages_of_your_own_are_tried_out(data, layer, fits) -> None:
    model = layer()
    adversary = BuresAdversary(data, RANK).attach(model, also={layer: "h"})
    state = torch.get_rng_state()
    run = lambda: [adversary.average(lambda: model(data.x, data.edge_index).square().mean()) for _ in range(2)]  # noqa: E731
    found = said(run)
    assert [("does not send messages of the form a_ij x_j with x='h'" in each) for each in found] == [True] * (not fits)
    assert (torch.equal(torch.get_rng_state(), state)) == (layer is not Dropped)


def test_a_wrong_name_of_the_propagated_tensor_is_refused(data) -> None:
    model = Own()
    adversary = BuresAdversary(data, RANK).attach(model, also={Own: "x"})
    with pytest.raises(InputError, match="also must name the tensor that Own gives to propagate, one of 'h', got 'x'"):
        adversary.average(lambda: model(data.x, data.edge_index).sum())


def test_hooks_that_change_what_is_propagated_are_refused(data, kind) -> None:
    layer = pyg.GCNConv(FEATURES, CLASSES).double()
    adversary = kind(data, radius=0.1).attach(layer)
    layer.register_propagate_forward_pre_hook(
        lambda module, given: (given[0], given[1], {**given[2], "x": given[2]["x"]})
    )
    with pytest.raises(InputError, match="propagate_forward_pre_hook"):
        adversary.average(lambda: layer(data.x, data.edge_index).sum())


def test_the_radius_can_follow_a_schedule(data, kind) -> None:
    adversary = kind(data, radius=0.1)
    state = adversary.get_generator_state()
    small = adversary.draw().detach()
    adversary.radius = 0.2
    assert adversary.radius == adversary.neighborhood.radius == 0.2
    adversary.set_generator_state(state)
    torch.testing.assert_close(adversary.draw().detach(), 2 * small)
    with pytest.raises(InputError, match=r"radius must be at least 0\.0, got -1"):
        adversary.radius = -1.0


def test_layers_of_two_precisions_keep_the_larger(data) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = pyg.GCNConv(FEATURES, 8).double(), pyg.GCNConv(8, CLASSES)

        def forward(self, x, edge_index):
            return self.second(self.first(x, edge_index).float(), edge_index)

    model = Mixed()
    adversary = BuresAdversary(data, RANK, 0.5, samples=1)
    (change,) = (each.detach() for each in changes(adversary, adversary.xi, data))
    adversary.attach(model)
    with adversary.perturbed(adversary.draw()[0].detach()):
        found = model.first(data.x, data.edge_index)
    adversary.detach()
    torch.testing.assert_close(found, dense_pass(model.first, change)(data.x, data.edge_index), rtol=0, atol=1e-13)


def test_links_that_the_layer_drops_itself_are_named(data) -> None:
    layer = pyg.APPNP(3, 0.1, dropout=0.5)
    adversary = BuresAdversary(data, RANK).attach(layer)
    (found,) = said(lambda: adversary.average(lambda: layer(data.x, data.edge_index).square().mean()))
    assert found.endswith("Its dropout=0.5 drops links in training, which the correction does not follow.")


def several() -> list[Data]:
    """Graphs with numbers of their nodes among all nodes."""
    graphs, first, draw = [], 0, torch.Generator().manual_seed(0)
    for nodes in (12, 9, 15):
        arcs = to_undirected(torch.randint(0, nodes, (2, 3 * nodes), generator=draw))
        x = torch.randn(nodes, FEATURES, generator=draw, dtype=torch.float64)
        graphs.append(Data(x=x, edge_index=arcs, num_nodes=nodes, n_id=torch.arange(first, first + nodes)))
        first += nodes
    return graphs


def test_node_weights_in_batches_of_a_data_loader() -> None:
    graphs, layer = several(), pyg.GCNConv(FEATURES, CLASSES).double()
    adversary = NodeAdversary(graphs, radius=0.4, samples=2).attach(layer)
    draw, whole = adversary.draw()[0].detach(), Batch.from_data_list(graphs)
    with adversary.perturbed(draw):
        wanted = layer(whole.x, whole.edge_index)
    for batch in DataLoader(graphs, batch_size=2, shuffle=True):
        with adversary.perturbed(draw, batch):
            torch.testing.assert_close(layer(batch.x, batch.edge_index), wanted[batch.n_id], rtol=0, atol=1e-13)
        adversary.average(lambda batch=batch: layer(batch.x, batch.edge_index).square().mean(), batch).backward()
    assert adversary.xi.grad.abs().min() > 0
    del graphs[0].n_id
    with pytest.raises(InputError, match=r"graph\.n_id = torch\.arange"):
        adversary.average(lambda: layer(graphs[0].x, graphs[0].edge_index).sum(), graphs[0])


def test_node_weights_with_and_without_weights_of_links(data) -> None:
    data.edge_attr = 1.0 + (data.edge_index.sum(dim=0) % 5).double()
    layer = pyg.GCNConv(FEATURES, CLASSES).double()
    for weights, given in (("auto", (data.edge_attr,)), ("edge_attr", (data.edge_attr,)), (None, ())):
        with NodeAdversary(data, weights=weights).attach(layer) as adversary:
            run = lambda a=adversary, g=given: a.average(lambda: layer(data.x, data.edge_index, *g).square().mean())  # noqa: E731
            assert not said(run)


def relations() -> tuple[HeteroData, dict[tuple[str, str, str], Data]]:
    data, parts = HeteroData(), {}
    data["a"].x = graph().x
    for seed, name in enumerate("rs"):
        key = ("a", name, "a")
        parts[key] = graph(seed=seed)
        parts[key].x = data["a"].x
        data[key].edge_index = parts[key].edge_index
    return data, parts


def test_models_of_several_relations_are_refused_and_each_relation_works() -> None:
    data, parts = relations()
    model = pyg.HeteroConv({key: pyg.SAGEConv(FEATURES, CLASSES) for key in parts}).double()
    other = pyg.to_hetero(pyg.GraphSAGE(FEATURES, 8, 2, CLASSES), data.metadata())
    for each in (model, other):
        with pytest.raises(InputError, match="a layer for each of 2 relations"):
            BuresAdversary(parts["a", "r", "a"], RANK).attach(each)
    adversaries = {key: BuresAdversary(part, RANK, 0.5).attach(model.convs[key]) for key, part in parts.items()}
    wanted = 0.0
    for key, adversary in adversaries.items():
        change = changes(adversary, adversary.xi, parts[key])[0].detach()
        adversary.detach()
        wanted = wanted + dense_pass(model.convs[key], change)(data["a"].x, parts[key].edge_index)
        adversary.attach(model.convs[key])
    first, second = adversaries.values()
    with first.perturbed(first.draw()[0].detach()), second.perturbed(second.draw()[0].detach()):
        found = model(data.x_dict, data.edge_index_dict)["a"]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-13)


def test_a_diagnosis_tells_what_the_adversary_does_and_leaves_no_trace(data, kind) -> None:
    model = gcn(norm="BatchNorm", dropout=0.5)
    options = {"rank": RANK} if kind is BuresAdversary else {}
    adversary = kind(data, radius=0.3, samples=2, **options).attach(model)
    before = [each.clone() for each in (*model.buffers(), adversary.get_generator_state(), torch.get_rng_state())]

    def closure() -> tuple[Tensor, Tensor]:
        logits = model(data.x, data.edge_index)
        return nn.functional.cross_entropy(logits, data.y), logits

    found = adversary.diagnose(closure)
    after = (*model.buffers(), adversary.get_generator_state(), torch.get_rng_state())
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert found.effect > 1e-3
    assert found.perturbed != found.plain
    assert found.moved == 0.0
    model.eval()
    changed = [dense_pass(model, each.detach()) for each in changes(adversary, adversary.xi, data)]
    adversary.detach()
    plain = model(data.x, data.edge_index).detach()
    dense = torch.stack([each(data.x, data.edge_index) for each in changed]).detach()
    adversary.attach(model)
    found = adversary.diagnose(closure)
    wanted = torch.stack([nn.functional.cross_entropy(each, data.y) for each in dense]).mean()
    assert found.effect == pytest.approx(float((dense - plain).abs().mean()), rel=1e-12)
    assert found.perturbed == pytest.approx(float(wanted), rel=1e-12)
    assert found.plain == pytest.approx(float(nn.functional.cross_entropy(plain, data.y)), rel=1e-12)
    with torch.no_grad():
        adversary.xi[0] += 0.25
    assert adversary.diagnose(lambda: closure()[0]).moved == pytest.approx(0.25)
    assert math.isnan(adversary.diagnose(lambda: closure()[0]).effect)


def test_a_diagnosis_leaves_no_trace_outside_of_the_attached_layer_or_after_an_error(data) -> None:
    model = Normed(nn.BatchNorm1d(6))
    adversary = BuresAdversary(data, RANK).attach(model.conv)
    before = [each.clone() for each in (*model.buffers(), adversary.get_generator_state())]
    adversary.diagnose(lambda: model(data.x, data.edge_index).square().mean())
    with pytest.raises(ZeroDivisionError):
        adversary.diagnose(lambda: model(data.x, data.edge_index).sum() / (1 // 0))
    after = (*model.buffers(), adversary.get_generator_state())
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_the_state_of_an_adversary_on_features_holds_its_draws(data) -> None:
    one, other = FeatureAdversary(0.05, seed=1), FeatureAdversary(0.05, seed=2)
    other.load_state_dict(one.state_dict())
    losses = []
    for adversary in (one, other):
        model = gcn()
        losses.append(adversary.attach(model).average(lambda model=model: loss_of(model, data)))
    assert torch.equal(*losses)


def test_a_hook_on_a_parameter_beside_an_adversary_on_features(data) -> None:
    """It needs its gradient at once, and the hook that of all passes."""
    results = []
    for hooked in (False, True):
        model, seen = gcn(), []
        if hooked:
            next(model.parameters()).register_hook(seen.append)
        FeatureAdversary(0.05, samples=3).attach(model).average(lambda model=model: loss_of(model, data)).backward()
        assert len(seen) == hooked
        results.append([each.grad for each in model.parameters()])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14)
