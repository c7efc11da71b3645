"""The command ``fishergcn``: one file per command, thin shells around the library."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from contextvars import copy_context
from typing import Annotated, NoReturn

import typer

from fishergcn._base.first import STARTED
from fishergcn._base.foreign import printable
from fishergcn._base.memory import lacks_memory
from fishergcn._base.process import end_with_launcher
from fishergcn._version import __version__
from fishergcn.cli import data, geometry, graphs, runs
from fishergcn.cli._common import COMMAND_BEGAN
from fishergcn.cli._help import Command, Group
from fishergcn.cli.certify import certify
from fishergcn.cli.compare import compare
from fishergcn.cli.doctor import doctor
from fishergcn.cli.explain import explain
from fishergcn.cli.fit_large import fit_large
from fishergcn.cli.leaderboard import leaderboard
from fishergcn.cli.predict import predict
from fishergcn.cli.report import report
from fishergcn.cli.reproduce import reproduce
from fishergcn.cli.robustness import robustness
from fishergcn.cli.spectrum import spectrum
from fishergcn.cli.train import train
from fishergcn.cli.tune import tune
from fishergcn.cli.verify import verify
from fishergcn.errors import FisherGCNError, reason

__all__ = ["main"]
SHARED = ("app",)

_UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EBADF, getattr(errno, "EDQUOT", errno.ENOSPC))

app = typer.Typer(
    name="fishergcn",
    cls=Group,
    help="Graph convolutional networks trained in a Fisher-Bures neighborhood of their graph.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # paragraphs of help texts are filled
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order in which people need them.
_COMMANDS = (
    train, predict, explain, leaderboard, tune, compare, fit_large, reproduce, robustness, certify, report, verify,
    spectrum, doctor,
)  # fmt: skip
for _run in _COMMANDS:
    app.command(cls=Command)(_run)
app.add_typer(data.app, name="data")
app.add_typer(runs.app, name="runs")
app.add_typer(geometry.app, name="geometry")
app.add_typer(graphs.app, name="graphs")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fishergcn {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


class _Closed(io.TextIOBase):
    """A standard output that was closed before we began: nobody reads results, which is not success."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def main() -> None:
    """Run the command line; what goes wrong is one sentence on standard error and a non-zero exit status."""
    sys.stdout = sys.stdout or _Closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters shows '?' instead of failing
    try:
        end_with_launcher()
        context = copy_context()
        if STARTED is not None:
            context.run(COMMAND_BEGAN.set, STARTED)
        status = context.run(app, standalone_mode=False)
        sys.stdout.flush()  # now: at exit, Python would report an error with a traceback
    except SystemExit as done:
        status = done.code if isinstance(done.code, int) else 0 if done.code is None else 1
    except Exception as error:
        status = _explain(error)
    _leave(status if isinstance(status, int) else 0)


def _explain(error: Exception) -> int:
    """Say what went wrong in a sentence and return the exit status; what nobody foresaw is raised again."""
    if isinstance(error, BrokenPipeError):  # the reader of the output had enough
        return 128 + 13
    if hasattr(error, "format_message"):  # of the options; which class that is depends on the version of typer
        from typer import rich_utils

        error.message = printable(getattr(error, "message", ""))  # type: ignore[attr-defined]
        with contextlib.suppress(OSError):
            rich_utils.rich_format_error(error)  # type: ignore[arg-type]
        return int(getattr(error, "exit_code", 2))
    if isinstance(error, FisherGCNError):
        sentence = str(error)
    elif lacks_memory(error):
        advice = "fewer hidden units, samples or directions, or a smaller graph need less"
        sentence = f"out of memory; {advice}."
    elif isinstance(error, RuntimeError) and "start new thread" in str(error):
        sentence = "the system does not allow more threads or processes (see ulimit -u); use fewer --workers."
    elif isinstance(error, UnicodeError):
        sentence = f"a name or a path is not valid text ({reason(error)})."
    elif isinstance(error, OSError):
        place = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        if not place and error.errno in _UNWRITABLE:  # files that are written say their names themselves
            place = "cannot write to standard output: "
        sentence = f"{place}{error.strerror or reason(error)}."
    else:
        raise error
    with contextlib.suppress(OSError):
        print(f"fishergcn: error: {printable(sentence)}", file=sys.stderr, flush=True)
    return 2


def _leave(status: int) -> NoReturn:
    """End with a status; under torchrun at once, since the threads of torch.distributed can abort a slow goodbye."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:  # reported already; at exit, Python would try again and print a traceback
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if os.environ.get("WORLD_SIZE", "1") not in ("", "0", "1"):
        os._exit(status)
    sys.exit(status)
