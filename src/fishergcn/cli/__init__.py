"""The command ``fishergcn``: one file per command, thin shells around the library."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, NoReturn

import typer

from fishergcn._version import __version__
from fishergcn.cli import compare, data, geometry, predict, report, reproduce, robustness, runs, spectrum, train, tune
from fishergcn.errors import FisherGCNError

__all__ = ["app", "main"]

app = typer.Typer(
    name="fishergcn",
    help="Graph convolutional networks trained in a Fisher-Bures neighborhood of their graph.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # paragraphs of help texts are filled
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.add_typer(geometry.app, name="geometry")
app.add_typer(runs.app, name="runs")
app.command(name="spectrum")(spectrum.spectrum)
app.command(name="train")(train.train)
app.command(name="tune")(tune.tune)
app.command(name="predict")(predict.predict)
app.command(name="compare")(compare.compare)
app.command(name="report")(report.report)
app.command(name="reproduce")(reproduce.reproduce)
app.command(name="robustness")(robustness.robustness)


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


def main() -> None:
    """Run the command line; what goes wrong is one sentence on standard error and a non-zero exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters shows '?' instead of failing
    try:
        app()
    except FisherGCNError as error:
        typer.echo(f"fishergcn: error: {error}", err=True)
        _leave(2)
    except (MemoryError, RuntimeError) as error:
        if not _is_memory(error):
            raise
        advice = "fewer hidden units, samples or directions, or a smaller graph, would need less"
        typer.echo(f"fishergcn: error: the memory does not suffice; {advice}.", err=True)
        _leave(2)
    except SystemExit as done:
        _leave(done.code if isinstance(done.code, int) else 0 if done.code is None else 1)


def _is_memory(error: Exception) -> bool:
    """Whether memory ran out; torch says so with a RuntimeError, of which only the one of GPUs has its own class."""
    known = ("allocate memory", "out of memory")
    return isinstance(error, MemoryError) or any(words in str(error) for words in known)


def _leave(status: int) -> NoReturn:
    """End with a status; under torchrun at once, since the threads of torch.distributed can abort a slow goodbye."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
