"""The choice of a model: from the first trial, by three stages of candidates, to the best of them."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn.errors import InputError
from fishergcn.execution import Listener
from fishergcn.graph import Graph
from fishergcn.models import Candidate, Selection, TrainedModel
from fishergcn.splits import Split
from fishergcn.studies._candidates import (
    Score,
    best_candidate,
    inner_splits,
    known_homophily,
    leaders,
    mean_of,
    on_common_runs,
    preparations_of,
    sentences,
    words_for,
    worth_of_links,
)
from fishergcn.studies._decisions import Budget, Decisions
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._planning import splits_digest
from fishergcn.studies._runner import kept_weights, run
from fishergcn.training import RunRecord, TrainConfig, graph_free_of, parse_method

_STARTING = 5.0  # seconds until other processes work
_SMALL = 10.0  # seconds of work that this process does by itself
_SHORT = 60  # epochs of the trials of preparations, where all epochs would take too long
_ENOUGH = 1000  # validation nodes, over all inner splits, that tell candidates apart
_FEWEST, _MOST = 3, 5  # inner splits

Key = tuple[str, str]  # a method, and the words for its preparation
Run = tuple[str, int]  # split and seed


@dataclasses.dataclass(eq=False)
class Choice:
    """One choice, from the first trial to the model."""

    graph: Graph
    split: Split
    device: str
    workers: int | None
    limit: float
    folder: Path
    listener: Listener
    seed: int
    methods: tuple[str, ...]
    general: TrainConfig
    fixed: Mapping[str, Any]

    def __post_init__(self) -> None:
        graph, split, general, fixed = self.graph, self.split, self.general, self.fixed
        self.preparations = {words_for(each): each for each in preparations_of(graph, fixed)}
        enough = math.ceil(_ENOUGH / len(split.val))
        self.splits = inner_splits(graph, split, int(np.clip(enough, _FEWEST, _MOST)))
        self.decisions = Decisions(
            self.folder, graph, split, [general.to_dict(), dict(fixed), *self.methods, self.seed, self.limit]
        )
        self.budget = Budget(graph, split, general, self.device, self.workers, self.limit, self.decisions)
        self.left_out: dict[str, str] = {}
        self.records: dict[Key, list[RunRecord]] = {}
        self.plans: dict[str, Plan] = {}  # of the stages
        self.places: dict[Key, str] = {}  # the stage in which a candidate was trained on the split itself

    def made(self) -> TrainedModel:
        """Go through the stages and return the model."""
        networks = [name for name in self.methods if parse_method(name).trained]
        self._try_candidates(self._try_preparations(networks))
        finalists = self._try_finalists()
        best = best_candidate(on_common_runs({key: self._scores(key) for key in self._simplest_first(finalists)}))
        selection = self._selection(best)
        self.decisions.end(selection)
        return dataclasses.replace(self._model(best), selection=selection)

    def _prepared(self, key: Key, config: TrainConfig) -> TrainConfig:
        return dataclasses.replace(config, **self.preparations.get(key[1], {}))

    # The three stages

    def _try_preparations(self, networks: Sequence[str]) -> dict[str, list[str]]:
        """Return the two best preparations of networks with the links and without them, the best first."""
        every = list(self.preparations)
        families = sorted({_family(name) for name in networks})
        cheapest = {
            family: min((name for name in networks if _family(name) == family), key=self.budget.seconds)
            for family in families
        }
        if len(every) == 1 or not families:
            return dict.fromkeys(families, every[:1])
        trial = len(every) * sum(self.budget.seconds(name) for name in cheapest.values())
        short = trial > self.budget.limit / 3
        shorter = dataclasses.replace(self.general, max_epochs=min(_SHORT, self.general.max_epochs))
        if short and trial * shorter.max_epochs / self.general.max_epochs > self.budget.limit / 2:
            return dict.fromkeys(families, every[:1])
        count = 1 if short else int(np.clip(self.budget.limit / 3 / trial if trial else _FEWEST, 1, _FEWEST))
        count = self.decisions.made("splits of settings", lambda: _FEWEST if self.budget.gpu else count)
        keys = [(name, words) for name in cheapest.values() for words in every]
        self.listener.say(
            f"comparing {len(keys)} ways to prepare the features on {_counted(count)}; choosing a model will take at "
            f"most about {self.budget.limit:.0f} s."
        )
        began = time.monotonic()
        found = self._train("settings", keys, self.splits[:count], shorter if short else self.general)
        expected = count * trial * (shorter.max_epochs / self.general.max_epochs if short else 1.0)
        took = max(time.monotonic() - began - _STARTING, 0.0)
        self.budget.slower = self.decisions.made(
            "slower", lambda: float(np.clip(took / expected, 0.5, 20.0)) if expected > 1 else 1.0
        )
        best = {}
        for family, name in cheapest.items():
            scores = {words: _scores(found[name, words]) for words in every if _scores(found[name, words])}
            best[family] = leaders(scores, 2) if scores else every[:2]
        if not short:
            for key, records in found.items():
                if key[1] in best[_family(key[0])]:
                    self._keep(key, records, "settings")
        return best

    def _try_candidates(self, prepared: Mapping[str, Sequence[str]]) -> None:
        """Train all candidates that can be afforded on one inner split, or on more."""
        ranked = [
            (rank, self.budget.seconds(name), (name, words))
            for name in self.methods
            for rank, words in enumerate(prepared[_family(name)] if parse_method(name).trained else [""])
        ]
        wanted = [each for each in sorted(ranked, key=lambda each: each[:2]) if each[2] not in self.records]
        keys = [(name, words) for name, words in self.decisions.made("candidates", lambda: self._affordable(wanted))]
        self._say_why_not(keys)
        if not keys:
            return
        once = sum(self.budget.seconds(name) for name, _ in keys)
        fitting = int(self.budget.left() / once) if once else _MOST
        count = len(self.splits) if self.budget.gpu or fitting > len(self.splits) else min(max(fitting // 2, 1), 2)
        count = self.decisions.made("splits of candidates", lambda: count)
        about = sum(self.budget.seconds(name, count) for name, _ in keys)
        self.listener.say(f"comparing {len(keys)} candidates on {_counted(count)}, about {about:.0f} s.")
        for key, records in self._train("candidates", keys, self.splits[:count], self.general).items():
            self._keep(key, records, "candidates")

    def _affordable(self, wanted: Sequence[tuple[int, float, Key]]) -> list[Key]:
        """Return what fits in the time left: first each method with its best preparation, the cheapest first."""
        keys: list[Key] = []
        total = 0.0
        for _, seconds, key in wanted:
            if math.isfinite(seconds) and (total + seconds <= 0.9 * self.budget.left() or not (keys or self.records)):
                total += seconds
                keys.append(key)
        return keys

    def _say_why_not(self, keys: Sequence[Key]) -> None:
        for name in self.methods:
            if name not in {each for each, _ in (*keys, *self.records)}:
                seconds = self.budget.seconds(name)
                why = f"too little time was left; a run would take about {seconds * self.budget.cores:.0f} s"
                if math.isinf(seconds):
                    why = "it would not fit in memory"
                if math.isinf(seconds) and parse_method(name).high_order:
                    size = self.budget.entries * 12 / 2**30
                    why = f"the high-order matrix would have about {self.budget.entries:.2g} entries ({size:.1f} GB)"
                self.left_out[name] = why

    def _try_finalists(self) -> list[Key]:
        """Train the best candidates on the inner splits that are left, and return them."""
        scores = {key: self._scores(key) for key in self.records if self._scores(key)}
        if not scores:
            raise InputError("no candidate could be trained: all runs diverged or failed.")
        finalists = leaders(scores)
        rival = self._rival(finalists[0])
        racing = [*finalists, *([rival] if rival is not None and rival not in finalists else [])]
        done = {key: {split for split, _ in scores[key]} for key in racing}
        once = sum(self.budget.seconds(name) for name, _ in racing)
        left = [each for each in self.splits if any(each.name not in done[key] for key in racing)]
        count = int(np.clip(self.budget.left() / once + 0.3 if once else len(left), 0, len(left)))
        count = self.decisions.made("splits of finalists", lambda: count)
        if count:
            self.listener.say(
                f"comparing the best {len(racing)} on {_counted(count)} more, about {count * once:.0f} s."
            )
            for key, records in self._train("finalists", racing, left[:count], self.general).items():
                new = [each for each in records if each.split not in done[key]]
                self.records[key] = [*self.records[key], *new]
        return finalists

    def _train(
        self, stage: str, keys: Sequence[Key], splits: Sequence[Split], config: TrainConfig
    ) -> dict[Key, list[RunRecord]]:
        """Train what is missing of a stage, a study of its own, and return the records of each candidate."""
        dataset = self.graph.name or self.graph.digest
        cells = {key: Cell(dataset, _name(key), *key, self._prepared(key, config)) for key in keys}
        plan = Plan(
            preset=stage,
            title=f"choosing a model: {stage}",
            source="",
            notes=(),
            cells=tuple(cells.values()),
            splits=tuple(split.name for split in splits),
            seeds=(self.seed,),
            digests={dataset: self.graph.digest, f"{dataset}, splits": splits_digest(splits)},
            graphs={dataset: self.graph},
            own_splits={dataset: tuple(splits)},
        )
        place = self.folder / stage
        alone = self.budget.cores * len(splits) * sum(self.budget.seconds(name) for name, _ in keys)
        # Other processes take some seconds to start: less work than that is done in this one.
        workers = self.decisions.made(f"workers of {stage}", lambda: 1 if alone < _SMALL else self.workers)
        options: dict[str, Any] = {"device": self.device, "workers": workers, "listener": self.listener}
        with run(plan, place, **options, keep_weights=[self.split.name]) as runs:
            self.plans[stage] = plan
            return {key: list(runs.of_cell(cell)) for key, cell in cells.items()}

    def _keep(self, key: Key, records: Sequence[RunRecord], stage: str) -> None:
        self.records[key] = list(records)
        self.places[key] = stage

    # What came out

    def _scores(self, key: Key) -> dict[Run, Score]:
        return _scores(self.records[key])

    def _simplest_first(self, keys: Sequence[Key]) -> list[Key]:
        words = list(self.preparations)
        return sorted(keys, key=lambda key: (self.methods.index(key[0]), words.index(key[1]) if key[1] else 0))

    def _best_of(self, name: str) -> Key | None:
        """Return a method with the preparation that suits it best."""
        scores = {key: some for key in self.records if key[0] == name and (some := self._scores(key))}
        return leaders(scores, 1)[0] if scores else None

    def _rival(self, key: Key) -> Key | None:
        """Return the same network without the links or, of one that has none, the best with them."""
        free = graph_free_of(key[0], self.general)
        if free is not None:
            return self._best_of(free)
        linked = [self._best_of(name) for name in self.methods if graph_free_of(name, self.general) == key[0]]
        scores = {each: self._scores(each) for each in linked if each is not None}
        return leaders(scores, 1)[0] if scores else None

    def _model(self, key: Key) -> TrainedModel:
        """Return the chosen model on the split itself, whose weights its stage has kept."""
        stage = self.places[key]
        [cell] = [each for each in self.plans[stage].cells if each.name == _name(key)]
        [record] = [each for each in self.records[key] if each.split == self.split.name]
        weights = None
        if record.status == "ok":
            weights = kept_weights(self.folder / stage, self.plans[stage], cell, self.split.name, self.seed)
        return TrainedModel.from_records(self.graph, [dataclasses.replace(record, weights=weights)], self.split)

    def _selection(self, best: Key) -> Selection:
        candidates = []
        for name in self.methods:
            key = best if name == best[0] else self._best_of(name)
            some = {} if key is None else self._scores(key)
            settings = {} if key is None else dict(self.preparations.get(key[1], {}))
            seconds = sum(record.seconds for each, found in self.records.items() if each[0] == name for record in found)
            why = self.left_out.get(name, "" if some else "it diverged or failed")
            means = mean_of(some, "accuracy"), mean_of(some, "cross_entropy")
            candidates.append(Candidate(name, name, settings, *means, len(some), seconds, why))
        rival, homophily = self._rival(best), known_homophily(self.graph, self.split)
        pair = None if rival is None else (best, rival) if parse_method(best[0]).uses_graph else (rival, best)
        gain = (
            None if pair is None else worth_of_links(self._scores(pair[0]), self._scores(pair[1]), len(self.split.val))
        )
        names = None if pair is None else (pair[0][0], pair[1][0])
        numbers = (math.nan,) * 3 if gain is None else (gain.mean, gain.low, gain.high)
        told = tuple(sentences(best[0], candidates, gain, homophily, names))
        return Selection(tuple(candidates), best[0], homophily, *numbers, told, time.monotonic() - self.budget.started)


def _family(name: str) -> str:
    return "graph" if parse_method(name).uses_graph else "features"


def _name(key: Key) -> str:
    return " ".join(key).strip()


def _counted(count: int) -> str:
    return f"{count} inner split{'s' * (count > 1)}"


def _scores(records: Sequence[RunRecord]) -> dict[Run, Score]:
    return {
        (record.split, record.seed): Score(
            record.val_accuracy, record.extra.get("val_calibrated_cross_entropy", record.val_cross_entropy)
        )
        for record in records
        if record.status == "ok" and math.isfinite(record.val_cross_entropy)
    }
