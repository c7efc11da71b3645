"""What the parts of the page are made of: sections, tables that scroll and sort, commands to copy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fishergcn.drawing import Html, Picture, tag
from fishergcn.report._chart import Chart


@dataclass(frozen=True)
class Section:
    """A part of the page: its name in links, its head, its markup, the charts in it, and pictures to write as files."""

    name: str
    title: str
    body: list[Html]
    charts: list[Chart] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)


def number(text: str, value: float | None = None, kind: str = "") -> Html:
    """Return a cell with a number; tables sort by its full value.

    Examples
    --------
    >>> number("81.2", 0.8123)
    '<td class="number" data-value="0.8123">81.2</td>'
    """
    known = value if value is None or value == value else None
    return tag("td", text, class_=f"number {kind}".strip(), data_value=known)


def table(label: str, heads: Iterable[str], rows: Iterable[Html | Sequence[str]], **attributes: str) -> Html:
    """Return a table in a region that scrolls: heads, and rows that are finished or whose cells are.

    A head that begins with ``#`` stands over numbers. The first cell of a row is its head.
    """
    cells = [each if isinstance(each, Html) else _head(each) for each in heads]
    lines = [each if isinstance(each, Html) else _row(each) for each in rows]
    return region(label, tag("table", tag("thead", tag("tr", *cells)), tag("tbody", *lines), **attributes))


def _head(text: str) -> Html:
    return tag("th", breakable(text.removeprefix("#")), scope="col", class_="number" if text.startswith("#") else None)


def _row(cells: Sequence[str]) -> Html:
    first, *others = cells
    head = first if isinstance(first, Html) and first.startswith("<t") else tag("th", breakable(first), scope="row")
    return tag("tr", head, *(each if isinstance(each, Html) and each.startswith("<t") else tag("td", each)
                             for each in others))  # fmt: skip


def region(label: str, content: Html) -> Html:
    """Return markup that scrolls on its own where the page is narrow."""
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def command(text: str) -> Html:
    """Return a command line, which the page's script gives a button to copy it; no line ends inside of an option."""
    words = (tag("span", word, class_="option") if word.startswith("-") else word for word in re.split(r"(\s+)", text))
    return tag("div", tag("pre", tag("code", *words)), class_="command")


def pieces(name: str) -> list[str]:
    """Return the parts of a name between which a line may break: after underscores, and at spaces.

    Examples
    --------
    >>> pieces("Neural_Networks and more")
    ['Neural_', 'Networks', 'and', 'more']
    """
    return re.findall(r"[^_\s]*_+|[^_\s]+", name) or [name]


def breakable(name: str) -> str | Html:
    """Return a name that a narrow column breaks after its underscores, where browsers see no place to break."""
    if isinstance(name, Html) or "_" not in name:
        return name
    parts = [part for part in re.split(r"(?<=_)(?!_|$)", name) if part]
    return Html("<wbr>".join(tag("span", part) for part in parts))


def slug(text: str) -> str:
    """Return a name for files: letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower() or "unnamed"
