"""Pictures that other commands left beside the runs: of the geometry, of the robustness."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from fishergcn.drawing import Html, tag
from fishergcn.errors import DataFileError, reason

__all__ = ["geometry_figures"]


def geometry_figures(folder: Path, kind: str = "geometry") -> list[Html]:
    """Return a figure for each ``KIND-NAME.svg`` in a folder.

    A file ``KIND-NAME.json`` beside it may hold ``{"title": …, "caption": …}``. The pictures enter the page as
    images, so that nothing in them can run.
    """
    return [_figure(path, kind) for path in sorted(folder.glob(f"{kind}-*.svg"))]


def _figure(path: Path, kind: str) -> Html:
    words = _words(path.with_suffix(".json"))
    packed = base64.b64encode(path.read_bytes()).decode("ascii")
    title = words.get("title") or path.stem.removeprefix(f"{kind}-").replace("-", " ")
    source = f"data:image/svg+xml;base64,{packed}"
    link = tag("a", "picture (SVG)", class_="data", download=path.name, href=source)
    caption = tag("figcaption", tag("b", f"{title}. "), f"{words.get('caption', '')} ", link)
    return tag("figure", tag("div", tag("img", src=source, alt=title), class_="pictures"), caption)


def _words(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataFileError(f"{path} cannot be read: {reason(error)}.") from error
    if not isinstance(values, dict):
        raise DataFileError(f"{path} must hold an object with title and caption, got {type(values).__name__}.")
    return {key: str(value) for key, value in values.items()}
