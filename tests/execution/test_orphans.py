"""Processes whose parent was killed end within two seconds, and leave no temporary files."""

from __future__ import annotations

import os
import shutil
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
import time
from fishergcn._base.process import start_python
for _ in range(2):
    start_python("idle")
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
    mark = f"idle-{os.getpid()}-{limit}"
    parent = start([sys.executable, "-c", PARENT], mark, PYTHONPATH=f"{SOURCE}{os.pathsep}{tmp_path}")
    assert wait_until(lambda: len(marked(mark)) == 3, 60)
    time.sleep(1.0)  # in which they import what they need
    assert killed(parent, mark, 3, limit) == []


# A process with three temporary folders, of which it removes one, and a child that goes on writing for a moment.
WRITING = '''
import os, subprocess, sys, time
from fishergcn._base.temporary import new_folder, remove_folder
folders = [new_folder() for _ in range(3)]
remove_folder(folders[0])
child = """
import os, sys, time
for at in range(30):
    os.makedirs(os.path.join(sys.argv[1], str(at)), exist_ok=True)
    time.sleep(0.01)
"""
(folders[1] / "array").write_text("x")
print(*folders, flush=True)
sys.stdin.readline()
subprocess.Popen([sys.executable, "-c", child, str(folders[2])])
os.kill(os.getpid(), 9)
'''


@limits
def test_temporary_folders_of_a_killed_process_are_removed(tmp_path, limit):
    mark = f"folders-{os.getpid()}-{limit}"
    environment = {**os.environ, "PYTHONPATH": SOURCE, "MARK": mark, "TMPDIR": str(tmp_path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", WRITING], env=environment, **pipes) as process:
        folders = process.stdout.readline().split()
        assert [os.path.isdir(each) for each in folders] == [False, True, True]
        assert {oct(os.stat(each).st_mode & 0o777) for each in folders[1:]} == {"0o700"}
        assert len(marked(mark)) == 2  # one waits for all folders
        process.communicate("now\n")
    assert wait_until(lambda: not marked(mark), limit)
    assert [*tmp_path.iterdir()] == []


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


def test_a_rank_whose_launcher_was_killed_before_it_looked(tmp_path):
    """Its parent is then the process that orphans are given to: here one that has such a process's name."""
    place = shutil.copy("/bin/sh", tmp_path / "tini")
    words = [str(place), "-c", f"{sys.executable} -m fishergcn --version; true"]
    environment = {**os.environ, "PYTHONPATH": SOURCE, "TORCHELASTIC_RUN_ID": "x"}
    for command, gone in ((words, True), (["/bin/sh", *words[1:]], False), (words[2].split(";")[0].split(), False)):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.stderr == ("fishergcn: error: the launcher that started this rank is gone.\n" if gone else "")
        assert done.stdout.startswith("fishergcn") != gone


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.0, 0.2, 0.5, 1.0, 10.0, 20.0])
def test_ranks_of_a_killed_launcher(tmp_path, moment):
    mark = f"rank-{os.getpid()}-{moment}"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    command = ["fishergcn", "train", "--dataset", "cora", "--method", "gcn", "--batch-size", "64", "--fanout", "5,5"]
    options = ["--epochs", "5000", "--device", "cpu", "--out", str(tmp_path / "model"), "--set", "stopping=none"]
    process = start([*launcher, *command, *options], mark)
    assert wait_until(lambda: len(marked(mark)) >= 3, 120)
    time.sleep(moment)
    assert killed(process, mark, 3) == []
