"""Made-up results, so that what reads results can be tested without training."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fishergcn import studies
from fishergcn.studies import RunStore, make_plan
from fishergcn.training import RunRecord


@pytest.fixture(scope="session")
def plan():
    made = make_plan(studies.load_preset("quick"), splits=4, seeds=2, epochs=6)
    return dataclasses.replace(made, changed=())  # as if the preset itself had so few epochs


@pytest.fixture(scope="session")
def make_record(plan):
    """A function that makes up a record: accuracy = 0.8 + luck of the split + gain of the method + noise."""

    def make(cell, split, seed, status="ok"):
        number = int(split.partition(":")[2] or 0)
        rng = np.random.default_rng([number, seed, len(cell.name)])
        luck = np.random.default_rng(number).normal()
        gain = {"gcn": 0.0, "gcn-x5": 0.004}.get(cell.name, 0.005)
        fine = status == "ok"
        scores = {
            "accuracy": 0.8 + 0.02 * luck + gain + 0.001 * rng.normal(),
            "loss": float(np.float32(1.0 + 0.1 * rng.normal())),
            "cross_entropy": float(np.float32(0.7 + 0.1 * rng.normal())),
        }
        epochs = int(rng.integers(3, 7))
        curves = {
            name: rng.random(epochs).tolist() for name in ("train_loss", "train_accuracy", "val_loss", "val_accuracy")
        }
        return RunRecord(
            dataset=cell.dataset,
            method=cell.method,
            split=split,
            seed=seed,
            status=status,
            epochs=epochs,
            scores={f"{part}_{name}": scores[name] for part in ("test", "val") for name in scores if fine},
            curves=curves if fine else {},
            shape=rng.random(10).tolist() if "fisher" in cell.name else [],
            seconds=1.5,
            device="cpu (made up)",
            versions={"fishergcn": "1", "torch": "2"},
            config=cell.config.to_dict(),
            graph_digest=plan.digests[cell.dataset],
        )

    return make


@pytest.fixture
def filled(tmp_path, plan, make_record):
    """A folder with a complete database."""
    folder = tmp_path / "runs"
    folder.mkdir()
    with RunStore(folder, writable=True) as store:
        store.begin(plan, command="fishergcn reproduce quick", created="2026-01-01T00:00:00+00:00")
        for cell in plan.cells:
            store.add(cell, [make_record(cell, split, seed) for split, seed in plan.runs()])
    return folder
