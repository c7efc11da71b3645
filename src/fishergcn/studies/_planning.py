"""From a preset to a plan: smaller or larger where asked, with the references that a comparison needs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fishergcn import datasets as data
from fishergcn import splits as split_rules
from fishergcn._base.warn import warn
from fishergcn._settings.choices import Settings
from fishergcn._settings.seeds import check_seeds
from fishergcn.errors import InputError
from fishergcn.execution import chosen_config
from fishergcn.graph import Graph
from fishergcn.splits import Rule, Split
from fishergcn.studies._attacks import attack_options, check_feasible
from fishergcn.studies._plan import BASELINE, Cell, Plan, differences
from fishergcn.studies._preset import Preset, load_preset
from fishergcn.training import TrainConfig, control_of, graph_free_of, learnable, parse_method

Splits = int | str | Split | Iterable[int | str | Split]
_COUNT = 10  # splits of a comparison
_PER_CLASS = (20, 30)  # nodes that the rule of this name takes of each class


def make_plan(
    preset: Preset | str | Path,
    *,
    datasets: Sequence[str | Graph] | None = None,
    methods: Sequence[str] | None = None,
    attacks: Sequence[str] | None = None,
    splits: Splits | Mapping[str, Splits] | None = None,
    seeds: int | Iterable[int] | None = None,
    epochs: int | None = None,
    samples: int | None = None,
) -> Plan:
    """Turn a preset into a plan, smaller or larger where asked.

    Parameters
    ----------
    preset
        A preset, or what :func:`load_preset` reads one from.
    datasets
        Instead of the preset's: names of data sets that ship with the package, or graphs of yours.
    methods
        Instead of the preset's. The baseline ``gcn`` and the control of each method are added: without them a
        difference has no meaning.
    attacks
        Some of the preset's, where it has any. What a graph does not admit is refused.
    splits
        How many, by the preset's rule, which by name (see :func:`fishergcn.splits.named`), or splits of yours. Those
        of several graphs are given by the name of the graph, and have the same names on all of them.
    seeds
        How many initializations of each split, or which.
    epochs
        The most steps of a run.
    samples
        M, how many samples a step of a perturbed method has; its control has as many.

    Examples
    --------
    >>> from fishergcn import studies
    >>> plan = make_plan(studies.load_preset("table2"), datasets=["cora"], methods=["fishergcn"], splits=2, seeds=3)
    >>> [cell.name for cell in plan.cells], len(plan)
    (['gcn', 'gcn-x5', 'fishergcn'], 18)
    """
    preset = preset if isinstance(preset, Preset) else load_preset(preset)
    if preset.kind == "data":
        raise InputError(f"preset {preset.name!r} trains nothing, so it has no plan.")
    if attacks is not None and preset.kind != "attack":
        raise InputError(f"preset {preset.name!r} has no attacks to choose from.")
    changes = {"max_epochs": epochs, "samples": samples}
    asked = {name: value for name, value in changes.items() if value is not None}
    config = TrainConfig.from_dict(preset.config.to_dict() | asked)
    graphs = _graphs(preset.datasets if datasets is None else datasets)
    given = [each for each in datasets or () if isinstance(each, Graph)]
    named = _with_references(preset.methods if methods is None else methods, config)
    options: list[dict[str, Any]] = list(attack_options(preset.attacks, attacks)) if preset.kind == "attack" else [{}]
    cells = [
        Cell(dataset, " ".join([method, *_words(variant, each)]), method, variant, settings, each)
        for dataset in graphs
        for each in options
        for method, variant, settings in _entries(preset, named, config)
    ]
    if not cells:
        raise InputError("datasets, methods and attacks must name at least one each.")
    chosen, own = _chosen_splits(graphs, preset.splits if splits is None else splits, preset.split_rule)
    if preset.kind == "attack":
        _check_attackable(named, graphs.values(), options, chosen)
    return Plan(
        preset=preset.name,
        title=preset.title,
        source=preset.source,
        notes=preset.notes,
        cells=tuple(cells),
        splits=tuple(split.name for split in next(iter(chosen.values()))),
        seeds=tuple(check_seeds(preset.seeds if seeds is None else seeds)),
        digests={name: graph.digest for name, graph in graphs.items()}
        | {f"{name}, splits": splits_digest(found) for name, found in own.items()},
        published=tuple(entry for entry in preset.published if entry.dataset in graphs),
        changed=tuple(differences(config.to_dict(), preset.config.to_dict())),
        measure=preset.kind,
        graphs={name: graph for name, graph in graphs.items() if graph in given},
        own_splits=own,
    )


def make_comparison(
    graphs: Sequence[str | Graph],
    methods: Sequence[str],
    *,
    splits: Splits | Mapping[str, Splits] | None = None,
    seeds: int | Iterable[int] = 1,
    config: TrainConfig | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
) -> Plan:
    """Plan a study of any methods on any graphs, with what they are to be compared with.

    The baseline ``gcn``, the control of each method, and for each method that uses the links the same network without
    them are added.

    Parameters
    ----------
    graphs
        Graphs of yours, each with a name, or names of data sets that ship with the package.
    methods
        As in :func:`fishergcn.train`.
    splits
        Names, splits of yours, or a number of them by the rule that all graphs admit (see
        :func:`fishergcn.splits.usual_rule`); ten by default, or all masks if there are fewer. See :func:`make_plan`.
    seeds
        How many initializations of each split, or which.
    config, settings
        The settings of all runs, as in :func:`fishergcn.train`.

    Examples
    --------
    >>> from fishergcn import datasets
    >>> plan = make_comparison(["cora", "citeseer"], ["gcn-x5-c"], splits=2)
    >>> [cell.name for cell in plan.cells[:5]], plan.splits, len(plan)
    (['gcn', 'mlp-x5', 'mlp-x5-c', 'gcn-x5', 'gcn-x5-c'], ('shuffled:2019', 'shuffled:2020'), 20)
    """
    parsed = [parse_method(method) for method in methods]
    given = _graphs(graphs)
    check_classified(given.values(), "compare")
    loaded = {name: learnable(graph, parsed) for name, graph in given.items()}
    if not loaded:
        raise InputError("graphs must hold at least one graph, got none.")
    rule, known = split_rules.usual_rule(*loaded.values()), chosen_config(config, settings)
    free = dict.fromkeys(name for each in parsed if (name := graph_free_of(each.name, known)) is not None)
    masks = [len(graph.masks["train"]) for graph in loaded.values() if graph.masks and rule == "mask"]
    preset = Preset(
        name="compare",
        title="Comparison",
        kind="training",
        source="Graphs, splits and settings as given",
        notes=(),
        datasets=(),
        methods=tuple(dict.fromkeys([*free, *(each.name for each in parsed)])),
        split_rule=rule,
        splits=min([_COUNT, *masks]),
        seeds=1,
        config=known,
    )
    return make_plan(preset, datasets=list(loaded.values()), splits=splits, seeds=seeds)


def _check_attackable(
    methods: Sequence[str],
    graphs: Iterable[Graph],
    options: Sequence[Mapping[str, Any]],
    splits: Mapping[str, Sequence[Split]],
) -> None:
    blind = [each for each in map(parse_method, methods) if not (each.trained and each.uses_graph)]
    if blind:
        raise InputError(f"a study of attacks needs networks that read the links, got {blind[0].name!r}.")
    for graph in graphs:
        check_feasible(options, graph)
    if any(len(split.test) == 0 for found in splits.values() for split in found):
        raise InputError("a study of attacks needs test nodes in every split.")


def _chosen_splits(
    graphs: Mapping[str, Graph], wanted: Splits | Mapping[str, Splits], rule: Rule
) -> tuple[dict[str, list[Split]], dict[str, tuple[Split, ...]]]:
    """Return the splits of each graph, and those among them that no name can make."""
    if isinstance(wanted, Mapping):
        if set(wanted) != set(graphs):
            got = ", ".join(wanted) or "none"
            raise InputError(f"splits must be given for each of {', '.join(graphs)}, got those of {got}.")
        given = {name: _listed(wanted[name]) for name in graphs}
    else:
        given = dict.fromkeys(graphs, _listed(wanted))
        if len(graphs) > 1 and any(isinstance(each, Split) for each in next(iter(given.values()))):
            raise InputError("splits of your own belong to one graph: for several, give them by the name of the graph.")
    given = {name: _drawn(listed, list(graphs.values()), rule) for name, listed in given.items()}
    chosen = {name: split_rules.choose(graph, given[name], rule=rule) for name, graph in graphs.items()}
    own: dict[str, tuple[Split, ...]] = {}
    first = next(iter(chosen))
    for name, found in chosen.items():
        if [split.name for split in found] != [split.name for split in chosen[first]]:
            raise InputError(f"splits must have the same names on all graphs, but those of {name!r} differ.")
        mine = tuple(each.check(graphs[name].num_nodes) for each in given[name] if isinstance(each, Split))
        own |= {name: mine} if mine else {}
    return chosen, own


def _drawn(listed: list[int | str | Split], graphs: Sequence[Graph], rule: Rule) -> list[int | str | Split]:
    """Replace numbers of splits by names where the graphs do not admit the rule, by names that they do admit."""
    needed = {"shuffled": "standard_split", "public": "standard_split", "mask": "masks"}
    admitted = rule not in needed or all(getattr(graph, needed[rule]) is not None for graph in graphs)
    rule = rule if admitted else split_rules.usual_rule(*graphs)
    least = min((_least_class(graph) for graph in graphs), default=0)
    if rule != "per-class" or least > sum(_PER_CLASS):
        return [name for each in listed for name in _names(each, rule)]
    # Of small classes two fifths train and a fifth validates, so that the rest can be tested.
    sizes = f"per-class:{max(2 * least // 5, 1)}+{max(least // 5, 1)}:"
    found: list[int | str | Split] = []
    for each in listed:
        names = _names(each, rule)
        drawn = not isinstance(each, Split) and names != [each]
        found += [f"{sizes}{name.rpartition(':')[2]}" for name in map(str, names)] if drawn else names
        if drawn:
            warn(f"the smallest class has {least} labeled nodes: splits are drawn as {sizes}SEED.")
    return found


def _names(each: int | str | Split, rule: Rule) -> list[Any]:
    return [each] if isinstance(each, Split) else list(split_rules.named(each, rule))


def _least_class(graph: Graph) -> int:
    """Return how many labeled nodes the smallest class has."""
    labels = np.array([], dtype=np.int64) if graph.labels is None else graph.labels
    counts = np.bincount(labels[labels >= 0], minlength=1)
    return int(counts[counts > 0].min(initial=1 << 31))


def _listed(wanted: Splits) -> list[int | str | Split]:
    return list(wanted) if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]


def check_classified(graphs: Iterable[Graph], work: str) -> None:
    """Raise for a graph whose task is not to classify nodes."""
    for graph in graphs:
        if graph.targets is not None:
            raise InputError(
                f"{work} is for classes, and the task of graph {graph.name or 'given'!r} is {graph.task!r}; fit and "
                "train are for all tasks."
            )


def splits_digest(splits: Iterable[Split]) -> str:
    """Return a SHA-256 of which nodes are in which part, and of how much they count."""
    total = hashlib.sha256()
    for split in splits:
        for part in ("train", "val", "test"):
            nodes = getattr(split, part)
            total.update(f"{split.name} {part} {len(nodes)}\n".encode() + nodes.tobytes())
        if split.node_weight is not None:
            total.update(b"node_weight\n" + split.node_weight.tobytes())
    return total.hexdigest()


def _graphs(chosen: Sequence[str | Graph]) -> dict[str, Graph]:
    """Return the graphs by name; one without a name goes by its digest."""
    graphs: dict[str, Graph] = {}
    for graph in (each if isinstance(each, Graph) else data.load(each) for each in chosen):
        name = graph.name or graph.digest
        if graphs.get(name, graph) != graph:
            raise InputError(f"graphs must have different names, got {name!r} twice.")
        graphs[name] = graph
    return graphs


def _with_references(methods: Sequence[str], config: TrainConfig) -> tuple[str, ...]:
    """Put the baseline and each control before the method that is compared with it."""
    ordered: dict[str, None] = {}
    for method in methods:
        chain = [parse_method(method).name]
        while (control := control_of(chain[-1], config)) is not None:
            chain.append(control)
        ordered |= dict.fromkeys((BASELINE, *reversed(chain)))
    return tuple(ordered)


def _entries(preset: Preset, methods: Sequence[str], config: TrainConfig) -> Iterator[tuple[str, str, TrainConfig]]:
    """Yield method, variant and settings of the cells on one data set."""
    for method in methods:
        yield method, "", config
    for variant in preset.variants:
        settings = TrainConfig.from_dict(config.to_dict() | dict(variant.config))
        for method in variant.methods:
            if method in methods:
                yield method, variant.name, settings


def _words(variant: str, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield what follows the method in the name of a cell."""
    if variant:
        yield variant
    if options:
        yield f"{options['attack']} {options['level']:g}"
