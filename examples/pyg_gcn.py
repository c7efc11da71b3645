"""A two-layer GCN on Cora in PyTorch Geometric, as in its own tutorial, with an adversary on the graph.

What the adversary adds to a plain training loop are the lines that end with ``# +``.

    python examples/pyg_gcn.py --epochs 200
"""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv
from torch_geometric.transforms import NormalizeFeatures

import fishergcn
from fishergcn.integrations.pyg import BuresAdversary  # +


class GCN(torch.nn.Module):
    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.conv1 = GCNConv(features, hidden, cached=True)
        self.conv2 = GCNConv(hidden, classes, cached=True)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = F.dropout(x, p=0.5, training=self.training)
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(x, p=0.5, training=self.training)
        return self.conv2(x, edge_index)


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    data = NormalizeFeatures()(fishergcn.datasets.load("cora").to_pyg())
    model = GCN(data.num_features, args.hidden, int(data.y.max()) + 1)
    optimizer = torch.optim.Adam(
        [
            {"params": model.conv1.parameters(), "weight_decay": 5e-4},
            {"params": model.conv2.parameters(), "weight_decay": 0.0},
        ],
        lr=args.lr,
    )
    adversary = BuresAdversary(data, rank=10, radius=0.1, samples=5).attach(model)  # +
    optimizer.add_param_group(adversary.parameter_group())  # +

    def train_loss() -> torch.Tensor:
        out = model(data.x, data.edge_index)
        return F.cross_entropy(out[data.train_mask], data.y[data.train_mask])

    def train() -> float:
        model.train()
        optimizer.zero_grad()
        loss = adversary.average(train_loss)  # +
        loss.backward()
        optimizer.step()
        return loss.item()

    @torch.no_grad()
    def test() -> tuple[float, ...]:
        model.eval()
        right = model(data.x, data.edge_index).argmax(dim=-1) == data.y
        return [float(right[mask].float().mean()) for mask in (data.val_mask, data.test_mask)]

    best_val = test_acc = 0.0
    for epoch in range(1, args.epochs + 1):
        loss = train()
        val_acc, current_test_acc = test()
        if val_acc > best_val:
            best_val, test_acc = val_acc, current_test_acc
        if epoch == 1 or epoch % 20 == 0 or epoch == args.epochs:
            print(f"epoch {epoch:3d}  loss {loss:.4f}  val {val_acc:.4f}  test {test_acc:.4f}")
    return test_acc


if __name__ == "__main__":
    main()
