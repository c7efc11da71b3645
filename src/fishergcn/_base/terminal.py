"""What people see: notes on standard error, tables, and a console that knows whether it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console(*, stderr: bool = False) -> Console:
    """Return a console; piped output stays plain and is never cut to a terminal's width."""
    from rich.console import Console

    # No markup: names and paths may hold brackets.
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made = Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=200, no_color=True)
    return made


def note(text: str) -> None:
    """Say something about the work on standard error, where it does not mix with results."""
    print(f"fishergcn: {text}", file=sys.stderr, flush=True)


def narrow(made: Table) -> Table:
    """Save blanks in a table, so that it fits on 80 columns."""
    made.collapse_padding = True
    return made


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, justify: Literal["left", "right"] = "right"
) -> Table:
    """Return a table whose first column is text and whose others are numbers, unless justified left."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for position, column in enumerate(columns):
        made.add_column(column, justify="left" if position == 0 else justify, no_wrap=position == 0)
    for row in rows:
        made.add_row(*row)
    return made
