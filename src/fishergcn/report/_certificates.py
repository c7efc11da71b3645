"""The section of a model's page about predictions that no graph nearby can change."""

from __future__ import annotations

import os
from pathlib import Path

from fishergcn.certificates import CertifiedCurve
from fishergcn.drawing import Html, draw_certified, tag
from fishergcn.report._page import Figure, Section, count, share, table

_WORDS = (
    "A graph nearby has the same eigenvectors as this one and other eigenvalues at the top of its spectrum; the radius "
    "is how far it may be, in Bures distance. A prediction is certified if a proof says that no such graph changes it, "
    "and broken if one was found that does. The truth lies in between."
)
_CAPTION = (
    "Below the lower line predictions are certified; above the upper line a graph was found that changes them. In the "
    "shaded gap neither is known."
)


def certificates(folder: Path) -> Section | None:
    """Draw what ``fishergcn certify MODEL --keep`` kept; None without it."""
    path = folder / "certificates.json"
    if not os.path.isfile(path):
        return None
    curve = CertifiedCurve.load(path)
    rows = [
        [f"{radius:.4g}", count(certified), count(broken), count(curve.nodes - certified - broken),
         share(certified / curve.nodes, 1, "main")]
        for radius, certified, broken in zip(curve.radii, curve.certified, curve.broken, strict=True)
    ]  # fmt: skip
    heads = ["#radius", "#certified", "#broken", "#undecided", "#certified %"]
    body: list[Html | Figure] = [
        tag("p", _WORDS),
        Figure("Certified predictions", _CAPTION, [draw_certified(curve, "certified")]),
        table("Certificates", heads, rows),
    ]
    return Section("certificates", "What no graph nearby can change", body)
