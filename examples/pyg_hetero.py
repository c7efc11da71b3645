"""A graph with several types of nodes: as one homogeneous graph, and why not through ``to_hetero``.

What the adversary adds ends with ``# +``.

    python examples/pyg_hetero.py --epochs 50
"""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.data import HeteroData
from torch_geometric.nn import GCN, SAGEConv, to_hetero
from torch_geometric.transforms import ToUndirected

from fishergcn.errors import InputError
from fishergcn.integrations.pyg import BuresAdversary  # +


def make_data() -> HeteroData:
    """Papers of two fields, and authors who mostly write in one of them."""
    generator = torch.Generator().manual_seed(0)
    papers, authors = torch.arange(60) % 2, torch.arange(30) % 2
    chance = torch.where(authors[:, None] == papers, 0.15, 0.02)
    data = HeteroData()
    for name, labels in (("paper", papers), ("author", authors)):
        data[name].x = torch.randn(len(labels), 8, generator=generator) + 0.5 * labels[:, None]
        data[name].y = labels
    data["author", "writes", "paper"].edge_index = (torch.rand(30, 60, generator=generator) < chance).nonzero().T
    return ToUndirected()(data)


class Mean(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = SAGEConv((-1, -1), 2)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.conv(x, edge_index)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(0)
    data = make_data()

    # All types in one graph: node_type still says which is which, here as a feature.
    whole = data.to_homogeneous()
    x = torch.cat([whole.x, F.one_hot(whole.node_type, 2)], dim=1)
    model = GCN(x.shape[1], 16, num_layers=2, out_channels=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    adversary = BuresAdversary(whole, rank=5, radius=0.3).attach(model)  # +
    optimizer.add_param_group(adversary.parameter_group())  # +
    for epoch in range(1, args.epochs + 1):
        optimizer.zero_grad()
        loss = adversary.average(lambda: F.cross_entropy(model(x, whole.edge_index), whole.y))  # +
        loss.backward()
        optimizer.step()
        if epoch in (1, args.epochs):
            print(f"epoch {epoch:3d}  loss {loss.item():.4f}")

    # Each layer of a model from to_hetero sees one type of links, between different nodes: no graph has that spectrum.
    typed = to_hetero(Mean(), data.metadata())
    try:
        BuresAdversary(whole, rank=5).attach(typed)
    except InputError as error:
        print(f"to_hetero is refused: {error}")


if __name__ == "__main__":
    main()
