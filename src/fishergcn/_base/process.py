"""Processes, and of Python those that import nothing from the working folder.

``python -m`` and ``python -c`` put the working folder first on the path, so that a ``random.py`` beside someone's data
would be run. From Python 3.11 on ``-P`` prevents that; what is done here works from 3.10 on.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fishergcn.errors import FisherGCNError, reason

# Run in the new process. `sys` is built in: nothing is looked up before the path is right. What the path of the parent
# holds comes last, so that it hides neither the standard library nor what is installed.
_START = """
import sys
sys.path[:] = [each for each in sys.path if each]
_, module, source, paths, parent, *arguments = sys.argv
if source not in sys.path:
    sys.path.insert(0, source)
sys.path += [each for each in paths.split("\\n") if each and each not in sys.path]
sys.argv[:] = [module, *arguments]
if parent:
    from fishergcn._base.process import end_with_parent
    end_with_parent(int(parent))
import runpy
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""

_PR_SET_PDEATHSIG = 1  # of the system's headers
_REAPERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "containerd-shim")
_WATCH = 0.25  # seconds between two looks at the parent


class ProcessError(FisherGCNError):
    """The system starts no further process, or the one that started this one is gone."""


def start_python(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None, outlives: bool = False, **options: Any
) -> subprocess.Popen[Any]:
    """Run a module of this package as a program; ``options`` are those of ``subprocess.Popen``.

    Unless it ``outlives`` this process, it ends when this one is gone.

    It finds what this process finds, by the entries of ``sys.path``, but for the empty one: the working folder.
    """
    source = str(Path(__file__).resolve().parents[2])
    paths = "\n".join(os.path.abspath(each) for each in sys.path if each not in ("", "."))
    try:
        os.getcwd()
    except OSError:  # removed: no process could start there
        options.setdefault("cwd", tempfile.gettempdir())
    bond = "" if outlives else str(os.getpid())
    command = [sys.executable, "-c", _START, module, source, paths, bond, *arguments]
    try:
        return subprocess.Popen(command, env=safe_environment() | dict(environment or {}), **options)
    except OSError as error:
        raise ProcessError(
            f"a process cannot be started: {error.strerror or reason(error)}; fewer workers need fewer processes, and "
            "finished runs are saved."
        ) from error


def start_script(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Run a script that needs the standard library alone, and outlives this process; it reads what this one writes.

    Without ``site`` (-S) it needs no files of the environment, and starts in milliseconds.
    """
    command, nothing = [sys.executable, "-I", "-S", "-c", script, *arguments], subprocess.DEVNULL
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, cwd=os.sep, start_new_session=True
    )


@functools.cache
def end_with_parent(parent: int) -> None:
    """Have this process end soon after another is its parent, whatever it is doing.

    A process that was killed says nothing to those that it started.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH)
        os._exit(1)

    if os.name != "posix":
        return
    try:
        threading.Thread(target=watch, daemon=True).start()
    except RuntimeError:  # the system allows no more threads: what needs one, too, says so
        end_at_once()


def end_with_launcher() -> None:
    """Have this process end with torchrun, if that started it.

    On Linux the kernel sees to it: a rank whose peers are gone can wait for them in code that lets no other thread run.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    parent = os.getppid()
    if _takes_orphans(parent):  # it was killed before this process looked
        raise ProcessError("the launcher that started this rank is gone.")
    end_with_parent(parent)
    end_at_once()


def _takes_orphans(process: int) -> bool:
    """Say whether a process is one that children whose parent is gone are given to.

    That is the system's first process, unless it is torchrun itself, as it may be in a container; or one that asks for
    them.
    """
    with contextlib.suppress(OSError):
        if process == 1:
            return not os.path.basename(os.readlink("/proc/1/exe")).startswith(("python", "pypy"))
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip() in _REAPERS
    return process == 1  # whose program other users may not see


def end_at_once() -> None:
    """On Linux, have the kernel end this process with its parent, even in long calls that let no thread run."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # elsewhere
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def ends_well(command: list[str], environment: Mapping[str, str], patience: float, ask: str = "") -> bool:
    """Run a program with some input; return whether it ended with status 0 before ``patience`` seconds passed."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            command,
            env=environment,
            input=ask,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=patience,
            check=False,
        )
        return done.returncode == 0
    return False


def safe_environment() -> dict[str, str]:
    """Return this process's environment, in which Python looks for no module in the working folder."""
    made = dict(os.environ)
    # An empty entry means the working folder, and a relative one is in it.
    entries = [each for each in made.pop("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(each)]
    if entries:
        made["PYTHONPATH"] = os.pathsep.join(entries)
    return made | {"PYTHONSAFEPATH": "1"}
