"""The page in words, for someone who opens it first: what was compared, what came out, what to do next."""

from __future__ import annotations

from fishergcn.drawing import Html, tag
from fishergcn.report._headline import sentence
from fishergcn.report._markup import Section, command
from fishergcn.report._outcome import Outcome
from fishergcn.studies import SPLITS_TO_JUDGE
from fishergcn.training import parse_method

_MOST = 8  # sentences about controls; more are in the table
_OWN = "fishergcn train --edges links.csv --features nodes.csv --labels labels.csv --out model"
_COMPARE = "fishergcn compare --edges links.csv --features nodes.csv --labels labels.csv --out comparison"


def summary(outcome: Outcome) -> Section | None:
    """What was compared, what came out, what to do next."""
    if not outcome.summaries:
        return None
    compared = [tag("p", _counts(outcome)), tag("ul", *_methods(outcome))]
    return Section(
        "summary",
        "In words",
        [
            tag("h3", "What was compared"),
            *compared,
            tag("h3", "What came out"),
            tag("ul", *_results(outcome)),
            tag("h3", "What to do next"),
            tag("ul", *_next(outcome)),
        ],
    )


def describe(name: str) -> str:
    """Return what a method is, in words.

    Examples
    --------
    >>> describe("gcn-t-x5")
    'a graph convolutional network that also looks at distant neighbors, trained with 5 dropout samples per step'
    """
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
    return f"{each} for predicting the classes of nodes in {data}, {where}{often}. All methods use the same ones."


def _methods(outcome: Outcome) -> list[Html]:
    names = dict.fromkeys(cell.method for cell in outcome.summaries)
    controls = {cell.control for cell in outcome.summaries if not cell.variant}
    found = []
    for name in names:
        control = "; a control, to see what changing the graph adds" if name in controls else ""
        found.append(tag("li", tag("code", name), f": {describe(name)}{control}"))
    return found


def _results(outcome: Outcome) -> list[Html]:
    found = []
    for dataset in outcome.datasets:
        means = {
            cell.name: each.accuracy.mean
            for cell, each in outcome.summaries.items()
            if cell.dataset == dataset and each.accuracy is not None
        }
        best = max(means, key=lambda name: means[name])
        text = f" classified {means[best]:.1%} of the test nodes of {dataset} correctly"
        if len(means) > 1:
            text += f", the highest mean of all methods; the lowest is {min(means.values()):.1%}"
        found.append(tag("li", tag("code", best), f"{text}."))
    plain = {cell.name for cell in outcome.runs if not cell.variant}
    judged = [one for one in outcome.comparisons if one.role == "control" and one.cell in plain]
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
    found.append(tag("li", "Train a model on your own data: ", command(_OWN)))
    found.append(tag("li", "Compare methods on your own data: ", command(_COMPARE)))
    return found
