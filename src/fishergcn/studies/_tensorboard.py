"""Learning curves for TensorBoard, one event file per run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fishergcn._base.imports import require
from fishergcn.studies._plan import Cell
from fishergcn.training import RunRecord


class CurveWriter:
    """Writes the curves of finished runs to ``folder/DATASET/CELL/SPLIT-SEED``."""

    def __init__(self, folder: str | Path) -> None:
        require("tensorboard", extra="report", purpose="Writing curves for TensorBoard")
        self.folder = Path(folder)

    def write(self, cell: Cell, records: Iterable[RunRecord]) -> None:
        """Write all curves of some runs, then their test scores."""
        from torch.utils.tensorboard import SummaryWriter

        for record in records:
            place = self.folder / cell.dataset / cell.name / f"{record.split.replace(':', '-')}-{record.seed}"
            with SummaryWriter(str(place)) as writer:
                for name, values in record.curves.items():
                    for epoch, value in enumerate(values, start=1):
                        writer.add_scalar(name, value, epoch)
                if record.status == "ok":
                    for name, value in record.scores.items():
                        if name.startswith("test_"):
                            writer.add_scalar(name, value, record.epochs)
