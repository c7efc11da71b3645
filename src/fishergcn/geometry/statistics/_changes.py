"""Change points of a sequence of graphs: steps at which it changed, with a level, and what accounts for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.reprs import one_line
from fishergcn._base.types import FloatArray
from fishergcn.errors import InputError
from fishergcn.geometry.intrinsic._laplacian import Local
from fishergcn.geometry.statistics._attribution import ChangeExplanation, explain_change
from fishergcn.geometry.statistics._collection import GraphCollection, Graphs, as_collection
from fishergcn.geometry.statistics._marks import can_be_marked, find_marks, smallest_p
from fishergcn.geometry.statistics._pairwise import pairwise
from fishergcn.geometry.statistics._redraws import redrawn
from fishergcn.geometry.statistics._steps import Steps, odd_graphs
from fishergcn.geometry.statistics._tests import check_distances

LEAST_STEPS = 4
_SURE = 12  # graphs from which on a large change is nearly always marked; benchmarks/change_points.py counts
_WIDEST = 10  # graphs of the window unless one is chosen
_GAP = 5.0  # how many times the usual one a step in time must be to be pointed out


@dataclass(frozen=True)
class Change:
    """A step of a sequence that changed: the graph ``step`` differs from those before it; see :func:`change_points`."""

    step: int
    name: str
    size: float
    statistic: float
    p_value: float
    explanation: ChangeExplanation | None
    stable: float = 1.0
    __repr__ = one_line


@dataclass(frozen=True, eq=False)
class ChangePoints:
    """Where a sequence of graphs changed; see :func:`change_points`.

    Squared distances of graphs that are up to w steps apart are split into d²(i, j) ≈ a_i + a_j + Σ_{i<t≤j} c_t, by
    least squares: ``alone``, the a_i, is by how much each graph is off on its own, ``sizes``, the c_t, what each step
    changed for good. In a sequence that drifts, every step has c_t > 0; a change is a step that stands out.

    - ``statistics``: the larger of two, as shares of what chance reaches with probability ``level``. *Sharp*: how far
      c_t is above the usual c_t, in their standard deviations, without the largest third; *wide*: the difference of
      the w graphs before and the w graphs from t on, less what the usual c_t explain. The first finds changes in
      sequences that drift and changes that follow each other, the second small ones in long calm stretches.
    - ``p_values``: the share of random orders of the sequence whose largest statistic, over all steps, is at least as
      large. So a sequence whose order carries no information has a marked step with probability ``level``, however
      many steps it has. In a steady drift, marks are rarer. Where steps are marked, the runs of graphs between them
      are tested in the same way, each at its share of the level (and p-values are divided by that share), until no
      more is marked: beside large changes, smaller ones are seen.
    - ``odd``: graphs that stand alone, far from those before and after. The order of a sequence says nothing about
      them, so that they have no level.
    """

    names: tuple[str, ...]
    sizes: FloatArray
    alone: FloatArray
    statistics: FloatArray
    p_values: FloatArray
    changes: tuple[Change, ...]
    odd: tuple[int, ...]
    ranks: tuple[int, ...]
    window: int
    level: float | None
    smallest_p: float
    notes: tuple[str, ...]
    __repr__ = one_line

    def ranked(self, most: int | None = None) -> list[int]:
        """Return the most distinct steps, marked ones and the largest changes first: where to look without marks."""
        return list(self.ranks[:most])


def change_points(
    graphs: Graphs,
    *,
    distances: Any | None = None,
    window: int | None = None,
    level: float = 0.05,
    permutations: int = 999,
    laplacian: Local = "combinatorial",
    explain: bool = True,
    seed: int = 0,
) -> ChangePoints:
    """Find the steps at which a sequence of graphs changed more than usual, and which nodes and links account for it.

    What a step changed for good is told from noise and from a steady drift, as :class:`ChangePoints` says. Marked are
    steps with a p-value of at most ``level``. Without marks, ``ranked()`` gives the most distinct steps.

    Parameters
    ----------
    graphs : GraphCollection or graphs
        In the order of time, at least 4. If they have times, these must increase.
    distances : (T, T) array, optional
        Distances of all graphs, or what :func:`pairwise` returned; by default their Bures distances.
    window : int, optional
        The window w, at least 2; by default half of the sequence, at most 10. Windows count graphs, not time.
    level : float
        The probability of a mark where there is nothing to find.
    permutations : int
        How many random orders, at least 99.
    laplacian : {"renormalized", "normalized", "combinatorial"}
        Which Laplacian stands for a graph, in distances that are not given and in explanations.
    explain : bool
        Whether to find nodes and links of marked steps (:func:`explain_change` of the two windows).
    seed : int
        Of the random orders.

    Returns
    -------
    ChangePoints
        ``sizes``, ``statistics`` and ``p_values`` of all steps (NaN for the first two and the last, where a change
        cannot be told from an odd graph), ``alone`` of all graphs; ``changes``, a :class:`Change` for each marked step;
        ``odd``; ``level``, None for fewer than 8 graphs; ``smallest_p``, the smallest p-value there can be; ``notes``.
        ``stable`` of a change is the share of 20 draws of the distances within their error bars for which it is marked.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def draw(groups):
    ...     same = np.equal.outer(np.arange(24) % groups, np.arange(24) % groups)
    ...     return np.triu(rng.random((24, 24)) < np.where(same, 0.6, 0.1), 1) * 1.0
    >>> found = change_points([each + each.T for each in [draw(2 + at // 8) for at in range(16)]])
    >>> [(each.step, each.p_value < 0.05) for each in found.changes]
    [(8, True)]
    """
    sequence = as_collection(graphs, at_least=LEAST_STEPS, why=" to find changes between them")
    notes = check_order(sequence)
    count = len(sequence)
    width = _checked_window(window, count)
    check_real("level", level, above=0.0, below=1.0)
    check_integer("permutations", permutations, minimum=99)
    check_integer("seed", seed, minimum=0)
    given = pairwise(sequence, laplacian=laplacian) if distances is None else distances
    matrix = _checked(sequence, given)
    known = level if can_be_marked(count, permutations, level) else None
    chosen = (width, level, permutations if known is not None else 0, seed)
    steps, marked, ranks = find_marks(matrix, *chosen)
    drawn = [find_marks(each, *chosen)[1] for each in (redrawn(given, matrix, seed) if known is not None else ())]
    changes = []
    for at in marked:
        why = _explained(sequence, at, width, laplacian, marked) if explain else None
        size, statistic, p_value = (float(each[at]) for each in (steps.changes, steps.statistics, steps.p_values))
        stable = sum(at in each for each in drawn) / len(drawn) if drawn else 1.0
        changes.append(Change(at, sequence.names[at], size, statistic, p_value, why, stable))
    notes += _notes_on_errors(changes, drawn)
    notes += _notes(count, permutations, level, known, bool(marked), steps)
    return ChangePoints(
        sequence.names, steps.changes, steps.alone, steps.statistics, steps.p_values, tuple(changes),
        tuple(odd_graphs(steps, matrix)), tuple(ranks), width, known, smallest_p(count, permutations), tuple(notes),
    )  # fmt: skip


def _checked_window(window: int | None, count: int) -> int:
    width = min(_WIDEST, count // 2) if window is None else check_integer("window", window, minimum=2)
    if 2 * width > count:
        raise InputError(f"window must be at most half of the sequence of {count} graphs, got {width}.")
    return width


def _notes_on_errors(changes: list[Change], drawn: list[list[int]]) -> list[str]:
    """Say which marks the error bars of the distances put in doubt."""
    found = [
        f"The mark at {each.name} depends on errors of the distances: it is there in {each.stable:.0%} of {len(drawn)} "
        "draws within their error bars; more probes make them smaller."
        for each in changes
        if each.stable < 1
    ]
    here = {each.step for each in changes}
    more = sum(bool(set(each) - here) for each in drawn)
    if more > len(drawn) / 20:
        found.append(f"In {more} of {len(drawn)} draws within the error bars of the distances, other steps are marked.")
    return found


def _checked(sequence: GraphCollection, distances: Any) -> FloatArray:
    found = check_distances(distances)
    if len(found) != len(sequence):
        raise InputError(f"distances must be those of the {len(sequence)} graphs, got {len(found)}.")
    return found


def _notes(count: int, permutations: int, level: float, known: float | None, marked: bool, steps: Steps) -> list[str]:
    """Say why there is no level, or no mark in a sequence whose order matters."""
    if known is None:
        words = f"{count} graphs are too few for a level of {level:g} with {permutations} random orders."
        return [f"{words} Steps are ranked by what they changed."]
    notes = []
    if not marked and steps.in_order <= level:
        notes.append("Graphs that follow each other are close, and no step stands out: the sequence drifts.")
    if not marked and count < _SURE:
        notes.append(
            f"{count} graphs cannot be sure to mark even a large change at the level {level:g}; see the ranks."
        )
    return notes


def check_order(sequence: GraphCollection) -> list[str]:
    """Refuse times that do not increase; return notes of gaps between them."""
    if sequence.times is None:
        return []
    steps = np.diff(np.array(sequence.times))
    if (steps <= 0).any():
        at = int(np.argmax(steps <= 0))
        one, other = sequence.names[at], sequence.names[at + 1]
        raise InputError(
            f"graphs must be in the order of time, but {other!r} ({sequence.times[at + 1]:g}) comes after {one!r} "
            f"({sequence.times[at]:g}); graphs.in_time() sorts them."
        )
    usual = float(np.median(steps))
    wide = [sequence.names[at + 1] for at in np.flatnonzero(steps > _GAP * usual)]
    if not wide:
        return []
    shown = ", ".join(wide[:3]) + (", …" if len(wide) > 3 else "")
    return [f"Times are uneven: more than {_GAP:g} usual steps lie before {shown}. Windows count graphs, not time."]


def _explained(
    sequence: GraphCollection, step: int, width: int, laplacian: Local, marked: list[int]
) -> ChangeExplanation:
    """Explain a change by the graphs before and after it, as far as the windows reach no other change."""
    begin = max([0, step - width, *(other for other in marked if other < step)])
    end = min([len(sequence), step + width, *(other for other in marked if other > step)])
    graphs = sequence.adjacencies
    return explain_change(list(graphs[begin:step]), list(graphs[step:end]), laplacian)
