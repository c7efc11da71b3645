"""The candidates of ``fit``: methods, ways to prepare the network for the features, and which of them is chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from fishergcn._settings.choices import Scaling
from fishergcn.graph import Graph

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
    """Return the candidates with the least cross entropy on the runs that all have, the best first.

    Examples
    --------
    >>> leaders({"a": {1: Score(0.8, 0.6)}, "b": {1: Score(0.8, 0.5)}, "c": {1: Score(0.8, 0.7)}}, 2)
    ['b', 'a']
    """
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

    Parameters
    ----------
    scores
        The runs of each candidate, simplest first.

    Examples
    --------
    >>> simple = {1: Score(0.80, 0.60), 2: Score(0.82, 0.58)}
    >>> best_candidate({"simple": simple, "costly": {1: Score(0.81, 0.60), 2: Score(0.81, 0.58)}})
    'simple'
    >>> best_candidate({"simple": simple, "costly": {1: Score(0.90, 0.40), 2: Score(0.91, 0.38)}})
    'costly'
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

    Examples
    --------
    >>> scalings_of(Graph.from_edges([(0, 1)], features=[[1.0], [-1.0]]))
    ('none', 'columns')
    """
    features: Any = graph.features
    values = getattr(features, "data", features)
    if features is None or np.min(values, initial=0.0) < 0:
        return ("none", "columns")
    if graph.num_features == graph.num_nodes == getattr(features, "nnz", -1) and np.all(features.diagonal() == 1):
        return ("none",)
    return ("none", "rows", "columns")


def preparations_of(graph: Graph, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the preparations to try on a graph, with the settings that are fixed.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1)], features=[[1.0], [-1.0]])
    >>> [each["weight_decay"] for each in preparations_of(graph, {"scaling": "none"})]
    [0.0005, 0.005]
    """
    known = scalings_of(graph)
    found: list[dict[str, Any]] = []
    for each in PREPARATIONS:
        settled = {name: fixed.get(name, value) for name, value in each.items()}
        if each["scaling"] in known and settled not in found:
            found.append(settled)
    return found


def words_for(preparation: Mapping[str, Any]) -> str:
    """Return a preparation in a few words, which tell it from the others in tables.

    Examples
    --------
    >>> words_for({"scaling": "rows", "bias": False, "weight_decay": 5e-4})
    'features by row, weight decay 0.0005, no bias'
    """
    features = {"rows": "features by row", "none": "raw features", "columns": "standardized features"}
    bias = "" if preparation["bias"] else ", no bias"
    return f"{features[preparation['scaling']]}, weight decay {preparation['weight_decay']:g}{bias}"
