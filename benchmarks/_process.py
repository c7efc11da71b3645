"""Processes of their own for what is measured, with a given number of threads, and their memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
_ROOT = Path(__file__).resolve().parents[1]


def environment(threads: int, source: Path = _ROOT / "src") -> dict[str, str]:
    """Return this process's environment with the thread counts of all libraries set, and a package folder first."""
    limits = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    paths = [str(source), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | limits | {"PYTHONPATH": os.pathsep.join(paths)}


def measure_apart(script: str, *arguments: object, threads: int = 1, source: Path = _ROOT / "src") -> dict[str, Any]:
    """Run a script in a new process, on the package in a folder; return the JSON object in the last line printed."""
    command = [sys.executable, script, *map(str, arguments)]
    done = subprocess.run(command, env=environment(threads, source), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[1:])} ended with status {done.returncode}.")
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def _status_mb(field: str) -> float | None:
    """Read a field of /proc/self/status, in units of 10^6 bytes."""
    path = Path("/proc/self/status")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = next((line.split()[1] for line in lines if line.startswith(field + ":")), None)
    return None if found is None else int(found) * 1024 / 1e6


def peak_mb() -> float:
    """Return the peak of resident memory in this process so far, in units of 10^6 bytes."""
    # ru_maxrss is inherited from the parent process, VmHWM is not; but VmHWM only exists on Linux.
    unit = 1 if sys.platform == "darwin" else 1024
    return _status_mb("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
