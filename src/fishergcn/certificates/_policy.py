"""The worst links for personalized propagation, exactly, by policy iteration (Bojchevski and Günnemann, NeurIPS 2019).

Every node v chooses its outgoing links N(v) among those that differ from the graph's in at most b_v places. With

    x_v = α r_v(|N(v)|) + (1 - α) mean of x over N(v),

x = α (I - (1 - α) D⁻¹A)⁻¹ r is the margin r propagated by personalized PageRank. The choices are those of a Markov
decision process with discount 1 - α: one policy is the worst for all nodes at once, its x is the only fixed point of

    (T x)_v = min over N(v) of α r_v(|N|) + (1 - α) mean of x over N,

and x - max(x - T x, 0)/α bounds it from below for every x. With p links removed and q added, the smallest mean is
without the p largest x of neighbors and with the q smallest x of others: a minimum over p + q ≤ b_v. r may depend on
the number of links, r_v |N|^-power, as label propagation needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fishergcn._base.types import BoolArray, CSRArray, FloatArray, IntArray

_ROUNDS = 100
_UNIT = 2.0**-53


class Step(NamedTuple):
    """T x, the numbers p and q of each node, and the columns of neighbors and of others, best first, (n, ≤ b)."""

    values: FloatArray
    removed: IntArray
    added: IntArray
    worst: IntArray
    best: IntArray


@dataclass(frozen=True)
class Choices:
    """What every node may choose: a graph of zeros and ones, b of each node, and which changes are meant.

    With ``mutual`` a link is one of both its nodes: none to a node that may not change it, or that would lose its last.
    """

    links: CSRArray
    budgets: IntArray
    remove: bool
    add: bool
    alpha: float
    power: float = 0.0
    mutual: bool = False

    @cached_property
    def degrees(self) -> IntArray:
        """Return the number of links of each node."""
        return np.diff(self.links.indptr).astype(np.int64)

    @cached_property
    def _rows(self) -> IntArray:
        return np.repeat(np.arange(len(self.degrees)), self.degrees)

    @cached_property
    def _removable(self) -> BoolArray:
        """Return which entries may go: none from a node to itself."""
        there = (self.budgets > 0) & ((self.degrees > 1) | (self.add & (self.budgets > 1)))
        found: BoolArray = self.links.indices != self._rows
        return found & there[self.links.indices] if self.mutual else found

    @cached_property
    def _addable(self) -> BoolArray:
        """Return the nodes to which links may come."""
        return self.budgets > 0 if self.mutual else np.ones(len(self.degrees), dtype=np.bool_)

    def rounding(self, size: float) -> float:
        """Bound the error of T x for |x|, |r| up to ``size``."""
        terms = int(self.degrees.max(initial=0)) + 2 * int(self.budgets.max(initial=0)) + 8
        return 4 * terms * _UNIT * size

    def reward(self, margin: FloatArray, sizes: IntArray) -> FloatArray:
        """Return r_v |N|^-power; |N| = 0 counts as 1."""
        return margin * np.maximum(sizes, 1) ** -self.power

    def step(self, x: FloatArray, margin: FloatArray) -> Step:
        """Return T x and the links that attain it."""
        most = int(self.budgets.max(initial=0))
        n, degrees = len(x), self.degrees
        sums = np.asarray(self.links @ x)
        worst, gone = self._neighbors(x, most if self.remove else 0)
        best, come = self._others(x, most if self.add else 0)
        value, removed, added = np.full(n, np.inf), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        for p in range(gone.shape[1]):
            for q in range(come.shape[1]):
                size = degrees - p + q
                known = (p + q <= self.budgets) & np.isfinite(gone[:, p]) & np.isfinite(come[:, q])
                known &= (size > 0) | (p + q == 0)
                with np.errstate(invalid="ignore"):
                    mean = (sums - gone[:, p] + come[:, q]) / np.maximum(size, 1)
                    found = self.alpha * self.reward(margin, size) + (1 - self.alpha) * mean
                better = known & (np.where(known, found, np.inf) < value)
                value[better], removed[better], added[better] = found[better], p, q
        return Step(value, removed, added, worst, best)

    def _neighbors(self, x: FloatArray, most: int) -> tuple[IntArray, FloatArray]:
        """Return the neighbors of largest x, and the sums of the first 0, 1, … of them, infinite beyond the last."""
        if not most or not self.links.nnz:
            return np.zeros((len(x), 0), dtype=np.int64), np.zeros((len(x), 1))
        keys = np.where(self._removable, -x[self.links.indices], np.inf)
        order, at = np.lexsort((keys, self._rows)), np.arange(most)
        free = np.bincount(self._rows[self._removable], minlength=len(x))[:, None]
        places = np.minimum(self.links.indptr[:-1, None] + at, self.links.nnz - 1)
        found = self.links.indices[order][places].astype(np.int64)
        return found, _sums(np.where(at < free, x[found], np.inf))

    def _others(self, x: FloatArray, most: int) -> tuple[IntArray, FloatArray]:
        """Return the nodes of smallest x that are not neighbors, and sums likewise.

        Let ρ_0 < ρ_1 < … be the ranks of v and its neighbors. The rank of the q-th other node is q plus the number of
        those with ρ_i - i ≤ q.
        """
        n, order = len(x), np.argsort(np.where(self._addable, x, np.inf), kind="stable")
        if not most:
            return np.zeros((n, 0), dtype=np.int64), np.zeros((n, 1))
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n)
        linked = self._rows[self.links.indices != self._rows], self.links.indices[self.links.indices != self._rows]
        rows, ranks = np.concatenate([linked[0], np.arange(n)]), rank[np.concatenate([linked[1], np.arange(n)])]
        sorted_ = np.lexsort((ranks, rows))
        rows, ranks = rows[sorted_], ranks[sorted_]
        counts = np.bincount(rows, minlength=n)
        ahead = ranks - (np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows])
        found = np.zeros((n, most), dtype=np.int64)
        free = self._addable.sum() - np.bincount(rows[self._addable[order][ranks]], minlength=n)
        known = np.arange(most) < free[:, None]
        for q in range(most):
            found[:, q] = order[np.minimum(q + np.bincount(rows[ahead <= q], minlength=n), n - 1)]
        return found, _sums(np.where(known, x[found], np.inf))

    def graph(self, step: Step) -> CSRArray:
        """Return A with the links that were chosen: row v has those that go out from v."""
        n = len(self.degrees)
        gone, come = (
            [(np.flatnonzero(count > at), columns[count > at, at]) for at in range(columns.shape[1])]
            for count, columns in ((step.removed, step.worst), (step.added, step.best))
        )
        found: Any = self.links
        for sign, pairs in ((-1.0, gone), (1.0, come)):
            for rows, columns in pairs:
                found = found + sparse.csr_array((np.full(len(rows), sign), (rows, columns)), shape=(n, n))
        made: CSRArray = sparse.csr_array(found)
        made.eliminate_zeros()
        return made

    def value(
        self, links: CSRArray, margin: FloatArray, x: FloatArray | None = None, steps: int | None = None
    ) -> FloatArray:
        """Return x of given links as exactly as float64 has it, or after a number of steps from x = r."""
        sizes = np.diff(links.indptr)
        reward = self.alpha * self.reward(margin, sizes)
        walk = sparse.diags_array((1 - self.alpha) / np.maximum(sizes, 1)) @ links
        x = reward / self.alpha if x is None else x
        size = max(float(np.abs(margin).max(initial=0.0)), 1e-300)
        for _ in range(int(np.ceil(-40 / np.log1p(-self.alpha))) + 1 if steps is None else steps):
            before, x = x, reward + walk @ x
            if steps is None and np.abs(x - before).max() <= 2 * _UNIT * size:
                break
        return np.asarray(x)

    def worst(self, margin: FloatArray) -> tuple[FloatArray, FloatArray, CSRArray]:
        """Return a lower bound of the smallest x, x of the worst links, and these, by policy iteration."""
        size = float(np.abs(margin).max(initial=0.0))
        links, x = self.links, self.value(self.links, margin)
        for _ in range(_ROUNDS):
            step = self.step(x, margin)
            if (x - step.values).max() <= self.rounding(size):
                break
            links = self.graph(step)
            x = self.value(links, margin, x)
        below = max(float((x - step.values).max()), 0.0) + self.rounding(size)
        return x - below / self.alpha, x, links

    def after(self, margin: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
        """Bound x after a number of steps from x = r, whatever the links, by applying T; return also its last x."""
        span = self.budgets if self.add else 0 * self.budgets
        sizes = np.where(margin > 0, self.degrees + span, np.maximum(self.degrees - self.budgets * self.remove, 1))
        x = self.reward(margin, sizes)
        for _ in range(steps):
            x = self.step(x, margin).values
        return x - self.rounding(float(np.abs(margin).max(initial=0.0))) / self.alpha, x


def _sums(values: FloatArray) -> FloatArray:
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
