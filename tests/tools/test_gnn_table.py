"""The table of networks: fair pairs of runs, runs that survive interruptions, and honest statistics."""

from __future__ import annotations

import importlib
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("torch_geometric")
from torch_geometric.data import Data

from fishergcn import RunRecord, datasets, splits
from fishergcn.errors import DataFileError, InputError
from fishergcn.studies import RunStore, open_runs

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
networks = importlib.import_module("_gnn_networks")
page = importlib.import_module("_gnn_page")
tool = importlib.import_module("gnn_table")
sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def ring():
    """A ring of 60 nodes with chords, three classes, and parts of 20 nodes."""
    rng = np.random.default_rng(0)
    links = {(i, (i + 1) % 60) for i in range(60)} | {tuple(rng.choice(60, 2, replace=False)) for _ in range(60)}
    arcs = sorted({(int(a), int(b)) for a, b in links} | {(int(b), int(a)) for a, b in links})
    labels = torch.arange(60) % 3
    features = torch.nn.functional.one_hot(labels, 8).float() + 0.3 * torch.tensor(rng.random((60, 8))).float()
    data = Data(x=features, edge_index=torch.tensor(arcs).T, y=labels)
    return data, {name: torch.arange(i * 20, i * 20 + 20) for i, name in enumerate(("train", "val", "test"))}


@pytest.mark.parametrize("name", list(networks.SETTINGS))
def test_without_radius_the_adversary_is_the_control(ring, name, monkeypatch):
    # Equal losses need equal initial weights, and in all passes equal dropout masks that no draw of noise shifts.
    control = networks.train(*ring, name, "x5", 3, 4)
    found = {}
    for radius in (0.0, 5.0):
        monkeypatch.setattr(networks, "RADIUS", radius)
        found[radius] = networks.train(*ring, name, "adversary", 3, 4)
    assert found[0.0]["val_loss"] == pytest.approx(control["val_loss"], abs=2e-6)
    assert found[0.0]["test_accuracy"] == control["test_accuracy"]
    assert abs(found[5.0]["val_loss"] - control["val_loss"]) > 1e-5


def test_one_sample_is_the_plain_network(ring, monkeypatch):
    plain = networks.train(*ring, "gcn", "plain", 0, 3)
    monkeypatch.setattr(networks, "SAMPLES", 1)
    assert networks.train(*ring, "gcn", "x5", 0, 3)["val_loss"] == pytest.approx(plain["val_loss"], abs=1e-6)


def test_the_chosen_epoch_has_the_lowest_validation_loss(ring):
    # A run of fewer epochs is the beginning of a longer one, so prefixes give the whole curve of the minimum.
    prefixes = [networks.train(*ring, "gat", "plain", 1, epochs) for epochs in range(1, 9)]
    lowest = [found["val_loss"] for found in prefixes]
    assert lowest == sorted(lowest, reverse=True)
    best = prefixes[-1]["best_epoch"]
    assert lowest[best - 1] == lowest[-1]
    assert best == 1 or lowest[best - 2] > lowest[-1]
    assert prefixes[best - 1]["test_accuracy"] == prefixes[-1]["test_accuracy"]


def options(*words):
    return tool.parser().parse_args(list(words))


@pytest.mark.slow
def test_training_from_the_command_line_and_going_on(tmp_path):
    command = ["--out", str(tmp_path), "--models", "gcn", "--datasets", "cora", "--splits", "1", "--seeds", "1"]
    command += ["--epochs", "2", "--processes", "2"]
    assert tool.main(command) == 0
    with open_runs(tmp_path) as runs:
        before = list(runs.records())
    assert [record.method for record in before] == ["gcn", "gcn-x5", "fishergcn"]
    assert all(0 < record.test_accuracy < 1 and record.split == "shuffled:2019" for record in before)
    assert all(record.extra["network"] == "gcn" and record.extra["best_epoch"] in (1, 2) for record in before)
    assert all("torch_geometric" in record.versions for record in before)
    assert tool.main(command) == 0
    with open_runs(tmp_path) as runs:
        assert list(map(repr, runs.records())) == list(map(repr, before))
    with pytest.raises(DataFileError, match="max_epochs 3 instead of 2"):
        tool.main([*command, "--epochs", "3"])


def test_a_run_in_a_study_is_that_of_its_network(tmp_path):
    command = ["--models", "sage", "--datasets", "cora", "--splits", "1", "--seeds", "1", "--epochs", "2"]
    assert tool.main([*command, "--out", str(tmp_path), "--processes", "1"]) == 0
    cora, device = datasets.load("cora"), torch.device("cpu")
    split = splits.parse(cora, "shuffled:2019")
    parts = {name: torch.tensor(getattr(split, name)) for name in ("train", "val", "test")}
    with open_runs(tmp_path) as runs:
        for name, record in runs.entries():
            alone = networks.train(networks.prepared(cora, device), parts, "sage", name.split()[1], 0, 2)
            assert record.test_accuracy == alone["test_accuracy"]
            assert record.val_cross_entropy == pytest.approx(alone["val_loss"], abs=1e-6)


def test_modes_are_methods_so_that_each_finds_its_control():
    plan = tool.plan_of(options("--splits", "3", "--seeds", "2", "--datasets", "cora", "pubmed"))
    assert (len(plan), plan.measure, plan.seeds) == (3 * 2 * 2 * 5 * 3, "networks", (0, 1))
    cells = {(cell.dataset, cell.name): cell for cell in plan.cells}
    found = {other.name: role for other, role in plan.references(cells["pubmed", "gat adversary"]).items()}
    assert found == {"gat plain": "baseline", "gat x5": "control"}
    assert plan.references(cells["cora", "gat x5"]) == {cells["cora", "gat plain"]: "baseline"}


def row(mode="plain", split=2019, seed=0, accuracy=0.8):
    return mode, f"shuffled:{split}", seed, accuracy


def write(folder, rows):
    """Write made-up runs of the GCN on Cora."""
    plan = tool.plan_of(options("--datasets", "cora", "--models", "gcn", "--splits", "20"))
    cells = {cell.name.split()[1]: cell for cell in plan.cells}
    folder.mkdir()
    with RunStore(folder, writable=True) as store:
        store.begin(plan)
        for mode, split, seed, accuracy in rows:
            cell, status = cells[mode], "ok" if math.isfinite(accuracy) else "diverged"
            record = RunRecord(
                "cora", cell.method, split, seed, status, 200, {"test_accuracy": accuracy}, {}, [], 2.0, "cpu",
                {"torch": "2", "torch_geometric": "2.8"}, cell.config.to_dict(), "0", {**cell.options, "best_epoch": 9},
            )  # fmt: skip
            store.add(cell, [record])
    return folder


GAINS = {2019: (0.02, 0.01), 2020: (0.00, 0.02), 2021: (0.01, 0.03)}  # x5 - plain, adversary - x5


def made_up():
    rows = []
    for split, (gain, effect) in GAINS.items():
        for seed in (0, 1):
            plain = 0.7 + 0.01 * (split - 2019) + 0.005 * seed
            for mode, accuracy in (("plain", plain), ("x5", plain + gain), ("adversary", plain + gain + effect)):
                rows.append(row(mode=mode, split=split, seed=seed, accuracy=accuracy))
    return rows


def test_statistics_of_made_up_runs(tmp_path):
    text = page.table_block(write(tmp_path / "runs", made_up()))
    cells = [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")]
    plain = np.array([70, 70.5, 71, 71.5, 72, 72.5])
    assert cells[:3] == ["Cora", "GCN", f"{plain.mean():.2f} ± {plain.std(ddof=1):.2f}"]
    assert cells[5].startswith("+1.00 [")
    assert cells[6].startswith("+2.00 [")
    assert cells[7] == "3 / 0 / 0"
    low, high = (float(end.replace("−", "-")) for end in re.search(r"\[(.*), (.*)\]", cells[6]).groups())
    # The interval is that of 3 splits, not of 6 runs: Student's with 2 degrees of freedom, t = 4.303, of 1, 2 and 3.
    assert low == pytest.approx(2 - 4.303 / math.sqrt(3), abs=0.01)
    assert high == pytest.approx(2 + 4.303 / math.sqrt(3), abs=0.01)
    assert "18 runs (3 splits, 2 seeds, 200 epochs), 0 of them diverged; 36 seconds" in text
    assert "intervals above zero: 0 of 1; below zero: 0" in text


def test_differences_are_paired(tmp_path):
    # A pair without its partner changes the mean of its mode, never a difference.
    lonely = row(mode="adversary", split=2030, accuracy=0.1)
    differing = page.table_block(write(tmp_path / "runs", [*made_up(), lonely]))
    cells = [cell.strip() for cell in differing.splitlines()[2].strip("|").split("|")]
    assert cells[6].startswith("+2.00 [")
    assert not cells[4].startswith("74.")


def test_diverged_runs_are_counted_and_left_out(tmp_path):
    rows = [*made_up(), row(mode="x5", split=2022, accuracy=math.nan)]
    text = page.table_block(write(tmp_path / "runs", rows))
    assert "1 of them diverged" in text
    assert "nan" not in text


def test_another_study_is_refused(tmp_path):
    with pytest.raises(InputError, match="must hold a study of networks, got one of measure 'attack'"):
        page.table_block(ROOT / "results" / "robustness")
    with pytest.raises(InputError, match="runs of all three modes"):
        page.table_block(write(tmp_path / "runs", [row(), row(mode="x5")]))


def test_the_page_is_rewritten_between_its_marks(tmp_path):
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    target = tmp_path / "page.md"
    target.write_text(text, encoding="utf-8")
    runs = write(tmp_path / "runs", made_up())
    assert tool.main(["--table", str(runs), "--into", str(target)]) == 0
    filled = target.read_text(encoding="utf-8")
    assert "+2.00 [" in filled
    assert page.filled(filled, runs) == filled
    assert "No runs yet" in page.filled(filled, tmp_path / "none")
    outside = re.compile(r"<!-- gnn \w+ -->.*?<!-- end -->", re.DOTALL)
    assert outside.sub("", filled) == outside.sub("", text)


def test_the_settings_on_the_page_are_those_of_the_code():
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert page.settings_block() in text


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(SystemExit):
        tool.main(["--table", "runs"])
    with pytest.raises(SystemExit):
        tool.main(["--out", "runs", "--epochs", "0"])
