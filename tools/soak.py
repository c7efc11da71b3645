"""Disturb a runner at random moments, again and again, and compare its table with that of an undisturbed one.

    python tools/soak.py --kills 50 --others 50 --log soak.log

A kill is signal 9. Other disturbances are drawn at random: *terminate* (SIGTERM), *pause* (the runner or a worker is
stopped and goes on later), *worker* (a worker is killed), *full* (from a moment on, files may not grow: a full disk),
*remove* (the database, its log or the whole folder is removed), *second* (another runner is started in the folder).

The log has a line for each: the moment, and how many runs were in the database before and after. At the end the run is
completed and every record compared, but for the seconds it took.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import resource
import shutil
import signal
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
    from fishergcn.studies import open_runs

    return [(cell, dataclasses.replace(record, seconds=0.0)) for cell, record in open_runs(folder).entries()]


def complete(folder: Path, workers: int) -> None:
    process = start(folder, workers)
    _, errors = process.communicate(timeout=1200)
    if process.returncode:
        raise SystemExit(f"the runner failed: {errors.decode()[-2000:]}")


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == process.pid and b"_worker" in command:
                found.append(int(entry.name))
    return sorted(found)


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> str:
    """Send a signal, wait for the end, and return what was said at last."""
    process.send_signal(number)
    return said(process)


def said(process: subprocess.Popen[bytes]) -> str:
    _, errors = process.communicate(timeout=600)
    text = errors.decode(errors="replace")
    if "Traceback" in text:
        raise SystemExit(f"the runner failed: {text[-2000:]}")
    return text


class Rough:
    """The disturbances, each of a runner at work in ``folder``; they return what happened, for the log."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.kinds = ("terminate", "pause", "worker", "full", "remove", "second")

    def disturb(self, kind: str, process: subprocess.Popen[bytes]) -> str:
        happened: str = getattr(self, kind)(process)
        return happened

    def terminate(self, process: subprocess.Popen[bytes]) -> str:
        text = end(process, signal.SIGTERM)
        if process.returncode == 143 and "finished runs are kept" not in text:
            raise SystemExit(f"it did not say what is kept: {text[-500:]}")
        return f"status {process.returncode}"

    def pause(self, process: subprocess.Popen[bytes]) -> str:
        chosen = self.rng.choice([process.pid, *workers_of(process)])
        wait = self.rng.uniform(0.1, 3.0)
        os.kill(chosen, signal.SIGSTOP)
        time.sleep(wait)
        os.kill(chosen, signal.SIGCONT)
        time.sleep(self.rng.uniform(0.0, 2.0))
        end(process, signal.SIGKILL)
        return f"{'runner' if chosen == process.pid else 'worker'} stopped for {wait:.1f} s, then kill"

    def worker(self, process: subprocess.Popen[bytes]) -> str:
        found = workers_of(process)
        for each in self.rng.sample(found, min(len(found), 1)):
            os.kill(each, signal.SIGKILL)
        said(process)
        return f"{min(len(found), 1)} of {len(found)} workers killed, status {process.returncode}"

    def full(self, process: subprocess.Popen[bytes]) -> str:
        size = sum(path.stat().st_size for path in self.folder.glob("runs.sqlite*")) // 2 + 4096
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
        text = said(process)
        told = ("runs are saved", "No space", "File too large")
        if process.returncode and not any(words in text for words in told):
            raise SystemExit(f"it did not say that the disk is full: {text[-500:]}")
        return f"no file over {size} bytes, status {process.returncode}"

    def remove(self, process: subprocess.Popen[bytes]) -> str:
        before, copy = count(self.folder), self.folder.with_name("copy")
        until = time.monotonic() + 120
        while process.poll() is None and count(self.folder) <= before and time.monotonic() < until:
            time.sleep(0.02)  # so that it has the database open
        if process.poll() is not None or count(self.folder) == PLANNED:
            said(process)
            return "too late"
        end_of_copy = sqlite3.connect(self.folder / "runs.sqlite")
        copy.mkdir()
        with sqlite3.connect(copy / "runs.sqlite") as target:
            end_of_copy.backup(target)
        target.close()
        end_of_copy.close()
        what = self.rng.choice(("runs.sqlite", "runs.sqlite-wal", "all"))
        shutil.rmtree(self.folder) if what == "all" else (self.folder / what).unlink()
        said(process)
        rescued = self.folder.with_name(f"{self.folder.name}-rescued")
        found = rescued if rescued.exists() else copy  # it ended without another commit
        happened = f"{what} removed, status {process.returncode}, " + (
            f"{count(rescued)} runs rescued" if found is rescued else "nothing was to be committed any more"
        )
        if found is rescued and count(rescued) < count(copy):
            raise SystemExit(f"rescued {count(rescued)} runs of {count(copy)}")
        shutil.rmtree(self.folder, ignore_errors=True)
        found.rename(self.folder)
        for left in (copy, rescued):
            shutil.rmtree(left, ignore_errors=True)
        return happened

    def second(self, process: subprocess.Popen[bytes]) -> str:
        other = start(self.folder, 1)
        text = said(other)
        if process.poll() is None and (other.returncode != 2 or "another runner" not in text):
            raise SystemExit(f"two runners at once: {text[-500:]}")
        said(process)
        return f"status {process.returncode} and {other.returncode}"


def soak(kills: int, others: int, workers: int, seed: int, log: Path | None) -> bool:
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
        note(f"undisturbed: {count(calm)} runs in {duration:.1f} s; {kills} kills and {others} others follow, "
             f"seed {seed}")  # fmt: skip
        lost, within, kill = 0, 0, 0
        place_of = Rough(rough, moments)
        planned = ["kill"] * kills + [place_of.kinds[at % len(place_of.kinds)] for at in range(others)]
        moments.shuffle(planned)
        while planned:
            before = count(rough)
            process = start(rough, workers)
            wait = moments.uniform(0.0, 1.0) * duration
            time.sleep(wait)
            running = process.poll() is None
            happened = ""
            if not running or planned[-1] == "kill":
                end(process, signal.SIGKILL)
            else:
                happened = place_of.disturb(planned[-1], process)
            after = count(rough)
            lost += max(before - after, 0)
            if running:
                kind = planned.pop()
                kill += kind == "kill"
                within += before < after < PLANNED
                what = f"kill {kill}" if kind == "kill" else f"{kind}: {happened}"
                note(f"{what}: after {wait:.3f} s; runs {before} -> {after}")
            else:  # it had done all its work: not a kill
                note(f"ended by itself within {wait:.3f} s; runs {before} -> {after}")
            if after == PLANNED:  # all is done: begin anew, so that kills keep meeting work
                equal = table(rough) == table(calm)
                note(f"complete: tables {'equal' if equal else 'DIFFER'}; begun anew")
                if not equal:
                    return False
                shutil.rmtree(rough)
                rough.mkdir()
        complete(rough, workers)
        equal = table(rough) == table(calm)
        note(f"end: {count(rough)} runs, tables {'equal' if equal else 'DIFFER'}, {lost} committed runs lost, "
             f"{within} of {kills + others} disturbances amid the runs")  # fmt: skip
    return equal and lost == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--others", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=2019)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    sys.exit(0 if soak(options.kills, options.others, options.workers, options.seed, options.log) else 1)


if __name__ == "__main__":
    main()
