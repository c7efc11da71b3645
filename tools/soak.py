"""Kill a runner with -9 at random moments, again and again, and compare its table with that of an undisturbed one.

    python tools/soak.py --kills 50 --log soak.log

The log has a line for each kill: the moment, and how many runs were in the database before and after. At the end
the run is completed and every record compared, but for the seconds it took.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))
SETTINGS = ["--splits", "5", "--seeds", "4", "--epochs", "25", "--device", "cpu"]
PLANNED = 60


def start(folder: Path, workers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "fishergcn", "reproduce", "quick", "--out", str(folder), *SETTINGS]
    paths = f"{SOURCE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return subprocess.Popen(
        [*command, "--workers", str(workers)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
    )


def count(folder: Path) -> int:
    """How many runs are committed, as another process sees it."""
    path = folder / "runs.sqlite"
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)
        try:
            return int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])
        finally:
            connection.close()
    except sqlite3.OperationalError:  # not there yet, or without tables
        return 0


def table(folder: Path) -> list[object]:
    from fishergcn.studies._store import open_runs

    return [(cell, dataclasses.replace(record, seconds=0.0)) for cell, record in open_runs(folder).entries()]


def complete(folder: Path, workers: int) -> None:
    process = start(folder, workers)
    _, errors = process.communicate(timeout=1200)
    if process.returncode:
        raise SystemExit(f"the runner failed: {errors.decode()[-2000:]}")


def soak(kills: int, workers: int, seed: int, log: Path | None) -> bool:
    """Return whether both tables are equal and no committed run was lost."""

    def note(text: str) -> None:
        line = f"{datetime.now(timezone.utc).isoformat(timespec='milliseconds')} {text}"
        print(line, flush=True)
        if log is not None:
            with log.open("a", encoding="utf-8") as stream:
                print(line, file=stream)

    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        calm, rough = Path(place, "calm"), Path(place, "rough")
        calm.mkdir()
        rough.mkdir()
        begun = time.monotonic()
        complete(calm, workers)
        duration = time.monotonic() - begun
        note(f"undisturbed: {count(calm)} runs in {duration:.1f} s; {kills} kills follow, seed {seed}")
        lost, within, kill = 0, 0, 0
        while kill < kills:
            before = count(rough)
            process = start(rough, workers)
            wait = moments.uniform(0.0, 1.0) * duration
            time.sleep(wait)
            running = process.poll() is None
            process.kill()
            process.communicate(timeout=60)
            after = count(rough)
            lost += max(before - after, 0)
            if running:
                kill += 1
                within += before < after < PLANNED
                note(f"kill {kill}: after {wait:.3f} s; runs {before} -> {after}")
            else:  # it had done all its work: not a kill
                note(f"ended by itself within {wait:.3f} s; runs {before} -> {after}")
            if after == PLANNED:  # all is done: begin anew, so that kills keep meeting work
                equal = table(rough) == table(calm)
                note(f"complete: tables {'equal' if equal else 'DIFFER'}; begun anew")
                if not equal:
                    return False
                for path in rough.iterdir():
                    path.unlink()
        complete(rough, workers)
        equal = table(rough) == table(calm)
        note(f"end: {count(rough)} runs, tables {'equal' if equal else 'DIFFER'}, {lost} committed runs lost, "
             f"{within} of {kills} kills amid the runs")  # fmt: skip
    return equal and lost == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=2019)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    sys.exit(0 if soak(options.kills, options.workers, options.seed, options.log) else 1)


if __name__ == "__main__":
    main()
