"""A GPU that processes share: a daemon that is started, asked for, and ended whatever happens to its owner."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from fishergcn import TrainConfig, datasets, splits
from fishergcn._base import mps
from fishergcn.execution import Job
from fishergcn.execution._executors import ProcessExecutor
from fishergcn.training import Run, parse_method, prepare

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
# Writes down how it was called, by whom it would serve, and what it is asked.
CONTROL = """#!/bin/sh
echo "called $* for $CUDA_MPS_PIPE_DIRECTORY visible $CUDA_VISIBLE_DEVICES" >> "$CONTROL_LOG"
case "$1" in -d) exit "$CONTROL_STATUS";; *) cat >> "$CONTROL_LOG";; esac
"""
KEEPER = """
import sys; from fishergcn._base import mps
mps._PROBE = "import sys; sys.exit(int(sys.argv[1]) > 0)"  # there is one GPU
sys.argv = ["mps", sys.argv[1]]
mps.main()
"""


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A stand-in for NVIDIA's program, and what it writes down."""
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text(CONTROL)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CONTROL_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("CONTROL_STATUS", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    monkeypatch.setattr(mps, "_USUAL_FOLDER", str(tmp_path / "none"))
    return tmp_path / "log"


def keeper(index="0"):
    return subprocess.Popen(
        [sys.executable, "-c", KEEPER, index], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_the_daemon_lives_as_long_as_someone_holds_the_other_end(log):
    process = keeper()
    folder = process.stdout.readline().strip()
    assert Path(folder).is_dir()
    assert log.read_text() == f"called -d for {folder} visible \n"  # the daemon serves all GPUs
    process.communicate(timeout=30)
    assert log.read_text().endswith(f"called  for {folder} visible \nquit -t 1\n")
    assert not Path(folder).exists()


def test_the_daemon_ends_when_its_owner_is_killed(log):
    code = "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', sys.argv[1], '0'], stdin=-1)"
    owner = subprocess.Popen(
        [sys.executable, "-c", f"{code}; time.sleep(60)", KEEPER], stdout=subprocess.PIPE, text=True
    )
    folder = Path(owner.stdout.readline().strip())
    assert folder.is_dir()
    os.kill(owner.pid, signal.SIGKILL)
    for _ in range(300):
        if not folder.exists():
            break
        time.sleep(0.1)
    assert not folder.exists()
    assert log.read_text().endswith("quit -t 1\n")
    owner.wait()


@pytest.mark.parametrize(("index", "status"), [("1", "0"), ("0", "1")])
def test_without_a_gpu_or_a_daemon_processes_take_turns(log, monkeypatch, index, status):
    monkeypatch.setenv("CONTROL_STATUS", status)
    process = keeper(index)
    assert process.stdout.readline() == "\n"
    process.communicate(timeout=30)


def test_where_nothing_can_serve_the_environment_stays_as_it_is(log):
    shared = mps.SharedGPU(10_000)  # no machine has so many
    assert shared.environment == {}
    shared.close()
    assert "called -d" in log.read_text()


@pytest.mark.parametrize("reason", ["told", "served", "missing", "only here"])
def test_nothing_is_started_where_it_is_not_wanted(log, monkeypatch, tmp_path, reason):
    if reason == "told":
        monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    elif reason == "served":
        monkeypatch.setattr(mps, "_USUAL_FOLDER", str(tmp_path))
        (tmp_path / "control").touch()
    elif reason == "missing":
        monkeypatch.setattr(mps, "_CONTROL", "no-such-program")
    else:  # in the working folder, where nothing is run
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", f".{os.pathsep}")
        monkeypatch.setattr(mps, "_PLACE", "/nowhere")
    shared = mps.SharedGPU(0)
    assert shared.environment == {}
    shared.close()
    assert not log.exists()


@needs_gpu
@pytest.mark.skipif(mps._program() is None, reason="needs NVIDIA's MPS")
def test_processes_that_share_a_gpu_get_what_those_in_turn_get(monkeypatch, tmp_path):
    cora = datasets.load("cora")
    problem = prepare(cora, parse_method("fishergcn"), TrainConfig(max_epochs=30))
    jobs = [Job(problem, (Run(splits.public(cora), seed), Run(splits.public(cora), seed + 1))) for seed in (0, 2)]

    def found():
        executor = ProcessExecutor(2, device=torch.device("cuda"))
        told = dict(executor._sharing.environment)
        records = [record for _, some in executor.run(jobs) for record in some]
        executor.close()
        return told, sorted((record.seed, record.curves["val_loss"]) for record in records)

    told, shared = found()
    assert told
    assert not Path(told["CUDA_MPS_PIPE_DIRECTORY"]).exists()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    told, in_turn = found()
    assert not told
    assert shared == in_turn
