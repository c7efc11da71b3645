"""What came out of a choice: scores with intervals for each candidate and for the model, and sentences made of them."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from fishergcn._base.types import FloatArray
from fishergcn.models import Candidate, Ensemble, Selection, TrainedModel, class_shares, differs
from fishergcn.studies._candidates import Key, full_name, words_of
from fishergcn.studies._ensembles import Judged, Shares, nested
from fishergcn.studies._honest import Honest, estimated
from fishergcn.studies._inner import known_homophily
from fishergcn.training import Task, find_task, temperature_of

if TYPE_CHECKING:
    from fishergcn.studies._choice import Choice

_FEW_JUDGES = 30  # nodes set aside, of which even a good model can hardly be told from a constant one
_COMMON = 0.7  # the share of the most frequent class from which on accuracy says little


@dataclass(frozen=True)
class Outcome:
    """A choice that was made: ``judged`` on the inner splits of the finalists, ``own`` on those of each candidate."""

    choice: Choice
    chosen: str
    shares: Shares
    judged: Judged
    model: TrainedModel
    best: Mapping[str, Key]
    own: Mapping[str, Judged]

    @cached_property
    def predicted(self) -> list[FloatArray]:
        """What the whole choice, made without an inner split, says of the nodes that judge there."""
        return nested(self.judged, ensembles=self.choice.ensembles)

    @cached_property
    def unlabeled(self) -> int:
        """How many nodes are neither for training nor for validation."""
        return self.choice.graph.num_nodes - self.labeled

    @cached_property
    def labeled(self) -> int:
        """How many nodes are for training or for validation."""
        return len(self.choice.split.train) + len(self.choice.split.val)

    @cached_property
    def classes(self) -> FloatArray | None:
        """The shares of the classes among unlabeled nodes; None in tasks without classes."""
        if self.choice.graph.labels is None:
            return None
        split, every = self.choice.split, np.ones(self.choice.graph.num_nodes, dtype=np.bool_)
        every[split.train] = every[split.val] = False
        found, labels = np.concatenate(self.predicted), np.concatenate(self.judged.labels_aside)
        stated = self._calibrated()
        if not differs(stated[split.val], stated[every]):  # labeled nodes are as good as drawn from all
            return np.bincount(labels, minlength=found.shape[1]) / len(labels)
        return class_shares(found, labels, stated[every])

    def _calibrated(self) -> FloatArray:
        """Return the probabilities of the model at the temperature of its validation nodes, as those that judged it."""
        probabilities, choice = self.model.probabilities(raw=True), self.choice
        if isinstance(self.model, Ensemble):  # each member has its own already
            return probabilities
        key, labels = self._key(self.chosen), np.asarray(choice.graph.labels)[choice.split.val]
        heat = temperature_of(choice.outputs[key, choice.split.name]["outputs.val"], labels)
        found: FloatArray = special.softmax(np.log(np.maximum(probabilities, 1e-300)) / heat, axis=1)
        return found

    def _estimated(self, found: list[FloatArray], other: list[FloatArray] | None = None) -> Honest:
        labels, labeled = self.judged.labels_aside, self.labeled
        known = labels, self.classes, self.unlabeled
        return estimated(self.choice.score, found, *known, other, labeled, self.choice.task)

    @cached_property
    def constant(self) -> list[FloatArray]:
        """What the most frequent class of the training nodes says of the nodes that judge, or their mean."""
        task, graph = self.choice.task, self.choice.graph
        learned = task.known(graph)[self.choice.split.train]
        shares = task.always_moved(self.choice.score.name, learned, graph.num_classes)
        return [np.tile(shares, (len(each), 1)) for each in self.judged.labels_aside]

    def _of(self, name: str) -> list[FloatArray]:
        return [self.judged.aside({name: 1.0}, at) for at in range(len(self.judged.labels))]

    def _best(self, *, linked: bool) -> str | None:
        """Return the finalist with the best score, of those with links or of those without."""
        finalists = [
            full_name(key) for key in self.best.values()
            if full_name(key) in self.judged.probabilities and self.choice._recipe(key).linked == linked
        ]  # fmt: skip
        gain = self.choice.score.gain
        values = {name: gain(self._estimated(self._of(name)).value) for name in finalists}
        return max(values, key=lambda name: values[name]) if values else None

    def selection(self) -> Selection:
        """Return all of it."""
        value, majority = self._estimated(self.predicted), self._estimated(self.constant)
        ahead = self._estimated(self.predicted, self.constant)
        sign = 1 if self.choice.score.better == "high" else -1
        free, linked = self._best(linked=False), self._best(linked=True)
        without = math.nan if free is None else self._estimated(self._of(free)).value
        gain = None if free is None or linked is None else self._estimated(self._of(linked), self._of(free))
        found = Selection(
            candidates=tuple(self._candidates()),
            chosen=self.chosen if len(self.shares) > 1 else self._short(self.chosen),
            score=self.choice.score.name,
            value=value.value,
            low=value.low,
            high=value.high,
            majority=majority.value,
            majority_low=min(sign * ahead.low, sign * ahead.high),
            without_links=without,
            gain=math.nan if gain is None else gain.value,
            gain_low=math.nan if gain is None else gain.low,
            gain_high=math.nan if gain is None else gain.high,
            homophily=known_homophily(self.choice.graph, self.choice.split),
            judges=sum(map(len, self.judged.labels_aside)),
            splits=len(self.judged.labels),
            seconds=time.monotonic() - self.choice.clock.started,
            task=self.choice.graph.task,
        )
        words = tuple(
            sentences(
                found,
                self._common(),
                None if linked is None else self._short(linked),
                free and self._short(free),
                self.choice.task,
            )
        )
        return dataclasses.replace(found, sentences=words)

    def _common(self) -> float:
        return 0.0 if self.classes is None else float(self.classes.max())

    def _key(self, name: str) -> Key:
        return next(key for key in self.choice.records if full_name(key) == name)

    def _short(self, name: str) -> str:
        return self._key(name)[0]

    def _candidates(self) -> Iterator[Candidate]:
        choice = self.choice
        names = choice.recipe | {key[0]: choice._recipe(key) for key in choice.records}
        for name, recipe in names.items():
            key, judged = self.best.get(name), self.own.get(name)
            words = words_of(recipe) + name.removeprefix(recipe.name)
            if key is None or judged is None:
                why = choice.left_out.get(name, "it diverged or failed")
                yield Candidate(name, recipe.method, dict(recipe.settings), words, left_out=why)
                continue
            full, splits = full_name(key), range(len(judged.labels))
            aside = [judged.aside({full: 1.0}, at) for at in splits]
            known = (judged.labels_aside, self.classes, self.unlabeled)
            found = estimated(choice.score, aside, *known, labeled=self.labeled, task=choice.task)
            loss = float(np.mean([judged.values({full: 1.0}, at)[1] for at in splits]))
            loss = math.sqrt(loss) if choice.task.cost == "rmse" else loss
            runs = [record for each, some in choice.records.items() if each[0] == name for record in some.values()]
            config = choice.config(key).to_dict()
            differing = dict.fromkeys([*recipe.settings, *choice.preparations.get(key[1], ())])
            if config["class_weight"] != choice.general.class_weight:
                differing["class_weight"] = None
            settings = {each: config[each] for each in differing}
            yield Candidate(
                name, recipe.method, settings, words, found.value, found.low, found.high, loss,
                len(judged.labels), sum(record.seconds for record in runs), self.shares.get(full, 0.0),
            )  # fmt: skip


def sentences(
    found: Selection, common: float, linked: str | None, free: str | None, task: Task | None = None
) -> Iterator[str]:
    """Yield in words what to expect of the model, what it is, and how much the links add."""
    score, tried = found.entry, [each for each in found.candidates if each.tried]
    always = (task or find_task("classification")).constant
    interval = f"95% interval {score.text(found.low, 1)} to {score.text(found.high, 1)}"
    rare = score.name == "accuracy" and _COMMON < common < 1
    if not found.useful:
        ahead = f"({score.text(found.value, 1)} against {score.text(found.majority, 1)})"
        if found.judges < _FEW_JUDGES and score.gain(found.value) > score.gain(found.majority):
            yield (
                f"Do not rely on this model: whether its {score.title} is better than {always} {ahead} cannot be known "
                f"from {found.judges} labeled nodes. Label more nodes."
            )
        else:
            yield (
                f"Do not use this model: its {score.title} is not clearly better than {always} {ahead}. More labels, "
                f"other features or links are needed{', or another score' * rare}."
            )
    yield (
        f"Expected {score.title} on nodes without a label: {score.text(found.value, 1)} ({interval}); {always} has "
        f"{score.text(found.majority, 1)}"
        + (
            ""
            if math.isnan(found.without_links)
            else f", the best model without links {score.text(found.without_links, 1)}"
        )
        + "."
    )
    members = [each for each in found.candidates if each.share > 0]
    if len(members) > 1:
        listed = ", ".join(f"{each.share:.0%} {each.name}" for each in sorted(members, key=lambda each: -each.share))
        yield (
            f"An ensemble, {found.chosen} of {len(members)} models ({listed}), was chosen from {len(tried)} candidates."
        )
    else:
        words = f" ({members[0].words})" if members and members[0].words != found.chosen else ""
        many = f"was chosen from {len(tried)} candidates" if len(tried) > 1 else "was the only candidate that was tried"
        yield f"{found.chosen}{words} {many}."
    yield (
        f"The estimate is from {found.judges:,} labeled nodes that were set aside in {_counted(found.splits)}: "
        "everything about the model was decided without them."
    )
    if rare:
        yield (
            f"About {common:.0%} of the nodes are of one class, so accuracy says little about the others: consider "
            "balanced-accuracy or roc-auc as the score."
        )
    if math.isfinite(found.gain) and linked is not None and free is not None:
        yield from _about_links(found, linked, free)
    if math.isfinite(found.homophily):
        yield f"Of the links between nodes of known class, {found.homophily:.0%} join nodes of the same class."
    reasons: dict[str, list[str]] = {}
    for each in found.candidates:
        if each.left_out:
            reasons.setdefault(each.left_out, []).append(each.name)
    for why, names in reasons.items():
        yield f"{_listed(names)} {'was' if len(names) == 1 else 'were'} left out: {why}."


def _listed(names: Sequence[str]) -> str:
    """Return names, some of which may have a comma, one after the other."""
    mark = "; " if any("," in name for name in names) else ", "
    return " and ".join([mark.join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _counted(count: int) -> str:
    return f"{count} inner split{'s' * (count > 1)}"


def _about_links(found: Selection, linked: str, free: str) -> Iterator[str]:
    score = found.entry
    better, worse = (
        (found.gain_low > 0, found.gain_high < 0)
        if score.better == "high"
        else (found.gain_high < 0, found.gain_low > 0)
    )
    words = "help" if better else "hurt" if worse else "make no clear difference"
    yield (
        f"The links {words}: the {score.title} of {linked}, the best single model that reads them, differs by "
        f"{score.difference(found.gain, 1)}{score.unit} from {free}, the best that does not (95% interval "
        f"{score.difference(found.gain_low, 1)} to {score.difference(found.gain_high, 1)})."
    )
    if worse:
        yield "Warning: the links of this graph hurt; a network that ignores them does better."
