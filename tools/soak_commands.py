"""Kill every kind of command at random moments and compare what it makes in the end with an undisturbed one.

    python tools/soak_commands.py --kills 100 --log results/trust/commands.log
    python tools/soak_commands.py --command tune --command import --kills 4

Each kill is signal 9 to the process that was started, and to no other. Within two seconds all that it started must
have ended, and nothing may be left among temporary files and in shared memory. Then the command is given again until
it ends by itself, and its results are compared record by record, but for seconds and moments.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))
LIMIT = 2.0  # seconds in which all must have ended
RUN = [sys.executable, "-m", "fishergcn"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "fishergcn"]
CPU = ["--device", "cpu"]
STUDY = ["--method", "gcn", "--splits", "2", "--seeds", "3", "--epochs", "15", "--workers", "2", *CPU]


def runs_of(folder: Path) -> Any:
    """Every record of a study."""
    from fishergcn.studies import open_runs

    with open_runs(folder) as runs:
        return sorted(repr((cell, dataclasses.replace(record, seconds=0.0))) for cell, record in runs.entries())


def model_of(folder: Path) -> Any:
    """The records of a saved model, and its weights."""
    runs = json.loads((folder / "runs.json").read_text(encoding="utf-8"))["runs"]
    return [each | {"seconds": 0} for each in runs], (folder / "weights.safetensors").read_bytes()


def trials_of(folder: Path) -> Any:
    """The trials of a search, with what they found."""
    return json.loads((folder / "tuning.json").read_text(encoding="utf-8"))["trials"]


def page_of(folder: Path) -> Any:
    """Every file of a report."""
    names = ("report.html", "tables.csv", "tables.md")
    return {name: (folder / name).read_bytes() for name in names} | {
        path.name: path.read_bytes() for path in (folder / "figures").glob("[!.]*")
    }


def graph_of(folder: Path) -> Any:
    """What identifies a graph."""
    from fishergcn import Graph

    return Graph.load(folder).digest


@dataclasses.dataclass(frozen=True)
class Job:
    """A command that writes OUT; what its results are; and what makes the place where it works ready."""

    command: list[str]
    results: Callable[[Path], Any]
    prepare: Callable[[Path], None] = lambda out: None
    cluster: bool = False
    once: bool = False  # it refuses to write what is there: then it is there as a whole


def _study(out: Path) -> None:
    """A study to report on."""
    subprocess.run([*RUN, "reproduce", "quick", "--out", str(out), *STUDY], check=True, capture_output=True, env=env())


def _table(out: Path) -> None:
    """A table of links that takes a while to read."""
    if not (table := out.with_name("links.csv")).exists():
        rng = random.Random(0)
        table.write_text("".join(f"{rng.randrange(40_000)},{rng.randrange(40_000)}\n" for _ in range(200_000)))


JOBS = {
    "train": Job([*RUN, "train", "--dataset", "cora", "--method", "gcn", "--seeds", "6", "--epochs", "40", "--workers",
                  "2", "--out", "OUT", "--overwrite", *CPU], model_of),
    "tune": Job([*RUN, "tune", "--dataset", "cora", "--method", "gcn", "--trials", "14", "--epochs", "8", "--out",
                 "OUT", "--workers", "1", *CPU], trials_of),
    "compare": Job([*RUN, "compare", "--dataset", "cora", "--method", "mlp", "--out", "OUT", *STUDY], runs_of),
    "robustness": Job([*RUN, "robustness", "--dataset", "cora", "--attack", "links-removed", "--out", "OUT", *STUDY],
                      runs_of),
    "report": Job([*RUN, "report", "OUT"], page_of, _study),
    "import": Job([*RUN, "data", "import", "--edges", "LINKS", "--mapped", "--out", "OUT", "--directed", "symmetrize",
                   "--self-links", "drop"], graph_of, _table,
                  once=True),
    "ray": Job([*RUN, "reproduce", "quick", "--cluster", "ADDRESS", "--out", "OUT", "--method", "gcn", "--splits", "2",
                "--seeds", "4", "--epochs", "15"], runs_of, cluster=True),
    "torchrun": Job([*TORCHRUN, "train", "--dataset", "cora", "--method", "gcn", "--batch-size", "64", "--fanout",
                     "5,5", "--epochs", "8", "--out", "OUT", "--overwrite", *CPU], model_of),
}  # fmt: skip


def env(**more: str) -> dict[str, str]:
    """The environment of what is started."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE), **more}


def marked(mark: str) -> list[int]:
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


def is_open(path: str) -> bool:
    """Say whether a process that lives uses a file: then it is not left behind, but of another command."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if path.encode() in (entry / "maps").read_bytes():
                    return True
            with suppress(OSError):
                if any(os.readlink(each) == path for each in (entry / "fd").iterdir()):
                    return True
    return False


def said_of(number: int) -> str:
    """What a process is and does."""
    try:
        words = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"{words[-60:].strip()} ({Path(f'/proc/{number}/stat').read_text().rpartition(')')[2].split()[0]})"
    except OSError:
        return "one that has ended since"


@contextmanager
def cluster() -> Iterator[str]:
    """A Ray cluster of this machine, beside others that it may have; its address."""
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus", "2",
           "--include-dashboard", "false"]  # fmt: skip
    port, other = _free_ports(2)
    with (
        tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder,
        Path(folder, "said").open("wb") as said,
    ):
        process = subprocess.Popen(
            [*ray, "--port", str(port), "--ray-client-server-port", str(other), "--temp-dir", folder],
            stdout=said, stderr=said, env=env(), start_new_session=True,
        )  # fmt: skip
        try:
            until = time.monotonic() + 120
            while b"Ray runtime started" not in Path(folder, "said").read_bytes():
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"Ray did not start: {Path(folder, 'said').read_text()[-2000:]}")
                time.sleep(0.2)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


class Place:
    """Where one kind of command works, is killed and is compared."""

    def __init__(self, name: str, folder: Path, address: str | None) -> None:
        self.address = address or ""
        self.job, self.out = JOBS[name], folder / "out"
        self.temporary, self.mark = folder / "tmp", f"soak-{name}-{os.getpid()}"
        self.temporary.mkdir(parents=True)
        self.job.prepare(self.out)
        self.pristine = folder / "pristine"
        if self.out.exists():
            shutil.copytree(self.out, self.pristine)
        for _ in range(2):  # the first time, files are read and code is compiled that are there the second time
            begun = time.monotonic()
            self.complete()
            self.seconds, self.wanted = time.monotonic() - begun, self.job.results(self.out)
            self.begin_anew()

    def begin_anew(self) -> None:
        """Have what was there at first."""
        shutil.rmtree(self.out)
        if self.pristine.exists():
            shutil.copytree(self.pristine, self.out)

    def start(self) -> subprocess.Popen[bytes]:
        """Begin, or go on."""
        names = {"OUT": str(self.out), "ADDRESS": self.address, "LINKS": str(self.out.with_name("links.csv"))}
        command = [names.get(word, word) for word in self.job.command]
        environment = env(MARK=self.mark, TMPDIR=str(self.temporary))
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)

    def complete(self) -> None:
        """Give the command until it ends well."""
        if self.job.once and self.out.exists():
            return
        process = self.start()
        _, said = process.communicate(timeout=1200)
        if process.returncode:
            raise SystemExit(f"{self.mark} failed: {said.decode(errors='replace')[-2000:]}")

    def kill(self, wait: float) -> tuple[bool, str]:
        """Kill it after a while; return whether it was at work, and what is wrong, if anything is."""
        shared = {*os.listdir("/dev/shm")}
        process = self.start()
        time.sleep(wait)
        running = process.poll() is None
        process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        while (left := marked(self.mark)) and time.monotonic() - killed < LIMIT:
            time.sleep(0.05)
        wrong = [f"left running: {', '.join(map(said_of, left))}"] if left else []
        for each in left:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.communicate()  # which ends when all have that hold the pipe
        # The launcher of torch makes a folder for logs, which nobody removes if it is killed.
        kept = [path.name for path in self.temporary.iterdir() if not path.name.startswith("torchelastic_")]
        wrong += [f"left in TMPDIR: {kept}"] if kept else []
        more = sorted(name for name in {*os.listdir("/dev/shm")} - shared if not is_open(f"/dev/shm/{name}"))
        wrong += [f"left in /dev/shm: {more}"] if more and not self.job.cluster else []
        hidden = [path.name for path in self.out.parent.iterdir() if path.name.startswith(".")]
        for path in (*self.temporary.iterdir(), *(self.out.parent / name for name in hidden)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return running, "; ".join(wrong)

    def compare(self) -> str:
        """Complete it and compare; begin anew."""
        self.complete()
        found = self.job.results(self.out)
        equal = found == self.wanted
        differ = [name for name in found if found[name] != self.wanted.get(name)] if isinstance(found, dict) else []
        self.begin_anew()
        return "" if equal else f"results DIFFER {', '.join(differ)}"


def soak(names: list[str], kills: int, seed: int, log: Path | None) -> bool:
    """Kill each kind of command its share of times; return whether nothing went wrong."""

    def note(text: str) -> None:
        line = f"{datetime.now(timezone.utc).isoformat(timespec='milliseconds')} {text}"
        print(line, flush=True)
        if log is not None:
            with log.open("a", encoding="utf-8") as stream:
                print(line, file=stream)

    moments, bad, done = random.Random(seed), 0, 0
    for at, name in enumerate(names):
        share = kills // len(names) + (at < kills % len(names))
        with tempfile.TemporaryDirectory() as folder, cluster() if JOBS[name].cluster else nullcontext() as address:
            place = Place(name, Path(folder), address)
            note(f"{name}: undisturbed in {place.seconds:.1f} s; {share} kills follow, seed {seed}")
            number = 0
            while number < share:
                wait = moments.uniform(0.0, place.seconds)
                running, wrong = place.kill(wait)
                number += running  # what had ended by itself was not killed
                if number % 3 == 0 or number == share or not running:  # some kills before it is completed
                    wrong = "; ".join(filter(None, (wrong, place.compare())))
                bad, done = bad + bool(wrong), done + running
                if not running:
                    place.seconds = wait
                state = f"{name} {number}: killed" if running else f"{name}: had ended by itself"
                note(f"{state} after {wait:.3f} s; {wrong or 'as it should be'}")
    note(f"end: {done} kills, {bad} with a fault")
    return bad == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", choices=sorted(JOBS), action="append", help="only these; may be repeated")
    parser.add_argument("--kills", type=int, default=100, help="over all commands")
    parser.add_argument("--seed", type=int, default=2019)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    sys.exit(0 if soak(options.command or list(JOBS), options.kills, options.seed, options.log) else 1)


if __name__ == "__main__":
    main()
