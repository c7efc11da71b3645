"""Real processes that are killed, stopped, doubled and damaged: the final table is that of an undisturbed run."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fishergcn.cli import app
from fishergcn.studies import DATABASE, open_runs

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")

RUNS = 12  # 3 methods x 2 splits x 2 seeds
LIMIT = 120.0  # seconds; nothing here takes that long unless it hangs


def start(folder, *options, workers=1, **environment):
    command = [sys.executable, "-m", "fishergcn", "reproduce", "quick", "--out", str(folder), "--device", "cpu"]
    size = [] if "--splits" in options else ["--splits", "2", "--seeds", "2"]
    settings = [*size, "--epochs", "20", "--workers", str(workers)]
    return subprocess.Popen(
        [*command, *settings, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def finish(process):
    out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err


def run_here(folder):
    """Give the same command without a process of its own, which nothing disturbs; return what it prints."""
    command = ["reproduce", "quick", "--out", str(folder), "--device", "cpu"]
    settings = ["--splits", "2", "--seeds", "2", "--epochs", "20", "--workers", "1"]
    done = CliRunner().invoke(app, [*command, *settings], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def count(folder):
    """How many runs are committed, as another process sees it."""
    path = folder / DATABASE
    if not path.exists():
        return 0
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)
        try:
            return connection.execute("SELECT count(*) FROM runs").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.OperationalError:  # the tables are not made yet
        return 0


def wait_for(process, folder, runs):
    until = time.monotonic() + LIMIT
    while count(folder) < runs and process.poll() is None:
        assert time.monotonic() < until, "the runner hangs"
        time.sleep(0.02)


def table(folder):
    return [(name, dataclasses.replace(record, seconds=0.0)) for name, record in open_runs(folder).entries()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert "Paired differences in test accuracy" in run_here(folder)
    found = table(folder)
    assert len(found) == RUNS
    return found


@pytest.mark.slow
def test_killed_three_times(tmp_path, undisturbed):
    moments = random.Random(0)
    for kill in range(3):
        before = count(tmp_path)
        process = start(tmp_path)
        wait_for(process, tmp_path, before + moments.randint(1, 3))
        time.sleep(moments.uniform(0.0, 0.15))
        process.kill()
        finish(process)
        assert count(tmp_path) > before, f"nothing was kept at kill {kill}"
    code, _, err = finish(start(tmp_path))
    assert code == 0, err
    assert "already done" in err
    assert table(tmp_path) == undisturbed


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path):
    """Any moment from the first imports to the middle of the work, with and without worker processes."""
    many = ["--splits", "5", "--seeds", "6"]
    whole = tmp_path / "undisturbed"
    began = time.monotonic()
    process = start(whole, *many)
    wait_for(process, whole, 1)
    until_first = time.monotonic() - began
    assert finish(process)[0] == 0
    folder, shared = tmp_path / "killed", tmp_path / "shared"
    shared.mkdir()
    moments = random.Random(2019)
    seen = []
    for kill in range(20):
        process = start(folder, *many, workers=1 + kill % 2, TMPDIR=str(shared))
        if kill % 4 < 2:  # any moment from the start
            time.sleep(moments.uniform(0.1 * until_first, until_first + 2.0))
        else:  # amid the runs, however slow the machine is
            wait_for(process, folder, seen[-1] + 1)
            time.sleep(moments.uniform(0.0, 0.5))
        process.kill()
        finish(process)
        seen.append(count(folder))
    code, _, err = finish(start(folder, *many))
    assert code == 0, err
    assert seen == sorted(seen)  # nothing committed is ever lost
    assert len({runs for runs in seen if 0 < runs < 90}) >= 5, seen
    assert table(folder) == table(whole)


@pytest.mark.slow
def test_ctrl_c_and_a_second_runner_refused(tmp_path, undisturbed):
    process = start(tmp_path)
    wait_for(process, tmp_path, 1)
    os.kill(process.pid, signal.SIGSTOP)  # so that it is still at work when the second one comes
    code, _, err = finish(start(tmp_path))
    assert code == 2
    assert f"another runner (process {process.pid}) is using {tmp_path}" in err
    os.kill(process.pid, signal.SIGCONT)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130, err
    assert "finished runs are kept; continue with: fishergcn reproduce quick" in err
    assert "Traceback" not in err
    assert 0 < count(tmp_path) < RUNS
    run_here(tmp_path)
    assert table(tmp_path) == undisturbed


def children(pid):
    """The worker processes of a runner."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid and b"_worker" in command:
                found.append(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.slow
def test_a_killed_worker_is_replaced(tmp_path, undisturbed):
    """Killed as soon as it is there: whatever it was doing, its job is done by another."""
    process = start(tmp_path, workers=2)
    until = time.monotonic() + LIMIT
    while not (workers := children(process.pid)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until, "no worker is started"
        time.sleep(0.01)
    os.kill(workers[0], signal.SIGKILL)
    code, _, err = finish(process)
    assert code == 0, err
    assert table(tmp_path) == undisturbed


def test_workers_clean_up_after_a_killed_runner(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    process = start(tmp_path, "--splits", "10", "--seeds", "100", workers=2, TMPDIR=str(shared))  # never done in time
    wait_for(process, tmp_path, 1)
    assert any(shared.glob("fishergcn-*/*/*.npy"))
    process.kill()
    finish(process)
    until = time.monotonic() + LIMIT
    while any(shared.glob("fishergcn-*")):
        assert time.monotonic() < until, "shared files are left behind"
        time.sleep(0.05)


def test_a_damaged_database_is_named(tmp_path):
    (tmp_path / DATABASE).write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    code, out, err = finish(start(tmp_path))
    assert (code, out) == (2, "")
    assert err.startswith(f"fishergcn: error: {tmp_path / DATABASE} is damaged (")
    assert err.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the size of files")
def test_a_file_that_may_not_grow_ends_with_one_sentence_and_then_goes_on(tmp_path, undisturbed):
    """A limit on the size of files stands for a full disk: SQLite cannot write, in a real process."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000));"
        "sys.argv = ['fishergcn', *sys.argv[1:]]; from fishergcn.cli import main; main()"
    )
    options = ["--splits", "2", "--seeds", "2", "--epochs", "20", "--workers", "1", "--device", "cpu"]
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}  # it too writes
    done = subprocess.run(
        [sys.executable, "-c", code, "reproduce", "quick", "--out", str(tmp_path), *options],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env=untraced | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 2, done.stderr
    assert "finished runs are saved: free some space and run the same command again." in done.stderr
    assert "Traceback" not in done.stderr
    assert 0 < count(tmp_path) < RUNS
    run_here(tmp_path)
    assert table(tmp_path) == undisturbed
