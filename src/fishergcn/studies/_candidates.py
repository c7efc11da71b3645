"""The candidates of ``fit``: methods, preparations, inner splits to compare them on, and the choice in words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from fishergcn._settings.choices import Scaling
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.models import Candidate
from fishergcn.splits import Split
from fishergcn.studies._resampling import Estimate, estimate

#: The methods among which ``fit`` chooses, simplest first: of two that cannot be told apart the first is taken.
CANDIDATES = ("majority", "lp", "mlp", "gcn", "gcn-t", "mlp-x3-c", "gcn-x3-c", "gcn-t-x3-c")
#: The settings among which ``fit`` chooses for each method, the usual ones first: how features are scaled, whether
#: layers have a bias, and the weight decay. Rows divided by their sum have small entries, and admit little decay.
PREPARATIONS: tuple[Mapping[str, Any], ...] = (
    {"scaling": "none", "bias": True, "weight_decay": 5e-4},
    {"scaling": "none", "bias": True, "weight_decay": 5e-3},
    {"scaling": "rows", "bias": True, "weight_decay": 5e-4},
    {"scaling": "rows", "bias": False, "weight_decay": 5e-4},
    {"scaling": "columns", "bias": True, "weight_decay": 5e-3},
)
_FINALISTS = 4
_NORMAL = 1.96  # standard errors in a 95% interval
_TOLD = 30  # links between nodes of known class that tell the homophily


@dataclass(frozen=True)
class Score:
    """How one run of a candidate did on its validation nodes."""

    accuracy: float
    cross_entropy: float


Scores = Mapping[Any, Score]  # by (split, seed)
Name = TypeVar("Name")


def mean_of(scores: Scores, value: str) -> float:
    """Return the mean of ``"accuracy"`` or ``"cross_entropy"`` over runs; NaN without any."""
    return float(np.mean([getattr(each, value) for each in scores.values()])) if scores else math.nan


def leaders(scores: Mapping[Name, Scores], count: int = _FINALISTS) -> list[Name]:
    """Return the candidates with the least cross entropy on the runs that all have, the best first."""
    shared = on_common_runs(scores)
    return sorted(scores, key=lambda name: mean_of(shared[name], "cross_entropy"))[:count]


def on_common_runs(scores: Mapping[Name, Scores]) -> Mapping[Name, Scores]:
    """Return the scores on the runs that all candidates have, or all scores if there is no such run."""
    common = set.intersection(*(set(some) for some in scores.values()))
    return {name: {key: some[key] for key in common} for name, some in scores.items()} if common else scores


def best_candidate(scores: Mapping[Name, Scores]) -> Name:
    """Return the candidate that validation prefers; of those that cannot be told apart, the first.

    A candidate stays in the race while its mean accuracy is within one standard error of the best (of the difference,
    paired run by run). Those that stay are compared by cross entropy, which sees smaller differences: within a quarter
    of a standard error of the best, that is unless the best is better with a probability of 60%, the first is chosen.
    Candidates are given simplest first.
    """
    staying = _near_the_best(scores, "accuracy", 1.0, errors=1.0)
    staying = _near_the_best({name: scores[name] for name in staying}, "cross_entropy", -1.0, errors=0.25)
    return staying[0]


def _near_the_best(scores: Mapping[Name, Scores], value: str, sign: float, *, errors: float) -> list[Name]:
    means = {name: sign * mean_of(some, value) for name, some in scores.items()}
    best = max(means, key=lambda name: means[name])
    staying = []
    for name, some in scores.items():
        common = sorted(some.keys() & scores[best].keys(), key=str)
        gaps = np.array([sign * (getattr(scores[best][key], value) - getattr(some[key], value)) for key in common])
        error = gaps.std(ddof=1) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
        if name == best or (len(gaps) and gaps.mean() <= errors * error):
            staying.append(name)
    return staying


def scalings_of(graph: Graph) -> tuple[Scaling, ...]:
    """Return the scalings that make a difference on a graph.

    Rows are not divided where features are negative, and the identity matrix, which stands for missing features, is
    left as it is.
    """
    features: Any = graph.features
    values = getattr(features, "data", features)
    if features is None or np.min(values, initial=0.0) < 0:
        return ("none", "columns")
    if graph.num_features == graph.num_nodes == getattr(features, "nnz", -1) and np.all(features.diagonal() == 1):
        return ("none",)
    return ("none", "rows", "columns")


def preparations_of(graph: Graph, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the preparations to try on a graph, with the settings that are fixed."""
    known = scalings_of(graph)
    found: list[dict[str, Any]] = []
    for each in PREPARATIONS:
        settled = {name: fixed.get(name, value) for name, value in each.items()}
        if each["scaling"] in known and settled not in found:
            found.append(settled)
    return found


def words_for(preparation: Mapping[str, Any]) -> str:
    """Return a preparation in a few words, which tell it from the others in tables."""
    features = {"rows": "features by row", "none": "raw features", "columns": "standardized features"}
    bias = "" if preparation["bias"] else ", no bias"
    return f"{features[preparation['scaling']]}, weight decay {preparation['weight_decay']:g}{bias}"


def inner_splits(graph: Graph, split: Split, count: int) -> list[Split]:
    """Return the split itself and others that deal its training and validation nodes anew, class by class."""
    labels = graph.labels
    if labels is None:
        raise InputError("the graph has no labels to learn from.")
    found = [split]
    known = np.concatenate([split.train, split.val])
    for number in range(1, count):
        rng = np.random.default_rng(number)
        dealt: dict[str, list[int]] = {"train": [], "val": []}
        for label in np.unique(labels[known]):
            members = rng.permutation(known[labels[known] == label])
            learned = int((labels[split.train] == label).sum())
            dealt["train"] += members[:learned].tolist()
            dealt["val"] += members[learned:].tolist()
        parts = {part: np.sort(np.array(nodes, dtype=np.int64)) for part, nodes in dealt.items()}
        none = np.empty(0, dtype=np.int64)
        found.append(Split(f"{split.name} inner {number}", parts["train"], parts["val"], none, split.node_weight))
    return found


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
    """Yield in words which candidate was chosen and, from a pair with links and without, how much the links add."""
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
