"""Are the perturbed methods of a study as good as their controls? All comparisons pooled, with a test for equality.

An interval that includes zero says that a difference was not found, not that there is none. Two one-sided t tests turn
the question around: they reject "the difference is Δ or more, in either direction".
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from scipy import special

from fishergcn._base.checks import check_real
from fishergcn.studies._resampling import TIE, Estimate, estimate_groups, units_of
from fishergcn.studies._runs import Runs
from fishergcn.studies._statistics import scores_of
from fishergcn.training import find_score, parse_method, titled

LEVEL = 0.05  # of each one-sided test, and so of both together


@dataclass(frozen=True)
class Equivalence:
    """The mean d of all differences from controls, over independent groups, and the test that it is as good as zero.

    Two one-sided t tests (TOST) at the level α = 0.05: with the standard error s of d over G groups, a true difference
    of Δ or more, in either direction, is rejected if (Δ - abs(d)) / s is above the quantile 1 - α of Student's
    distribution with G - 1 degrees of freedom. That is so for every Δ above ``margin`` = abs(d) + t(1 - α, G - 1) s.
    Where seeds are crossed with splits, s and the degrees of freedom are those of :func:`crossed_error`.

    ``difference`` is d with its interval; its groups are the splits (or, where a data set has one split, the seeds) of
    each data set: methods that share a split share its luck. ``comparisons`` is how many pairs of a cell and its
    control are pooled, ``error`` is s; with a single group it and the margin are NaN. ``metric`` names the score.
    """

    difference: Estimate
    comparisons: int
    error: float
    margin: float
    metric: str = "test_accuracy"

    def p_value(self, margin: float) -> float:
        """Return the larger p-value of the two one-sided tests, for Δ = ``margin``, at least 0."""
        room = check_real("margin", margin, minimum=0.0) - abs(self.difference.mean)
        if self.error == 0:  # all groups have the same difference
            return 0.0 if room > 0 else 0.5 if room == 0 else 1.0
        return float(special.stdtr(self.difference.degrees, -room / self.error))

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        found, many, score = self.difference, self.comparisons > 1, find_score(self.metric)
        numbers = (found.mean, found.low, found.high, self.margin)
        mean, low, high, margin = (score.difference(each, 3) for each in numbers)
        pooled = f"{self.comparisons} comparison{'s pooled' * many}"
        if found.mean == 0 and (found.runs == 1 or found.std == 0):  # a test of values without spread says nothing
            pairs = "the one pair of runs has" if found.runs == 1 else f"all {found.runs} pairs of runs have"
            return f"Perturbed methods and their controls, {pooled}: {pairs} equal {titled(self.metric)}."
        what = f"{titled(self.metric)} ({score.direction})"
        said = f"Perturbed methods minus their controls in {what}, {pooled}: {mean}{score.unit}"
        if math.isnan(self.margin):
            return f"{said}; with a single run there is no telling how precise that is."
        if self.error < TIE:
            return f"{said} in each of the {found.groups} {found.unit}; with no spread there is nothing to test."
        return (
            f"{said}, 95% interval [{low}, {high}]. Two one-sided t tests over the {found.groups} {found.unit} of all "
            f"data sets rule out a difference of {margin.lstrip('+')}{score.unit} or more, in either direction, at the "
            f"{100 * LEVEL:.0f}% level."
        )


def equivalence(
    differences: Sequence[float],
    groups: Sequence[Hashable],
    unit: str,
    comparisons: int = 1,
    metric: str = "test_accuracy",
    seeds: Sequence[Hashable] | None = None,
) -> Equivalence:
    """Summarize differences, each with the group that it belongs to, and test them for equivalence to zero."""
    found = estimate_groups(differences, groups, unit, seeds=seeds)
    error, quantile = found.standard_error, float(special.stdtrit(found.degrees, 1 - LEVEL))
    return Equivalence(found, comparisons, error, abs(found.mean) + quantile * error, metric)


def control_equivalence(runs: Runs, metric: str = "test_accuracy") -> Equivalence | None:
    """Pool the differences of all perturbed methods from their controls; None if the study has none.

    Variants (cells with other settings) and networks under attack are left out: they answer other questions.
    """
    plan = runs.plan
    differences: list[float] = []
    groups: list[Hashable] = []
    seeds: list[Hashable] = []
    units: dict[str, None] = {}
    comparisons = 0
    for cell in plan.cells:
        if cell.variant or cell.options or not parse_method(cell.method).perturbed:
            continue
        for reference in (known for known, role in plan.references(cell).items() if role == "control"):
            ours, theirs = (scores_of(runs.of_cell(each), metric) for each in (cell, reference))
            shared = {key: ours[key] - theirs[key] for key in ours if key in theirs}
            if shared:
                unit, places = units_of(shared)
                differences += shared.values()
                groups += [(cell.dataset, place) for place in places]
                seeds += [(cell.dataset, seed) for _, seed in shared]
                units[unit] = None
                comparisons += 1
    if not differences:
        return None
    crossed = seeds if plan.crossed and "seeds" not in units else None
    return equivalence(differences, groups, " and ".join(units), comparisons, metric, crossed)
