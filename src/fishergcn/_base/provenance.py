"""Where and with what a result was made."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import numpy as np
import scipy
import torch

from fishergcn._version import __version__


@cache
def versions() -> dict[str, str]:
    """Return the versions that can change a result."""
    return {
        "fishergcn": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "torch": torch.__version__,
    }


@cache
def device_name(device: torch.device) -> str:
    """Return the name of the processor behind a torch device."""
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    return f"{device.type} ({_cpu_name()})"


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
