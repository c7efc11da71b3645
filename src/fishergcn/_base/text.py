"""Numbers and tables as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    r"""Return a table as CSV; numbers keep every digit.

    Examples
    --------
    >>> csv_text(["a", "b"], [["x,y", 0.1]])
    'a,b\n"x,y",0.1\n'
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    # None and NaN (the one value that differs from itself) are empty cells.
    writer.writerows(["" if cell is None or cell != cell else cell for cell in row] for row in rows)
    return stream.getvalue()


def signed_points(value: float, digits: int = 2) -> str:
    """Return a difference of fractions as percentage points, signed, with a true minus.

    Examples
    --------
    >>> signed_points(0.0024), signed_points(-0.00004), signed_points(-0.00004, 3)
    ('+0.24', '0.00', '−0.004')
    """
    text = f"{100 * value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")
