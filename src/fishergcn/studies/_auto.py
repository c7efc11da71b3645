"""``fit``: a good model for a graph, chosen among a few candidates by validation nodes alone."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn._base.checks import check_real
from fishergcn._base.choices import Scaling
from fishergcn._base.npz import read_arrays, write_arrays
from fishergcn._base.seeds import FIRST_SEED
from fishergcn._base.types import AnyArray
from fishergcn.errors import FisherGCNError, InputError
from fishergcn.execution import Display, Listener, check_graph, find_device, train
from fishergcn.graph import Graph
from fishergcn.models import Candidate, Selection, TrainedModel
from fishergcn.splits import Split, choose
from fishergcn.studies._candidates import (
    CANDIDATES,
    GENERAL,
    Pace,
    Score,
    best_candidate,
    high_order_entries,
    measured_pace,
    scalings_of,
    work_of,
)
from fishergcn.studies._plan import Cell, Plan
from fishergcn.studies._resampling import Estimate, estimate
from fishergcn.studies._runner import run
from fishergcn.training import RunRecord, TrainConfig, graph_free_of, learnable, parse_method

_USUAL_SECONDS = 120.0  # what a choice may take where no limit is given; a first look at scalings takes a part of it
_MOST_ENTRIES = 200_000_000  # of a high-order matrix: 2.4 GB
_FIRST_LOOK = 60  # epochs in which scalings are compared
_USUAL_EPOCHS = 0.7  # the share of the epochs after which most runs have stopped
_ENOUGH = 1000  # validation nodes, over all inner splits, that tell candidates apart
_TOLD = 30  # links between nodes of known class that tell the homophily


def fit(
    graph: Graph,
    split: Split | str | None = None,
    device: str = "auto",
    *,
    methods: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    workers: int | None = None,
    time_limit: float | None = None,
    folder: str | Path | None = None,
    progress: bool | Listener = False,
    seed: int = FIRST_SEED,
) -> TrainedModel:
    """Choose a method and settings that suit a graph, and return the trained model.

    The candidates are networks with and without the links, of first and high order, with and without consistency on
    unlabeled nodes, each with the scaling of features that suits it, besides label propagation and the most frequent
    class. Validation nodes decide, on several inner splits of the labeled nodes where they are few; of candidates that
    cannot be told apart the simplest is taken. Test nodes play no part.

    Parameters
    ----------
    graph
        A graph with labels. One without features gets the identity matrix, and a warning says so.
    split
        Which nodes to learn from, to choose by and to test on; by default the public split, or a fifth of the labeled
        nodes of each class for validation.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    methods
        Other candidates than the usual ones.
    settings
        Settings that all candidates share, by name; others are those of ``fishergcn.studies.GENERAL``. A scaling that
        is given is not chosen.
    workers
        Processes on the CPU; by default one for each core.
    time_limit
        Seconds that the choice may take. Candidates that would take too long are left out, and the selection says so;
        the simplest is trained in any case. Without a limit it aims at two minutes.
    folder
        Where the runs are kept, so that a choice that was interrupted goes on; by default in a temporary folder.
    progress
        Show what happens on standard error, or tell it to a listener.
    seed
        Of initialization and dropout.

    Returns
    -------
    TrainedModel
        Its ``selection`` has the score of each candidate and what the links are worth.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 20)
    >>> likely = np.where(labels[:, None] == labels, 0.3, 0.02)
    >>> links = np.argwhere(np.triu(rng.random((40, 40)) < likely, 1))
    >>> graph = Graph.from_edges(links, features=rng.random((40, 5)), labels=labels, name="two groups")
    >>> model = fit(graph, device="cpu", workers=1, methods=["majority", "mlp", "gcn"])
    >>> model.selection.chosen, model.selection.gain > 0
    ('gcn', True)
    """
    graph = learnable(check_graph(graph))
    [chosen] = choose(graph, split)
    if len(chosen.val) == 0:
        raise InputError(f"split {chosen.name!r} has no val nodes; at least one is needed.")
    limit = _USUAL_SECONDS if time_limit is None else check_real("time_limit", time_limit, above=0.0)
    names = CANDIDATES if methods is None else tuple(parse_method(name).name for name in methods)
    listener = progress if isinstance(progress, Listener) else Display() if progress else Listener()
    with _place(folder) as place, listener:
        general = TrainConfig.from_dict(GENERAL.to_dict() | dict(settings or {}))
        fixed = "scaling" in (settings or {})
        return _Choice(graph, chosen, device, workers, limit, place, listener, seed, names, general, fixed).made()


@contextlib.contextmanager
def _place(folder: str | Path | None) -> Iterator[Path]:
    if folder is not None:
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="fishergcn-") as temporary:
        yield Path(temporary)


class _Choice:
    """One choice, from the first look to the model."""

    def __init__(
        self,
        graph: Graph,
        split: Split,
        device: str,
        workers: int | None,
        limit: float,
        folder: Path,
        listener: Listener,
        seed: int,
        methods: tuple[str, ...],
        general: TrainConfig,
        scaled: bool,
    ) -> None:
        self.graph, self.split, self.device, self.workers = graph, split, device, workers
        self.limit, self.folder, self.listener, self.seed, self.methods = limit, folder, listener, seed, methods
        self.general, self.scaled = general, scaled
        self.dataset = graph.name or graph.digest
        self.started = time.monotonic()
        self.left_out: dict[str, str] = {}
        self.gpu = find_device(device).type == "cuda"

    def made(self) -> TrainedModel:
        networks = [name for name in self.methods if parse_method(name).trained]
        pace = measured_pace(self.graph, self.split, self.device) if networks else Pace(0.0, 0.0)
        scalings = self._scalings(networks, pace)
        configs = {
            name: dataclasses.replace(self.general, scaling=scalings.get(_family(name), self.general.scaling))
            for name in self.methods
        }
        costs = {name: self._cost(name, configs[name], pace) for name in self.methods}
        names, count = self._affordable(costs)
        cells = {name: configs[name] for name in names}
        inner = inner_splits(self.graph, self.split, count)
        about = count * sum(costs[name] for name in names)
        self._say(f"{len(cells)} candidates on {count} inner split{'s' * (count > 1)}, about {about:.0f} s.")
        records = self._runs("candidates", cells, inner, keep=True)
        scores = {name: _scores(some) for name, some in records.items() if _scores(some)}
        if not scores:
            raise InputError("no candidate could be trained: all runs diverged or failed.")
        best = best_candidate(scores)
        selection = self._selection(best, cells, records, scores)
        return dataclasses.replace(self._model(best, configs[best]), selection=selection)

    def _say(self, text: str) -> None:
        self.listener.say(text)

    def _left(self) -> float:
        return self.limit - (time.monotonic() - self.started)

    # Which candidates, with which scaling

    def _scalings(self, networks: Sequence[str], pace: Pace) -> dict[str, Scaling]:
        """Compare the scalings of features in a few epochs, with the links and without them."""
        known = scalings_of(self.graph)
        families = {_family(name): "gcn" if _family(name) == "graph" else "mlp" for name in networks}
        if self.scaled or not families:
            return {}
        plain = work_of(self.graph, parse_method("gcn"), self.general, self.graph.adjacency.nnz + self.graph.num_nodes)
        trial = pace.of(plain) * _FIRST_LOOK * len(known) * len(families) / self._cores()
        count = int(np.clip(self.limit / 4 / trial if trial else 3, 1, 3))
        config = dataclasses.replace(self.general, max_epochs=min(_FIRST_LOOK, self.general.max_epochs))
        cells = {
            f"{method} {scaling}": (method, dataclasses.replace(config, scaling=scaling))
            for method in families.values()
            for scaling in known
        }
        self._say(f"how to scale the features: {len(cells)} short trials on {count} inner split{'s' * (count > 1)}.")
        found = self._runs("scalings", cells, inner_splits(self.graph, self.split, count))
        scores = {name: _scores(some) for name, some in found.items() if _scores(some)}
        chosen: dict[str, Scaling] = {}
        for family, method in families.items():
            some = {scaling: scores[f"{method} {scaling}"] for scaling in known if f"{method} {scaling}" in scores}
            chosen[family] = best_candidate(some) if some else known[0]
        return chosen

    def _cores(self) -> int:
        from fishergcn.execution import count_cores

        return 1 if self.gpu else count_cores() if self.workers is None else self.workers

    def _cost(self, name: str, config: TrainConfig, pace: Pace) -> float:
        """Estimate the seconds of one run, with the processes that work side by side taken into account."""
        method = parse_method(name)
        if not method.trained:
            return 0.0
        entries = 0.0 if not method.uses_graph else self.graph.adjacency.nnz + self.graph.num_nodes
        if method.high_order:
            entries = high_order_entries(self.graph, config)
            if entries > _MOST_ENTRIES:
                size = entries * 12 / 2**30
                self.left_out[name] = f"its high-order matrix would have about {entries:.2g} entries ({size:.1f} GB)"
                return math.inf
        return pace.of(work_of(self.graph, method, config, entries)) * _USUAL_EPOCHS * config.max_epochs / self._cores()

    def _affordable(self, costs: Mapping[str, float]) -> tuple[list[str], int]:
        """Return the candidates that fit in the time left, dearest left out first, and on how many inner splits."""
        names = [name for name, cost in costs.items() if math.isfinite(cost)]
        wanted = int(np.clip(math.ceil(_ENOUGH / max(len(self.split.val), 1)), 1, 5))
        while len(names) > 1 and sum(costs[name] for name in names) > max(self._left(), 0.0):
            dearest = max(names, key=lambda name: costs[name])
            if costs[dearest] <= 0:
                break
            names.remove(dearest)
            self.left_out[dearest] = f"a run would take about {costs[dearest] * self._cores():.0f} s"
        total = sum(costs[name] for name in names)
        return names, int(np.clip(self._left() / total if total else wanted, 1, wanted))

    # Runs

    def _runs(
        self, stage: str, cells: Mapping[str, Any], splits: Sequence[Split], *, keep: bool = False
    ) -> dict[str, list[RunRecord]]:
        """Train what is missing of a stage, a study of its own, and return the records by cell."""
        made = [
            Cell(
                self.dataset,
                name,
                *(
                    (name, "", value)
                    if isinstance(value, TrainConfig)
                    else (value[0], name.rpartition(" ")[2], value[1])
                ),
            )
            for name, value in cells.items()
        ]
        plan = Plan(
            preset=stage,
            title=f"choice of a model: {stage}",
            source="",
            notes=(),
            cells=tuple(made),
            splits=tuple(split.name for split in splits),
            seeds=(self.seed,),
            digests={self.dataset: self.graph.digest},
            graphs={self.dataset: self.graph},
            own_splits={self.dataset: tuple(splits)},
        )
        place = self.folder / stage
        told = _Keeper(self.listener, place, self.split.name) if keep else _Told(self.listener)
        with run(plan, place, device=self.device, workers=self.workers, listener=told, keep_weights=keep) as runs:
            return {cell.name: list(runs.of_cell(cell)) for cell in plan.cells}

    def _model(self, name: str, config: TrainConfig) -> TrainedModel:
        """Return the chosen model on the split itself: its weights were kept, or it is trained again."""
        with contextlib.suppress(FisherGCNError, OSError):
            return _kept(self.folder / "candidates", name, self.graph, self.split)
        records = train(self.graph, name, self.split, [self.seed], config, self.device, keep_weights=True)
        return TrainedModel.from_records(self.graph, records, self.split)

    # What came out

    def _selection(
        self,
        best: str,
        cells: Mapping[str, TrainConfig],
        records: Mapping[str, list[RunRecord]],
        scores: Mapping[str, Mapping[object, Score]],
    ) -> Selection:
        candidates = []
        for name in self.methods:
            some = scores.get(name, {})
            known = {"scaling": cells[name].scaling} if name in cells and parse_method(name).trained else {}
            accuracy = float(np.mean([each.accuracy for each in some.values()])) if some else math.nan
            entropy = float(np.mean([each.cross_entropy for each in some.values()])) if some else math.nan
            seconds = sum(record.seconds for record in records.get(name, ()))
            why = self.left_out.get(name, "" if some else "it diverged or failed")
            candidates.append(Candidate(name, name, known, accuracy, entropy, len(some), seconds, why))
        gain = self._gain(best, scores)
        homophily = self._homophily()
        low, high = (math.nan, math.nan) if gain is None else (gain.low, gain.high)
        return Selection(
            tuple(candidates),
            best,
            homophily,
            math.nan if gain is None else gain.mean,
            low,
            high,
            tuple(_sentences(best, candidates, gain, homophily)),
            time.monotonic() - self.started,
        )

    def _gain(self, best: str, scores: Mapping[str, Mapping[object, Score]]) -> Estimate | None:
        """Compare a network that uses the links with the same one without them, run by run."""
        for name in (best, *sorted(scores, key=lambda name: -_mean(scores[name]))):
            free = graph_free_of(name, GENERAL)
            both: Any = scores[name].keys() & scores[free].keys() if free is not None and free in scores else ()
            if free is not None and both:
                return estimate(
                    {key: scores[name][key].accuracy - scores[free][key].accuracy for key in sorted(both)},
                    bounds=(-1.0, 1.0),
                )
        return None

    def _homophily(self) -> float:
        """Return the share of links within a class, among nodes whose class may be known: not those of the test."""
        labels = np.full(self.graph.num_nodes, -1)
        known = np.concatenate([self.split.train, self.split.val])
        labels[known] = self.graph.labels[known] if self.graph.labels is not None else -1
        links = self.graph.adjacency.tocoo()
        told = (links.row < links.col) & (labels[links.row] >= 0) & (labels[links.col] >= 0)
        if told.sum() < _TOLD:
            return math.nan
        return float((labels[links.row[told]] == labels[links.col[told]]).mean())


def _family(name: str) -> str:
    return "graph" if parse_method(name).uses_graph else "features"


def _mean(some: Mapping[object, Score]) -> float:
    return float(np.mean([each.accuracy for each in some.values()]))


def _scores(records: Sequence[RunRecord]) -> dict[object, Score]:
    return {
        (record.split, record.seed): Score(
            record.val_accuracy, record.extra.get("val_calibrated_cross_entropy", record.val_cross_entropy)
        )
        for record in records
        if record.status == "ok" and math.isfinite(record.val_cross_entropy)
    }


def inner_splits(graph: Graph, split: Split, count: int) -> list[Split]:
    """Return the split itself and others that deal its training and validation nodes anew, class by class.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1)], num_nodes=6, labels=[0, 0, 0, 1, 1, 1])
    >>> given = Split("mine", train=[0, 1, 3], val=[2, 4, 5], test=[])
    >>> [len(each.train) for each in inner_splits(graph, given, 3)]
    [3, 3, 3]
    """
    labels = graph.labels
    if labels is None:
        raise InputError("the graph has no labels to learn from.")
    found = [split]
    known = np.concatenate([split.train, split.val])
    for number in range(1, count):
        rng = np.random.default_rng(number)
        dealt: dict[str, list[int]] = {"train": [], "val": []}
        for label in np.unique(labels[known]):
            members = rng.permutation(known[labels[known] == label])
            learned = int((labels[split.train] == label).sum())
            dealt["train"] += members[:learned].tolist()
            dealt["val"] += members[learned:].tolist()
        parts = {part: np.sort(np.array(nodes, dtype=np.int64)) for part, nodes in dealt.items()}
        found.append(Split(f"{split.name} inner {number}", **parts, test=np.empty(0, dtype=np.int64)))
    return found


def _sentences(best: str, candidates: Sequence[Candidate], gain: Estimate | None, homophily: float) -> Iterator[str]:
    chosen = next(each for each in candidates if each.name == best)
    tried = [each for each in candidates if each.tried]
    top = max(tried, key=lambda each: each.val_accuracy)
    yield (
        f"{best} was chosen from {len(tried)} candidates by validation: accuracy {chosen.val_accuracy:.1%} in the mean "
        f"of {chosen.runs} inner split{'s' * (chosen.runs != 1)}"
        + (
            f"; {top.name} has {top.val_accuracy:.1%}, which cannot be told apart, and is less simple."
            if top.name != best
            else "."
        )
    )
    if gain is not None:
        interval = (
            f" (95 % interval {100 * gain.low:+.1f} to {100 * gain.high:+.1f})" if math.isfinite(gain.low) else ""
        )
        words = (
            "help" if gain.low > 0 else "hurt" if gain.high < 0 else "make no difference that these nodes could show"
        )
        side = "higher" if gain.mean >= 0 else "lower"
        yield (
            f"The links {words}: with them the network's accuracy is {100 * abs(gain.mean):.1f} points {side} than "
            f"without them{interval}."
        )
        if gain.high < 0:
            yield "A network that ignores the links does better on this graph."
    if math.isfinite(homophily):
        yield f"Of the links between nodes of known class, {homophily:.0%} join nodes of the same class."
    for each in candidates:
        if each.left_out:
            yield f"{each.name} was left out: {each.left_out}."


class _Told(Listener):
    """Passes on what happens, but for the end: several studies make one choice."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    def begin(self, title: str, planned: Any, before: Any = ()) -> None:
        """Pass on the beginning of a stage."""
        self.listener.begin(title, planned, before)

    def started(self, name: tuple[str, str], runs: int) -> None:
        """Pass on."""
        self.listener.started(name, runs)

    def epoch(self, progress: Any) -> None:
        """Pass on."""
        self.listener.epoch(progress)

    def finished(self, name: tuple[str, str], records: Sequence[RunRecord]) -> None:
        """Pass on."""
        self.listener.finished(name, records)

    def say(self, text: str) -> None:
        """Pass on."""
        self.listener.say(text)

    def __exit__(self, *_: object) -> None:
        """Others follow."""


class _Keeper(_Told):
    """Keeps the weights of the runs on one split, of which one will be the model."""

    def __init__(self, listener: Listener, folder: Path, split: str) -> None:
        super().__init__(listener)
        self.folder, self.split = folder, split

    def finished(self, name: tuple[str, str], records: Sequence[RunRecord]) -> None:
        """Write the weights beside the database."""
        for record in records:
            if record.split == self.split and record.weights is not None and record.status == "ok":
                arrays: dict[str, AnyArray] = {f"layer{at}": each for at, each in enumerate(record.weights)}
                write_arrays(self.folder / f"{name[1]}.npz", arrays)
        super().finished(name, records)


def _kept(folder: Path, name: str, graph: Graph, split: Split) -> TrainedModel:
    from fishergcn.studies._store import open_runs

    arrays = read_arrays(folder / f"{name}.npz")
    weights = tuple(arrays[f"layer{at}"] for at in range(len(arrays)))
    with open_runs(folder) as runs:
        [record] = [each for cell, each in runs.entries(cell=name) if each.split == split.name]
    return TrainedModel.from_records(graph, [dataclasses.replace(record, weights=weights)], split)
