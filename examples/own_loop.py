"""Your own training loop with the parts of the library: network, neighborhood, operator and adversary.

python examples/own_loop.py --epochs 100
"""

import argparse

import torch
import torch.nn.functional as F

import fishergcn


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    graph = fishergcn.datasets.load("cora")
    split = fishergcn.splits.public(graph)
    train, val = torch.as_tensor(split.train), torch.as_tensor(split.val)
    labels = torch.as_tensor(graph.labels)
    x = torch.as_tensor(graph.features.toarray(), dtype=torch.float32)
    x = x / x.sum(dim=1, keepdim=True).clamp(min=1)

    propagation = fishergcn.renormalized(graph.adjacency)
    neighborhood = fishergcn.Neighborhood(propagation, rank=10, radius=0.1).to(dtype=torch.float32)
    adversary = fishergcn.SpectralAdversary(neighborhood, samples=5)
    model = fishergcn.GCN(x.shape[1], 16, graph.num_classes, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    optimizer.add_param_group(adversary.parameter_group())  # descends in the weights, ascends in ξ

    accuracy = 0.0
    for epoch in range(1, args.epochs + 1):
        model.train()
        optimizer.zero_grad()
        logits = model(x, adversary())  # M perturbed graphs as one batched operator: (5, nodes, classes)
        loss = F.cross_entropy(logits[:, train].flatten(0, 1), labels[train].repeat(adversary.samples))
        loss.backward()
        optimizer.step()

        model.eval()
        with torch.no_grad():
            right = model(x, neighborhood.operator()).argmax(dim=-1) == labels
        accuracy = float(right[val].float().mean())
        if epoch == 1 or epoch % 20 == 0 or epoch == args.epochs:
            print(f"epoch {epoch:3d}  loss {loss.item():.4f}  val {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    main()
