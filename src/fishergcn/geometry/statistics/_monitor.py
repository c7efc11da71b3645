"""Changes as they come: each new graph costs one distance to the mean of those before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import scipy.linalg

from fishergcn._base.checks import check_choice, check_integer, check_real
from fishergcn._base.matrices import check_adjacency
from fishergcn._base.reprs import one_line
from fishergcn._base.types import FloatArray, MatrixLike
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._density import DENSE_LIMIT, positive_trace, support
from fishergcn.geometry.intrinsic._laplacian import Local, graph_laplacian
from fishergcn.graph import Graph


@dataclass(frozen=True, eq=False)
class MonitorStep:
    """What a new graph is like; see :class:`ChangeMonitor`."""

    step: int
    score: float
    p_value: float | None
    changed: bool
    nodes: FloatArray
    __repr__ = one_line


class ChangeMonitor:
    """Compare each new graph of a stream with the mean of those before it, at the cost of one distance.

    The mean moves along the geodesic to each new graph, ρ̄ ← γ(1/k), γ the geodesic from ρ̄ to ρ and k the number of
    graphs so far, at most ``window``: at first the mean of all, then one that forgets at the pace of the window. The
    score of a graph is its Bures distance to ρ̄ before the move. Distance and geodesic come from one singular value
    decomposition of two factors, and no earlier graph is kept.

    A score's p-value is its rank among the last ``reference`` scores, (1 + number of scores at least as large) / (1 +
    number of scores). So without a change, where each of them is equally likely to be the largest, a step is reported
    with probability ``level`` at most: about one false alarm in 1/level steps. There is none, and ``p_value`` is None,
    before there are enough scores: 1/level - 1 of them after the first ``window`` graphs. After a change that lasts,
    scores stay high until the mean has followed.

    Parameters
    ----------
    window : int
        How many graphs the mean remembers, at least 2.
    level : float
        The share of steps that may be reported where nothing changes.
    reference : int
        With how many scores a score is compared, at least 1/level.
    laplacian : {"renormalized", "normalized", "combinatorial"}
        Which Laplacian stands for a graph. Nodes with links, in all graphs so far, may be up to 6000.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def draw(p):
    ...     links = np.triu(rng.random((12, 12)) < p, 1)
    ...     return links + links.T
    >>> monitor = ChangeMonitor(window=5)
    >>> usual = [monitor.add(draw(0.5)) for _ in range(30)]
    >>> star = np.zeros((12, 12))
    >>> star[0, 1:] = star[1:, 0] = 1
    >>> found = monitor.add(star)
    >>> found.changed, int(found.nodes.argmax())
    (True, 0)
    """

    def __init__(
        self, *, window: int = 10, level: float = 0.05, reference: int = 100, laplacian: Local = "combinatorial"
    ) -> None:
        self.window = check_integer("window", window, minimum=2)
        self.level = check_real("level", level, above=0.0, below=1.0)
        self._enough = int(np.ceil(1 / self.level - 1e-9)) - 1
        check_integer("reference", reference, minimum=self._enough + 1)
        check_choice("laplacian", laplacian, get_args(Local))
        self.laplacian: Local = laplacian
        self._scores: deque[float] = deque(maxlen=reference)
        self._place: dict[Any, int] = {}
        self._named: bool | None = None
        self._mean = np.zeros((0, 0))
        self.steps = 0

    def __repr__(self) -> str:
        return f"<ChangeMonitor: {self.steps} graphs, {len(self._place)} nodes, window {self.window}>"

    @property
    def node_ids(self) -> tuple[Any, ...]:
        """The nodes seen so far, in the order of ``nodes`` of a step: ids, or numbers where graphs have none."""
        return tuple(self._place)

    @property
    def mean(self) -> FloatArray:
        """The density matrix that the next graph is compared with, (n, n) in the order of ``node_ids``."""
        return np.asarray(self._mean @ self._mean.T)

    def add(self, graph: Graph | MatrixLike) -> MonitorStep:
        """Compare a graph with the mean so far, then move the mean towards it.

        Returns
        -------
        MonitorStep
            ``step`` counts from 0; ``score``, NaN for the first graph; ``p_value`` and ``changed``; ``nodes``, what
            each node contributes to the squared score, in the order of ``node_ids``, as in :func:`explain_change`.
        """
        factor = self._factor_of(graph)
        count = len(self._place)
        grown = np.zeros((count, self._mean.shape[1]))
        grown[: len(self._mean)] = self._mean
        score, nodes = float("nan"), np.zeros(count)
        if self.steps == 0:
            self._mean = factor
        else:
            width = max(grown.shape[1], factor.shape[1])
            x, y = (np.pad(each, ((0, 0), (0, width - each.shape[1]))) for each in (grown, factor))
            left, _, right = scipy.linalg.svd(y.T @ x, check_finite=False)
            y = y @ (left @ right)
            nodes = np.square(x - y).sum(axis=1)
            score = float(np.sqrt(min(2.0, float(nodes.sum()))))
            self._mean = _toward(x, y, score, 1 / min(self.steps + 1, self.window))
        p_value = None
        if self.steps >= self.window:
            if len(self._scores) >= self._enough:
                p_value = (1 + sum(each >= score for each in self._scores)) / (1 + len(self._scores))
            self._scores.append(score)
        self.steps += 1
        return MonitorStep(self.steps - 1, score, p_value, p_value is not None and p_value <= self.level, nodes)

    def _factor_of(self, graph: Graph | MatrixLike) -> FloatArray:
        """Return X with XXᵀ the density of a graph, with a row for each node seen so far; new nodes are appended."""
        ids: Sequence[Any] | None = graph.node_ids if isinstance(graph, Graph) else None
        adjacency = graph.adjacency if isinstance(graph, Graph) else check_adjacency(graph, name="graph")
        if self._named is not None and self._named != (ids is not None):
            raise InputError("graph must have node ids if those before it had them, and none if they had none.")
        if ids is None and self._named is False and adjacency.shape[0] != len(self._place):
            raise InputError(
                f"graph must have {len(self._place)} nodes, as those before it, got {adjacency.shape[0]}; graphs with "
                "node ids may differ in their nodes."
            )
        matrix = graph_laplacian(adjacency, self.laplacian)
        trace = positive_trace(float(matrix.trace()))
        linked = np.flatnonzero(matrix.diagonal() > 0)
        keys = range(adjacency.shape[0]) if ids is None else [ids[at] for at in linked.tolist()]
        new = [key for key in keys if key not in self._place]
        if max(linked.size, 0 if ids is None else len(self._place) + len(new)) > DENSE_LIMIT:
            raise InputError(f"graphs must have links at no more than {DENSE_LIMIT} nodes in all.")
        values, vectors = scipy.linalg.eigh(matrix[linked][:, linked].toarray() / trace, driver="evd")
        kept = support(values)
        self._named = ids is not None
        for key in new:
            self._place[key] = len(self._place)
        rows = [self._place[at if ids is None else ids[at]] for at in linked.tolist()]
        factor = np.zeros((len(self._place), int(kept.sum())))
        factor[rows] = vectors[:, kept] * np.sqrt(values[kept])
        return factor


def _toward(x: FloatArray, y: FloatArray, chord: float, time: float) -> FloatArray:
    """Return the factor at a time on the geodesic between two aligned factors."""
    angle = 2 * np.arcsin(min(chord / 2, np.sqrt(0.5)))
    if angle < 1e-9:
        point = (1 - time) * x + time * y
    else:
        point = (np.sin((1 - time) * angle) * x + np.sin(time * angle) * y) / np.sin(angle)
    return np.asarray(point / np.linalg.norm(point))
