"""Does any perturbation help? Each neighborhood against its control, and against its mean without noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from fishergcn.drawing import Chart, draw_panels, looks, tag
from fishergcn.report import _captions as captions
from fishergcn.report._outcome import Outcome
from fishergcn.report._page import Figure, Section
from fishergcn.studies import Cell, Estimate, paired_difference
from fishergcn.training import Score, parse_method

_MANY = 20  # cells from which on the number of tests is counted


@dataclass(frozen=True)
class Judged:
    """A perturbed cell with what it gains, in paired differences."""

    cell: Cell
    score: Score
    control: Estimate  # from its control
    mean: Estimate | None  # from training on the mean of its graphs, without noise, where that was run

    @property
    def neighborhood(self) -> str:
        """Where graphs are drawn from."""
        config = self.cell.config
        if config.perturbation != "spectral":
            return config.perturbation
        return config.directions if config.metric == "bures" else f"{config.directions}, {config.metric}"

    @property
    def radius(self) -> float:
        """How far: the radius, or the share of links."""
        config = self.cell.config
        return config.link_rate if config.perturbation in ("link-flip", "link-drop") else config.radius

    @property
    def noisy(self) -> bool:
        """Whether graphs are drawn, not their mean taken."""
        return self.cell.config.noise != "mean"

    def above(self, gain: Estimate | None) -> bool:
        """Say whether the interval of a difference lies where the score is better."""
        return gain is not None and (gain.low > 0 if self.score.better == "high" else gain.high < 0)

    def below(self, gain: Estimate) -> bool:
        """Say whether it lies where the score is worse."""
        return gain.high < 0 if self.score.better == "high" else gain.low > 0

    @property
    def kind(self) -> tuple[bool, bool, bool]:
        """How it was trained: with consistency, with dropout, with a learned shape."""
        config = self.cell.config
        return parse_method(self.cell.method).consistent, config.dropout > 0, config.adversarial


_PLAIN = (False, True, False)  # what stands on a curve over radii
_KINDS = {
    _PLAIN: "Isotropic noise with dropout",
    (False, False, False): "Without dropout",
    (True, True, False): "With consistency",
    (True, False, False): "With consistency and without dropout",
    (False, True, True): "With a learned shape",
}


def is_study_of_perturbations(outcome: Outcome) -> bool:
    """Say whether perturbed cells and means of their graphs were run."""
    return any(cell.config.noise == "mean" and parse_method(cell.method).perturbed for cell in outcome.runs)


def judge(outcome: Outcome) -> list[Judged]:
    """Return all perturbed cells that have a control, in the order of the plan."""
    gaps = {(one.dataset, one.cell): one.difference for one in outcome.comparisons if one.role == "control"}
    found = []
    for cell in outcome.runs:
        if parse_method(cell.method).perturbed and (cell.dataset, cell.name) in gaps:
            found.append(Judged(cell, outcome.score, gaps[cell.dataset, cell.name], _against_mean(outcome, cell)))
    return found


def _against_mean(outcome: Outcome, cell: Cell) -> Estimate | None:
    mean = outcome.plan.mean_of(cell)
    if mean is None or mean not in outcome.runs:
        return None
    ours, theirs = (outcome.values(cell.dataset, each.name) for each in (cell, mean))
    if not ours.keys() & theirs.keys():
        return None
    return paired_difference(ours, theirs, bounds=outcome.score.bounds, crossed=outcome.plan.crossed)[0]


def perturbations(judged: Sequence[Judged]) -> Section:
    """One paragraph and one figure."""
    chart = draw_perturbations(judged)
    words = captions.PERTURBATIONS.format(score=judged[0].score.title) if judged else ""
    drawn = [Figure("What each neighborhood gains", words, [chart])] if chart else []
    return Section("perturbations", "Does any perturbation help?", [tag("p", paragraph(judged)), *drawn])


def draw_perturbations(judged: Sequence[Judged]) -> Chart | None:
    """Draw the difference from the control over the radius: above with noise, below the mean without it."""
    if not (panels := _curves(judged)):
        return None
    words = ("Perturbations against the control", panels, looks(dict.fromkeys(each.neighborhood for each in judged)))
    score = judged[0].score
    ylabel = f"difference in {score.change}"
    return draw_panels(*words, "perturbations", ylabel=ylabel, zero=True, score=score.name)


def _curves(judged: Sequence[Judged]) -> dict[tuple[str, str], dict[str, list[tuple[float, Estimate]]]]:
    """Return by panel, that is data set and whether there is noise, the curve of each neighborhood over its radius."""
    panels: dict[tuple[str, str], dict[str, list[tuple[float, Estimate]]]] = {}
    datasets = tuple(dict.fromkeys(each.cell.dataset for each in judged))
    for noisy, words in ((True, "noise"), (False, "mean, no noise")):
        for dataset in datasets:
            curves: dict[str, list[tuple[float, Estimate]]] = {}
            for each in sorted(judged, key=lambda one: one.radius):
                if (each.cell.dataset, each.kind, each.noisy) == (dataset, _PLAIN, noisy):
                    curves.setdefault(each.neighborhood, []).append((each.radius, each.control))
            if curves:
                panels[f"{dataset}: {words}", "radius"] = curves
    return panels


def verdict(judged: Sequence[Judged]) -> str:
    """Say in one sentence whether noise gains anything over both the control and the mean of its graphs."""
    both = [each for each in judged if each.noisy and each.mean is not None]
    gained = [each for each in both if each.above(each.control) and each.above(each.mean)]
    if not both:
        return "Noise was not compared with the mean of its graphs."
    up, _ = _sides(judged)
    better = [each for each in judged if each.noisy and each.above(each.control)]
    if not gained and (missing := sum(each.mean is None for each in better)):
        return (
            f"Of {len(both)} perturbed cells whose mean was run, none is {up} both its control and its mean; of the "
            f"{len(better)} {up} their control, the mean was not run for {missing}."
        )
    if not gained:
        return f"Noise gains nothing: of {len(both)} perturbed cells none is {up} both its control and its mean."
    text = (
        f"Of {len(both)} perturbed cells {len(gained)} are {up} both their control and their mean: {_listed(gained)}."
    )
    noisy = [each for each in judged if each.noisy]
    if (left := _remaining(noisy)) is None:
        return text
    strict, kept = (sum(each in found for each in gained) for found in left)
    return (
        f"{text} With all tests against the control counted, {strict} of these {len(gained)} remain by Bonferroni's "
        f"bound and {kept} by Benjamini and Hochberg's."
    )


def _sides(judged: Sequence[Judged]) -> tuple[str, str]:
    """Return on which side of zero what is better lies, and on which what is worse."""
    return ("above", "below") if judged[0].score.better == "high" else ("below", "above")


def _remaining(noisy: Sequence[Judged]) -> tuple[list[Judged], list[Judged]] | None:
    """Return which cells are better than their control when all tests are counted, at a level of 5% together.

    By Bonferroni's bound, and by Benjamini and Hochberg's; None where there are few tests.
    """
    found = [each for each in noisy if each.control.standard_error > 0]
    if len(found) < _MANY:
        return None
    sizes = np.array([abs(each.control.mean) / each.control.standard_error for each in found])
    p_values = 2.0 * special.stdtr(np.array([each.control.degrees for each in found]), -sizes)
    order = np.argsort(p_values)
    passed = np.flatnonzero(p_values[order] <= 0.05 * np.arange(1, len(order) + 1) / len(order))
    kept = set(order[: passed[-1] + 1].tolist()) if len(passed) else set()
    gained = [(number, each) for number, each in enumerate(found) if each.above(each.control)]
    strict = [each for number, each in gained if p_values[number] <= 0.05 / len(found)]
    return strict, [each for number, each in gained if number in kept]


def _many(noisy: Sequence[Judged], up: str) -> str:
    """Say how many cells are better than their control when all tests are counted."""
    if (left := _remaining(noisy)) is None:
        return ""
    tests = sum(each.control.standard_error > 0 for each in noisy)
    return (
        f"With all {tests} tests counted, {len(left[0])} of those {up} remain by Bonferroni's bound and "
        f"{len(left[1])} by Benjamini and Hochberg's. "
    )


def paragraph(judged: Sequence[Judged]) -> str:
    """Say what was found, in numbers that come from the runs alone."""
    noisy = [each for each in judged if each.noisy]
    if not noisy:
        return "No perturbed cell has a control to compare with."
    (up, down), score = _sides(judged), judged[0].score
    above = [each for each in noisy if each.above(each.control)]
    below = [each for each in noisy if each.below(each.control)]
    best = max(noisy, key=lambda each: score.gain(each.control.mean))
    worst = min(noisy, key=lambda each: score.gain(each.control.mean))
    chance = 0.025 * len(noisy)
    text = (
        f"{verdict(judged)} The 95% interval lies {up} the control in {len(above)} of {len(noisy)} perturbed "
        f"cells and {down} it in {len(below)}; without any effect about {chance:.0f} would be on each side. "
        f"{_many(noisy, up)}The best is {_named(best)} with {_interval(best)}{score.unit} of {score.title}, the worst "
        f"{_named(worst)} with {_interval(worst)}."
    )
    compared = [(each, each.mean) for each in noisy if each.mean is not None]
    if compared:
        better = sum(each.above(gain) for each, gain in compared)
        poorer = sum(each.below(gain) for each, gain in compared)
        text += (
            f" Against training on the mean of the same graphs without noise, it lies {up} in {better} of "
            f"{len(compared)} cells and {down} in {poorer}."
        )
    means = [each for each in judged if not each.noisy]
    gains = [each for each in means if each.above(each.control)]
    if means:
        text += f" The mean alone is {up} the control in {len(gains)} of {len(means)} cells"
        text += f" ({_listed(gains)})." if gains else "."
    if above:
        compared_too = [each for each in above if each.mean is not None]
        kept = [each for each in compared_too if each.above(each.mean)]
        text += f" {up.title()} the control: {_listed(above)}; {up} the mean too: {_listed(kept) or 'none'}"
        text += f"; mean not run for {len(above) - len(compared_too)}." if len(compared_too) < len(above) else "."
    for kind, words in _KINDS.items():
        group = [each.control.mean for each in noisy if each.kind == kind]
        if group:
            mean = f"{score.difference(sum(group) / len(group))}{score.unit}"
            text += f" {words}: {mean} in the mean of {len(group)} cells."
    return text


def _named(each: Judged) -> str:
    return f"{each.cell.name} on {each.cell.dataset}"


def _listed(judged: Sequence[Judged]) -> str:
    shown = ", ".join(_named(each) for each in judged[:6])
    return shown + (f" and {len(judged) - 6} more" if len(judged) > 6 else "")


def _interval(each: Judged) -> str:
    gain, text = each.control, each.score.difference
    interval = f" [{text(gain.low)}, {text(gain.high)}]" if gain.low <= gain.high else ""
    return text(gain.mean) + interval
