"""The page: one file that needs nothing else, and what its parts are made of."""

from __future__ import annotations

import base64
import hashlib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from fishergcn._base.files import write_text
from fishergcn._version import __version__
from fishergcn.drawing import Chart, Html, json_script, tag

# The charting library and what it stands on, as published (vendor/NOTICE.md), then ours.
_SCRIPTS = ("vendor/d3.min.js", "vendor/plot.umd.min.js", "page.js")
# Places of a curve, and numbers of all curves of a page, which is to stay small.
_MOST_POINTS, _FEWEST_POINTS, _MOST_NUMBERS = 1000, 30, 90_000


@dataclass(frozen=True)
class Figure:
    """Charts with a title and a caption; ``files`` are the charts to write as files, by default all of them."""

    title: str
    caption: str
    charts: Sequence[Chart]
    files: Sequence[Chart] | None = None

    @property
    def html(self) -> Html:
        """Its markup."""
        words = [tag("b", f"{self.title}. ")] if self.title else []
        return tag("figure", *(each.to_page() for each in self.charts), tag("figcaption", *words, self.caption))


@dataclass(frozen=True)
class Section:
    """A part of the page: its name in links, its head, and what is in it."""

    name: str
    title: str
    body: Sequence[Html | Figure]

    @property
    def figures(self) -> list[Figure]:
        """The figures in it."""
        return [each for each in self.body if isinstance(each, Figure)]


def in_short(sentences: Iterable[str], figure: Figure | None) -> Section:
    """Return the top of a page: the verdict, and one figure."""
    words = [tag("p", each, class_="verdict") for each in sentences]
    return Section("headline", "In short", [*words, figure] if figure else words)


def write_page(folder: Path, title: str, lead: str, sections: Iterable[Section | None]) -> Path:
    """Write the page of a folder; its policy admits no request and no script but ours, whatever the data hold."""
    parts = [each for each in sections if each is not None]
    scripts = [_resource(name) for name in _SCRIPTS]
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode("ascii") for each in scripts]
    admitted = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {admitted}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Html(_resource("page.css"))),
    )
    links = [tag("a", part.title, href=f"#{part.name}") for part in parts[1:]]
    nav = [tag("nav", *links, aria_label="On this page")] if links else []
    header = tag("header", tag("h1", title), tag("p", lead, class_="lead"), *nav)
    footer = tag(
        "footer",
        f"Written by fishergcn {__version__}. This page works offline. Its charts are drawn by Observable Plot and D3 "
        "(ISC license), which it contains.",
    )
    charts = [chart for part in parts for figure in part.figures for chart in figure.charts]
    points = _points_of_a_curve(charts)
    data = json_script("charts-data", [chart.to_dict(points) for chart in charts])
    run = [tag("script", Html(each)) for each in scripts]
    body = tag("body", header, tag("main", *map(_section, parts)), footer, data, *run)
    page = folder / "report.html"
    write_text(page, f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n", inside=folder)
    return page


def _resource(name: str) -> str:
    return resources.files("fishergcn.report").joinpath(*name.split("/")).read_text(encoding="utf-8")


def _section(part: Section) -> Html:
    body = (each.html if isinstance(each, Figure) else each for each in part.body)
    return tag("section", tag("h2", part.title), *body, id=part.name)


def _points_of_a_curve(charts: Iterable[Chart]) -> int:
    curves = sum(each.kind == "line" for chart in charts for panel in chart.panels for each in panel.layers)
    return min(max(_MOST_NUMBERS // (3 * max(curves, 1)), _FEWEST_POINTS), _MOST_POINTS)


def table(label: str, heads: Iterable[str], rows: Iterable[Sequence[str]], above: Html | None = None,
          **attributes: str) -> Html:  # fmt: skip
    """Return a table in a region that scrolls on its own where the page is narrow.

    A head that begins with ``#`` stands over numbers; there may be a row ``above`` the heads. Cells are texts or
    finished; the first cell of a row is its head.
    """
    cells = [each if isinstance(each, Html) else _head(each) for each in heads]
    lines = [tag("tr", _cell(first, "th", "row"), *(_cell(each, "td") for each in others)) for first, *others in rows]
    head = tag("thead", *([above] if above else []), tag("tr", *cells))
    content = tag("table", head, tag("tbody", *lines), **attributes)
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def _head(text: str) -> Html:
    return tag("th", breakable(text.removeprefix("#")), scope="col", class_="number" if text.startswith("#") else None)


def _cell(content: str, name: str, scope: str | None = None) -> Html:
    if isinstance(content, Html) and content.startswith(("<td", "<th")):
        return content
    return tag(name, breakable(content) if scope else content, scope=scope)


def number(text: str, value: float | None = None, kind: str = "", **attributes: str | float | None) -> Html:
    """Return a cell with a number; tables sort by its full value."""
    known = value if value is None or value == value else None
    return tag("td", text, class_=f"number {kind}".strip(), **attributes, data_value=known)


def count(value: int) -> Html:
    """Return a cell with a whole number."""
    return number(f"{value:,}", int(value))


def percent(value: float, digits: int = 2) -> str:
    """Return a fraction in percent, without the sign; a dash for NaN."""
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}"


def share(value: float, digits: int = 2, kind: str = "") -> Html:
    """Return a cell with a fraction in percent."""
    return number(percent(value, digits), float(value), kind)


def interval(low: float, high: float, digits: int = 2) -> str:
    """Return the ends of an interval of fractions in percent; a dash if there is none."""
    return f"{percent(low, digits)} – {percent(high, digits)}" if low <= high else "–"


def entries(found: Iterable[tuple[str, Sequence[Html | str]]]) -> Html:
    """Return terms with what belongs to them, on a card; terms without anything are left out."""
    return tag("div", tag("dl", *(_entry(term, lines) for term, lines in found if lines)), class_="card")


def _entry(term: str, lines: Sequence[Html | str]) -> Html:
    inner = lines[0] if len(lines) == 1 else tag("ul", *(tag("li", line) for line in lines))
    return Html(tag("dt", term) + tag("dd", inner))


def named_digest(name: str, digest: str) -> Html:
    """Return the name of a graph with its digest."""
    return Html(tag("b", name) + " " + tag("code", f"sha256:{digest}", title="SHA-256 of the graph's content"))


def in_words(values: Mapping[str, object]) -> str:
    """Return names with their values: of settings, of versions."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def command(text: str) -> Html:
    """Return a command line, which the page's script gives a button to copy it; no line ends inside of an option."""
    words = (tag("span", word, class_="option") if word.startswith("-") else word for word in re.split(r"(\s+)", text))
    return tag("div", tag("pre", tag("code", *words)), class_="command")


def local_link(path: str, text: str) -> Html:
    """Return a link to a file beside the page; no name in it can be taken for an address."""
    return tag("a", text, href=f"./{quote(os.fsencode(path))}")


def breakable(name: str) -> str | Html:
    """Return a name that a narrow column breaks after its underscores, where browsers see no place to break."""
    if isinstance(name, Html) or "_" not in name:
        return name
    parts = [part for part in re.split(r"(?<=_)(?!_|$)", name) if part]
    return Html("<wbr>".join(tag("span", part) for part in parts))


def slug(text: str) -> str:
    """Return a name for files: letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower() or "unnamed"
