"""Mini-batches: whole graphs from a ``DataLoader``, each with its own spectrum, and parts of one graph.

What the adversary adds ends with ``# +``.

    python examples/pyg_batches.py --epochs 20
"""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCN, global_mean_pool
from torch_geometric.utils import erdos_renyi_graph

import fishergcn
from fishergcn.integrations.pyg import AddBuresSpectrum, BuresAdversary  # +


def ring(nodes: int) -> torch.Tensor:
    ends = torch.arange(nodes)
    links = torch.stack([ends, (ends + 1) % nodes])
    return torch.cat([links, links.flip(0)], dim=1)


def whole_graphs(epochs: int) -> list[float]:
    """Distinguish rings from random graphs by the degrees of their nodes."""
    graphs = []
    for number in range(60):
        nodes = 8 + number % 7
        index = ring(nodes) if number % 2 else erdos_renyi_graph(nodes, 0.3)
        degrees = torch.bincount(index[0], minlength=nodes).float()
        x = F.one_hot(degrees.long().clamp(max=5), 6).float()
        graphs.append(Data(x=x, edge_index=index, y=torch.tensor([number % 2]), num_nodes=nodes))
    graphs = [AddBuresSpectrum(rank=4)(each) for each in graphs]  # + or as pre_transform of a data set
    model = GCN(6, 16, num_layers=2, out_channels=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    adversary = BuresAdversary(graphs, radius=0.3, samples=3).attach(model)  # +
    optimizer.add_param_group(adversary.parameter_group())  # +

    def loss_of(batch) -> torch.Tensor:
        return F.cross_entropy(global_mean_pool(model(batch.x, batch.edge_index), batch.batch), batch.y)

    losses = []
    for _ in range(epochs):
        total = 0.0
        for batch in DataLoader(graphs, batch_size=16, shuffle=True):
            optimizer.zero_grad()
            loss = adversary.average(lambda batch=batch: loss_of(batch), batch)  # +
            loss.backward()
            optimizer.step()
            total += loss.item() * batch.num_graphs / len(graphs)
        losses.append(total)
    return losses


def parts_of_a_graph(epochs: int) -> list[float]:
    """A quarter of the nodes of Cora at a time, with their rows of the global basis."""
    data = fishergcn.datasets.load("cora").to_pyg()
    model = GCN(data.num_features, 16, num_layers=2, out_channels=7)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    adversary = BuresAdversary(data, rank=10, radius=0.1, samples=2).attach(model)  # +
    optimizer.add_param_group(adversary.parameter_group())  # +
    losses = []
    for _ in range(epochs):
        total = 0.0
        for nodes in torch.randperm(data.num_nodes).chunk(4):
            part = data.subgraph(nodes)
            optimizer.zero_grad()
            loss = adversary.average(
                lambda part=part: F.cross_entropy(model(part.x, part.edge_index), part.y), nodes
            )  # +
            loss.backward()
            optimizer.step()
            total += loss.item() / 4
        losses.append(total)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)
    for name, run in (("whole graphs", whole_graphs), ("parts of a graph", parts_of_a_graph)):
        losses = run(args.epochs)
        print(f"{name}: loss {losses[0]:.4f} in the first epoch, loss {losses[-1]:.4f} in the last")


if __name__ == "__main__":
    main()
