"""How far perturbations move the graph, from results/distances."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
from _study import NAMES, RESULTS, markdown

__all__ = ["distances", "in_links"]


@cache
def measured() -> dict[str, Any]:
    """Return what tools/study_distances.py wrote."""
    found: dict[str, Any] = json.loads((RESULTS / "distances" / "distances.json").read_text(encoding="utf-8"))
    return found


def distances() -> str:
    """Distances of the perturbed graphs, and of the graph less one link."""
    found = [measured()[dataset] for dataset in NAMES]
    links = [np.quantile(each["links"], (0.25, 0.5, 0.75)) for each in found]
    fisher, high = ([each[method] for each in found] for method in ("fishergcn", "fishergcn-t"))
    trained = [each["as_trained"] for each in fisher]
    rows = [
        ["share of the ten directions in the graph, s", *(f"{each['captured_mass']:.2%}" for each in fisher)],
        ["every scale at its bound, ϕ = ε", *(f"{each['at_the_bound']:.4f}" for each in fisher)],
        ["**as trained**", *(f"{each:.4f}" for each in trained)],
        ["one link removed: median (quartiles)", *(f"{m:.4f} ({low:.4f} to {high:.4f})" for low, m, high in links)],
        ["**as trained, in links (root mean square)**", *(f"{each:.2f}" for each in in_links().values())],
        ["links that weigh more than the perturbation", *(heavier(each) for each in found)],
        ["`fishergcn-t`: share of the ten directions", *(f"{each['captured_mass']:.2%}" for each in high)],
        ["`fishergcn-t`: as trained", *(f"{each['as_trained']:.4f}" for each in high)],
    ]
    count = min(len(each["links"]) for each in found)
    table = markdown(["Bures distance", *NAMES.values()], rows).replace("%", " %")
    return (
        f"{table}\n\nRoot mean squares over draws with the final scales of the 200 runs of each cell of Table 2; "
        f"{count} random links of each graph, each removed alone. Made by `python tools/study_distances.py`, on a CPU."
    )


def in_links() -> dict[str, float]:
    """Return how far the perturbation as trained moves each graph, in root mean squares of one link removed."""
    sizes = {name: np.sqrt(np.mean(np.square(measured()[name]["links"]))) for name in NAMES}
    return {name: measured()[name]["fishergcn"]["as_trained"] / sizes[name] for name in NAMES}


def heavier(found: dict[str, Any]) -> str:
    """Return the share of single links whose loss moves the graph farther than a perturbation does."""
    return f"{np.mean(np.array(found['links']) > found['fishergcn']['as_trained']):.0%}"
