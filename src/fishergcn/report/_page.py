"""The page: one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from fishergcn._version import __version__
from fishergcn.drawing import Html, tag
from fishergcn.report._markup import Section


def assemble(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the page. Its policy admits no request and no script but ours, whatever the data hold."""
    style, script = _resource("page.css"), _resource("curves.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Html(style)),
    )
    links = [tag("a", section.title, href=f"#{section.name}") for section in sections]
    header = tag(
        "header",
        tag("h1", title),
        tag("p", lead, class_="lead"),
        tag("nav", *links, aria_label="On this page"),
    )
    parts = [tag("section", tag("h2", part.title), *part.body, id=part.name) for part in sections]
    footer = tag("footer", f"Written by fishergcn {__version__}. This page works offline.")
    body = tag("body", header, tag("main", *parts), footer, tag("script", Html(script)))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _resource(name: str) -> str:
    return (resources.files("fishergcn.report") / name).read_text(encoding="utf-8")
