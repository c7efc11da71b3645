"""``fishergcn report``: a page, tables and figures from the runs of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fishergcn._base.terminal import console


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder made by `fishergcn reproduce`, `compare` or `robustness`.")
    ],
    open_page: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
) -> None:
    """Write DIR/report.html (one file, works offline), tables.md, tables.csv and figures/."""
    from fishergcn.report import write_report

    page = write_report(folder).resolve()
    console().print(str(page), soft_wrap=True)
    if open_page:
        import webbrowser

        if not webbrowser.open(page.as_uri()):
            console(stderr=True).print("No browser was found; open the page by hand.")
