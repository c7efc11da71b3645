"""Processes whose parent was killed end within two seconds, and leave no temporary files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fishergcn

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

SOURCE = str(Path(fishergcn.__file__).parents[1])
LIMIT = 2.0
# Beside other tests a process may wait long for its turn: there they need only end. The slow tests run on a quieter
# machine, and hold them to the limit.
limits = pytest.mark.parametrize("limit", [30.0, pytest.param(LIMIT, marks=pytest.mark.slow)])
# A parent whose two children do nothing that would notice its end.
PARENT = """
import sys, time
from pathlib import Path
from fishergcn._base.process import start_python
for _ in range(2):
    start_python("idle", temporary=Path(sys.argv[1]))
time.sleep(600)
"""


def marked(mark):
    """Return the processes whose environment holds a mark, as it is handed down."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes() and (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def start(command, mark, **environment):
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCE, "MARK": mark, **environment},
    )


def wait_until(condition, limit):
    until = time.monotonic() + limit
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


def killed(process, mark, count, limit=LIMIT):
    """Kill a process once there are ``count`` in all; return which are left after ``limit`` seconds."""
    try:
        assert wait_until(lambda: len(marked(mark)) >= count or process.poll() is not None, 120)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not marked(mark), limit)
    return marked(mark)


@limits
def test_children_end_with_their_parent_whatever_they_do(tmp_path, limit):
    (tmp_path / "idle.py").write_text("import time\ntime.sleep(600)\n")
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "array").write_text("x")
    mark = f"idle-{os.getpid()}-{limit}"
    parent = start([sys.executable, "-c", PARENT, str(folder)], mark, PYTHONPATH=f"{SOURCE}{os.pathsep}{tmp_path}")
    assert wait_until(lambda: len(marked(mark)) == 3, 60)
    time.sleep(1.0)  # in which they import what they need
    assert killed(parent, mark, 3, limit) == []
    assert not folder.exists()


@limits
def test_what_a_killed_process_shared_is_removed(tmp_path, limit):
    """The kernel ends ranks of torchrun at once: they can remove nothing themselves."""
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "array").write_text("x")
    script = """
import sys, time
from pathlib import Path
from fishergcn._base.process import remove_afterwards
remove_afterwards(Path(sys.argv[1]))
time.sleep(600)
"""
    mark = f"shared-{os.getpid()}-{limit}"
    process = start([sys.executable, "-c", script, str(folder)], mark)
    assert wait_until(lambda: len(marked(mark)) == 2, 60)
    assert folder.exists()
    assert killed(process, mark, 2, limit) == []
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.0, 3.0, 8.0])
def test_workers_of_a_killed_runner(tmp_path, moment):
    mark, temporary = f"runner-{os.getpid()}-{moment}", tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "fishergcn", "reproduce", "quick", "--out", str(tmp_path / "study")]
    options = ["--device", "cpu", "--workers", "2", "--splits", "20", "--seeds", "20"]
    process = start([*command, *options], mark, TMPDIR=str(temporary))
    assert wait_until(lambda: len(marked(mark)) >= 3, 120)
    time.sleep(moment)
    assert killed(process, mark, 3) == []
    assert [*temporary.iterdir()] == []


@pytest.mark.slow
@pytest.mark.parametrize("moment", [1.0, 10.0, 15.0, 20.0])
def test_ranks_of_a_killed_launcher(tmp_path, moment):
    mark = f"rank-{os.getpid()}-{moment}"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    command = ["fishergcn", "train", "--dataset", "cora", "--method", "gcn", "--batch-size", "64", "--fanout", "5,5"]
    options = ["--epochs", "5000", "--device", "cpu", "--out", str(tmp_path / "model"), "--set", "stopping=none"]
    process = start([*launcher, *command, *options], mark)
    assert wait_until(lambda: len(marked(mark)) >= 3, 120)
    time.sleep(moment)
    assert killed(process, mark, 3) == []
