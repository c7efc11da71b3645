"""Long and rough: thousands of runs in one go, and a runner that is killed again and again."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from fishergcn.studies import DATABASE, open_runs

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")]

ROOT = Path(__file__).parents[2]
UNTRACED = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
RUNS = 10_000
PRESET = """
title = "Load"
source = "none"
datasets = ["cora"]
methods = ["gcn"]
seeds = 100
splits = { rule = "shuffled", count = 100 }
config = { max_epochs = 1, hidden = 1 }
"""


def resident(process):
    """Megabytes of memory that a process has now."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def count(path):
    if not path.exists():
        return 0
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute("SELECT count(*) FROM runs").fetchone()[0]
    except sqlite3.OperationalError:  # the tables are not made yet
        return 0
    finally:
        connection.close()


def test_ten_thousand_runs_keep_memory_flat_and_the_database_whole(tmp_path):
    (tmp_path / "load.toml").write_text(PRESET)
    command = [sys.executable, "-m", "fishergcn", "reproduce", str(tmp_path / "load.toml"), "--out", str(tmp_path)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--device", "cpu", "--workers", "1"],
            stdout=log,
            stderr=log,
            env=UNTRACED | {"OMP_NUM_THREADS": "1"},
        )
        try:
            memory = {}  # by number of finished runs
            while process.poll() is None and (done := count(tmp_path / DATABASE)) < RUNS:
                if done:
                    memory[done] = resident(process)
                time.sleep(0.5)
            process.wait(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 0, (tmp_path / "log").read_text()[-2000:]
    early = [value for done, value in memory.items() if 500 <= done < 2_000]
    late = [value for done, value in memory.items() if done > 9_000]
    print(f"resident: {max(early):.0f} MB up to 2,000 runs, {max(late):.0f} MB up to 10,000")
    assert max(late) < max(early) + 30
    entries = Counter((cell, record.split, record.seed) for cell, record in open_runs(tmp_path).entries())
    assert len(entries) == RUNS
    assert set(entries.values()) == {1}


def test_killed_again_and_again(tmp_path):
    log = tmp_path / "soak.log"
    command = [sys.executable, str(ROOT / "tools" / "soak.py"), "--kills", "3", "--others", "6", "--log", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=UNTRACED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tables equal, 0 committed runs lost" in log.read_text()
    lines = log.read_text().splitlines()
    assert sum(" kill " in line and ": after" in line for line in lines) == 3
    for kind in ("terminate", "pause", "worker", "full", "remove", "second"):
        assert sum(f" {kind}: " in line for line in lines) == 1
