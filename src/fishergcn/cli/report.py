"""``fishergcn report``: a page, tables and figures from the runs of a study."""

from __future__ import annotations

from typing import Annotated

import typer

from fishergcn._base.terminal import console
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json


def report(
    folder: shared.RunsFolder,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    json: shared.Json = False,
) -> None:
    """Turn results into a page: DIR/report.html (works offline), tables.md, tables.csv and figures/."""
    from fishergcn.report import write_report

    page = write_report(folder).resolve()
    if json:
        print_json({"page": str(page)})
    else:
        console().print(str(page), soft_wrap=True)
    if open_page:
        import webbrowser

        if not webbrowser.open(page.as_uri()):
            console(stderr=True).print("No browser was found; open the page yourself.")
