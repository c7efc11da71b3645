"""HTML that is safe by construction: text is escaped unless it was made here."""

from __future__ import annotations

import base64
import html
import json
from typing import Any

from fishergcn._base.foreign import printable

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Html(str):
    """Text that is markup already; any other string is escaped where it enters a page."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | bool | float | None) -> Html:
    """Return an element; children and attribute values are escaped unless they are :class:`Html`.

    An underscore at the end of an attribute's name is dropped, others become hyphens; None and False leave
    the attribute out, True writes it without a value.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{written}>")
    inner = "".join(child if isinstance(child, Html) else _escaped(child) for child in children)
    return Html(f"<{name}{written}>{inner}</{name}>")


def _attribute(key: str, value: str | bool | float | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    text = value if isinstance(value, str) else repr(value)
    return f' {name}="{_escaped(text)}"'


def _escaped(text: str) -> str:
    """Return foreign text for a page: no markup, and no character that hides or reorders what is beside it."""
    return html.escape(printable(text, keep="\n\t"))


def json_script(identity: str, value: Any) -> Html:
    """Return a data block for scripts; no text in it can close the element or open a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{html.escape(identity)}">{text}</script>')


def data_link(text: str, filename: str, content: str, kind: str = "text/csv") -> Html:
    """Return a link that saves ``content`` as a file; the content travels inside the link."""
    packed = base64.b64encode(content.encode()).decode("ascii")
    return tag("a", text, class_="data", download=filename, href=f"data:{kind};charset=utf-8;base64,{packed}")
