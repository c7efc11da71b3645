"""A model of PyTorch Geometric trained by Lightning, with an adversary on the graph.

What the adversary adds ends with ``# +``. Lightning calls ``backward()`` and ``step()``. It is not among the extras:
``pip install lightning``.

    python examples/pyg_lightning.py --epochs 100
"""

import argparse
import logging

import lightning
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCN
from torch_geometric.transforms import NormalizeFeatures

import fishergcn
from fishergcn.integrations.pyg import BuresAdversary  # +


class Classifier(lightning.LightningModule):
    def __init__(self, data) -> None:
        super().__init__()
        self.net = GCN(data.num_features, 16, num_layers=2, out_channels=int(data.y.max()) + 1, dropout=0.5)
        self.adversary = BuresAdversary(data, rank=10, radius=0.1, samples=5).attach(self.net)  # +
        self.losses = []

    def loss_of(self, data) -> torch.Tensor:
        logits = self.net(data.x, data.edge_index)
        return F.cross_entropy(logits[data.train_mask], data.y[data.train_mask])

    def training_step(self, data, _) -> torch.Tensor:
        loss = self.adversary.average(lambda: self.loss_of(data))  # +
        self.losses.append(loss.item())
        self.log("loss", loss, batch_size=1)
        return loss

    def validation_step(self, data, _) -> None:
        right = self.net(data.x, data.edge_index).argmax(dim=-1) == data.y
        self.log("val", right[data.val_mask].float().mean(), batch_size=1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01, weight_decay=5e-4)
        optimizer.add_param_group(self.adversary.parameter_group())  # +
        return optimizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=100)
    args = parser.parse_args()

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(0)
    data = NormalizeFeatures()(fishergcn.datasets.load("cora").to_pyg())
    model = Classifier(data)
    whole = torch.utils.data.DataLoader([data], batch_size=None)
    trainer = lightning.Trainer(
        max_epochs=args.epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, log_every_n_steps=1,
    )  # fmt: skip
    trainer.fit(model, whole, whole)
    print(f"epoch   1  loss {model.losses[0]:.4f}")
    print(f"epoch {len(model.losses):3d}  loss {model.losses[-1]:.4f}  val {trainer.callback_metrics['val']:.4f}")


if __name__ == "__main__":
    main()
