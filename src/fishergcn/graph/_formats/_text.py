"""Rows of a delimited text file, each with its line number; lines, files and numbers have limits."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from fishergcn._base.foreign import from_spreadsheet
from fishergcn._base.text import plain_digits
from fishergcn.errors import DataFileError, reason
from fishergcn.graph._formats._source import opened, title

Row = tuple[int, list[str]]  # line number, stripped cells

_COMMENTS = ("# ", "#\t", "% ")  # with a blank behind, since '#name' may well be a node
_DIGIT = re.compile("[1-9]")


def read_rows(path: Path, *, skip_header: bool) -> Iterator[Row]:
    """Yield the rows of a CSV, TSV or blank-separated file.

    UTF-8 with or without a byte-order mark, any line ends; empty lines and comments at the top are skipped. An
    apostrophe that keeps a spreadsheet from taking a cell for a formula is not part of it.
    """
    with opened(path) as stream:
        skipped = start = 0
        sample = ""
        while sample := stream.readline():
            if sample.strip() and not sample.startswith(_COMMENTS):
                break
            skipped, start = skipped + 1, stream.tell()
        stream.seek(start)
        delimiter = _delimiter(path, sample)
        # Not the stream itself: what iterates over it cannot be told where it stands.
        reader = csv.reader(iter(stream.readline, ""), delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            for raw in reader:
                cells = [from_spreadsheet(cell.strip()) for cell in raw]
                if delimiter == " ":  # a run of blanks separates as one does
                    cells = [cell for cell in cells if cell]
                if not any(cells):
                    continue
                if skip_header:
                    skip_header = False
                    continue
                yield skipped + reader.line_num, cells
        except csv.Error as error:
            line = skipped + reader.line_num
            raise DataFileError(
                f"{title(path)} line {line}: the quoting or a cell is broken ({reason(error)})."
            ) from error
        except UnicodeDecodeError as error:  # it was checked before
            raise DataFileError(f"{title(path)} was changed while it was read.") from error


def _delimiter(path: Path, sample: str) -> str:
    unquoted = re.sub(r'"[^"]*"', "", sample.rstrip("\r\n"))
    suffix = path.suffix.lower()
    if "\t" in unquoted or suffix in (".tsv", ".tab"):
        return "\t"
    commas, semicolons = unquoted.count(","), unquoted.count(";")
    if commas or semicolons:
        return ";" if semicolons >= commas else ","  # as many of both: 'a;0,5' with a decimal comma
    return " " if suffix != ".csv" else ","


def require_width(path: Path, line: int, cells: list[str], width: int) -> None:
    """Raise if a row is shorter or longer than the first one."""
    if len(cells) != width:
        raise DataFileError(
            f"{title(path)} line {line}: expected {width} cells as in the lines before, got {len(cells)}."
        )


def is_number(text: str) -> bool:
    """Say whether the text is a number: of ASCII digits, without underscores."""
    try:
        read_number(text)
    except ValueError:
        return False
    return True


def read_number(text: str) -> float:
    """Return a number, or raise a ValueError; Python's own reading of 1_000 and of foreign digits is not a table's.

    Examples
    --------
    >>> read_number("-1e3"), is_number("1_000"), is_number("٣"), is_number("1e-400")
    (-1000.0, False, False, False)
    """
    value = float(plain_digits(text))
    if value == 0.0 and _DIGIT.search(re.split("[eE]", text)[0]):
        raise ValueError("too small for a float")
    return value


def number_cell(path: Path, line: int, cell: str, position: int) -> float:
    """Return a cell as a number, or raise with file, line and the position of the cell from 1."""
    try:
        return read_number(cell)
    except ValueError:
        got = repr(cell) if cell else "an empty cell"
        raise DataFileError(f"{title(path)} line {line}: cell {position} must be a number, got {got}.") from None
