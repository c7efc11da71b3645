"""What people see: notes on standard error, tables, and a console that knows whether it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from fishergcn._base.foreign import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console(*, stderr: bool = False) -> Console:
    """Return a console; piped output stays plain and is never cut to a terminal's width."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Printable(Console):
        """A console on which foreign text cannot move the cursor, whichever way it came there."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for each in super().render(renderable, options):
                yield each if each.control else Segment(printable(each.text, keep="\n"), each.style)

    # No markup: names and paths may hold brackets.
    made = Printable(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made = Printable(stderr=stderr, highlight=False, markup=False, emoji=False, width=200, no_color=True)
    return made


def note(text: str) -> None:
    """Say something about the work on standard error, where it does not mix with results."""
    print(f"fishergcn: {printable(text)}", file=sys.stderr, flush=True)


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

    # Escaped before the widths of columns are measured.
    made = Table(title=printable(title, keep="\n"), title_justify="left", box=box.SIMPLE_HEAD)
    for position, column in enumerate(columns):
        made.add_column(
            printable(column, keep="\n"), justify="left" if position == 0 else justify, no_wrap=position == 0
        )
    for row in rows:
        made.add_row(*(printable(cell, keep="\n") for cell in row))
    return made
