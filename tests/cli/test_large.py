"""``fishergcn train --batch-size``; its several processes are tested in ``training/test_distributed.py``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fishergcn import TrainConfig, datasets
from fishergcn import train as train_runs
from fishergcn.cli import app
from fishergcn.errors import InputError
from fishergcn.models import load_model
from fishergcn.training import BatchSettings


def train(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)], catch_exceptions=False)


def test_numbers_are_those_of_the_library(tmp_path):
    given = ["--dataset", "cora", "--method", "gcn", "--epochs", 2, "--hidden", 8, "--json"]
    batches = ["--batch-size", 70, "--fanout", "5,-1", "--out", tmp_path / "model"]
    result = train(*given, *batches)
    assert result.exit_code == 0, result.output
    [found] = json.loads(result.stdout)["runs"]
    cora = datasets.load("cora")
    config = TrainConfig.named("general", max_epochs=2, hidden=8)
    [expected] = train_runs(cora, "gcn", "public", config=config, batches=BatchSettings(70, (5, -1)))
    assert found["curves"] == expected.curves
    assert found["test_loss"] == expected.test_loss
    assert load_model(tmp_path / "model").record.test_loss == expected.test_loss


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batch-size", 0, "--fanout", "5,5"], "batch size must be at least 1, got 0"),
        (["--batch-size", 10], "--fanout must be given with --batch-size"),
        (["--fanout", "5,5"], "--fanout goes with --batch-size"),
        (["--batch-size", 10, "--fanout", "5"], "fanout must hold 2 numbers, one for each layer, got 1"),
        (["--batch-size", 10, "--fanout", "5,x"], "--fanout must be whole numbers such as 10,10, got '5,x'"),
        (["--batch-size", 10, "--fanout", "5,5", "--workers", 2], "use torchrun for mini-batches"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(InputError, match=message):
        train("--dataset", "cora", "--method", "gcn", *options)
