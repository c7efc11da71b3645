"""One GPU for several processes at the same time, by NVIDIA's multi-process service (MPS).

Without it a GPU gives each process slices of its time, one after the other. The service is a daemon that comes with the
driver; any user can run one, for the processes that get its folder. Here it is kept by a process of its own, which
this module is when it is started as a program with the index of a GPU as its argument. That process prints one line,
the folder or nothing, and ends the daemon when its input ends: also if its parent was killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path

from fishergcn._base.process import ProcessError, ends_well, start_python

_CONTROL, _PLACE = "nvidia-cuda-mps-control", "/usr/local/nvidia/bin"  # which a container need not have on its path
_FOLDER = "CUDA_MPS_PIPE_DIRECTORY"
_USUAL_FOLDER = "/tmp/nvidia-mps"  # noqa: S108, where a daemon of the whole machine is found
_PATIENCE = 30.0  # seconds, for what takes one or two
_LEFT = "1"  # seconds that processes still have when the daemon ends
_FIRST = 7  # Volta: before it, processes that share a GPU so shared their memory, too
# Checks that a process with this folder can use the GPU, in a process that may hang without harm.
_PROBE = """
import ctypes, sys
cuda, index = ctypes.CDLL("libcuda.so.1"), int(sys.argv[1])
count, device, major, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
steps = (
    lambda: cuda.cuInit(0),
    lambda: cuda.cuDeviceGetCount(ctypes.byref(count)),
    lambda: index >= count.value,
    lambda: cuda.cuDeviceGet(ctypes.byref(device), index),
    lambda: cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device),
    lambda: major.value < int(sys.argv[2]),
    lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
)
sys.exit(any(step() for step in steps))
"""


class SharedGPU:
    """A GPU that some processes of this one share, at the same time where MPS can be had and in turns elsewhere.

    Nothing is started where the machine has the service already, or where ``CUDA_MPS_PIPE_DIRECTORY`` is set: whoever
    sets it decides, and a folder without a daemon means none.
    """

    def __init__(self, index: int) -> None:
        self._keeper: subprocess.Popen[str] | None = None
        if _FOLDER in os.environ or Path(_USUAL_FOLDER, "control").exists() or _program() is None:
            return
        with contextlib.suppress(ProcessError):  # whoever starts the others will see it
            self._keeper = start_python(
                __name__,
                str(index),
                outlives=True,  # it ends the service once the pipe is closed
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C is the parent's to handle
            )

    @cached_property
    def environment(self) -> dict[str, str]:
        """What the processes are to be started with, beside what they have; the first time, this waits for it."""
        folder = "" if self._keeper is None or self._keeper.stdout is None else self._keeper.stdout.readline().strip()
        return _variables(folder) if folder else {}

    def close(self) -> None:
        """End the service, after all who use it."""
        if self._keeper is not None:
            self._keeper.communicate()
            self._keeper = None


def main() -> None:
    """Keep a daemon until the input ends."""
    folder = tempfile.mkdtemp(prefix="fishergcn-mps-")
    try:
        print(folder if _serves(folder, sys.argv[1]) else "", flush=True)
        sys.stdin.read()
    finally:
        _control(folder, ask=f"quit -t {_LEFT}\n")
        shutil.rmtree(folder, ignore_errors=True)


def _serves(folder: str, index: str) -> bool:
    """Start a daemon, and say whether a process can use the GPU by it."""
    probe = [sys.executable, "-I", "-c", _PROBE, index, str(_FIRST)]
    return _control(folder, "-d") and ends_well(probe, dict(os.environ) | _variables(folder), _PATIENCE)


def _control(folder: str, *arguments: str, ask: str = "") -> bool:
    # The daemon serves all GPUs: which of them are visible is a matter of each process that uses it.
    own = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return ends_well([_program() or _CONTROL, *arguments], own | _variables(folder), _PATIENCE, ask)


def _program() -> str | None:
    """Return the program that controls the daemon, never one from the working folder."""
    entries = [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(each)]
    return shutil.which(_CONTROL, path=os.pathsep.join([*entries, _PLACE]))


def _variables(folder: str) -> dict[str, str]:
    return {_FOLDER: folder, "CUDA_MPS_LOG_DIRECTORY": folder}


if __name__ == "__main__":
    main()
