"""Numbers and tables as text."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from fishergcn._base.foreign import for_spreadsheet, markdown, printable


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as CSV; numbers keep every digit, and text that a spreadsheet would run gets an apostrophe."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(_cell, columns))
    writer.writerows(map(_cell, row) for row in rows)
    return stream.getvalue()


def _cell(value: Any) -> Any:
    # None and NaN (the one value that differs from itself) are empty cells.
    if value is None or value != value:
        return ""
    return for_spreadsheet(value) if isinstance(value, str) else value


def markdown_table(
    head: Sequence[str], rows: Iterable[Iterable[object]], *, right: Collection[int] = (), escape: bool = True
) -> str:
    """Return a table in Markdown, without a line end after it; cells are escaped unless they hold markup of ours."""
    rule = ["---:" if place in right else "---" for place in range(len(head))]
    cells = [[markdown(cell) if escape else str(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *cells))


def html_table(title: str, rows: Iterable[tuple[str, object]], notes: Sequence[str] = ()) -> str:
    """Return facts as a small table with a caption, for notebooks, after some sentences; all text is escaped."""
    lines = (f"<tr><th>{_html(name)}</th><td>{_html(value)}</td></tr>" for name, value in rows)
    above = (f"<p>{_html(note)}</p>" for note in notes)
    return f"{''.join(above)}<table><caption>{_html(title)}</caption>{''.join(lines)}</table>"


def _html(text: object) -> str:
    return html.escape(printable(text))


def some_of(names: Sequence[object], most: int = 10) -> str:
    """Return how many there are and the first of them: "2 (cat, dog)"."""
    shown = [*map(str, names[:most]), *(["…"] if len(names) > most else [])]
    return f"{len(names)} ({', '.join(shown)})" if shown else "0"


def duration(seconds: float) -> str:
    """Return a time span in words, with two digits."""
    units = (("ms", 1e-3, 1.0), ("s", 1.0, 100.0), ("min", 60.0, 6000.0))
    unit, scale = next(((unit, scale) for unit, scale, end in units if seconds < end), ("h", 3600.0))
    return f"{float(f'{seconds / scale:.2g}'):g} {unit}"


def plain_digits(text: str) -> str:
    """Return text that may be a number, or raise a ValueError: Python reads 1_000 and the digits of all scripts."""
    if "_" in text or not text.isascii():
        raise ValueError("not a number of plain digits")
    return text


def signed(value: float, digits: int = 2) -> str:
    """Return a number with its sign, a true minus; 0 has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def signed_points(value: float, digits: int = 2) -> str:
    """Return a difference of fractions as percentage points, signed."""
    return signed(100 * value, digits)
