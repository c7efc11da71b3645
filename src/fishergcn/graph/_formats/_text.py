"""Rows of a delimited text file, each with its line number; lines, files and numbers have limits."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from pathlib import Path

from fishergcn._base.foreign import from_spreadsheet
from fishergcn._base.text import plain_digits
from fishergcn.errors import DataFileError, reason
from fishergcn.graph._formats._source import opened, suffix_of, title

Row = tuple[int, list[str]]  # line number, stripped cells

_COMMENTS = ("# ", "#\t", "% ")  # with a blank behind, since '#name' may well be a node
_DIGIT = re.compile("[1-9]")
_LONGEST_ATTRIBUTES = 10_000
_SEPARATOR = re.compile(r"\s*\"?sep=([;,|:\t ])\"?\s*", re.IGNORECASE)  # a first line that spreadsheets write and obey


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a CSV, TSV or blank-separated file, or of an edge list with attributes as NetworkX writes it.

    UTF-8 with or without a byte-order mark, or UTF-16 with one; any line ends; empty lines and comments at the top are
    skipped. An apostrophe that keeps a spreadsheet from taking a cell for a formula is not part of it.
    """
    with opened(path) as stream:
        skipped = start = 0
        sample = said = ""
        while sample := stream.readline():
            if found := _SEPARATOR.fullmatch(sample[:20]):
                said = found[1]
            elif sample.strip() and not sample.startswith(_COMMENTS):
                break
            skipped, start = skipped + 1, stream.tell()
        stream.seek(start)
        if _has_attributes(sample):
            yield from _rows_with_attributes(path, skipped, iter(stream.readline, ""))
            return
        delimiter = said or _delimiter(path, sample)
        # Not the stream itself: while it is iterated over, its position is unknown.
        reader = csv.reader(iter(stream.readline, ""), delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            for raw in reader:
                cells = list(map(str.strip, raw))
                if "'" in "".join(cells):
                    cells = list(map(from_spreadsheet, cells))
                if delimiter == " ":  # a run of blanks separates as one does
                    cells = [cell for cell in cells if cell]
                if not any(cells):
                    continue
                yield skipped + reader.line_num, cells
        except csv.Error as error:
            line = skipped + reader.line_num
            raise DataFileError(
                f"{title(path)} line {line}: the quoting or a cell is broken ({reason(error)})."
            ) from error
        except UnicodeDecodeError as error:  # it was checked before
            raise DataFileError(f"{title(path)} was changed while it was read.") from error


def _has_attributes(line: str) -> bool:
    """Say whether a line is a link as NetworkX writes it: two ids and attributes in braces, equally separated."""
    head, brace, tail = line.partition("{")
    ends = head.strip(" \t,;")
    if not brace or not tail.rstrip().endswith("}") or ends == head or len(re.split(r"[\s,;]+", ends)) != 2:
        return False
    return ends.count(head[len(head.rstrip(" \t,;")) :]) == 1


def _rows_with_attributes(path: Path, skipped: int, lines: Iterator[str]) -> Iterator[Row]:
    """Yield names, which are those of the first line's attributes, as line 0, and a row for each link."""
    names: list[str] | None = None
    for number, line in enumerate(lines, skipped + 1):
        if not line.strip():
            continue
        ends, attributes = _parse_attributes(path, number, line)
        if names is None:
            names = list(attributes)
            yield 0, ["source", "target", *names]
        if not attributes.keys() <= set(names):
            new = next(name for name in attributes if name not in names)
            raise DataFileError(
                f"{title(path)} line {number}: attribute {new!r} is not among those of the first link "
                f"({', '.join(map(repr, names)) or 'none'})."
            )
        yield number, [*ends, *(attributes.get(name, "") for name in names)]


def _parse_attributes(path: Path, number: int, line: str) -> tuple[list[str], dict[str, str]]:
    head, brace, tail = line.partition("{")
    ends = re.split(r"[\s,;]+", head.strip(" \t,;\r\n"))
    if len(ends) != 2 or not brace:
        raise DataFileError(
            f"{title(path)} line {number}: a link is two node ids and its attributes in braces, as in the lines before."
        )
    if len(tail) > _LONGEST_ATTRIBUTES:
        raise DataFileError(
            f"{title(path)} line {number}: attributes must have at most {_LONGEST_ATTRIBUTES} characters, "
            f"got {len(tail)}."
        )
    try:
        found = ast.literal_eval(brace + tail.strip())  # literals alone: nothing is run
        return ends, {str(name): cell_of(value) for name, value in found.items()}
    except (ValueError, SyntaxError, TypeError, AttributeError, RecursionError, MemoryError):
        raise DataFileError(f"{title(path)} line {number}: the attributes in braces cannot be read.") from None


def cell_of(value: object) -> str:
    """Return a value as a cell of text: nothing, NaN and NA are empty, whole numbers have no decimal point."""
    if value is None or type(value).__name__ == "NAType" or value != value:  # the NA of pandas equals nothing
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value).strip()


def _delimiter(path: Path, sample: str) -> str:
    unquoted = re.sub(r'"[^"]*"', "", sample.rstrip("\r\n"))
    suffix = suffix_of(path)
    if "\t" in unquoted or suffix in (".tsv", ".tab"):
        return "\t"
    commas, semicolons = unquoted.count(","), unquoted.count(";")
    if commas or semicolons:
        return ";" if semicolons >= commas else ","  # as many of both: 'a;0,5' with a decimal comma
    return " " if suffix != ".csv" else ","


def is_number(text: str) -> bool:
    """Say whether the text is a number: of ASCII digits, without underscores."""
    try:
        read_number(text)
    except ValueError:
        return False
    return True


_WITH_COMMA = re.compile(r"[+-]?([0-9]{1,3}(\.[0-9]{3})+|[0-9]*),[0-9]+([eE][+-]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")


def has_comma(text: str) -> bool:
    """Say whether the text is a number with a decimal comma, or may be one."""
    return _WITH_COMMA.fullmatch(text) is not None or _THOUSANDS.fullmatch(text) is not None


def may_be_thousands(text: str) -> bool:
    """Say whether the commas of a number may separate thousands: 1,234 but not 0,5."""
    return _THOUSANDS.fullmatch(text) is not None


def read_comma(text: str) -> float:
    """Return a number with a decimal comma, such as 1.234,5, or raise a ValueError."""
    if not _WITH_COMMA.fullmatch(text):
        return read_number(text)
    return read_number(text.replace(".", "").replace(",", "."))


def read_number(text: str) -> float:
    """Return a number, or raise a ValueError; Python's own reading of 1_000 and of foreign digits is not a table's."""
    value = float(plain_digits(text))
    if value == 0.0 and _DIGIT.search(re.split("[eE]", text)[0]):
        raise ValueError("too small for a float")
    return value
