"""The page of a model of several labels or of a number: how good it is, label by label or error by error."""

from __future__ import annotations

import math

import numpy as np

from fishergcn._base.types import AnyArray, FloatArray
from fishergcn.drawing import Chart, Html, Layer, Panel, Row, draw_bars, draw_rows, tag
from fishergcn.errors import InputError
from fishergcn.report import _model_choice as choice
from fishergcn.report._assessment import Subject, wilson
from fishergcn.report._page import Figure, Section, count, in_short, number, share, table
from fishergcn.studies import on_nodes
from fishergcn.training import find_score, registered_scores, score_of

_NODES = 10
_COVERAGES = (0.8, 0.9, 0.95)
_MOST_POINTS = 2000
_LABELS = (
    "F1 of each label: twice the nodes that have it and are said to, divided by those that have it plus those that are "
    "said to. Labels that no node here has are left out."
)
_AGAINST = "Each mark is a node; the closer to the line, the smaller the error."


def headline(subject: Subject) -> Section:
    """Say whether to use the model, how good it is, and whether the links help; draw the candidates or the outcome."""
    sentences = (*decision(subject), *choice.about_links(subject))
    figure = choice.candidates_figure(subject.model.selection)
    return in_short(sentences, figure if figure is not None else _figure(subject, "headline"))


def sections(subject: Subject) -> list[Section | None]:
    """Return what is said of the predictions."""
    return [_by_label(subject) if subject.model.graph.task == "multilabel" else _errors(subject), _nodes(subject)]


def decision(subject: Subject) -> list[str]:
    """Say whether to use the model, by the estimate of its choice or by the nodes that it is judged on, and why."""
    selection, model = subject.model.selection, subject.model
    if selection is not None and selection.useful is not None:
        use = choice.usable(model.task.name)
        said = [use, *selection.sentences[:1]] if selection.useful else list(selection.sentences[:2])
        return [*said, _scored(subject)] if subject.part == "test" else said
    if subject.part is None or subject.split is None:
        raise InputError("the folder does not say which nodes were for validation and test, which a page needs.")
    known = model.task.known(model.graph)
    score = find_score(model.task.score)
    always = model.task.always_moved(score.name, known[subject.split.train], model.num_classes)
    constant = np.tile(always, (len(subject.judged), 1))
    found = model.task.moved(score.name, subject.answers[subject.judged], model.threshold)
    ahead = on_nodes(score, found, subject.labels, constant, model.task)
    base = score_of(score, model.task.scored(constant), subject.labels, model.task)
    against = f"{model.task.constant} has {score.text(base, 1)}"
    caution = (
        ["No nodes were set aside for testing; these also decided when to stop, so expect a little less."]
        if subject.part == "val"
        else []
    )
    if ahead.low > 0:
        return [choice.usable(model.task.name), f"{_scored(subject)} In {score.title}, {against}.", *caution]
    return [
        f"Do not use this model: on these {len(subject.judged):,} {subject.words} its {score.title} is not clearly "
        f"better; {against} (difference {score.difference(ahead.value, 1)}{score.unit}, 95% interval "
        f"{score.difference(ahead.low, 1)} to {score.difference(ahead.high, 1)}).",
        _scored(subject),
        *caution,
    ]


def _scored(subject: Subject) -> str:
    model, found = subject.model, subject.answers[subject.judged]
    shown = [each for each in registered_scores(model.task.name) if each.name != "loss"]
    outputs, limit = model.task.scored(found), model.threshold
    values = [(each, score_of(each, outputs, subject.labels, model.task, limit)) for each in shown]
    said = ", ".join(f"{each.title} {each.text(value, 1)}" for each, value in values)
    return f"{model.record.method} on the {len(subject.judged):,} {subject.words}: {said}."


def _by_label(subject: Subject) -> Section | None:
    """How each label was predicted."""
    if subject.part is None:
        return None
    rows: list[list[Html | str]] = []
    for name, (nodes, named, hits) in zip(subject.model.class_names, _counts(subject), strict=True):
        recall, precision = hits / nodes if nodes else math.nan, hits / named if named else math.nan
        f1 = 2 * hits / (nodes + named) if nodes else math.nan
        rows.append([name, count(nodes), count(named), count(hits), share(recall, 1), share(precision, 1),
                     share(f1, 1, "main")])  # fmt: skip
    heads = ("label", "#nodes with it", "#predicted", "#of these right", "#recall %", "#precision %", "#F1 %")
    words = (
        f"Of the {len(subject.judged):,} {subject.words}. A label is predicted where its probability is above "
        f"{subject.model.threshold:.0%}, which gave the best micro F1 on validation nodes."
    )
    figure = _figure(subject, "labels")
    return Section("labels", "Label by label", [tag("p", words), *([figure] if figure else []),
                                                table("Labels", heads, rows)])  # fmt: skip


def _counts(subject: Subject) -> list[tuple[int, int, int]]:
    """Return of each label how many nodes have it, are said to have it, and both."""
    true, said = subject.labels > 0, subject.answers[subject.judged] > subject.model.threshold
    columns = (each.sum(axis=0).tolist() for each in (true, said, true & said))
    return list(zip(*columns, strict=True))


def _figure(subject: Subject, name: str) -> Figure | None:
    if subject.part is None:
        return None
    if subject.model.graph.task == "regression":
        return Figure("Predicted and true", _AGAINST, [_against(subject, name)])
    names = subject.model.class_names
    rows = [
        Row(label, 2 * hits / (nodes + named), size=5, tip=f"{label}\n{nodes} nodes have it, {named} are said to")
        for label, (nodes, named, hits) in zip(names, _counts(subject), strict=True)
        if nodes
    ]
    chart = draw_rows("F1 of the labels", {"": rows}, name, x="F1 (higher is better)", score="macro_f1", least=0.1)
    return Figure("Labels", _LABELS, [chart])


def _against(subject: Subject, name: str) -> Chart:
    """Draw predictions over true numbers, of some nodes if they are many."""
    true, found = subject.labels, subject.answers[subject.judged, 0]
    step = max(len(true) // _MOST_POINTS, 1)
    ends = [float(min(true.min(), found.min())), float(max(true.max(), found.max()))]
    layers = [
        Layer("line", x=ends, y=ends, color="rest", dash=(4, 3)),
        Layer("dot", x=true[::step].tolist(), y=found[::step].tolist(), color="main", size=2, opacity=0.6),
    ]
    return Chart(name, "Predicted over true numbers", [Panel("", "true number", "predicted", layers)])


def _errors(subject: Subject) -> Section | None:
    """How large errors are, and how often intervals hold."""
    model = subject.model
    if subject.part is None:
        return None
    errors = subject.answers[subject.judged, 0] - subject.labels
    middle = [f"{np.quantile(np.abs(errors), each):.4g}" for each in (0.5, 0.9)]
    words = (
        f"On the {len(errors):,} {subject.words}, half of the predictions are within {middle[0]} of the true number, "
        f"nine of ten within {middle[1]}; on average they are {_side(errors)}."
    )
    body: list[Html | Figure] = [tag("p", words)]
    if model.selection is not None and (figure := _figure(subject, "against")):
        body.append(figure)
    edges = np.histogram_bin_edges(errors, bins=min(30, max(len(errors) // 5, 5)))
    counts, _ = np.histogram(errors, bins=edges)
    if edges[-1] > edges[0]:
        body.append(Figure("Errors", "Predicted minus true number.", [
            draw_bars("", edges.tolist(), counts, "errors", x="error", y="nodes", label="Number of nodes by error",
                      text=[f"{low:.3g} to {high:.3g}\n{each:,} nodes"
                            for low, high, each in zip(edges, edges[1:], counts, strict=False)])]))  # fmt: skip
    return Section("errors", "How large errors are", [*body, *_intervals(subject)])


def _side(errors: FloatArray) -> str:
    mean, spread = float(errors.mean()), float(errors.std(ddof=1) / math.sqrt(len(errors))) if len(errors) > 1 else 0.0
    if abs(mean) <= 2 * spread:
        return "neither too high nor too low"
    return f"{abs(mean):.3g} too {'high' if mean > 0 else 'low'}"


def _intervals(subject: Subject) -> list[Html | Figure]:
    """Return what intervals promise, and how often they hold on test nodes."""
    model, aside = subject.model, subject.model.nodes_aside
    rows: list[list[Html | str]] = []
    for coverage in _COVERAGES:
        try:
            ends = model.predict_interval(coverage)
        except InputError:
            continue
        inside = (ends[subject.judged, 0] <= subject.labels) & (subject.labels <= ends[subject.judged, 1])
        low, high = wilson(int(inside.sum()), len(inside))
        rows.append([
            number(f"{coverage:.0%}", coverage, "main"),
            number(f"± {(ends[0, 1] - ends[0, 0]) / 2:.4g}", float(ends[0, 1] - ends[0, 0]) / 2),
            share(float(inside.mean()), 1),
            number(f"{low:.1%} to {high:.1%}", low),
        ])  # fmt: skip
    if not rows:
        return [tag("p", f"There are no intervals: {len(aside)} nodes of known number are in no part of the split.")]
    words = (
        f"Intervals are from the errors on {len(aside):,} nodes that had no influence on the model. For nodes drawn as "
        "those were they hold the true number as often as promised, on average over such draws; nothing is promised of "
        "a single node, or of nodes unlike them, such as new ones."
    )
    heads = ("#promised", "#interval", f"#held on {subject.words} %", "#95% interval")
    return [tag("h3", "Intervals"), tag("p", words), table("Intervals", heads, rows)]


def _nodes(subject: Subject) -> Section | None:
    """The nodes whose labels are least certain, or whose numbers are most wrong."""
    model, names = subject.model, subject.model.node_names
    if model.graph.task == "regression":
        if subject.part is None:
            return None
        errors = subject.answers[subject.judged, 0] - subject.labels
        worst = np.argsort(-np.abs(errors), kind="stable")[:_NODES]
        rows: list[list[Html | str]] = [
            [names[subject.judged[at]], number(f"{subject.answers[subject.judged[at], 0]:.5g}"),
             number(f"{subject.labels[at]:.5g}"), number(f"{errors[at]:+.4g}", float(errors[at]), "main"),
             count(subject.facts.degrees[subject.judged[at]])]
            for at in worst
        ]  # fmt: skip
        heads = ("node", "#predicted", "#true", "#error", "#neighbors")
        words = f"The largest errors on the {subject.words}. They are worth checking by hand."
        return Section("uncertain", "Where it is most wrong", [tag("p", words), table("Largest errors", heads, rows)])
    outside = np.setdiff1d(np.arange(model.graph.num_nodes), () if subject.split is None else subject.split.train)
    doubt = np.abs(subject.answers[outside] - model.threshold).min(axis=1)
    rows = [
        [names[node], _listed(model.class_names, subject.answers[node] > model.threshold), _closest(subject, node),
         count(subject.facts.degrees[node])]
        for node in outside[np.argsort(doubt, kind="stable")[:_NODES]].tolist()
    ]  # fmt: skip
    words = "Nodes that the model was not trained on with a label whose probability is closest to the threshold."
    columns = ("node", "predicted labels", "least certain label", "#neighbors")
    return Section("uncertain", "Where it is least certain", [tag("p", words), table("Nodes", columns, rows)])


def _listed(names: tuple[str, ...], own: AnyArray) -> str:
    return ", ".join(name for name, has in zip(names, own, strict=True) if has) or "none"


def _closest(subject: Subject, node: int) -> str:
    at = int(np.abs(subject.answers[node] - subject.model.threshold).argmin())
    return f"{subject.model.class_names[at]} ({subject.answers[node, at]:.0%})"
