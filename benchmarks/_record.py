"""What every benchmark notes down: the machine it ran on, and a JSON file."""

from __future__ import annotations

import json
import platform
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fishergcn._base.files import write_text
from fishergcn.execution import count_cores


def machine() -> dict[str, Any]:
    """Name the processor, the cores that may be used and the versions in use."""
    cpu = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    packages = {name: version(name) for name in ("numpy", "scipy", "numba") if find_spec(name)}
    return {"cpu": cpu, "cores": count_cores(), "python": platform.python_version(), **packages}


def commit() -> str:
    """Name the commit of this repository, with a plus sign if files differ from it; empty outside of one."""
    place = ("git", "-C", str(Path(__file__).parent))
    found = [
        subprocess.run((*place, *words), capture_output=True, text=True, check=False).stdout.strip()
        for words in (("rev-parse", "--short=10", "HEAD"), ("status", "--porcelain", "--", "../src"))
    ]
    return found[0] + "+" * bool(found[1])


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record as JSON, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(record, indent=2) + "\n")
