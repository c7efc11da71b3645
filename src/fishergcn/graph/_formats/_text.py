"""Rows of a delimited text file, each with its line number."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from fishergcn.errors import DataFileError, reason

Row = tuple[int, list[str]]  # line number, stripped cells

_COMMENTS = ("# ", "#\t", "% ")  # with a blank behind, since '#name' may well be a node


def read_rows(path: Path, *, skip_header: bool) -> Iterator[Row]:
    """Yield the rows of a CSV, TSV or blank-separated file.

    UTF-8 with or without a byte-order mark, any line ends; empty lines and comments at the top are skipped.
    """
    stream = io.StringIO(_decoded(path), newline="")
    skipped = start = 0
    sample = ""
    for sample in stream:
        if sample.strip() and not sample.startswith(_COMMENTS):
            break
        skipped, start = skipped + 1, start + len(sample)
    stream.seek(start)
    delimiter = _delimiter(path, sample)
    reader = csv.reader(stream, delimiter=delimiter, skipinitialspace=True, strict=True)
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
        raise DataFileError(f"{path} line {line}: the quoting or a cell is broken ({reason(error)}).") from error


def _decoded(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataFileError(f"{path} does not exist.") from None
    except OSError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror}.") from error
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise DataFileError(f"{path} line {line}: the file must be UTF-8 text, got binary data or UTF-16.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise DataFileError(f"{path} line {line}: the file must be UTF-8 text, got byte 0x{byte:02x}.") from None


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
        raise DataFileError(f"{path} line {line}: expected {width} cells as in the lines before, got {len(cells)}.")


def is_number(text: str) -> bool:
    """Say whether ``float`` reads the text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def number_cell(path: Path, line: int, cell: str, position: int) -> float:
    """Return a cell as a number, or raise with file, line and the position of the cell from 1."""
    try:
        return float(cell)
    except ValueError:
        got = repr(cell) if cell else "an empty cell"
        raise DataFileError(f"{path} line {line}: cell {position} must be a number, got {got}.") from None
