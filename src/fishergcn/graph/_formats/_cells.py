"""The features of a table: numbers, and columns of something else; problems of columns are reported together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fishergcn._base.types import AnyArray, FloatArray
from fishergcn.graph._formats._columns import Columns
from fishergcn.graph._formats._reading import Kind
from fishergcn.graph._formats._records import Records
from fishergcn.graph._formats._text import has_comma, may_be_thousands, read_comma, read_number

_TRUTH = {"true": 1.0, "false": 0.0}
_MOST_VALUES = 1000  # of a text column, each of which becomes a feature
_FEW = 20
_MOST_TOLD = 20  # columns of one message
_DATE = re.compile(
    r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}([ T][0-9:.,]+(Z|[+-][0-9:]+)?)?"
    r"|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4}([ ,]+[0-9:]+( ?[AP]M)?)?|[0-9]{1,2}:[0-9]{2}(:[0-9.]+)?",
    re.IGNORECASE,
)
_NONZERO = re.compile("[1-9]")
_TINY = re.compile(r"[+-]?[0-9]*\.?[0-9]*([eE]-[0-9]+)?")  # what a float cannot tell from 0


@dataclass
class _Odd:
    """The cells of a column that are no plain numbers, by their rows."""

    texts: dict[int, str] = field(default_factory=dict)
    empty: list[int] = field(default_factory=list)
    infinite: dict[int, str] = field(default_factory=dict)


class Features:
    """Rows of numbers, with what the other cells hold."""

    def __init__(self, table: Records, columns: Columns, places: list[int], names: list[str] | None) -> None:
        self._table, self._columns, self._places, self._names = table, columns, places, names
        self._rows: list[FloatArray] = []
        self._lines: list[int] = []
        self._odd: dict[int, _Odd] = {}  # by the column's number among the features
        encoded = [at for at, place in enumerate(places) if columns.kinds.get(place) == "one-hot"]
        # All cells of columns where text may become features.
        self._kept: dict[int, list[str]] = {
            at: [] for at in (range(len(places)) if columns.text == "one-hot" else encoded)
        }
        together = places == list(range(places[0], places[-1] + 1)) if places else False
        self._run = slice(places[0], places[-1] + 1) if together else None  # which is faster for wide tables
        self._absent: Counter[str] = Counter()  # texts that stand for no value
        self._problems: list[str] = []
        self._commas: list[str] = []  # columns that were found to have decimal commas

    def add(self, line: int, cells: list[str]) -> None:
        """Read the features of a row."""
        chosen = cells[self._run] if self._run else [cells[at] for at in self._places]
        for at, kept in self._kept.items():
            kept.append(chosen[at])
        self._rows.append(self._row(chosen))
        self._lines.append(line)

    def forget_first(self, names: list[str] | None) -> None:
        """Take the first row for a header."""
        self._names = names
        self._rows, self._lines = self._rows[1:], self._lines[1:]
        self._kept = {at: kept[1:] for at, kept in self._kept.items()}
        for odd in self._odd.values():
            odd.texts = {row - 1: cell for row, cell in odd.texts.items() if row}
            odd.infinite = {row - 1: cell for row, cell in odd.infinite.items() if row}
            odd.empty = [row - 1 for row in odd.empty if row]
        self._odd = {at: odd for at, odd in self._odd.items() if odd.texts or odd.empty or odd.infinite}

    def _row(self, chosen: list[str]) -> FloatArray:
        exact = _plain(chosen)
        if exact is None:
            exact = np.array([self._value(cell, at) for at, cell in enumerate(chosen)], dtype=np.float64)
        for mark in self._columns.marks:
            for at in np.flatnonzero(exact == mark):
                self._odd_at(int(at)).empty.append(len(self._rows))
                exact[at] = np.nan
        with np.errstate(over="ignore", under="ignore"):
            row: FloatArray = exact.astype(np.float32)
        for at in np.flatnonzero(np.isinf(row) | ((row == 0) & (exact != 0))):
            self._odd_at(int(at)).infinite[len(self._rows)] = chosen[at]
        return row

    def _odd_at(self, at: int) -> _Odd:
        return self._odd.setdefault(at, _Odd())

    def _value(self, cell: str, at: int) -> float:
        """Return the number of a cell; NaN where there is none, which is remembered."""
        if cell.lower() in _TRUTH:
            return _TRUTH[cell.lower()]
        if self._columns.is_missing(cell):
            self._absent[cell] += 1
            self._odd_at(at).empty.append(len(self._rows))
            return float("nan")
        try:
            if (value := read_number(cell)) == value:
                return value
        except ValueError:
            if _TINY.fullmatch(cell):
                self._odd_at(at).infinite[len(self._rows)] = cell
                return 0.0
        self._odd_at(at).texts[len(self._rows)] = cell
        return float("nan")

    def matrix(self) -> tuple[Any, tuple[str, ...] | None]:
        """Return the features and their names; None without columns. What is wrong becomes one problem."""
        if not self._places:
            return None, None
        numbers = np.stack(self._rows)
        blocks: list[AnyArray] = []
        names: list[str] = []
        kinds = self._columns.reading.setdefault("columns", {})
        for at, place in enumerate(self._places):
            called, kind = self._called(place), self._columns.kinds.get(place)
            if at not in self._odd and kind != "one-hot":
                blocks.append(numbers[:, at : at + 1])
                names.append(called)
                continue
            found = self._column(numbers[:, at], at, len(names))
            if found is None:
                kinds[called] = "drop"
                continue
            block, texts = found
            blocks.append(block)
            names += [called] if texts is None else [f"{called}={text}" for text in texts]
        kinds |= {self._called(at): kind for at, kind in self._columns.kinds.items()}
        self._tell()
        if not blocks:
            return None, None
        plain = not self._odd and len(blocks) == len(self._places) == len(names)
        known = self._names is not None or not plain or self._columns.known is not None
        distinct = known and all(names) and len({*names}) == len(names)
        return numbers if plain else np.concatenate(blocks, axis=1), tuple(names) if distinct else None

    def _column(self, numbers: FloatArray, at: int, place: int) -> tuple[AnyArray, list[str] | None] | None:
        """Return a column that is no plain numbers, with its texts if it is one-hot; None if it is left out."""
        odd, called = self._odd_at(at), self._called(self._places[at])
        kind: Kind | None = self._columns.kinds.get(self._places[at])
        trained = self._columns.known is not None and called in self._columns.known
        text = "refuse" if trained else self._columns.text
        if odd.texts and kind is None:
            kind = self._comma_kind(odd, numbers, called)
            kind = "one-hot" if kind is None and text == "one-hot" and self._few_texts(at) else kind
        if kind == "one-hot":
            return self._encoded(at, called)
        if kind == "decimal-comma":
            for row in [row for row, cell in odd.texts.items() if has_comma(cell)]:
                numbers[row] = read_comma(odd.texts.pop(row))
            self._columns.reading["columns"][called] = kind
        if kind == "number" and odd.texts:
            example = next(iter(odd.texts.values()))
            self._note(f"{len(odd.texts)} text(s) of column {called!r}, such as {example!r:.40}, count as empty")
        elif odd.texts and text == "drop":
            example = next(iter(odd.texts.values()))
            self._note(f"column {called!r} is left out, since it holds text such as {example!r:.40}")
            return None
        elif odd.texts:
            self._problems.append(self._text_problem(at, called, trained))
            return None
        if odd.infinite:
            row, cell = next(iter(odd.infinite.items()))
            what = (
                "0 or at least 1.4e-45, the least of float32"
                if np.isfinite(float(numbers[row]))
                else "finite in float32"
            )
            remedy = f"{self._choice(called, 'drop')} leaves the column out"
            self._problems.append(f"{called!r} must be {what}, got {cell!r:.40} in {self._at(row)} ({remedy})")
            return None
        return self._without_gaps(numbers, called, place, trained=trained)

    def _without_gaps(
        self, numbers: FloatArray, called: str, place: int, *, trained: bool
    ) -> tuple[AnyArray, None] | None:
        """Return a column of numbers, the next of which is ``place``, with gaps filled; None if it is left out."""
        missing = np.isnan(numbers)
        count = int(missing.sum())
        if not count:
            return numbers[:, None], None
        empty, means = self._columns.empty, self._columns.means
        if empty == "refuse" or (empty == "drop" and trained):
            first = self._at(int(np.flatnonzero(missing)[0]))
            if trained:
                remedy = "empty='fill' takes the mean in training"
            else:
                remedy = (
                    f"empty='fill' takes the mean of the others, {self._choice(called, 'drop')} leaves the column out"
                )
            self._problems.append(f"{called!r} has {count} empty cell(s), the first in {first} ({remedy})")
            return None
        if empty == "drop" or (missing.all() and means is None):
            what = "nothing else" if missing.all() else f"{count} empty cell(s)"
            self._note(f"column {called!r} is left out: {what}")
            return None
        named = self._names is not None or (means is not None and called in (means.names or ()))
        mean = None if means is None else means.find(called if named else None, place)
        whose = "its mean" if mean is None else "its mean in training"
        if mean is None:  # of a column that training did not have: it is left out later
            mean = 0.0 if missing.all() else float(numbers[~missing].astype(np.float64).mean())
        self._note(f"{count} empty cell(s) of column {called!r} are filled with {whose}, {mean:g}")
        return np.where(missing, np.float32(mean), numbers)[:, None], None

    def _comma_kind(self, odd: _Odd, numbers: FloatArray, called: str) -> Kind | None:
        """Say that a column has decimal commas if all its texts are such numbers and nothing else is possible."""
        texts = odd.texts.values()
        if not all(map(has_comma, texts)) or all(map(may_be_thousands, texts)):
            return None
        if any(number != round(number) for number in numbers[np.isfinite(numbers)].tolist()):
            return None  # others have a point
        self._commas.append(called)
        return "decimal-comma"

    def _few_texts(self, at: int) -> bool:
        return len(self._distinct(self._kept[at])) <= min(_MOST_VALUES, max(_FEW, len(self._rows) // 2))

    def _distinct(self, cells: Iterable[str]) -> list[str]:
        return sorted({cell for cell in cells if not self._columns.is_missing(cell)})

    def _encoded(self, at: int, called: str) -> tuple[AnyArray, list[str]] | None:
        """Return a column as a feature for each of its texts, which are those of before if it had some."""
        cells = self._kept[at]
        texts = self._columns.past.get("categories", {}).get(called)
        if texts is None:
            if not self._few_texts(at):
                self._problems.append(self._text_problem(at, called, trained=False))
                return None
            texts = self._distinct(cells)
            none = sum(map(self._columns.is_missing, cells))
            gaps = f"; {none} empty cell(s) are 0 in all of them" if none else ""
            self._note(f"column {called!r} becomes {len(texts)} features, one for each text{gaps}")
        code = {text: number for number, text in enumerate(texts)}
        new = self._distinct(cell for cell in cells if cell not in code)
        if new:
            self._note(f"column {called!r} holds {len(new)} text(s) that training did not have, such as "
                       f"{new[0]!r:.40}; they are 0 in all of its features")  # fmt: skip
        block = np.zeros((len(cells), len(code)), dtype=np.float32)
        for row, cell in enumerate(cells):
            if cell in code:
                block[row, code[cell]] = 1.0
        self._columns.reading["columns"][called] = "one-hot"
        self._columns.reading.setdefault("categories", {})[called] = list(texts)
        return block, list(texts)

    def _text_problem(self, at: int, called: str, trained: bool) -> str:
        """Say what the texts of a column are, where they begin, and which choices there are."""
        odd = self._odd_at(at)
        texts = odd.texts or dict(enumerate(self._kept.get(at, ())))
        row, example = next(iter(texts.items()))
        numbers = len(self._rows) - len(texts) - len(odd.empty)
        few = len(set(texts.values())) <= min(_MOST_VALUES, max(_FEW, len(self._rows) // 2))
        choices = ["one-hot", "drop"] if few else ["drop"]
        if all(map(_DATE.fullmatch, texts.values())):
            what, choices = "dates or times", ["drop"]
        elif all(map(may_be_thousands, texts.values())):
            what, choices = "numbers whose comma may separate decimals or thousands,", ["decimal-comma", "drop"]
        elif all(map(has_comma, texts.values())):
            what, choices = "numbers with a decimal comma, and others with a point,", ["drop"]
        elif numbers > len(texts):
            what, choices = "text among its numbers,", ["number", "drop"]
        else:
            what = "text" if few else "free text"
        if trained:
            what, choices = f"{what.partition(' among')[0].rstrip(',')} where training had numbers,", ["number"]
        remedy = " or ".join(self._choice(called, each) for each in choices)
        return f"{called!r} holds {what} such as {example!r:.40} in {self._at(row)} ({remedy})"

    @staticmethod
    def _choice(called: str, kind: str) -> str:
        return f"columns={{{called!r}: {kind!r}}}"

    def _at(self, row: int) -> str:
        return f"{self._table.unit} {self._lines[row]}"

    def _called(self, place: int) -> str:
        return str(place + 1) if self._names is None else self._names[place]

    def _note(self, words: str) -> None:
        self._columns.notes.append(f"{self._table.name}: {words}.")

    def _tell(self) -> None:
        """Keep notes of texts read as empty and of decimal commas, and one problem for all columns."""
        del self._absent[""]
        if self._absent:
            texts = ", ".join(f"{text!r} ({count})" for text, count in self._absent.most_common())
            self._note(f"{self._absent.total()} cell(s) are read as empty: {texts}")
        if self._commas:
            more = f" and {len(self._commas) - 1} more columns are" if len(self._commas) > 1 else " is"
            self._note(f"column {self._commas[0]!r}{more} read with decimal commas: 0,5 is 0.5")
        told = self._problems[:_MOST_TOLD]
        if told:
            many = len(self._problems)
            rest = f"; and {many - len(told)} more" if many > len(told) else ""
            some = any(" holds " in each and "'one-hot'" in each for each in self._problems)
            all_at_once = "; text='one-hot' or text='drop' decides for all columns of text" if some else ""
            head = "column" if many == 1 else f"{many} columns cannot be read as numbers:"
            self._columns.problems.append(f"{self._table.name}: {head} {'; '.join(told)}{rest}{all_at_once}")


def _plain(cells: list[str]) -> FloatArray | None:
    """Return a row of plain numbers; None if a cell must be looked at."""
    text = "".join(cells)
    if "_" in text or not text.isascii() or max(map(len, cells), default=0) > 300:
        return None
    try:
        values = list(map(float, cells))
    except ValueError:
        return None
    exact = np.array(values, dtype=np.float64)
    if np.isnan(exact).any():
        return None
    if "e" in text or "E" in text:  # 1e-400 is not 0
        zeros = {cells[at] for at in np.flatnonzero(exact == 0)}
        if any(_NONZERO.search(re.split("[eE]", cell)[0]) for cell in zeros):
            return None
    return exact
