"""``fishergcn verify``: whether a folder from elsewhere is what it seems to be."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from fishergcn._base.terminal import console
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json

_MEMORY = 6 << 30  # bytes of address space more than now, and as many times the size of the folder
_TIMES = 20


def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A model, a study, an archive, a search, or a folder of these.")
    ],
    time_limit: Annotated[
        int, typer.Option("--time-limit", help="Give up after this many seconds.", min=1, max=86_400)
    ] = 120,
    json: shared.Json = False,
) -> None:
    """Check a folder from elsewhere without trusting it: schema, checksums, sizes, links, foreign files.

    Nothing in it is run or followed, and time and memory are bounded. The exit status is 1 if there is a problem. A
    file that the package did not write is listed, but is no problem, since nothing reads it. Checksums find damage:
    whoever made the folder can have made them too.
    """
    from fishergcn.studies import in_words, verify_folder

    with _bounded(folder, time_limit):
        found = verify_folder(folder)
    if json:
        print_json(dataclasses.asdict(found))
    else:
        for line in in_words(found):
            console().print(line, soft_wrap=True, markup=False, highlight=False)
    if found.problems:
        raise typer.Exit(1)


@contextlib.contextmanager
def _bounded(folder: Path, seconds: int) -> Iterator[None]:
    """End this process when the time is up, and let it take only so much memory, where the system can."""
    if os.name != "posix":
        yield
        return
    import resource

    def stop(*_: object) -> None:
        sys.stderr.write(f"fishergcn: error: the folder was not checked within {seconds} s; see --time-limit.\n")
        sys.stderr.flush()
        os._exit(2)

    before = resource.getrlimit(resource.RLIMIT_AS)
    size = sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder)) if folder.is_dir() else 0
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + _MEMORY + _TIMES * size
        if before[1] == resource.RLIM_INFINITY or most < before[1]:
            resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)
