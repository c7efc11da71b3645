"""Draw docs/_static/certificates.svg: the two-dimensional neighborhood of Cora, its Bures balls and one broken node.

    python tools/draw_certificates.py [--out docs/_static/certificates.svg]

Three eigenvalues of L move, so that a graph is a point (q_1, q_2). A `gcn` of the default settings is evaluated on a
grid of graphs for one test node, and certified at growing radii until its class changes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch

from fishergcn import Neighborhood, TrainConfig, TrainedModel, datasets, splits, train
from fishergcn.certificates import certified_radius, certify

OUT = Path(__file__).resolve().parent.parent / "docs" / "_static" / "certificates.svg"
_STEPS, _WIDE = 45, 1.12


def chosen(model: TrainedModel, around: Neighborhood, nodes: Any) -> tuple[int, Any, float]:
    """Return the node whose class changes near the middle of the neighborhood, the graph at which, and the radius."""
    most = around.farthest(2.0)
    found = certify(model, most, nodes, neighborhood=around)
    at = np.asarray(nodes)[found.broken]
    radii = certified_radius(model, at, neighborhood=around, steps=10)
    node = int(at[np.abs(radii - most / 2).argmin()])
    for radius in np.linspace(0.02, 1.0, 50) * most:
        found = certify(model, float(radius), [node], neighborhood=around)
        if found.broken[0]:
            return node, found.shares[0], float(radius)
    raise AssertionError("a broken node is broken at the farthest radius at the latest")


def margins(model: TrainedModel, around: Neighborhood, node: int, q: Any) -> Any:
    """Return the margin of the node's class on each graph, q of shape (M, 3)."""
    phi = torch.as_tensor(np.log(np.maximum(q, 1e-9)) - np.log(around.projected_spectrum.numpy()))
    with torch.no_grad():
        own = int(model.logits(around.operator())[node, 0].argmax())
        values = torch.stack([model.logits(around.operator(each))[node, 0] for each in phi]).numpy()
    return values[:, own] - np.delete(values, own, axis=1).max(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=OUT)
    out = parser.parse_args().out
    graph = datasets.load("cora")
    split = splits.choose(graph, 1)[0]
    records = train(graph, "gcn", split, config=TrainConfig(rank=3), keep_weights=True)
    model = TrainedModel.from_records(graph, records, split).to("cpu", torch.float64)
    around = Neighborhood(model.propagation, rank=3, radius=0.0)
    node, worst, radius = chosen(model, around, np.asarray(split.test))
    shares, cap = around.projected_spectrum.numpy(), 2.0 / float(around.spectrum.eigenvalues.sum())
    reach = _WIDE * (cap - shares.min()) * np.linspace(-2, 1, _STEPS)
    first, second = (each.ravel() for each in np.meshgrid(shares[0] + reach, shares[1] + reach))
    q = np.stack([first, second, 1.0 - first - second], axis=1)
    distance = np.sqrt(around.captured_mass * ((np.sqrt(np.maximum(q, 0)) - np.sqrt(shares)) ** 2).sum(1))
    value = margins(model, around, node, q)

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "certificates", "font.size": 9})
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5.2, 4.4))
    x, y = (each.reshape(_STEPS, _STEPS) for each in (first, second))
    axes.contourf(x, y, value.reshape(x.shape), levels=[-np.inf, 0], colors=["#f3c6a5"])
    levels = sorted({float(f"{each:.2g}") for each in (radius / 2, radius, around.farthest(2.0))})
    balls = axes.contour(x, y, distance.reshape(x.shape), levels=levels, colors="#1a6fb0", linewidths=1.2)
    axes.clabel(balls, fmt="r = %g", fontsize=7)
    for limit in (q[:, 0], q[:, 1], q[:, 2]):
        axes.contour(x, y, limit.reshape(x.shape), levels=[cap], colors="#555555", linestyles="--", linewidths=0.9)
    axes.plot(shares[0], shares[1], "o", color="black", markersize=4)
    axes.plot(worst[0], worst[1], "x", color="#c44f00", markersize=7)
    axes.set_xlabel("share of the largest eigenvalue")
    axes.set_ylabel("share of the second largest")
    axes.set_aspect("equal")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})
    print(f"node {node}, broken at radius {radius:.4g} of {around.farthest(2.0):.4g}; saved: {out}")


if __name__ == "__main__":
    main()
