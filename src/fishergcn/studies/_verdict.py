"""The outcome of a choice: scores of the candidates, how much the links add, and both in words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fishergcn.graph import Graph
from fishergcn.models import Candidate
from fishergcn.splits import Split
from fishergcn.studies._candidates import Scores
from fishergcn.studies._resampling import Estimate, estimate

_NORMAL = 1.96  # standard errors in a 95% interval
_TOLD = 30  # links between nodes of known class that tell the homophily


def known_homophily(graph: Graph, split: Split) -> float:
    """Return the share of links within a class, among nodes whose class may be known: not those of the test.

    NaN if fewer than 30 links join such nodes.
    """
    labels = np.full(graph.num_nodes, -1)
    known = np.concatenate([split.train, split.val])
    labels[known] = graph.labels[known] if graph.labels is not None else -1
    links = graph.adjacency.tocoo()
    told = (links.row < links.col) & (labels[links.row] >= 0) & (labels[links.col] >= 0)
    if told.sum() < _TOLD:
        return math.nan
    return float((labels[links.row[told]] == labels[links.col[told]]).mean())


def worth_of_links(linked: Scores, free: Scores, nodes: int) -> Estimate | None:
    """Compare a network that uses the links with the same one without them, run by run.

    A single run has no spread. Its interval is that of two shares p and q of the same number of validation nodes, as if
    they were independent, (p - q) ± 1.96 sqrt((p(1-p) + q(1-q)) / nodes): too wide rather than too narrow, since both
    networks are right on the same easy nodes.
    """
    both = sorted(linked.keys() & free.keys(), key=str)
    if not both:
        return None
    found = estimate({key: linked[key].accuracy - free[key].accuracy for key in both}, bounds=(-1.0, 1.0))
    if len(both) > 1:
        return found
    shares = [scores[both[0]].accuracy for scores in (linked, free)]
    error = math.sqrt(sum(share * (1 - share) for share in shares) / nodes)
    low, high = max(found.mean - _NORMAL * error, -1.0), min(found.mean + _NORMAL * error, 1.0)
    return dataclasses.replace(found, low=low, high=high, standard_error=error)


def sentences(
    best: str, candidates: Sequence[Candidate], gain: Estimate | None, homophily: float, pair: tuple[str, str] | None
) -> Iterator[str]:
    """Yield what came out, in words.

    Parameters
    ----------
    best
        The name of the chosen candidate.
    candidates
        All of them.
    gain, pair
        How much the links add, and the two methods that this is measured with: with links and without.
    homophily
        Of the links between nodes of known class.
    """
    chosen = next(each for each in candidates if each.name == best)
    tried = [each for each in candidates if each.tried]
    top = max(tried, key=lambda each: each.val_accuracy)
    told = f"{best} was chosen from {len(tried)} candidates by validation: accuracy {chosen.val_accuracy:.1%}"
    told += f" on average over {chosen.runs} inner splits" if chosen.runs > 1 else " on the validation nodes"
    if top.name != best:
        told += f"; {top.name} has {top.val_accuracy:.1%}, not clearly different"
    yield f"{told}."
    if gain is not None and pair is not None:
        yield from _about_links(gain, pair)
    if math.isfinite(homophily):
        yield f"Of the links between nodes of known class, {homophily:.0%} join nodes of the same class."
    reasons: Mapping[str, list[str]] = {each.left_out: [] for each in candidates if each.left_out}
    for each in candidates:
        if each.left_out:
            reasons[each.left_out].append(each.name)
    for why, names in reasons.items():
        yield f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} left out: {why}."


def _about_links(gain: Estimate, pair: tuple[str, str]) -> Iterator[str]:
    linked, free = pair
    words = "help" if gain.low > 0 else "hurt" if gain.high < 0 else "make no clear difference"
    side = "higher" if gain.mean >= 0 else "lower"
    yield (
        f"The links {words}: the accuracy of {linked} is {100 * abs(gain.mean):.1f} points {side} than that of {free}, "
        f"the same network without them (95% interval {100 * gain.low:+.1f} to {100 * gain.high:+.1f})."
    )
    if gain.high < 0:
        yield "Warning: the links of this graph hurt; a network that ignores them does better."
