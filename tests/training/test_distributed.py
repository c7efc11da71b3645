"""Two processes equal one to rounding: real processes, started as a user would."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from fishergcn import Graph, train
from fishergcn.errors import InputError
from fishergcn.splits import Split
from fishergcn.training import BatchSettings, Group, TrainConfig, is_first_process, process_count, process_group


def make_graph():
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    links = np.triu(rng.random((120, 120)) < np.where(labels[:, None] == labels, 0.25, 0.04), 1).astype(float)
    features = rng.random((120, 30)) < 0.1 + 0.3 * (np.arange(30) % 3 == labels[:, None])
    parts = {"train": np.arange(45), "val": np.arange(45, 80), "test": np.arange(80, 120)}
    return Graph(links + links.T, sparse.csr_array(features.astype(float)), labels, name="three", standard_split=parts)


def in_processes(count, *arguments):
    """Run the command line in several processes; return what is printed, by the first alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = [f"--nproc-per-node={count}", "--master-addr=127.0.0.1", f"--master-port={port}"]
    command = [sys.executable, "-m", "torch.distributed.run", *launch, "-m", "fishergcn", "train", *arguments]
    limits = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, env=os.environ | limits, capture_output=True, text=True, timeout=300, check=False)


def shared_files():
    return set(Path(tempfile.gettempdir()).glob("fishergcn-none-*"))


def test_two_processes_equal_one(tmp_path):
    graph = make_graph()
    graph.save(tmp_path / "graph.npz")
    out = tmp_path / "models"
    options = {"max_epochs": 4, "hidden": 8, "rank": 3, "samples": 2, "dtype": "float64", "stopping": "none"}
    options["score"] = "roc-auc"  # which needs the logits of all processes
    settings = [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
    before = shared_files()
    done = in_processes(
        *(2, "--graph", str(tmp_path / "graph.npz"), "--method", "gcn-x2", "--method", "fishergcn", "--json"),
        *("--quiet", "--batch-size", "16", "--fanout", "4,3", "--out", str(out), *settings),
    )
    assert done.returncode == 0, done.stderr
    assert shared_files() <= before
    found = {run["method"]: run for run in json.loads(done.stdout)["runs"]}
    split = Split("public", *graph.standard_split.values())
    for method in ("gcn-x2", "fishergcn"):
        config = TrainConfig.named("general", **options)
        [one] = train(graph, method, split, config=config, device="cpu", batches=BatchSettings(16, (4, 3)))
        for name, values in one.curves.items():
            np.testing.assert_allclose(found[method]["curves"][name], values, rtol=1e-11, err_msg=name)
        assert found[method]["test_loss"] == pytest.approx(one.test_loss, rel=1e-11)
        np.testing.assert_allclose(found[method]["shape"], one.shape, rtol=1e-11)
        assert (out / method / "weights.safetensors").is_file()


@pytest.mark.slow
def test_refusals_end_all_processes(tmp_path):
    graph = make_graph()
    graph.save(tmp_path / "graph.npz")
    given = ("--graph", str(tmp_path / "graph.npz"), "--method", "fishergcn", "--quiet", "--epochs", "1")
    done = in_processes(2, *given)
    assert done.returncode != 0
    assert "torchrun needs a batch size: its processes share mini-batches." in done.stderr
    done = in_processes(2, *given, "--batch-size", "1", "--fanout", "2,2")
    assert done.returncode != 0
    assert "each of the 2 processes needs a node of every batch" in done.stderr
    done = in_processes(2, *given, "--batch-size", "9", "--fanout", "2,2", "--rank", "500")
    assert done.returncode != 0
    assert "rank must be between" in done.stderr


class TestAlone:
    def test_nothing_changes(self):
        group = Group()
        values = [torch.ones(2), torch.zeros(1)]
        assert group.add(values) == values
        assert group.add_with_gradient(values[0]) is values[0]
        assert group.holders(np.array([3, 5]), 9).tolist() == [1, 1]
        assert group.share(np.arange(4)).tolist() == [0, 1, 2, 3]
        assert group.first

    def test_shares_are_a_partition(self):
        nodes = np.arange(11)
        shares = [Group(rank, 3).share(nodes) for rank in range(3)]
        assert sorted(np.concatenate(shares)) == nodes.tolist()

    def test_without_torchrun(self, monkeypatch):
        monkeypatch.delenv("RANK", raising=False)
        assert process_count() == 1
        assert is_first_process()
        with process_group(torch.device("cpu")) as (group, device):
            assert (group.rank, group.size, device.type) == (0, 1, "cpu")
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "4")
        assert process_count() == 4
        assert not is_first_process()

    def test_an_error_is_raised_as_it_is(self):
        with pytest.raises(InputError, match="mine"):
            Group().agree(InputError("mine"))
