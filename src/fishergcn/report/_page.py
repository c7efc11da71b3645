"""The page: one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from fishergcn._version import __version__
from fishergcn.drawing import Html, json_script, tag
from fishergcn.report._markup import Section

# The charting library and what it stands on, as published (vendor/NOTICE.md), then ours.
_SCRIPTS = ("vendor/d3.min.js", "vendor/plot.umd.min.js", "page.js")


def assemble(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the page. Its policy admits no request and no script but ours, whatever the data hold."""
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
    links = [tag("a", section.title, href=f"#{section.name}") for section in sections[1:]]
    nav = [tag("nav", *links, aria_label="On this page")] if links else []
    header = tag("header", tag("h1", title), tag("p", lead, class_="lead"), *nav)
    parts = [tag("section", tag("h2", part.title), *part.body, id=part.name) for part in sections]
    footer = tag(
        "footer",
        f"Written by fishergcn {__version__}. This page works offline. Its charts are drawn by Observable Plot and D3 "
        "(ISC license), which it contains.",
    )
    charts = json_script("charts-data", [chart.to_dict() for section in sections for chart in section.charts])
    body = tag("body", header, tag("main", *parts), footer, charts, *(tag("script", Html(each)) for each in scripts))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _resource(name: str) -> str:
    return resources.files("fishergcn.report").joinpath(*name.split("/")).read_text(encoding="utf-8")
