"""The choice of a model: candidates in stages, each on a count of runs that the size of the graph alone decides."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn._base.entries import FITS
from fishergcn._base.files import make_folder, refuse_links
from fishergcn._base.locks import folder_lock
from fishergcn._base.memory import free_memory
from fishergcn._base.text import duration
from fishergcn._base.types import AnyArray, FloatArray, IntArray
from fishergcn._kernels.threads import many_rows
from fishergcn.errors import InputError
from fishergcn.execution import Executor, Listener, choose_executor
from fishergcn.graph import Graph
from fishergcn.models import Selection, TrainedModel
from fishergcn.splits import Split
from fishergcn.studies._candidates import Key, Recipe, full_name, preparations_of, words_for
from fishergcn.studies._decisions import Clock, Decisions
from fishergcn.studies._ensembles import Judged, Shares, choose
from fishergcn.studies._inner import inner_splits
from fishergcn.studies._last import Trained, TrainingFailedError, final_model, refitted
from fishergcn.studies._outcome import Outcome
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._planning import splits_digest
from fishergcn.studies._runner import kept_weights, run
from fishergcn.training import (
    RunRecord,
    Score,
    Sizes,
    Task,
    TrainConfig,
    find_task,
    held_bytes,
    parse_method,
    temperature_of,
    work_of,
)

# How much work there may be, in seconds of a usual core: see training.work_of.
_PREPARING = 16.0  # to try all preparations once or twice
_TRYING = 47.0  # to try the candidates that are not always tried
_AGAIN = 30.0  # after which no candidate is tried with a second preparation
_TELLING = 6.0  # to try one so that tells what suits another
_COMPARING = 60.0  # to train the finalists on further inner splits
_NEEDED = 420.0  # for a candidate that is always tried, and for two finalists on a second inner split
_DEEPER = 210.0  # for a larger network than the best so far
_ENOUGH = 1000  # nodes that judge, over all inner splits, which tell candidates apart
_FEWEST, _MOST = 3, 5  # inner splits
_ALWAYS = ("lp", "linear", "mlp", "gcn")  # what is tried on all but the largest graphs
_FINALISTS = 5
_MOST_ENTRIES = 2e8  # of a high-order matrix: 2.4 GB
_PATIENCE = 30  # epochs; longer ones seldom find anything better
_RARE = 0.7  # the share of the most frequent class from which on classes are also weighed


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave out of inner splits what they lack: it is said of the split itself, once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"split '.* inner \d+' has no training node")
        yield


@dataclasses.dataclass(eq=False)
class Choice:
    """One choice, from the first trial to the model."""

    graph: Graph
    split: Split
    device: str
    workers: int | None
    limit: float | None
    folder: Path
    listener: Listener
    seed: int
    recipes: tuple[Recipe, ...]
    general: TrainConfig
    fixed: Mapping[str, Any]
    score: Score
    ensembles: bool = True
    refit: bool = False
    coverage: float | None = None
    aside: IntArray | None = None  # nodes for prediction sets, in no part of the split

    def __post_init__(self) -> None:
        graph, split = self.graph, self.split
        if many_rows(graph.num_nodes) and self.workers is None:
            self.workers = 1  # rows of a large graph are dealt to threads, which share its memory
        self.preparations = {words_for(each): each for each in preparations_of(graph, self.fixed)}
        self.clock = Clock(graph, split, self.device, self.workers, self.limit)
        count = int(np.clip(math.ceil(_ENOUGH / max(len(split.val) // 2, 1)), _FEWEST, _MOST))
        self.splits = inner_splits(graph, split, count)
        self.left_out: dict[str, str] = {}
        self.records: dict[Key, dict[str, RunRecord]] = {}  # by split
        self.outputs: dict[tuple[Key, str], dict[str, AnyArray]] = {}
        self.recipe = {each.name: each for each in self.recipes}
        self._works: dict[Key, float] = {}
        self._entries: dict[object, float] = {}  # of each matrix

    @property
    def task(self) -> Task:
        """What is predicted of a node."""
        return find_task(self.graph.task)

    @property
    def cost(self) -> str:
        """The score on validation nodes that candidates are compared by, whatever the choice is by."""
        return f"val_{self.task.cost}"

    def made(self) -> TrainedModel:
        """Go through the stages and return the model."""
        self._check_limit()
        make_folder(self.folder)
        with folder_lock(self.folder):
            self.decisions = self._decided()
            with contextlib.closing(self._executor):
                self._try_candidates(self._try_preparations())
                self._climb()
                self._weigh_classes()
                finalists, splits = self._try_finalists()
                judged = self._judged(finalists, splits)
                judged, chosen, shares, model = self._trained(judged)
            if self.aside is not None and self.coverage is not None:
                model = model.set_aside(self.aside, self.coverage)
            selection = self._selection(chosen, shares, judged, model)
            self.decisions.end(selection)
        return dataclasses.replace(refitted(self, model) if self.refit else model, selection=selection)

    def _decided(self) -> Decisions:
        """Return what was decided before."""
        arguments = [self.general.to_dict(), dict(self.fixed), [each.name for each in self.recipes], self.seed]
        options = [self.limit, self.score.name, self.ensembles, self.refit]
        return Decisions(self.folder, self.graph, self.split, [*arguments, *options])

    def _trained(self, judged: Judged) -> tuple[Judged, str, Shares, TrainedModel]:
        """Choose and train on the split itself; what comes to nothing there is left out, and the rest chosen from."""
        every = len(judged.probabilities)
        while True:
            gone = every - len(judged.probabilities)
            stage = f"final-without-{gone}" if gone else "final"
            chosen, shares = choose(judged, ensembles=self.ensembles)
            try:
                return (judged, chosen, shares, final_model(self, chosen, shares, stage))
            except TrainingFailedError as error:
                rest = {name: each for name, each in judged.probabilities.items() if name not in error.names}
                if not rest:
                    raise
                judged = dataclasses.replace(judged, probabilities=rest)

    @cached_property
    def _executor(self) -> Executor:
        return choose_executor(self.device, self.workers, on_epoch=self.listener.epoch, keep_going=True, shared=True)

    def config(self, key: Key) -> TrainConfig:
        """Return the settings of a candidate: its own and those of its preparation, unless they are fixed."""
        name, words = key
        recipe, balanced = self.recipe[name.removesuffix(_BALANCED)], name.endswith(_BALANCED)
        own = {
            **self.preparations.get(words, {}),
            **recipe.settings,
            **({"class_weight": "balanced"} if balanced else {}),
        }
        watched: dict[str, Any] = {"patience": _PATIENCE} if (usual := self.general.stopping == "patience") else {}
        # Accuracy takes few values, and the loss has the weight decay in it: by either, training may stop too soon.
        score = "cross_entropy" if self.score.name == "accuracy" else self.score.name
        if self.graph.targets is None and (usual or score != "cross_entropy"):
            watched["score"] = score
        known = self.general.to_dict() | watched | own | dict(self.fixed)
        return TrainConfig.from_dict(known)

    def work(self, key: Key) -> float:
        """Return the work of a run; inf where it would need more memory than there is."""
        if key not in self._works:
            self._works[key] = self._work(key)
        return self._works[key]

    def _work(self, key: Key) -> float:
        method, config = parse_method(self._recipe(key).method), self.config(key)
        if self.split.node_weight is not None and not method.trained:
            self.left_out[key[0]] = "it trains no network, which the weights of nodes are for"
            return math.inf
        sizes, free = self._sizes(key), None if self.clock.gpu else free_memory()
        if sizes.entries > _MOST_ENTRIES and method.high_order:
            size = sizes.entries * 12 / 2**30
            self.left_out[key[0]] = (
                f"the high-order matrix would have about {sizes.entries:.2g} entries ({size:.1f} GB)"
            )
            return math.inf
        if free is not None and held_bytes(sizes, method, config, 1) > free:
            self.left_out[key[0]] = "it would not fit in memory"
            return math.inf
        return work_of(sizes, method, config)

    def seen_work(self, key: Key) -> float:
        """Return the work of another run, with as many epochs as it took on the first inner split."""
        method, record = parse_method(self._recipe(key).method), self.records[key].get(self.splits[0].name)
        if record is None or record.status != "ok" or not method.has_epochs:
            return self.work(key)
        return work_of(self._sizes(key), method, self.config(key), record.epochs)

    def _sizes(self, key: Key) -> Sizes:
        method, config = parse_method(self._recipe(key).method), self.config(key)
        matrix = method.matrix.key(config)
        found = Sizes.of(self.graph, method, config, [self.split], entries=self._entries.get(matrix))
        self._entries[matrix] = found.entries
        return found

    def _longest_first(self, keys: Sequence[Key]) -> list[Key]:
        """Return candidates in the order in which cores are seldom idle: no long one is left alone at the end.

        Before them comes one for each core that needs no high-order matrix, while that is still to be made.
        """

        def length(key: Key) -> float:
            method, config, sizes = parse_method(self._recipe(key).method), self.config(key), self._sizes(key)
            if config.scaling == "columns":  # which leaves no zeros
                sizes = dataclasses.replace(sizes, stored=sizes.nodes * sizes.features)
            return work_of(sizes, method, config)

        def high_order(key: Key) -> bool:
            return parse_method(self._recipe(key).method).high_order

        found = sorted(keys, key=length, reverse=True)
        if any(map(high_order, self.records)):
            return found
        ready = [key for key in found if not high_order(key)][: self.clock.cores]
        return [*ready, *(key for key in found if key not in ready)]

    def _recipe(self, key: Key) -> Recipe:
        return self.recipe[key[0].removesuffix(_BALANCED)]

    # The stages

    def _try_preparations(self) -> dict[str, list[str]]:
        """Return the preparations of each kind of network, the best first."""
        every = list(self.preparations)
        trained = [each for each in self.recipes if each.trained and each.prepared]
        cheapest: dict[str, Key] = {}
        for each in trained:  # the first of a kind is the cheapest
            if each.kind != "both" or len(trained) == 1:
                cheapest.setdefault(each.kind, (each.name, every[0]))
        work = sum(self.work(key) for key in cheapest.values()) * len(every)
        keys = [(name, words) for name, _ in cheapest.values() for words in every]
        keys = [key for key in keys if math.isfinite(self.work(key))]
        if len(every) > 1 and work <= 2 * _PREPARING:
            count = 2 if 2 * work <= _PREPARING else 1
            self._train("settings", keys, self.splits[:count], share=0.25)
        best = {}
        for kind, (name, _) in cheapest.items():
            tried = [words for words in every if self._loss((name, words)) < math.inf]
            best[kind] = sorted(tried, key=lambda words: self._loss((name, words))) or every
        # What reads features and links apart takes what suits either.
        best.setdefault(
            "both", list(dict.fromkeys(each for some in zip(*best.values(), strict=False) for each in some))
        )
        return best

    def _try_candidates(self, prepared: Mapping[str, Sequence[str]]) -> None:
        """Train the candidates on one inner split, cheapest first, while their work is not too much."""
        first = [(each.name, self._words(each, prepared, 0)) for each in self.recipes if not each.after]
        second = [
            (each.name, self._words(each, prepared, 1)) for each in self.recipes if each.prepared and each.trained
        ]
        liked = {each.like for each in self.recipes}
        spent, keys = 0.0, list[Key]()
        for key in [*first, *sorted(second, key=lambda key: key[0] not in liked)]:
            work = self.work(key)
            known = key in self.records
            if known or key in keys or math.isinf(work):
                continue
            simple = key[0] in _ALWAYS and key in first and work <= _NEEDED
            needed = self._recipe(key).trained and not any(
                self._recipe(each).trained for each in (*keys, *self.records)
            )
            telling = key in second and key[0] in liked and work <= _TELLING
            most = _TRYING if key in first else _AGAIN
            if spent + work <= most or simple or needed or telling:
                spent += work
                keys.append(key)
            elif key in first:
                self.left_out.setdefault(key[0], "it would be too much work on a graph of this size")
        self._train("candidates", keys, self.splits[:1], share=0.4)
        self._take_after()
        networks = any(self._recipe(key).trained for key in self.records if self._loss(key) < math.inf)
        if not networks and any(each.trained for each in self.recipes):
            reasons = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())
            raise InputError(f"no candidate could be trained ({reasons or 'all runs diverged or failed'}).")

    def _take_after(self) -> None:
        """Train candidates with the preparation that suits a cheaper one best, if they had another."""
        best = dict(sorted(self.records, key=self._loss, reverse=True))  # of each candidate the last, its best, is kept
        found = [(each.name, best[each.like]) for each in self.recipes if each.name in best and each.like in best]
        keys = [key for key in found if key not in self.records and self.work(key) <= _TRYING]
        self._train("preparations", keys, self.splits[:1], share=0.4)

    def _words(self, recipe: Recipe, prepared: Mapping[str, Sequence[str]], place: int) -> str:
        if not (recipe.trained and recipe.prepared):
            return ""
        known = prepared.get(recipe.kind, list(self.preparations))
        return known[min(place, len(known) - 1)]

    def _climb(self) -> None:
        """Try a larger network where the one before it is the best so far."""
        for each in self.recipes:
            if not each.after:
                continue
            key, best = (each.name, ""), self._recipe(self._leaders(1)[0])
            if each.after not in (best.name, best.after):
                tried = each.after in {name for name, _ in self.records}
                self.left_out.setdefault(each.name, f"{each.after} was not {'the best' if tried else 'tried'}")
            elif self.work(key) > _DEEPER:
                self.left_out.setdefault(each.name, "it would be too much work on a graph of this size")
            else:
                self._train(each.name.replace(", ", "-").replace(" ", "-"), [key], self.splits[:1], share=0.4)

    def _weigh_classes(self) -> None:
        """Try the best network with classes that count the same, where a score asks for it and one class is common."""
        if self.graph.labels is None:
            return
        labels = np.asarray(self.graph.labels)[self.split.train]
        common = np.bincount(labels).max() / len(labels)
        if common < _RARE or self.score.name not in ("balanced_accuracy", "macro_f1") or "class_weight" in self.fixed:
            return
        trained = [key for key in self._leaders(len(self.records)) if self._recipe(key).trained]
        self._train("balanced", [(name + _BALANCED, words) for name, words in trained[:1]], self.splits[:1], share=0.2)

    def _try_finalists(self) -> tuple[list[Key], list[Split]]:
        """Train the best candidates on further inner splits; return them, and the splits on which all were trained."""
        leaders = self._leaders(_FINALISTS)
        free = [key for key in self._leaders(len(self.records)) if not self._recipe(key).linked]
        linked = [key for key in self._leaders(len(self.records)) if self._recipe(key).linked]
        rivals = [each[0] for each in (free, linked) if each and each[0] not in leaders]
        left = self.splits[1:]
        for count, splits in ((5, len(left)), (4, len(left)), (5, 2), (4, 2), (3, 2), (4, 1), (3, 1), (2, 1)):
            racing, some = [*leaders[:count], *rivals], left[: min(splits, len(left))]
            if len(some) * sum(self.seen_work(key) for key in racing) <= _COMPARING:
                break
        else:
            racing, some = [*leaders[:2], *rivals], left[:1]
            if sum(self.seen_work(key) for key in racing) > _NEEDED:
                some = []
        some = some[: self._splits_in_time(racing, len(some))]
        if some:
            self._train("finalists", racing, some, share=1.0)
        for used in ([self.splits[0], *some], self.splits[:1]):  # the first alone, if none was finished on the others
            if good := [key for key in racing if all(self._good(key, each.name) for each in used)]:
                break
        return good, used

    def finals(self, stage: str, keys: Sequence[Key], seeds: Sequence[int]) -> dict[Key, list[Trained]]:
        """Train candidates on the split itself; return what came out of each, with its weights."""
        found = self._train(stage, keys, [self.split], share=math.inf, kept=True, seeds=seeds)
        return {key: [each for each in some if each[0].status == "ok"] for key, some in found.items()}

    # What is known of candidates

    def _train(
        self,
        stage: str,
        keys: Sequence[Key],
        splits: Sequence[Split],
        *,
        share: float,
        kept: bool = False,
        seeds: Sequence[int] = (),
    ) -> dict[Key, list[Trained]]:
        """Train what is missing of a stage, a study of its own, as far as there is time for it."""
        decided: tuple[Sequence[Key], dict[str, str]] = keys, {}
        if self.limit is not None:  # how fast the machine was is a decision too
            make, fits = partial(self._in_time, keys, splits, share), partial(_are_keys, known=keys)
            decided = self.decisions.made(f"keys of {stage}", make, fits)
        keys, self.left_out = [(name, words) for name, words in decided[0]], decided[1] | self.left_out
        if not keys:
            return {}
        dataset = self.graph.name or self.graph.digest
        cells = {key: Cell(dataset, full_name(key), self._recipe(key).method, key[1], self.config(key)) for key in keys}
        plan = Plan(
            preset=stage,
            title=f"choosing a model: {stage}",
            source="",
            notes=(),
            cells=tuple(cells[key] for key in self._longest_first(keys)),
            splits=tuple(split.name for split in splits),
            seeds=tuple(seeds) or (self.seed,),
            digests={dataset: self.graph.digest, f"{dataset}, splits": splits_digest(splits)},
            graphs={dataset: self.graph},
            own_splits={dataset: tuple(splits)},
        )
        refuse_links(self.folder, stage)
        place, began, found = self.folder / stage, time.monotonic(), dict[Key, list[Trained]]()
        weights = [each.name for each in splits] if kept else []
        options: dict[str, Any] = {"executor": self._executor, "listener": self.listener}
        with _quiet(), run(plan, place, **options, keep_weights=weights, keep_outputs=True) as runs:
            for key, cell in cells.items():
                for record in runs.of_cell(cell):
                    arrays: dict[str, AnyArray] = {}
                    self.records.setdefault(key, {}).setdefault(record.split, record)
                    if record.status == "ok":
                        arrays = kept_weights(place, plan, cell, record.split, record.seed)
                        self.outputs.setdefault((key, record.split), arrays)
                    found.setdefault(key, []).append((record, arrays))
        if self.limit is not None:
            expected = sum(self._seconds(key) for key in keys) * len(splits) / self.clock.cores
            self.clock.heard(expected, time.monotonic() - began)
        return found

    def _good(self, key: Key, split: str) -> bool:
        return (key, split) in self.outputs

    def _loss(self, key: Key) -> float:
        """Return the cross entropy of a candidate on validation nodes at the best temperature, on the first split."""
        record = self.records.get(key, {}).get(self.splits[0].name)
        if record is None or record.status != "ok" or not math.isfinite(cost := getattr(record, self.cost)):
            return math.inf
        found: float = record.extra.get("val_calibrated_cross_entropy", cost)
        return found

    def _leaders(self, count: int) -> list[Key]:
        """Return the best candidates so far, each with its best preparation, by validation nodes of the first split."""
        best: dict[str, Key] = {}
        for key in sorted(self.records, key=self._loss):
            if self._loss(key) < math.inf:
                best.setdefault(key[0], key)
        return list(best.values())[:count]

    def _judged(self, keys: Sequence[Key], splits: Sequence[Split]) -> Judged:
        """Return what candidates say of nodes that they did not learn from, at the temperature of validation nodes."""
        labels = self.task.known(self.graph)
        found: dict[str, list[FloatArray]] = {full_name(key): [] for key in keys}
        for key in keys:
            for split in splits:
                arrays = self.outputs[key, split.name]
                heat = temperature_of(arrays["outputs.val"], labels[split.val], self.task)
                both = np.concatenate([arrays["outputs.val"], arrays["outputs.test"]])
                found[full_name(key)].append(self.task.answers(both, self.task.standard(labels, split.train), heat))
        known = [labels[np.concatenate([each.val, each.test])] for each in splits]
        return Judged(found, known, [len(each.val) for each in splits], self.score, self.task)

    def _selection(self, chosen: str, shares: Shares, judged: Judged, model: TrainedModel) -> Selection:
        names = {full_name(key): key for key in self.records}
        best = {key[0]: key for key in self._leaders(len(self.records))} | {
            names[name][0]: names[name] for name in shares
        }
        on_splits = {name: [each for each in self.splits if self._good(key, each.name)] for name, key in best.items()}
        own = {name: self._judged([best[name]], some) for name, some in on_splits.items() if some}
        return Outcome(self, chosen, shares, judged, model, best, own).selection()

    # Time, where there is a limit

    def _seconds(self, key: Key) -> float:
        return self.clock.seconds(self._recipe(key).method, self.config(key))

    def _check_limit(self) -> None:
        """Raise where a limit is too short for any network."""
        trained = [each for each in self.recipes if each.trained and not each.after]
        if self.limit is None or not trained:
            return
        first = next(iter(self.preparations))
        needed = {each.name: 2.2 * self._seconds((each.name, first if each.prepared else "")) for each in trained[:3]}
        cheapest = min(needed, key=lambda name: needed[name])
        if needed[cheapest] > (left := self.clock.left()):
            needs = 1.1 * (needed[cheapest] + self.limit - left)  # with what began before
            raise InputError(
                f"a time limit of {self.limit:g} s is too short for any network on this graph: with {cheapest}, the "
                f"cheapest, the choice needs about {duration(needs)}."
            )

    def _in_time(self, keys: Sequence[Key], splits: Sequence[Split], share: float) -> tuple[list[Key], dict[str, str]]:
        """Return the candidates that can be trained in a share of the time that is left, and why others are not."""
        late: dict[str, str] = {}
        if math.isinf(share):
            return list(keys), late
        least = min((self._seconds(key) for key in self.records if self._recipe(key).trained), default=0.0)
        spent, found = 0.0, list[Key]()
        for key in keys:
            something = any(self._recipe(each).trained for each in (*self.records, *found))
            if something and self.clock.left() <= 1.2 * least:
                late.setdefault(key[0], "too little time was left to time it")
                continue
            seconds = self._seconds(key)
            left = share * (self.clock.left() - 1.2 * least)  # what is measured for the first time takes its time, too
            time_of_all = (spent + seconds * len(splits)) / self.clock.cores
            alone = seconds * len(splits) > left  # a run is not divided between cores
            if (time_of_all <= left and not alone) or not (something or self.records):
                spent += seconds * len(splits)
                found.append(key)
            elif key[0] not in {name for name, _ in self.records}:
                late[key[0]] = f"too little time was left; a run takes about {duration(seconds)}"
        tried = {name for name, _ in (*self.records, *found)}
        return found, {name: why for name, why in late.items() if name not in tried}

    def _splits_in_time(self, keys: Sequence[Key], count: int) -> int:
        if self.limit is None:
            return count
        once = sum(self._seconds(key) for key in keys) / self.clock.cores
        reserve = max(self._seconds(key) for key in keys) * 1.3
        return self.decisions.made(
            "splits of finalists",
            lambda: int(np.clip((self.clock.left() - reserve) / max(once, 1e-9), 0, count)),
            lambda found: isinstance(found, int) and 0 <= found <= count,
        )


def _are_keys(value: Any, known: Sequence[Key]) -> bool:
    """Say whether a decision from a file is a list of known candidates, and reasons why others are left out."""
    if not isinstance(value, list | tuple) or len(value) != 2 or not isinstance(value[0], list):
        return False
    return all(isinstance(each, list | tuple) and (*each,) in known for each in value[0]) and FITS["dict[str, str]"](
        value[1]
    )


_BALANCED = ", balanced classes"
