r"""Text that others chose, such as names of graphs, classes and nodes: made printable, and harmless in a spreadsheet.

A name may hold escape sequences that move the cursor or set a terminal's title, characters that reverse the order of
what follows, and some that nobody sees. Where people read it, such a character is shown as its escape: ``\x1b``.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Characters without a mark of their own that Unicode counts among letters, marks and symbols.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
# What a spreadsheet runs, after any number of apostrophes, but for plain numbers; and the same after a semicolon or a
# tab, where cells begin for a spreadsheet whose language writes decimal commas.
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_FORMULA = re.compile(rf"'*(?!'*{_NUMBER}\Z)[=+\-@\t\r\n＝＋－＠]")
_INNER = re.compile(rf"([;\t]\"*)(?='*(?!'*{_NUMBER}([;\t]|\Z))[=+\-@\r\n＝＋－＠])")
_INNER_MADE = re.compile(rf"([;\t]\"*)'(?='*(?!'*{_NUMBER}([;\t]|\Z))[=+\-@\r\n＝＋－＠])")


def printable(text: object, *, keep: str = "") -> str:
    """Return text in which every character that a terminal would obey, or nobody sees, is written as its escape.

    Those are control characters, line ends, marks of direction, characters of no width and halves of surrogate pairs,
    but for those in ``keep``. What is printable already comes back as it is.
    """
    found = str(text)
    if found.isascii() and found.isprintable():
        return found
    return "".join(each if each in keep else _shown(each) for each in found)


@lru_cache(maxsize=4096)
def _shown(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN and not _INVISIBLE.match(character):
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def markdown(text: object) -> str:
    """Return foreign text for a page or a table in Markdown: one printable line without markup, links or pictures."""
    line = printable(" ".join(str(text).split()))
    # An underscore within a word is no markup.
    escaped = re.sub(r"([\\|<>`*]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", line)
    return escaped.replace("](", "]\\(").replace("][", "]\\[")


def json_printable(text: str) -> str:
    """Return JSON text in which such characters are escaped as JSON does it, so that it means the same."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if each == "\n" or _shown(each) == each else _json_escape(each) for each in text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def for_spreadsheet(text: str) -> str:
    """Return a cell that a spreadsheet shows as text: an apostrophe before what it would take for a formula.

    That begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end and is no number; or does so after a semicolon or a
    tab, which separate cells in some languages. :func:`from_spreadsheet` undoes it, for text that began with an
    apostrophe as well.
    """
    if text.isalnum():
        return text
    text = _INNER.sub(r"\1'", text)
    return f"'{text}" if _FORMULA.match(text) else text


def from_spreadsheet(cell: str) -> str:
    """Return the text of a cell that :func:`for_spreadsheet` made."""
    if "'" not in cell:
        return cell
    return _INNER_MADE.sub(r"\1", cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell)
