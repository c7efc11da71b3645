"""What is promised of a GPU: the same chunk gives the same bits, another chunk or the CPU the same up to rounding."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from fishergcn import TrainConfig, backend, datasets, splits, train
from fishergcn.studies import export, open_runs
from fishergcn.training import Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

METHODS = ["gcn", "fishergcn", "gcn-t", "fishergcn-t"]


@pytest.fixture(scope="module")
def cora():
    return datasets.load("cora")


def trained(graph, method, device="cuda", first=0, count=6, **settings):
    chosen = [splits.shuffled(graph, seed) for seed in range(first, first + count)]
    return train(graph, method, chosen, 1, TrainConfig(**settings), device, keep_weights=True)


def curves(records):
    return np.array([record.curves["val_loss"] for record in records])


@pytest.mark.parametrize("method", METHODS)
def test_the_same_chunk_gives_the_same_bits(cora, method):
    one, two = (trained(cora, method, max_epochs=120) for _ in range(2))
    for ours, theirs in zip(one, two, strict=True):
        values, others = ours.to_dict(), theirs.to_dict()
        assert values.pop("seconds") > 0
        assert others.pop("seconds") > 0
        assert json.dumps(values) == json.dumps(others)
        for weight, other in zip(ours.weights.values(), theirs.weights.values(), strict=True):
            assert np.array_equal(weight, other)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_read_later_is_the_same(cora, method, monkeypatch):
    config = TrainConfig.named("general", max_epochs=130).to_dict()
    ahead = trained(cora, method, **config)
    monkeypatch.setattr(Trainer, "ahead", False)
    plain = trained(cora, method, **config)
    assert [record.epochs for record in ahead] == [record.epochs for record in plain]
    for one, other in zip(ahead, plain, strict=True):
        np.testing.assert_allclose(one.curves["val_loss"], other.curves["val_loss"], rtol=1e-4)
        assert one.test_accuracy == pytest.approx(other.test_accuracy, abs=0.002)


@pytest.mark.parametrize("settings", ["paper", "general"])
@pytest.mark.parametrize("method", [*METHODS, "mlp", "gcn-x3-c"])
def test_recorded_epochs_give_the_bits_of_epochs_kernel_by_kernel(cora, method, settings, monkeypatch):
    """Runs stop at different epochs, so that the stack shrinks and is recorded again."""
    config = TrainConfig.named(settings, max_epochs=130).to_dict()
    recorded = trained(cora, method, **config)
    monkeypatch.setattr(Trainer, "ahead", True)  # so that runs leave the stack after the same epochs
    with backend("autograd"):
        plain = trained(cora, method, **config)
    for one, other in zip(recorded, plain, strict=True):
        assert one.curves == other.curves
        assert all(np.array_equal(*pair) for pair in zip(one.weights.values(), other.weights.values(), strict=True))


@pytest.mark.parametrize("score", ["macro-f1", "roc-auc"])
def test_any_score_picks_the_best_epoch_without_waiting_for_the_gpu(cora, score, monkeypatch):
    """Recorded as without it: what a score is computed from is sent with the losses."""
    config = TrainConfig.named("general", max_epochs=60, score=score).to_dict()
    recorded, slow = trained(cora, "gcn", **config), trained(cora, "gcn", "cpu", **config)
    monkeypatch.setattr(Trainer, "ahead", True)
    with backend("autograd"):
        plain = trained(cora, "gcn", **config)
    name = f"val_{score.replace('-', '_')}"
    for one, other, same in zip(recorded, plain, slow, strict=True):
        assert one.curves == other.curves
        assert getattr(one, name) == pytest.approx(max(one.curves[name]), abs=1e-6)
        np.testing.assert_allclose(one.curves[name][:10], same.curves[name][:10], atol=0.02)


@pytest.mark.parametrize("method", METHODS)
def test_another_chunk_gives_the_same_up_to_rounding(cora, method):
    together = trained(cora, method, max_epochs=30, stopping="none")
    alone = trained(cora, method, first=4, count=1, max_epochs=30, stopping="none")
    np.testing.assert_allclose(curves(alone), curves(together)[4:5], rtol=2e-5 if method[-1] != "t" else 1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_the_cpu_gives_the_same_up_to_rounding(cora, method):
    """High-order products are rounded to half precision on the GPU."""
    fast = trained(cora, method, count=2, max_epochs=30, stopping="none")
    slow = trained(cora, method, "cpu", count=2, max_epochs=30, stopping="none")
    np.testing.assert_allclose(curves(fast), curves(slow), rtol=1e-4 if method[-1] != "t" else 2e-3)


WIDE = {"hidden": (128, 128), "own_weights": True, "norm": "layer", "stopping": "none"}


@pytest.mark.parametrize("scaling", ["none", "rows"])
def test_wide_layers_with_their_own_weights_and_norm(cora, scaling):
    """The same bits again; the CPU, and other runs beside it, up to rounding.

    The first steps of Adam are little more than signs, so that the rounding of a gradient near zero moves a weight by
    the learning rate: a small one shows the rounding of the products alone.
    """
    options = {"max_epochs": 20, "scaling": scaling, "dropout": 0.2, "learning_rate": 1e-3, **WIDE}
    one, two = (trained(cora, "gcn", **options) for _ in range(2))
    for ours, theirs in zip(one, two, strict=True):
        assert ours.curves == theirs.curves
        assert all(np.array_equal(*pair) for pair in zip(ours.weights.values(), theirs.weights.values(), strict=True))
    slow = trained(cora, "gcn", "cpu", count=2, **options)
    alone = trained(cora, "gcn", first=4, count=1, **options)
    np.testing.assert_allclose(curves(one)[:2, :10], curves(slow)[:, :10], rtol=2e-4)
    np.testing.assert_allclose(curves(one)[4:5, :10], curves(alone)[:, :10], rtol=2e-4)


def test_the_same_command_gives_the_same_bytes(tmp_path):
    found = []
    for name in ("first", "again"):
        command = [sys.executable, "-m", "fishergcn", "reproduce", "quick", "--out", str(tmp_path / name)]
        done = subprocess.run(
            [*command, "--device", "cuda", "--epochs", "40"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        export(open_runs(tmp_path / name), tmp_path / name / "runs.json")
        records = json.loads((tmp_path / name / "runs.json").read_text())
        found.append([{key: value for key, value in record.items() if key != "seconds"} for record in records])
    assert len(found[0]) > 0
    assert found[0] == found[1]
