"""What the parts of the page are made of: sections, tables that scroll, figures with their data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fishergcn.drawing import Html, Picture, data_link, tag


@dataclass(frozen=True)
class Section:
    """A part of the page: its name in links, its head, its markup, and the pictures to write as files."""

    name: str
    title: str
    body: list[Html]
    pictures: list[Picture] = field(default_factory=list)


def figure(title: str, caption: str, pictures: Sequence[Picture]) -> Html:
    """Return pictures with a caption, each with a link that saves its data."""
    drawn = [
        tag(
            "div",
            tag("div", Html(each.inline_svg), role="img", aria_label=each.label, data_picture=each.name),
            data_link("data (CSV)", f"{each.name}.csv", each.data),
            class_="wide" if each.is_wide else None,
        )
        for each in pictures
    ]
    return tag("figure", tag("div", *drawn, class_="pictures"), tag("figcaption", tag("b", f"{title}. "), caption))


def table(label: str, heads: Iterable[str], rows: Iterable[Html], **attributes: str) -> Html:
    """Return a table of finished rows under a row of heads, in a region that scrolls."""
    head = tag(
        "thead", tag("tr", *(each if isinstance(each, Html) else tag("th", each, scope="col") for each in heads))
    )
    return region(label, tag("table", head, tag("tbody", *rows), **attributes))


def region(label: str, content: Html) -> Html:
    """Return markup that scrolls on its own where the page is narrow."""
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def slug(text: str) -> str:
    """Return a name for files: letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower() or "unnamed"
