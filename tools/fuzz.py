"""Fuzz every reader and the command line: bounded, seeded, each in a process with a limit on memory and time.

    python tools/fuzz.py --inputs 2000 --report fuzz.json    all readers, then a table
    python tools/fuzz.py --reader npz --seed 17              one input again, with the traceback
    python tools/fuzz.py --engine atheris --inputs 20000     bytes guided by coverage (pip install atheris)

An input may be accepted, or refused with a FisherGCNError. Everything else is a failure: another exception, more
than 10 seconds (60 for a command), more than 2 GB, a dead process, a temporary file left behind.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "src"))

from fuzz_command import COMMAND, TARGETS

READERS = TARGETS | {"command": COMMAND}
MEMORY = 2 << 30
SECONDS = {"command": 60}


class TooSlow(BaseException):
    """Not an Exception, so that no reader can take it for a damaged file."""


def attempt(name: str, seed: int, data: bytes | None = None, *, limited: bool = True) -> str:
    """Make and read one input; return "accepted" or "refused", or raise what is a failure."""
    from fishergcn.errors import FisherGCNError

    reader, rng = READERS[name], random.Random(f"{name}:{seed}")
    files = reader.spoil(rng, reader.good()) if data is None else _with_bytes(reader.good(), data)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        folder = Path(place)
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        here, away = Path.cwd(), folder / "in" / "here"  # names given as paths, even ../../x, stay in the folder
        away.mkdir(parents=True)
        os.chdir(away)
        signal.alarm(SECONDS.get(name, 10) if limited else 0)
        try:
            reader.read(folder, rng)
            return "accepted"
        except FisherGCNError as error:
            if "\n" in str(error) or not str(error):
                raise AssertionError(f"not one sentence: {str(error)!r}") from error
            return "refused"
        except SystemExit as error:  # of the command line, which has said why
            return "refused" if error.code else "accepted"
        finally:
            signal.alarm(0)
            os.chdir(here)
            left = [path.name for path in folder.rglob(".*")]
            if left:
                raise AssertionError(f"left behind: {left}")


def _with_bytes(files: dict[str, bytes], data: bytes) -> dict[str, bytes]:
    """Put data in the place of one of the files; its first byte says which."""
    names = sorted(files)
    return files | {names[data[0] % len(names)]: data[1:]} if data else files


def limit_memory() -> None:
    """Allow this process 2 GB more than it has now, with everything imported and every good input made."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)


def _alarm(*_: object) -> None:
    raise TooSlow("the time is up")


def prepare(name: str) -> None:
    """Import, warm up, and set the limits."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _alarm)
    # What a whole input needs is imported before any is timed: under atheris that takes many seconds.
    for seed, data in ((-1, b""), (-1, None), (-2, None), (-3, None)):
        with suppress(Exception):
            attempt(name, seed, data, limited=False)
    limit_memory()


def serve(name: str, start: int, stop: int, log: Path) -> None:
    """Try inputs; each gets a line in the log before it is read and one after, so that a crash has a seed too."""
    prepare(name)
    with log.open("a", encoding="utf-8") as stream:
        for seed in range(start, stop):
            print(json.dumps({"seed": seed}), file=stream, flush=True)
            try:
                outcome = {"outcome": attempt(name, seed)}
            except (Exception, TooSlow) as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(place.filename).name}:{place.lineno}"
                outcome = {"outcome": "failed", "error": f"{type(error).__name__}: {error}"[:300], "where": where}
            print(json.dumps(outcome), file=stream, flush=True)


def fuzz(name: str, inputs: int, first: int) -> dict[str, Any]:
    """Try inputs of one reader in processes of their own; one that dies is replaced and counts as a failure."""
    counts: dict[str, Any] = {"inputs": 0, "accepted": 0, "refused": 0, "first_seed": first, "failures": []}
    begun, at = time.monotonic(), first
    with tempfile.TemporaryDirectory() as folder:
        while at < first + inputs:
            log = Path(folder, f"{at}.jsonl")
            log.touch()
            command = [sys.executable, __file__, "--serve", name, str(at), str(first + inputs), str(log)]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            if not lines:
                raise SystemExit(f"{name} does not start: {done.stderr[-2000:]}")
            seed = at
            for line in lines:
                if "seed" in line:
                    seed = line["seed"]
                    counts["inputs"] += 1
                elif line["outcome"] == "failed":
                    counts["failures"].append({"seed": seed, "error": line["error"], "where": line["where"]})
                else:
                    counts[line["outcome"]] += 1
            if "seed" in lines[-1]:
                error = f"the process ended with {done.returncode}: {done.stderr[-200:]}"
                counts["failures"].append({"seed": seed, "error": error, "where": ""})
            at = seed + 1
    return counts | {"seconds": round(time.monotonic() - begun, 1)}


def guided(name: str, inputs: int, seed: int) -> None:
    """Let atheris choose the bytes; it ends the process, with status 0 if nothing failed."""
    import atheris

    source = Path(__file__).parents[1] / "src"
    sources = [*source.rglob("*numba*.py"), *source.rglob("_kernels/*.py")]
    compiled = [path.relative_to(source).with_suffix("").as_posix() for path in sources]
    with atheris.instrument_imports(include=["fishergcn"], exclude=[name.replace("/", ".") for name in compiled]):
        prepare(name)
    corpus = Path(tempfile.mkdtemp(prefix="fuzz-corpus-"))
    for number, data in enumerate(content for _, content in sorted(READERS[name].good().items())):
        (corpus / str(number)).write_bytes(bytes([number]) + data)
    options = [f"-runs={inputs}", f"-seed={seed}", "-max_len=65536", "-rss_limit_mb=0", "-verbosity=0"]
    crashes = f"-artifact_prefix={tempfile.gettempdir()}/fuzz-{name}-"

    def one(data: bytes) -> None:
        attempt(name, 0, data)

    atheris.Setup([sys.argv[0], *options, crashes, str(corpus)], one)
    atheris.Fuzz()


def fuzz_guided(name: str, inputs: int, seed: int) -> dict[str, Any]:
    """Run one reader under atheris in a process of its own; it stops at the first failure."""
    begun = time.monotonic()
    command = [sys.executable, __file__, "--serve-atheris", name, str(inputs), str(seed)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    text = done.stdout + done.stderr
    failures = []
    if done.returncode:
        at = text.find("Uncaught Python exception")
        at = at if at >= 0 else max(len(text) - 1500, 0)
        failures.append({"seed": seed, "error": text[at : at + 1500], "where": "atheris"})
    counts = {"inputs": inputs, "first_seed": seed, "failures": failures}
    return counts | {"seconds": round(time.monotonic() - begun, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", choices=sorted(READERS), action="append")
    parser.add_argument("--inputs", type=int, default=500, help="per reader; a tenth of it for the command line")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seed", type=int, help="read this one input and show what happens")
    parser.add_argument("--engine", choices=("seeds", "atheris"), default="seeds")
    parser.add_argument("--report", type=Path, help="write a JSON report; results of other readers in it are kept")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--serve-atheris", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        name, start, stop, log = options.serve
        serve(name, int(start), int(stop), Path(log))
        return
    if options.serve_atheris:
        name, inputs, seed = options.serve_atheris
        guided(name, int(inputs), int(seed))
        return
    names = options.reader or list(READERS if options.engine == "seeds" else TARGETS)  # commands are not bytes
    if options.seed is not None:
        signal.signal(signal.SIGALRM, _alarm)
        print(attempt(names[0], options.seed))
        return
    failed = 0
    known = json.loads(options.report.read_text()) if options.report and options.report.exists() else {}
    for name in names:
        inputs = max(options.inputs // 10, 1) if name == "command" else options.inputs
        engine = fuzz if options.engine == "seeds" else fuzz_guided
        counts = engine(name, inputs, options.first_seed)
        known.setdefault(options.engine, {})[name] = counts
        failed += len(counts["failures"])
        shown = ", ".join(
            f"{key} {counts[key]}" for key in ("inputs", "accepted", "refused", "seconds") if key in counts
        )
        print(f"{name}: {shown}, failures {len(counts['failures'])}", flush=True)
        for each in counts["failures"][:20]:
            print(f"  seed {each['seed']}: {each['error']} ({each['where']})", flush=True)
        if options.report:
            options.report.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
