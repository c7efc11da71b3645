"""An embedding of a graph, and its extreme motions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fishergcn._base.text import csv_text
from fishergcn.drawing._picture import INK, REST, Picture, new_axes
from fishergcn.geometry.embedding import EmbeddingFit, ExtremeMotions


def draw_embedding(
    title: str, fitted: EmbeddingFit, motions: ExtremeMotions, classes: Sequence[str], name: str = "embedding"
) -> Picture:
    """Draw the first two coordinates of each node, and the motions of least and largest metric.

    ``classes`` are the names of the nodes' classes, empty where they are unknown.

    Examples
    --------
    >>> import fishergcn
    >>> from fishergcn.geometry import embedding
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    >>> W = embedding.similarities(graph, 2)
    >>> fitted = embedding.fit(W)
    >>> motions = embedding.extreme_motions(W, fitted.embedding)
    >>> draw_embedding("a square", fitted, motions, ["a", "a", "b", "b"]).data.splitlines()[0]
    'class,x,y,smallest_x,smallest_y,largest_x,largest_y'
    """
    Y, shown = fitted.embedding[:, :2], np.array(classes)
    span = float(np.ptp(Y))
    parts = (
        (motions.smallest_motion[:, :2], motions.smallest, "smallest"),
        (motions.largest_motion[:, :2], motions.largest, "largest"),
    )
    with new_axes(15, 5, 1, 3, sharex=True, sharey=True) as (figure, (points, *others)):
        for label in dict.fromkeys(sorted(classes)):
            points.scatter(*Y[shown == label].T, s=6, label=label or "unknown")
        points.legend(fontsize="x-small", markerscale=2)
        points.set(title=f"{title}: KL = {fitted.divergence:.1f}", aspect="equal")
        for axes, (motion, squared, which) in zip(others, parts, strict=True):
            arrows = motion * (0.1 * span / max(float(np.abs(motion).max()), np.finfo(float).tiny))
            axes.scatter(*Y.T, s=2, color=REST)
            axes.quiver(*Y.T, *arrows.T, angles="xy", scale_units="xy", scale=1, width=0.002, color=INK)
            axes.set(title=f"motion of {which} metric, ds² = {squared:.3g}", aspect="equal")
    columns = ["class", "x", "y", "smallest_x", "smallest_y", "largest_x", "largest_y"]
    numbers = np.hstack([Y, *(motion for motion, _, _ in parts)]).tolist()
    rows = [[label, *row] for label, row in zip(classes, numbers, strict=True)]
    return Picture(name, f"Embedding, {title}", figure, csv_text(columns, rows))
