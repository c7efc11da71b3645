"""Classes for the nodes of a graph that does not fit into memory: compared, chosen and predicted in blocks."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fishergcn._base.checks import check_integer, check_real
from fishergcn._base.entries import Entries
from fishergcn._base.files import check_target, make_folder, names_inside, refuse_links, write_text
from fishergcn._base.locks import LOCK, folder_lock
from fishergcn._base.records import load_record
from fishergcn._base.text import duration
from fishergcn.errors import InputError
from fishergcn.execution import count_cores
from fishergcn.large._networks import NETWORKS
from fishergcn.large._plan import Context, Plan, make_plan
from fishergcn.large._store import Facts
from fishergcn.large._tasks import RayTasks, Runner, Threads, run_stage

LARGE_BLOCKS, _RESULT, _PREDICTIONS = "blocks", "result.json", "predictions"
_HIDDEN = r"\.[0-9a-f]{16}(\.\w+)?"  # a temporary file that a killed process left
LARGE_FILES = re.compile(  # all files in a folder of this work, as paths within it
    rf"{LOCK}|{_RESULT}|{_HIDDEN}|{_PREDICTIONS}/(part-\d{{5,}}\.parquet|{_HIDDEN})"
    rf"|{LARGE_BLOCKS}/(plan\.json|{_HIDDEN}|[a-z][a-z0-9.-]*/(\d{{5,}}(\.\w+\.npy|\.json)|{_HIDDEN}))"
)
_SPREAD, _SPREAD_STEPS, _PATIENCE = 0.9, 30, 3  # α of label propagation, its steps, steps without a better score
_SMOOTH, _SMOOTH_STEPS = 0.8, 10  # of correct and smooth
_SAY_EVERY = 10.0  # seconds
_WAYS = {"label propagation": "classes", "corrected and smoothed": "corrected"}  # beside the network


@dataclass(frozen=True)
class LargeCandidate:
    """How one way to predict did.

    Examples
    --------
    >>> LargeCandidate("label propagation", 0.9, 1000, 0.89, 2000)
    LargeCandidate(name='label propagation', val=0.9, val_nodes=1000, test=0.89, test_nodes=2000)
    """

    name: str
    val: float
    val_nodes: int
    test: float
    test_nodes: int


@dataclass(frozen=True)
class LargeFit:
    """What :func:`fit_large` chose, and from what.

    Parameters
    ----------
    chosen
        The name of the candidate with the best validation accuracy; its predictions were written.
    candidates
        All of them, with accuracies on validation and test nodes, NaN where there are none.
    nodes, entries, blocks
        The size of the graph: nodes and entries of A (two for each link), and in how many blocks of rows it was cut.
    seconds, stages
        How long the work took in this process, in all and by stage. What an earlier process did is not in it.
    disk_bytes
        The most that the blocks took on disk.
    predictions
        The folder of the Parquet parts.

    Examples
    --------
    >>> LargeFit("linear", (), 10, 40, 1, 0.5, {}, 1000, "out/predictions").chosen
    'linear'
    """

    chosen: str
    candidates: tuple[LargeCandidate, ...]
    nodes: int
    entries: int
    blocks: int
    seconds: float
    stages: dict[str, float]
    disk_bytes: int
    predictions: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; what is unknown is None."""
        found = dataclasses.asdict(self)
        for each in found["candidates"]:
            each["test"] = each["test"] if each["test_nodes"] else None
        return found

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> LargeFit:
        """Read what :func:`fit_large` found, from the folder in which it worked."""
        return load_record(Path(folder, _RESULT), lambda values: cls._read(Path(folder), values), "a result")

    @classmethod
    def _read(cls, folder: Path, values: Any) -> LargeFit:
        found = Entries(values, "the result").inside("found")
        candidates = tuple(
            LargeCandidate(each.text("name"), each.real("val", maximum=1.0), each.whole("val_nodes"),
                           each.number("test"), each.whole("test_nodes"))
            for each in (Entries(values, "a candidate") for values in found.tables("candidates"))
        )  # fmt: skip
        stages = found.inside("stages")
        return cls(
            found.text("chosen"), candidates, found.whole("nodes"), found.whole("entries"), found.whole("blocks"),
            found.real("seconds"), {name: stages.real(name) for name in stages.values}, found.whole("disk_bytes"),
            str(folder / _PREDICTIONS),
        )  # fmt: skip


@dataclass(frozen=True)
class LargeSettings:
    """How :func:`fit_large` works.

    Parameters
    ----------
    memory
        Bytes that it may take on one machine. The graph is cut into blocks accordingly.
    hops
        K: features are X, ÃX, …, Ã^K X and X - ÃX.
    epochs, hidden
        Of the networks with a hidden layer: the most passes over the training nodes (at most 2^20 of them each), and
        hidden units.
    seed
        Of initial weights, dropout, the order of nodes and, without a split, of the nodes held out.

    Examples
    --------
    >>> LargeSettings(memory=2_000_000_000, hops=3).epochs
    30
    """

    memory: int = 4_000_000_000
    hops: int = 2
    epochs: int = 30
    hidden: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", int(check_real("memory", self.memory, minimum=1)))
        check_integer("hops", self.hops, minimum=0, maximum=16)
        check_integer("epochs", self.epochs, minimum=1)
        check_integer("hidden", self.hidden, minimum=1)
        check_integer("seed", self.seed, minimum=0, maximum=2**31 - 1)


def plan_large(
    graph: str | os.PathLike[str] | None = None,
    *,
    edges: str | os.PathLike[str] | None = None,
    nodes: str | os.PathLike[str] | None = None,
    label: str = "label",
    settings: LargeSettings | None = None,
) -> Plan:
    """Look at a large graph and return how it would be cut, with the disk that the work takes."""
    if (graph is None) == (edges is None) or (edges is None) != (nodes is None):
        raise InputError("either graph, a mapped folder, or both edges and nodes, Parquet files, must be given.")
    places = {"folder": graph, "edges": edges, "nodes": nodes}
    source = {name: os.path.realpath(place) for name, place in places.items() if place is not None}
    for place in source.values():
        if not os.path.exists(place):
            raise InputError(f"{place} does not exist.")
    if graph is not None and not os.path.isdir(source["folder"]):
        raise InputError(f"{graph} is not a folder; Graph.save(folder, mapped=True) writes a mapped graph.")
    if graph is None:
        source["label"] = label
    return make_plan(source, **dataclasses.asdict(settings or LargeSettings()))


def fit_large(
    graph: str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str],
    edges: str | os.PathLike[str] | None = None,
    nodes: str | os.PathLike[str] | None = None,
    label: str = "label",
    settings: LargeSettings | None = None,
    cluster: str | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    keep: bool = False,
    progress: Callable[[str], None] | None = None,
) -> LargeFit:
    """Choose a way to predict the classes of a large graph's nodes, and write predictions for all of them.

    Candidates are networks without links on X and on X, ÃX, …, Ã^K X and X - ÃX (linear ones and MLPs), label
    propagation, and the best network with its errors corrected and its predictions smoothed along the links (Huang et
    al., 2021). All is done in blocks of nodes that lie in files, so that memory is bounded, and a call that was
    interrupted goes on where it was.

    Parameters
    ----------
    graph
        A folder as written by ``Graph.save(folder, mapped=True)``.
    out
        The folder for ``result.json``, ``predictions/part-*.parquet`` (columns node, class and probability) and, until
        it is done, the blocks.
    edges, nodes
        Instead of a graph: Parquet files, or folders of them. Nodes are numbered by their rows; the first two columns
        of ``edges`` hold such numbers. ``nodes`` has a column ``label``, and may have ``part`` (train, val, test) and
        ``node``, the number of the row; all others are features.
    label
        The column of classes.
    settings
        Memory, hops, and settings of the networks.
    cluster
        ``"auto"`` or the address of a Ray cluster, whose machines share ``out`` and the graph's files.
    workers
        How many tasks run at once here; by default one for each core, as far as memory allows.
    overwrite
        Replace what is in ``out``, if it was written by this function.
    keep
        Keep the blocks.
    progress
        Is called with lines about the work.

    Examples
    --------
    >>> import tempfile
    >>> import fishergcn
    >>> folder = tempfile.TemporaryDirectory()
    >>> fishergcn.datasets.load("cora").replace(features=None).save(f"{folder.name}/cora", mapped=True)
    >>> found = fit_large(f"{folder.name}/cora", out=f"{folder.name}/out")
    >>> found.chosen, found.nodes
    ('label propagation', 2708)
    >>> folder.cleanup()
    """
    settings = settings or LargeSettings()
    if workers is not None:
        check_integer("workers", workers, minimum=1)
    plan = plan_large(graph, edges=edges, nodes=nodes, label=label, settings=settings)
    target = check_target(out, overwrite=True, ours=_is_ours)
    if not overwrite and (finished := _found_before(target, plan)) is not None:
        return finished
    _check_disk(target, plan)
    runner = Threads(min(workers or count_cores(), plan.at_once)) if cluster is None else RayTasks(cluster)
    threads = torch.get_num_threads()
    try:
        make_folder(target)
        with folder_lock(target):
            return _worked(target, plan, runner, progress or (lambda _: None), overwrite=overwrite, keep=keep)
    finally:
        runner.close()
        torch.set_num_threads(threads)  # which tasks set to one


def _worked(
    target: Path, plan: Plan, runner: Runner, say: Callable[[str], None], *, overwrite: bool, keep: bool
) -> LargeFit:
    """Do the work in a folder that is ours alone."""
    if not overwrite and (finished := _found_before(target, plan)) is not None:  # by another process, meanwhile
        return finished
    _prepare(target, plan, overwrite=overwrite)
    found = _Work(Context(target / LARGE_BLOCKS, plan), runner, say).run(target / _PREDICTIONS)
    result = {"plan": json.loads(plan.to_json()), "found": found.to_dict()}
    write_text(target / _RESULT, json.dumps(result, indent=2), inside=target)
    if not keep:
        shutil.rmtree(target / LARGE_BLOCKS, ignore_errors=True)
    return found


def _is_ours(folder: Path) -> bool:
    """Say whether every file in a folder is one that this work writes; a link in it is refused."""
    names = names_inside(folder)
    refuse_links(folder, *names)
    begun = not names.isdisjoint({LOCK, _RESULT, f"{LARGE_BLOCKS}/plan.json"})
    return begun and all(LARGE_FILES.fullmatch(name) for name in names if not (folder / name).is_dir())


def _found_before(target: Path, plan: Plan) -> LargeFit | None:
    """Return what was found before, if all is done already; raise if the folder holds other work."""
    if (target / _RESULT).is_file():
        stored = load_record(target / _RESULT, lambda values: Entries(values, "the result").table("plan"), "a result")
        _check_same(target, stored, plan)
        return LargeFit.load(target)
    if (target / LARGE_BLOCKS / "plan.json").is_file():
        stored = load_record(
            target / LARGE_BLOCKS / "plan.json", lambda values: Entries(values, "the plan").values, "a plan"
        )
        _check_same(target, stored, plan)
    return None


def _check_disk(target: Path, plan: Plan) -> None:
    there = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    above = next(each for each in (target, *target.parents) if each.exists())
    free = shutil.disk_usage(above).free + there
    if plan.disk > free:
        raise InputError(
            f"the work takes about {plan.disk / 1e9:.2f} GB of disk in {target}, and {free / 1e9:.2f} GB are free; "
            "fewer hops take less."
        )


def _prepare(target: Path, plan: Plan, *, overwrite: bool) -> None:
    """Make the folders and write the plan."""
    if overwrite:
        for name in (LARGE_BLOCKS, _PREDICTIONS):
            shutil.rmtree(target / name, ignore_errors=True)
        (target / _RESULT).unlink(missing_ok=True)
    make_folder(target / LARGE_BLOCKS)
    make_folder(target / _PREDICTIONS)
    write_text(target / LARGE_BLOCKS / "plan.json", plan.to_json(), inside=target)


def _check_same(target: Path, stored: Mapping[str, Any], plan: Plan) -> None:
    now = json.loads(plan.to_json())
    differing = [name for name in now if stored.get(name) != now[name]]
    if differing:
        raise InputError(
            f"{target} holds work on other data or with other settings ({', '.join(differing)}); give another folder, "
            "or overwrite=True starts anew."
        )


class _Work:
    """The stages, one after the other; what is there already is not made again."""

    def __init__(self, context: Context, runner: Runner, say: Callable[[str], None]) -> None:
        self.context, self.runner, self.say = context, runner, say
        self.plan, self.store = context.plan, context.store
        self.seconds: dict[str, float] = {}
        self.disk = 0
        self.begun = time.perf_counter()
        self._whole: set[str] = set()

    def run(self, predictions: Path) -> LargeFit:
        """Do everything and return what was chosen."""
        entries = self._links()
        found = self._networks() if self.plan.columns else {}
        if found:
            best = max(found, key=lambda name: found[name]["val"][0])
            at = [name for name, _, _ in NETWORKS].index(best)
            self._stage("network", "predict", network=at)
        steps = {"classes": self._chain("classes", _SPREAD_STEPS, _SPREAD, patience=_PATIENCE)}
        found["label propagation"] = self._judged("classes", steps["classes"])
        chains = {"label propagation": "classes"}
        if self.plan.columns:
            name = f"{best}, corrected and smoothed"
            steps["corrected"], chains[name] = self._smoothed(), "corrected"
            found[name] = self._judged("corrected", steps["corrected"])
        chosen = max(found, key=lambda name: found[name]["val"][0])
        chain = chains.get(chosen, "network")
        if chain == "network" and chosen != best:  # pragma: no cover (the best network is the one that predicts)
            raise AssertionError(chosen)
        shares = [each / max(sum(self.train), 1) for each in self.train]
        self._stage("parts", "parts", chain=chain, step=steps.get(chain, 0), shares=shares, folder=str(predictions))
        return LargeFit(
            chosen,
            tuple(_candidate(name, each) for name, each in found.items()),
            self.plan.nodes,
            entries,
            self.plan.blocks,
            time.perf_counter() - self.begun,
            self.seconds,
            self.disk,
            str(predictions),
        )

    def _links(self) -> int:
        """Bring the links into blocks; return how many entries they have."""
        if self.plan.pieces and not self._is_whole("links", range(self.plan.blocks)):
            self._stage("spill", "spill", range(self.plan.pieces))
        facts = self._stage("links", "links")
        self.store.remove("spill")
        if sum(int(each["sums"][0]) - int(each["sums"][1]) for each in facts) % 2**64:
            raise InputError("adjacency must be symmetric, and is not.")
        self.counts = [sum(each["parts"][part] for each in facts) for part in range(4)]
        self.train = [sum(column) for column in zip(*(each["train"] for each in facts), strict=True)]
        for name, part in (("training", 1), ("validation", 2)):
            if not self.counts[part]:
                raise InputError(f"the graph must have {name} nodes with a class, and has none.")
        return sum(each["entries"] for each in facts)

    def _networks(self) -> dict[str, Facts]:
        """Propagate features and train the networks; return how they did."""
        sums = [each["squares"] for each in self._stage("squares", "squares")]
        self._stage("hop-0", "rows", total=[sum(column) for column in zip(*sums, strict=True)])
        for hop in range(1, self.plan.hops + 1):
            self._step("hop", hop, self.plan.columns, None)
        self._stage("collect", "collect", counts=self.counts)
        used = [at for at, (_, _, is_alone) in enumerate(NETWORKS) if is_alone or self.plan.hops]
        facts = self._stage("train", "train", used)
        return {NETWORKS[at][0]: each for at, each in zip(used, facts, strict=True)}

    def _smoothed(self) -> int:
        """Correct and smooth the network's predictions; return the number of steps."""
        lacking = sum(each["lacking"] for each in self._stage("errors-0", "errors"))
        last = self._chain("errors", _SMOOTH_STEPS, _SMOOTH)
        self._stage("corrected-0", "corrected", step=last, size=lacking / max(self.counts[1], 1))
        return self._chain("corrected", _SMOOTH_STEPS, _SMOOTH)

    def _chain(self, chain: str, steps: int, share: float, patience: int | None = None) -> int:
        """Spread from step 0 on; return the last step. Of the others nothing stays."""
        if chain == "classes":
            self._stage("classes-0", "classes")
        there = [step for step in range(1, steps + 1) if self._is_done(chain, step)]
        last, best, since = max(there, default=0), -1, 0
        if patience and any(
            not self._is_whole(_judge(chain, step), range(self.plan.blocks)) for step in range(1, last)
        ):
            last = 0
        for step in range(1, steps + 1):
            if step > last:
                self._step(chain, step, self.plan.classes, share)
            if patience:
                right = self._judged(chain, step)["val"][0]
                best, since = max(best, right), 0 if right > best else since + 1
            if step >= max(last, 2):
                for slab in range(len(self.plan.slabs(self.plan.classes))):
                    self.store.remove(f"{chain}-{step - 1}.{slab}")
            if patience and since == patience and step >= last:
                return step
        return steps

    def _is_done(self, chain: str, step: int) -> bool:
        slabs = range(len(self.plan.slabs(self.plan.classes)))
        return all(self._is_whole(f"{chain}-{step}.{slab}", range(self.plan.blocks)) for slab in slabs)

    def _step(self, chain: str, step: int, columns: int, share: float | None) -> None:
        for slab in range(len(self.plan.slabs(columns))):
            self._stage(f"{chain}-{step}.{slab}", "spread", chain=chain, step=step, slab=slab, share=share)

    def _judged(self, chain: str, step: int) -> Facts:
        facts = self._stage(_judge(chain, step), "judge", chain=chain, step=step, counts=self.counts)
        return {part: [sum(each[part][at] for each in facts) for at in range(2)] for part in ("val", "test")}

    def _stage(self, stage: str, kind: str, blocks: Iterable[int] | None = None, **settings: Any) -> list[Facts]:
        """Make the blocks of a stage that are not there, and return the facts of all."""
        every = list(range(self.plan.blocks) if blocks is None else blocks)
        begun = said = time.perf_counter()
        if not self._is_whole(stage, every):
            missing = [block for block in every if not self._whole_block(stage, block)]
            for done, _ in enumerate(
                run_stage(self.runner, self.store.folder, stage, kind, settings, missing), start=1
            ):
                if time.perf_counter() - said > _SAY_EVERY:
                    said = time.perf_counter()
                    left = (said - begun) / done * (len(missing) - done)
                    self.say(f"{stage}: {done}/{len(missing)} blocks, about {duration(left)} left in this stage.")
            self._whole.add(stage)
            self.disk = max(self.disk, self.store.size())
            self.seconds[stage] = time.perf_counter() - begun
            if not stage.startswith("judge"):
                self.say(f"{stage}: done in {duration(self.seconds[stage])}.")
        return [self.store.facts(stage, block) or {} for block in every]

    def _is_whole(self, stage: str, blocks: Sequence[int]) -> bool:
        """Say whether all blocks are there; checksums are compared once."""
        if stage not in self._whole and (self.store.folder / stage).is_dir():
            with ThreadPoolExecutor(max(min(self.plan.at_once, count_cores()), 1)) as pool:
                if all(pool.map(partial(self.store.check, stage), blocks)):
                    self._whole.add(stage)
        return stage in self._whole

    def _whole_block(self, stage: str, block: int) -> bool:
        return self.store.facts(stage, block) is not None


def _judge(chain: str, step: int) -> str:
    return f"judge-{chain}-{step}"


def _candidate(name: str, facts: Facts) -> LargeCandidate:
    shares = [right / total if total else float("nan") for right, total in (facts["val"], facts["test"])]
    return LargeCandidate(name, shares[0], facts["val"][1], shares[1], facts["test"][1])
