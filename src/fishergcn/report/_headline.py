"""A study in words: the verdict at the top of its page, what was compared, what came out, what to do next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fishergcn import datasets
from fishergcn.drawing import Html, Look, Row, draw_rows, tag
from fishergcn.report import _captions as captions
from fishergcn.report._forest import judgment, sentence
from fishergcn.report._outcome import Outcome
from fishergcn.report._page import Figure, Section, command, in_short
from fishergcn.studies import SPLITS_TO_JUDGE, Comparison
from fishergcn.training import parse_method

# Rows of a panel; those of longer lists are chosen by their means.
_MOST_ROWS = 14
_LEAST = 0.1  # the range of an axis in percent, on which small differences look small
_SAME = 1e-12  # between means that are one
_MOST = 8  # sentences about controls; more are in the table
_OWN = "fishergcn train --edges links.csv --features nodes.csv --labels labels.csv --out model"
_COMPARE = "fishergcn compare --edges links.csv --features nodes.csv --labels labels.csv --out comparison"


def headline(outcome: Outcome, looks: Mapping[str, Look], said: str = "") -> Section | None:
    """Say which method came out first and whether the perturbation helps; draw the score of all methods.

    What is ``said`` by others about the perturbation comes first, and is not said again.
    """
    if not outcome.summaries:
        return None
    titles = {dataset: dataset if len(outcome.datasets) > 1 else "" for dataset in outcome.datasets}
    panels = {title: rows for dataset, title in titles.items() if (rows := _rows(outcome, dataset, looks))}
    lines = {titles[dataset]: value for dataset in titles if math.isfinite(value := outcome.constant(dataset))}
    score, title = outcome.score, f"Test {outcome.score.title}"
    chart = draw_rows(f"{title} on {', '.join(outcome.datasets)}", panels, "headline",
                      x=f"test {score.title} ({score.direction})", score=score.name, beside=lines,
                      least=(_LEAST if score.percent else 1e-9) if lines else 0.0)  # fmt: skip
    caption = captions.HEADLINE + (captions.CONSTANT if lines else "")
    sentences = [said, _best(outcome)] if said else [_best(outcome), *_controls(outcome)]
    return in_short(sentences, Figure(title, caption, [chart], files=()))


def _rows(outcome: Outcome, dataset: str, looks: Mapping[str, Look]) -> list[Row]:
    """Return the cells to draw: those without variants, the best where there are too many."""
    cells = [cell for cell in outcome.cells(dataset).values() if cell in outcome.summaries]
    plain = [cell for cell in cells if not cell.variant] or cells
    best = sorted(plain, key=lambda cell: -outcome.score.gain(outcome.estimate(cell).mean))[:_MOST_ROWS]
    return [
        Row(cell.name, found.mean, found.low, found.high, looks[cell.name],
            [*outcome.values(dataset, cell.name).values()], series=cell.name)
        for cell in plain
        if cell in best and (found := outcome.estimate(cell))
    ]  # fmt: skip


def _means(outcome: Outcome, dataset: str) -> dict[str, float]:
    """Return the mean score of each cell of a data set, the best first."""
    means = {cell.name: outcome.estimate(cell).mean for cell in outcome.summaries if cell.dataset == dataset}
    return dict(sorted(means.items(), key=lambda item: -outcome.score.gain(item[1])))


def _firsts(means: dict[str, float]) -> list[str]:
    """Return the names of the cells with the best mean, which several may share."""
    best = next(iter(means.values()))
    return [name for name, mean in means.items() if abs(mean - best) <= _SAME]


def _listed(names: Sequence[str]) -> str:
    if len(names) > 3:
        return f"{names[0]} and {len(names) - 1} others"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _best(outcome: Outcome) -> str:
    found, score = [], outcome.score
    for dataset in outcome.datasets:
        if means := _means(outcome, dataset):
            found.append((_listed(_firsts(means)), dataset, score.text(next(iter(means.values())), 1)))
    methods, most = len({cell.name for cell in outcome.summaries}), _most(outcome)
    what = (
        f"the mean test {score.title}" if methods == 1 else f"the {most} mean test {score.title} of {methods} methods"
    )
    if len(found) == 1:
        ((name, dataset, value),) = found
        return (
            f"{name} {'have' if ' and ' in name else 'has'} {what} on {dataset}: {value}."
            if methods > 1
            else f"{name} has {what} {value} on {dataset}."
        )
    listed = ", ".join(f"{name} on {dataset} ({value})" for name, dataset, value in found)
    return f"{what[0].upper()}{what[1:]}: {listed}."


def _most(outcome: Outcome, *, best: bool = True) -> str:
    return "highest" if (outcome.score.better == "high") == best else "lowest"


def _controls(outcome: Outcome) -> list[str]:
    """Sum up how perturbed methods did against their controls, in one sentence."""
    judged = outcome.controls or [one for one in outcome.comparisons if one.role == "control"]
    if not judged:
        return []
    if len(judged) == 1:
        return [sentence(judged[0])]
    words = {
        True: "Changing the graph during training, compared with a control trained without it",
        False: "Methods that leave the graph as it is, compared with their controls",
    }
    found = [_sides(judged, words[kind], outcome, kind) for kind in (True, False)]
    return [each for each in found if each]


def _sides(judged: Sequence[Comparison], what: str, outcome: Outcome, perturbed: bool) -> str:
    """Count on which side of zero the intervals of methods lie, perturbed or not."""
    sides = [
        judgment(one.difference, outcome.score)
        for one in judged
        if parse_method(outcome.cells(one.dataset)[one.cell].method).perturbed == perturbed
    ]
    words = {"better": "better in {}", "worse": "worse in {}", "zero": "no measurable difference in {}",
             "equal": "equal results in {}", "unknown": "too few runs to tell in {}"}  # fmt: skip
    counted = [text.format(sides.count(side)) for side, text in words.items() if side in sides]
    return f"{what}: {', '.join(counted)} of {len(sides)} comparisons." if sides else ""


def summary(outcome: Outcome) -> Section | None:
    """What was compared, what came out, what to do next."""
    if not outcome.summaries:
        return None
    body = [tag("h3", "What was compared"), tag("p", _counts(outcome)), tag("ul", *_methods(outcome))]
    body += [tag("h3", "What came out"), tag("ul", *_results(outcome))]
    body += [tag("h3", "What to do next"), tag("ul", *_next(outcome))]
    return Section("summary", "In words", body)


def _describe(name: str) -> str:
    """Return what a method is, in words."""
    method = parse_method(name)
    words = method.described.summary
    words += " that also looks at distant neighbors" * method.high_order
    if method.perturbed:
        words += ", trained on slightly changed versions of the graph"
    elif method.samples is not None and method.samples > 1:
        words += f", trained with {method.samples} dropout samples per step"
    return words + " and rewarded for consistent predictions" * method.consistent


def _counts(outcome: Outcome) -> str:
    names = {cell.name for cell in outcome.summaries}
    splits, seeds = (len({getattr(run, part) for run in outcome.records}) for part in ("split", "seed"))
    where = f"on {splits} different choices of training, validation and test nodes (splits)"
    if splits == 1:
        where = "on one choice of training, validation and test nodes (a split)"
    often = "" if seeds == 1 else f", {seeds} times each with different starting weights (seeds)"
    each = "One method" if len(names) == 1 else f"{len(names)} methods"
    data = ", ".join(outcome.datasets)
    same = " All methods use the same ones." if len(names) > 1 else ""
    return f"{each} for predicting the classes of nodes in {data}, {where}{often}.{same}"


def _methods(outcome: Outcome) -> list[Html]:
    names = dict.fromkeys(cell.method for cell in outcome.summaries)
    plain = [cell for cell in outcome.summaries if not cell.variant]
    controls = dict.fromkeys((cell.control for cell in plain), "; a control, to compare another method with")
    changing = (cell.control for cell in plain if parse_method(cell.method).perturbed)
    controls |= dict.fromkeys(changing, "; a control, to see what changing the graph adds")
    found = []
    for name in names:
        control = controls.get(name, "")
        found.append(tag("li", tag("code", name), f": {_describe(name)}{control}"))
    return found


def _results(outcome: Outcome) -> list[Html]:
    found = []
    for dataset in outcome.datasets:
        means, score = _means(outcome, dataset), outcome.score
        if not means:
            continue
        best, worst = next(iter(means)), next(reversed(means))
        text = f" has a mean test {score.title} of {score.text(means[best], 1)} on {dataset}"
        firsts = len(_firsts(means))
        if 1 < firsts == len(means):
            text += ", as all methods have"
        elif len(means) > 1:
            shared = f", as {firsts - 1} other{'s have' if firsts > 2 else ' has'}" if firsts > 1 else ""
            text += f", the {_most(outcome)} of all methods{shared}; the {_most(outcome, best=False)} is "
            text += score.text(means[worst], 1)
        found.append(tag("li", tag("code", best), f"{text}."))
    judged = outcome.controls
    found += [tag("li", sentence(one)) for one in judged[:_MOST]]
    if len(judged) > _MOST:
        found.append(tag("li", f"{len(judged) - _MOST} more comparisons are below."))
    return found


def _next(outcome: Outcome) -> list[Html]:
    found = []
    done = sum(map(len, outcome.runs.values())) + len(outcome.failed)
    if done < len(outcome.plan) and outcome.command:
        found.append(tag("li", "Run what is missing, with the same command: ", command(outcome.command)))
    splits = {run.split for run in outcome.records}
    if len(splits) < SPLITS_TO_JUDGE and splits != {"public"}:
        words = f"For a firmer answer, run the command under “What was run” with --splits {SPLITS_TO_JUDGE} or more"
        found.append(tag("li", f"{words} and a new folder for --out."))
    if set(outcome.datasets) <= set(datasets.available()):
        found.append(tag("li", "Train a model on your own data: ", command(_OWN)))
        found.append(tag("li", "Compare methods on your own data: ", command(_COMPARE)))
    else:
        own = " or ".join(name for name in outcome.datasets if name not in datasets.available())
        words = f"Choose and train a model on {own}: fishergcn train with the same files, without --method, and a new "
        found.append(tag("li", f"{words}folder for --out."))
    return found
