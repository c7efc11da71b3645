"""Folders with made-up runs, and the reports written from them (once, since drawing takes seconds)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fishergcn import datasets
from fishergcn.geometry.extrinsic import GeometryRecord, NodeLinks
from fishergcn.report import write_report
from fishergcn.studies import Cell, Plan, Published
from fishergcn.studies._store import RunStore
from fishergcn.training import TrainConfig
from fishergcn.training._records import RunRecord

HOSTILE = "<script>window.hacked = 1</script>"
EIGENVALUES = (1.8 * 0.97 ** np.arange(12)).tolist()
GAINS = {"gcn": 0.0, "gcn-x5": 0.002, "fishergcn": 0.0022}


def _plan(names, *, published=(), variants=(), title="A small experiment", splits=5, seeds=2):
    base = TrainConfig(max_epochs=12, rank=4)
    cells = []
    for name in names:
        cells += [Cell(name, method, method, "", base) for method in GAINS]
        cells += [
            Cell(name, f"fishergcn {label}", "fishergcn", label, TrainConfig(max_epochs=12, **{"rank": 4, **change}))
            for label, change in variants
        ]
    digests = {name: datasets.load(name).digest if name in datasets.available() else "ab" * 32 for name in names}
    splits = tuple(f"shuffled:{seed}" for seed in range(2019, 2019 + splits))
    seeds = tuple(range(2019, 2019 + seeds))
    return Plan("made-up", title, "Nowhere", ("A note.",), tuple(cells), splits, seeds, digests, tuple(published))


def _record(cell, split, seed, digest, status="ok"):
    rng = np.random.default_rng([split_seed(split), seed, *cell.name.encode()])
    luck = np.random.default_rng(split_seed(split)).normal(0, 0.02)
    accuracy = 0.8 + luck + GAINS[cell.method] + rng.normal(0, 0.003) - 0.01 * max(0.0, cell.config.radius - 1)
    epochs = int(rng.integers(8, 13))
    falling = np.exp(-np.arange(epochs) / 4)
    curves = {
        "train_loss": (0.7 + falling + 0.02 * rng.random(epochs)).tolist(),
        "train_accuracy": (0.95 - 0.6 * falling).tolist(),
        "val_loss": (1.0 + falling + 0.02 * rng.random(epochs)).tolist(),
        "val_accuracy": (accuracy - 0.5 * falling).tolist(),
    }
    scores = (accuracy, 1.05 + rng.normal(0, 0.02), 0.7, accuracy, 1.0, 0.7) if status == "ok" else (math.nan,) * 6
    shape = (cell.config.radius * rng.random(4)).tolist() if cell.method == "fishergcn" else []
    versions = {"fishergcn": "0.1.0", "torch": "2.13"}
    return RunRecord(
        cell.dataset, cell.method, split, seed, status, epochs, *scores, curves, shape, 0.5, "cpu", versions,
        cell.config.to_dict(), digest,
    )  # fmt: skip


def split_seed(split):
    return int(split.rpartition(":")[2])


def _fill(folder, plan, *, failing=None, **remarks):
    folder.mkdir(parents=True, exist_ok=True)
    with RunStore(folder, writable=True) as store:
        store.begin(plan, **remarks)
        for name in plan.datasets:
            store.remember(f"spectrum {name} renormalized", lambda: EIGENVALUES)
        for cell in plan.cells:
            records = [_record(cell, split, seed, plan.digests[cell.dataset]) for split, seed in plan.runs()]
            if failing is not None and cell == plan.cells[-1]:
                split, seed = plan.splits[-1], plan.seeds[-1]
                records[-1] = _record(cell, split, seed, plan.digests[cell.dataset], failing)
            store.add(cell, records)
    return folder


@pytest.fixture(scope="session")
def make_plan():
    return _plan


@pytest.fixture(scope="session")
def fill():
    return _fill


@pytest.fixture(scope="session")
def hostile_name():
    return HOSTILE


@pytest.fixture(scope="session")
def plain_report(tmp_path_factory):
    """Return the folder of a report on Cora with published numbers."""
    published = Published("cora", "gcn", "paper", accuracy=0.8, accuracy_std=0.02, loss=1.1)
    folder = _fill(
        tmp_path_factory.mktemp("plain"), _plan(["cora"], published=[published]), command="fishergcn reproduce x"
    )
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def hostile_report(tmp_path_factory):
    """Return the folder of a report in which every text from outside tries to be markup."""
    plan = _plan([HOSTILE, "$x_{$ & </style>"], title="</title><script>window.hacked = 2</script>")
    command = "x </code><img src=x onerror='window.hacked=3'> --out \"a & b\""
    folder = _fill(tmp_path_factory.mktemp("hostile"), plan, failing="failed: <b onclick=x>boom</b>", command=command)
    links = NodeLinks(HOSTILE, HOSTILE, 0.9, ((HOSTILE, "]]>", True, 0.5),), {HOSTILE: 0, "]]>": 1})
    record = GeometryRecord(HOSTILE, (2.0,), (1.0, -1.0), 0.1, (0.2,), (), links)
    (folder / "<b>").mkdir()
    record.save(folder / "<b>" / "geometry.json")
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def ablation_report(tmp_path_factory):
    """Return the folder of a report with variants: three more radii, and one that changes a word."""
    variants = [(f"radius={radius:g}", {"radius": radius}) for radius in (2.0, 0.5, 1.0)]
    variants += [("noise=gaussian", {"noise": "gaussian"}), ("rank=3 radius=2", {"rank": 3, "radius": 2.0})]
    folder = _fill(tmp_path_factory.mktemp("ablation"), _plan(["cora"], variants=variants))
    write_report(folder)
    return folder
