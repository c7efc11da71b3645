"""A two-layer GAT on Cora in PyTorch Geometric, as in its own examples, with an adversary on the graph.

Attention has no fixed matrix to perturb: the adversary takes its basis from the graph without parameters and
adds the correction to what each head aggregates. The lines that it adds to a plain training loop end with
``# +``.

    python examples/pyg_gat.py --epochs 200
"""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv
from torch_geometric.transforms import NormalizeFeatures

import fishergcn
from fishergcn.integrations.pyg import BuresAdversary  # +


class GAT(torch.nn.Module):
    def __init__(self, features: int, hidden: int, classes: int, heads: int) -> None:
        super().__init__()
        self.conv1 = GATConv(features, hidden, heads, dropout=0.6)
        self.conv2 = GATConv(hidden * heads, classes, heads=1, concat=False, dropout=0.6)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = F.dropout(x, p=0.6, training=self.training)
        x = F.elu(self.conv1(x, edge_index))
        x = F.dropout(x, p=0.6, training=self.training)
        return self.conv2(x, edge_index)


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=8)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    data = NormalizeFeatures()(fishergcn.datasets.load("cora").to_pyg())
    model = GAT(data.num_features, args.hidden, int(data.y.max()) + 1, args.heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
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
