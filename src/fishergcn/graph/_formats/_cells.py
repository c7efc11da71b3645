"""The features of a table: numbers, and columns of something else; problems of columns are reported together."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fishergcn._base.types import AnyArray, FloatArray
from fishergcn.graph._formats._columns import Columns
from fishergcn.graph._formats._reading import Kind
from fishergcn.graph._formats._records import Records
from fishergcn.graph._formats._text import has_comma, is_number, may_be_thousands, read_comma, read_number

_TRUTH = {"true": 1.0, "false": 0.0}
_MOST_VALUES = 1000  # of a text column, each of which becomes a feature
_FEW = 20
_MOST_NAMED = 20  # columns of one message, and notes about columns
_MOST_SEEN = 1 << 16
_MOST_LEDGER = 256  # columns
_DATE = re.compile(
    r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}([ T][0-9:.,]+(Z|[+-][0-9:]+)?)?"
    r"|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4}([ ,]+[0-9:]+( ?[AP]M)?)?|[0-9]{1,2}:[0-9]{2}(:[0-9.]+)?",
    re.IGNORECASE,
)
_WITH_SIGN = re.compile(r"[+-]?[$€£]?\s?[+-]?[0-9][0-9.,]*\s?([%‰€$£°]|[A-Za-z]{1,3})?")  # 5.5%, $3, 20 kg
_DOTTED = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")  # 1.234, where points may separate thousands
_NONZERO = re.compile("[1-9]")
_SENTINELS = (-99, -999, -9999, -99999)  # what some programs write where there is no value
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
        self._odd: defaultdict[int, _Odd] = defaultdict(_Odd)  # by the column's number among the features
        self._seen: dict[str, tuple[str, float]] = {}  # what cells mean that are no plain numbers, for the next ones
        encoded = [at for at, place in enumerate(places) if columns.kinds.get(place) in ("one-hot", "decimal-comma")]
        # All cells of columns where text may become features.
        self._kept: dict[int, list[str]] = {
            at: [] for at in (range(len(places)) if columns.text == "one-hot" else encoded)
        }
        together = places == list(range(places[0], places[-1] + 1)) if places else False
        self._run = slice(places[0], places[-1] + 1) if together else None  # which is faster for wide tables
        self._absent: Counter[str] = Counter()  # texts that stand for no value
        self._problems: list[str] = []
        self._noted = 0
        self._commas: list[str] = []  # columns that were found to have decimal commas
        # Columns whose numbers have no point but as in 1.234, and such cells; few, since a wide table is of no ledger.
        self._unpointed = set(range(len(places))) if len(places) <= _MOST_LEDGER else set()
        self._dotted: dict[int, str] = {}

    def add(self, line: int, cells: list[str]) -> None:
        """Read the features of a row."""
        chosen = cells[self._run] if self._run else [cells[at] for at in self._places]
        for at, kept in self._kept.items():
            kept.append(chosen[at])
        self._look_for_points(chosen)
        self._rows.append(self._row(chosen))
        self._lines.append(line)

    def _look_for_points(self, chosen: list[str]) -> None:
        """Note which columns may have points that separate thousands."""
        for at in [at for at in self._unpointed if "." in chosen[at]]:
            if _DOTTED.fullmatch(chosen[at]):
                self._dotted.setdefault(at, chosen[at])
            elif is_number(chosen[at]):
                self._unpointed.discard(at)

    def forget_first(self, names: list[str] | None) -> None:
        """Take the first row for a header."""
        self._names = names
        self._rows, self._lines = self._rows[1:], self._lines[1:]
        self._kept = {at: kept[1:] for at, kept in self._kept.items()}
        for odd in self._odd.values():
            odd.texts = {row - 1: cell for row, cell in odd.texts.items() if row}
            odd.infinite = {row - 1: cell for row, cell in odd.infinite.items() if row}
            odd.empty = [row - 1 for row in odd.empty if row]
        for at in [at for at, odd in self._odd.items() if not (odd.texts or odd.empty or odd.infinite)]:
            del self._odd[at]

    def _row(self, chosen: list[str]) -> FloatArray:
        exact = _plain(chosen)
        if exact is None:
            exact = self._odd_row(chosen)
        for mark in self._columns.marks:
            for at in np.flatnonzero(exact == mark):
                self._odd[int(at)].empty.append(len(self._rows))
                exact[at] = np.nan
        with np.errstate(over="ignore", under="ignore"):
            row: FloatArray = exact.astype(np.float32)
        for at in np.flatnonzero(np.isinf(row) | ((row == 0) & (exact != 0))):
            self._odd[int(at)].infinite[len(self._rows)] = chosen[at]
        return row

    def _odd_row(self, chosen: list[str]) -> FloatArray:
        """Return the numbers of a row; NaN where a cell holds none, which is remembered."""
        odd, seen, number = self._odd, self._seen, len(self._rows)
        values = [0.0] * len(chosen)
        for at, cell in enumerate(chosen):
            kind, values[at] = seen.get(cell) or self._meaning(cell)
            if kind == "empty":
                self._absent[cell] += 1
                odd[at].empty.append(number)
            elif kind == "text":
                odd[at].texts[number] = cell
            elif kind == "tiny":
                odd[at].infinite[number] = cell
        return np.array(values, dtype=np.float64)

    def _meaning(self, cell: str) -> tuple[str, float]:
        """Say what a cell holds, number, empty, text or a number too tiny for a float, with its value."""
        found = ("text", float("nan"))
        if cell.lower() in _TRUTH:
            found = "number", _TRUTH[cell.lower()]
        elif self._columns.is_missing(cell):
            found = "empty", float("nan")
        else:
            try:
                if (value := read_number(cell)) == value:
                    found = "number", value
            except ValueError:
                if _TINY.fullmatch(cell):
                    found = "tiny", 0.0
        if len(self._seen) < _MOST_SEEN:
            self._seen[cell] = found
        return found

    def matrix(self) -> tuple[Any, tuple[str, ...] | None]:
        """Return the features and their names; None without columns. What is wrong becomes one problem."""
        if not self._places:
            return None, None
        numbers = np.stack(self._rows)
        self._note_sentinels(numbers)
        blocks: list[AnyArray] = []
        names: list[str] = []
        kinds = self._columns.reading.setdefault("columns", {})
        for at, place in enumerate(self._places):
            called, kind = self._called(place), self._columns.kinds.get(place)
            if at not in self._odd and kind not in ("one-hot", "decimal-comma"):
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
        self._ask_about_points()
        self._tell()
        if not blocks:
            return None, None
        plain = not self._odd and len(blocks) == len(self._places) == len(names)
        known = self._names is not None or not plain or self._columns.known is not None
        distinct = known and all(names) and len({*names}) == len(names)
        return numbers if plain else np.concatenate(blocks, axis=1), tuple(names) if distinct else None

    def _ask_about_points(self) -> None:
        """Keep a problem of columns as 1.234, a thousand or about one, in a table that has decimal commas."""
        for at, example in self._dotted.items() if self._commas else ():
            called = self._called(self._places[at])
            asked = at not in self._unpointed or self._columns.kinds.get(self._places[at]) is not None
            if not asked and not any(each.startswith(repr(called)) for each in self._problems):
                remedy = " or ".join(self._choice(called, each) for each in ("decimal-comma", "number"))
                self._problems.append(
                    f"{called!r} holds numbers such as {example!r}, a thousand times as much if points separate "
                    f"thousands, as beside decimal commas they may ({remedy})"
                )

    def _note_sentinels(self, numbers: FloatArray) -> None:
        """Keep a note of columns whose least value may stand for none: far from all others."""
        if self._columns.missing is not None or self._columns.past:
            return
        least = np.nanmin(numbers, axis=0, initial=0)
        for at in np.flatnonzero(np.isin(least, _SENTINELS)):
            mark, column = least[at], numbers[:, at]
            rest = column[column > mark]
            if rest.size and rest.min() > mark / 10:
                said = [*filter(None, self._absent), f"{mark:.0f}"]
                self._note_column(
                    f"column {self._called(self._places[at])!r} holds {mark:.0f} in {int((column == mark).sum())} "
                    f"cell(s); missing={(said if len(said) > 1 else said[0])!r} says that these have no value"
                )

    def _column(self, numbers: FloatArray, at: int, place: int) -> tuple[AnyArray, list[str] | None] | None:
        """Return a column that is no plain numbers, with its texts if it is one-hot; None if it is left out."""
        odd, called = self._odd[at], self._called(self._places[at])
        kind: Kind | None = self._columns.kinds.get(self._places[at])
        trained = self._columns.known is not None and called in self._columns.known
        text = "refuse" if trained else self._columns.text
        if odd.texts and kind is None:
            kind = self._comma_kind(odd, numbers, called)
            kind = "one-hot" if kind is None and text == "one-hot" and self._few_texts(at) else kind
        if kind == "one-hot":
            return self._encoded(at, called)
        if kind == "decimal-comma":
            values = {cell: read_comma(cell) for cell in set(odd.texts.values()) if has_comma(cell)}
            values |= {cell: float(cell.replace(".", "")) for cell in self._kept.get(at, ()) if _DOTTED.fullmatch(cell)}
            for row, cell in [*odd.texts.items(), *enumerate(self._kept.get(at, ()))]:
                if cell in values:
                    numbers[row] = values[cell]
                    odd.texts.pop(row, None)
            self._columns.reading["columns"][called] = kind
        if kind == "number" and odd.texts:
            example = next(iter(odd.texts.values()))
            self._note_column(f"{len(odd.texts)} text(s) of column {called!r}, such as {example!r:.40}, count as empty")
        elif odd.texts and text == "drop":
            example = next(iter(odd.texts.values()))
            self._note_column(f"column {called!r} is left out, since it holds text such as {example!r:.40}")
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
        if len(odd.empty) == len(self._rows) and kind is None and self._columns.means is None:
            self._note_column(f"column {called!r} is left out: all of its cells are empty")
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
            self._note_column(f"column {called!r} is left out: {count} empty cell(s)")
            return None
        named = self._names is not None or (means is not None and called in (means.names or ()))
        mean = None if means is None else means.find(called if named else None, place)
        whose = "its mean" if mean is None else "its mean in training"
        if mean is None:  # of a column that training did not have: it is left out later
            mean = 0.0 if missing.all() else float(numbers[~missing].astype(np.float64).mean())
        self._note_column(f"{count} empty cell(s) of column {called!r} are filled with {whose}, {mean:g}")
        return np.where(missing, np.float32(mean), numbers)[:, None], None

    def _comma_kind(self, odd: _Odd, numbers: FloatArray, called: str) -> Kind | None:
        """Say that a column has decimal commas if all its texts are such numbers and nothing else is possible."""
        texts = set(odd.texts.values())
        if not all(map(has_comma, texts)) or all(map(may_be_thousands, texts)):
            return None
        if any(number != round(number) for number in numbers[np.isfinite(numbers)].tolist()):
            return None  # others have a point
        self._commas.append(called)
        return "decimal-comma"

    def _few_texts(self, at: int) -> bool:
        return len(self._distinct(self._kept[at])) <= min(_MOST_VALUES, max(_FEW, len(self._rows) // 2))

    def _distinct(self, cells: Iterable[str]) -> list[str]:
        return sorted(cell for cell in set(cells) if not self._columns.is_missing(cell))

    def _encoded(self, at: int, called: str) -> tuple[AnyArray, list[str]] | None:
        """Return a column as a feature for each of its texts, which are those of before if it had some."""
        cells = self._kept[at]
        texts = self._columns.past.get("categories", {}).get(called)
        if texts is None:
            if not self._few_texts(at):
                self._problems.append(self._text_problem(at, called, trained=False))
                return None
            texts = self._distinct(cells)
            none = sum(many for cell, many in Counter(cells).items() if self._columns.is_missing(cell))
            gaps = f"; {none} empty cell(s) are 0 in all of them" if none else ""
            self._note_column(f"column {called!r} becomes {len(texts)} features, one for each text{gaps}")
        code = {text: number for number, text in enumerate(texts)}
        new = self._distinct(cell for cell in cells if cell not in code)
        if new:
            self._note_column(f"column {called!r} holds {len(new)} text(s) that training did not have, such as "
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
        odd = self._odd[at]
        texts = odd.texts or dict(enumerate(self._kept.get(at, ())))
        row, example = next(iter(texts.items()))
        numbers = len(self._rows) - len(texts) - len(odd.empty)
        few = len(set(texts.values())) <= min(_MOST_VALUES, max(_FEW, len(self._rows) // 2))
        choices = ["one-hot", "drop"] if few else ["drop"]
        if all(map(_DATE.fullmatch, texts.values())):
            what, choices = "dates or times", ["drop"]
        elif all(map(may_be_thousands, texts.values())):
            what, choices = "numbers whose comma may separate decimals or thousands,", ["decimal-comma", "drop"]
        elif all(map(_DOTTED.fullmatch, texts.values())):
            what, choices = "numbers whose points separate thousands,", ["decimal-comma", "drop"]
        elif all(map(has_comma, texts.values())):
            what, choices = "numbers with a decimal comma, and others with a point,", ["drop"]
            if at in self._dotted and at in self._unpointed:
                choices = ["decimal-comma", "drop"]
        elif sum(map(bool, map(_WITH_SIGN.fullmatch, texts.values()))) > len(texts) / 2:
            what, choices = "numbers with a sign or unit", ["drop"]
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
        return str(place + 1) if self._names is None or not self._names[place] else self._names[place]

    def _note(self, words: str) -> None:
        self._columns.notes.append(f"{self._table.name}: {words}.")

    def _note_column(self, words: str) -> None:
        """Keep a note about one column; beyond the first ones they are only counted."""
        self._noted += 1
        if self._noted <= _MOST_NAMED:
            self._note(words)

    def _tell(self) -> None:
        """Keep notes of texts read as empty and of decimal commas, and one problem for all columns."""
        if self._noted > _MOST_NAMED:
            self._note(f"{self._noted - _MOST_NAMED} more notes of this kind about other columns")
        del self._absent[""]
        if self._absent:
            texts = ", ".join(f"{text!r} ({count})" for text, count in self._absent.most_common())
            self._note(f"{self._absent.total()} cell(s) are read as empty: {texts}")
        if self._commas:
            more = f" and {len(self._commas) - 1} more columns are" if len(self._commas) > 1 else " is"
            self._note(f"column {self._commas[0]!r}{more} read with decimal commas: 0,5 is 0.5")
        named = self._problems[:_MOST_NAMED]
        if named:
            many = len(self._problems)
            rest = f"; and {many - len(named)} more" if many > len(named) else ""
            some = any(" holds " in each and "'one-hot'" in each for each in self._problems)
            all_at_once = "; text='one-hot' or text='drop' decides for all columns of text" if some else ""
            head = "column" if many == 1 else f"{many} columns cannot be read as numbers:"
            self._columns.problems.append(f"{self._table.name}: {head} {'; '.join(named)}{rest}{all_at_once}")


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
