"""``fishergcn report``: a page about a model, several models, a search or a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fishergcn._base.terminal import console
from fishergcn.cli import _options as shared
from fishergcn.cli._common import print_json


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            show_default=False,
            help="Folder of a model or of several, of a search (tune, or the OUT-search folder of train), of a "
            "study (reproduce, compare, robustness), or of results on many graphs (graphs ... --out).",
        ),
    ],
    score: shared.Score = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    json: shared.Json = False,
) -> None:
    """Turn a folder into a page, PATH/report.html, which works offline.

    The verdict and one figure come first, then tables that sort, charts that zoom, and what was run. A study also gets
    tables.md, tables.csv and figures/.

    For example: fishergcn report model --open
    """
    from fishergcn.report import write_report

    page = write_report(folder, score=score).resolve()
    if json:
        print_json({"page": str(page)})
    else:
        console().print(str(page), soft_wrap=True)
    if open_page:
        import webbrowser

        if not webbrowser.open(page.as_uri()):
            console(stderr=True).print("No browser was found; open the page yourself.")
