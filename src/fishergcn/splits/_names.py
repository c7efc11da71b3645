"""Splits by name or by number: what people ask for, and what suits a graph if they do not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.warn import warn
from fishergcn._settings.seeds import check_seeds
from fishergcn.errors import InputError, Notice, suggestion
from fishergcn.splits._protocols import held_out, mask, per_class, public, shuffled
from fishergcn.splits._split import Split

if TYPE_CHECKING:
    from fishergcn.graph import Graph

#: How a number of splits is drawn: the public split (of which there is one), with the seeds 2019, 2020, …, or the first
#: of the masks that came with the data.
Rule = Literal["public", "shuffled", "per-class", "mask"]

_FORMS = (
    "'public', 'shuffled:SEED', 'per-class:SEED', 'per-class:TRAIN+VAL:SEED', 'held-out:PERCENT%:SEED' or 'mask:NUMBER'"
)


def parse(graph: Graph, text: str) -> Split:
    """Make the split that ``text`` names; the ``name`` of every split made here is such a text.

    Parameters
    ----------
    graph
        The graph to split.
    text
        ``"public"``, ``"mask:NUMBER"``, ``"shuffled:SEED"``, ``"per-class:SEED"`` (20 + 30 nodes per class),
        ``"per-class:TRAIN+VAL:SEED"``, ``"held-out:SEED"`` (20%) or ``"held-out:PERCENT%:SEED"``.

    Examples
    --------
    >>> from fishergcn import datasets
    >>> parse(datasets.load("citeseer"), "shuffled:2019")
    Split('shuffled:2019', train=120, val=500, test=1000)
    """
    if not isinstance(text, str):
        raise InputError(f"A split must be named by a string, {_FORMS}, got {text!r}.")
    if text == "public":
        return public(graph)
    if match := re.fullmatch(r"mask:([0-9]{1,9})", text):
        return mask(graph, int(match[1]))
    if match := re.fullmatch(r"shuffled:([0-9]{1,10})", text):
        return shuffled(graph, int(match[1]))
    if match := re.fullmatch(r"per-class:(?:([0-9]{1,9})\+([0-9]{1,9}):)?([0-9]{1,10})", text):
        sizes = {} if match[1] is None else {"train": int(match[1]), "val": int(match[2])}
        return per_class(graph, **sizes, seed=int(match[3]))
    if match := re.fullmatch(r"held-out:(?:([0-9]{1,2})%:)?([0-9]{1,10})", text):
        share = {} if match[1] is None else {"percent": int(match[1])}
        return held_out(graph, **share, seed=int(match[2]))
    if match := re.fullmatch(r"held-out:([0-9]{1,2}):([0-9]{1,10})", text):
        raise InputError(f"The share of a held-out split needs a percent sign: 'held-out:{match[1]}%:{match[2]}'.")
    form = text.partition(":")[0]
    known = ("public", "mask", "shuffled", "per-class", "held-out")
    hint = "" if form in known else suggestion(form, known)
    raise InputError(f"A split must be {_FORMS}, got {text!r}{hint}.")


def named(wanted: int | str | Iterable[int | str], rule: Rule = "shuffled") -> list[str]:
    """Return the names of splits that are asked for by name (see :func:`parse`), by a number n, or by several.

    ``rule`` says how n splits are drawn: ``"shuffled"`` or ``"per-class"`` (20 + 30 nodes a class), with the seeds
    2019, …, 2018 + n; ``"mask"``, numbers 0, …, n - 1; or ``"public"``, of which there is one.
    """
    found: list[str] = []
    for each in _several(wanted):
        if isinstance(each, str) and not re.fullmatch(r"[+-]?[0-9]{1,9}", each):
            found.append(each)
        else:
            found += _drawn(check_integer("splits", int(each) if isinstance(each, str) else each, minimum=1), rule)
    return found


def usual_rule(*graphs: Graph) -> Rule:
    """Return the rule that all graphs admit: ``mask``, else ``shuffled`` (a standard split), else ``per-class``."""
    if all(graph.masks is not None for graph in graphs):
        return "mask"
    return "shuffled" if all(graph.standard_split is not None for graph in graphs) else "per-class"


def choose(
    graph: Graph, wanted: Split | int | str | Iterable[Split | int | str] | None = None, *, rule: Rule | None = None
) -> list[Split]:
    """Return the splits that are asked for (see :func:`named`), or else those that suit the graph.

    By default the public split, or else the first mask; for a graph that has neither, 20% of the labeled nodes of each
    class are held out for validation, and a warning says so. ``rule`` is by default that of :func:`usual_rule`.
    """
    if wanted is None:
        return [_default(graph)]
    found: list[Split] = []
    rule = usual_rule(graph) if rule is None else rule
    for each in _several(wanted):
        found += [each] if isinstance(each, Split) else [parse(graph, name) for name in named([each], rule)]
    return found


def _several(wanted: Any) -> list[Any]:
    many = isinstance(wanted, Iterable) and not isinstance(wanted, str)
    values = list(wanted) if many else [wanted]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, Split | str | int | np.integer):
            raise InputError(
                f"a split must be a Split, its name, such as 'public', or a number of splits, got {value!r:.80}."
            )
    return values


def _drawn(count: int, rule: Rule) -> list[str]:
    check_choice("rule", rule, get_args(Rule))
    if rule == "public":
        if count != 1:
            raise InputError(f"splits must be 1, since there is one public split, got {count}.")
        return ["public"]
    if rule == "mask":
        return [f"mask:{number}" for number in range(count)]
    form = "per-class:20+30" if rule == "per-class" else rule
    return [f"{form}:{seed}" for seed in check_seeds(count)]


def _default(graph: Graph) -> Split:
    if graph.standard_split is not None:
        return public(graph)
    if graph.masks is not None:
        return mask(graph, 0)
    held = held_out(graph)
    warn(
        f"{len(held.val)} of {len(held.train) + len(held.val)} labeled nodes are held out for validation "
        + ("(20%)." if graph.targets is not None else "(20% of each class, at least one where it has two)."),
        Notice,
    )
    labels = graph.labels if graph.labels is not None else np.empty(0, dtype=np.int64)
    counts = np.bincount(labels[labels >= 0], minlength=graph.num_classes)
    names = graph.class_names or [str(label) for label in range(graph.num_classes)]
    single = [repr(names[label]) for label in np.flatnonzero(counts == 1)]
    if single:
        warn(f"a class with one labeled node is learned but not validated: {', '.join(single)}.")
    return held
