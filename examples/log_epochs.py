"""Log every epoch to TensorBoard, MLflow or Weights & Biases with one callback; the library depends on none of them.

The same function serves the library's own training and a loop of one's own.

    python examples/log_epochs.py --to tensorboard --out runs
"""

import argparse
from collections.abc import Callable

import torch
import torch.nn.functional as F

import fishergcn
from fishergcn.execution import Listener

Log = Callable[[int, dict[str, float]], None]


def make_log(kind: str, folder: str) -> Log:
    """Return a function that logs the numbers of an epoch."""
    if kind == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(folder)

        def log(epoch: int, values: dict[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, epoch)
            writer.flush()

    elif kind == "mlflow":
        import mlflow

        mlflow.set_tracking_uri(folder)
        mlflow.start_run()

        def log(epoch: int, values: dict[str, float]) -> None:
            mlflow.log_metrics(values, step=epoch)

    elif kind == "wandb":
        import wandb

        run = wandb.init(project="fishergcn", dir=folder, mode="offline")

        def log(epoch: int, values: dict[str, float]) -> None:
            run.log(values, step=epoch)

    else:

        def log(epoch: int, values: dict[str, float]) -> None:
            print(f"epoch {epoch:3d} ", *(f"{name} {value:.4f}" for name, value in values.items()))

    return log


class Epochs(Listener):
    """Pass each epoch of ``fishergcn.train`` to a function."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def epoch(self, progress) -> None:
        self.log(progress.epoch, {"train/val_accuracy": progress.val_accuracy})


def own_loop(graph: fishergcn.Graph, epochs: int, log: Log) -> None:
    """Call the logger from your own loop, here also with ϕ, the learned shape of the noise."""
    x = torch.as_tensor(graph.features.toarray(), dtype=torch.float32)
    labels, train = torch.as_tensor(graph.labels), torch.as_tensor(fishergcn.splits.public(graph).train)
    around = fishergcn.Neighborhood(fishergcn.renormalized(graph.adjacency), rank=10).to(dtype=torch.float32)
    adversary = fishergcn.SpectralAdversary(around, samples=2)
    model = fishergcn.GCN(x.shape[1], 16, graph.num_classes)
    optimizer = torch.optim.Adam([{"params": model.parameters()}, adversary.parameter_group()], lr=0.01)
    for epoch in range(1, epochs + 1):
        optimizer.zero_grad()
        logits = model(x, adversary())
        loss = F.cross_entropy(logits[:, train].flatten(0, 1), labels[train].repeat(2))
        loss.backward()
        optimizer.step()
        log(epoch, {"own/loss": loss.item(), "own/shape": float(adversary.shape.mean())})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", choices=["print", "tensorboard", "mlflow", "wandb"], default="print")
    parser.add_argument("--out", default="runs", help="the folder of the log")
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()

    log = make_log(args.to, args.out)
    graph = fishergcn.datasets.load("cora")
    config = fishergcn.TrainConfig(max_epochs=args.epochs, stopping="none")
    fishergcn.train(graph, "gcn", "public", config=config, device="cpu", progress=Epochs(log))
    own_loop(graph, args.epochs, log)


if __name__ == "__main__":
    main()
