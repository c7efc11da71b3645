"""Numbers and tables as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from fishergcn._base.foreign import for_spreadsheet


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    r"""Return a table as CSV; numbers keep every digit, and text that a spreadsheet would run gets an apostrophe.

    Examples
    --------
    >>> csv_text(["a", "b"], [["x,y", 0.1]])
    'a,b\n"x,y",0.1\n'
    """
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


def plain_digits(text: str) -> str:
    """Return text that may be a number, or raise a ValueError: Python reads 1_000 and the digits of all scripts.

    Examples
    --------
    >>> float(plain_digits("1e3"))
    1000.0
    """
    if "_" in text or not text.isascii():
        raise ValueError("not a number of plain digits")
    return text


def signed_points(value: float, digits: int = 2) -> str:
    """Return a difference of fractions as percentage points, signed, with a true minus.

    Examples
    --------
    >>> signed_points(0.0024), signed_points(-0.00004), signed_points(-0.00004, 3)
    ('+0.24', '0.00', '−0.004')
    """
    text = f"{100 * value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")
