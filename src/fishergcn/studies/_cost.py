"""What a plan or a search for settings costs: parts whose memory is counted and whose epochs are timed."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fishergcn._settings.choices import Settings
from fishergcn._settings.seeds import FIRST_SEED, check_seeds
from fishergcn.execution import Cost, Part, PartCost, chosen_config, cost_of
from fishergcn.graph import Graph
from fishergcn.splits import Split, choose
from fishergcn.studies._jobs import graph_of, splits_of
from fishergcn.studies._plan import Plan
from fishergcn.studies._tuning import HIDDEN, ORDERS, Grid, planned_trials, tunable, without_test
from fishergcn.training import Sizes, TrainConfig, learnable, parse_method


def plan_cost(plan: Plan, device: str, workers: int | None) -> Cost:
    """Return what the training of a plan takes."""
    parts = [part for dataset in plan.datasets for part in _parts(plan, dataset)]
    return cost_of(parts, device, workers)


def _parts(plan: Plan, dataset: str) -> Iterator[Part]:
    graph, known, usable = graph_of(plan, dataset), dict[str, Sizes](), dict[bool, Graph]()
    splits = list(splits_of(plan, dataset, graph).values())
    cells = [cell for cell in plan.cells if cell.dataset == dataset]
    if plan.measure != "training":  # of cells that attack the same networks, one is trained
        cells = list({(cell.method, cell.variant): cell for cell in cells}.values())
    for cell in cells:
        method, matrix = parse_method(cell.method), plan.matrix(cell)
        if method.trained not in usable:
            usable[method.trained] = learnable(graph, [method])
        if matrix not in known:
            known[matrix] = Sizes.of(usable[method.trained], method, cell.config, splits)
        name = cell.name if plan.measure == "training" else f"{cell.method} {cell.variant}".strip()
        runs = len(plan.runs(cell))
        yield Part(dataset, name, known[matrix], method, cell.config, runs, usable[method.trained], splits)


def tuning_cost(
    graphs: Iterable[Graph],
    methods: Iterable[str],
    splits: Split | int | str | Iterable[Split | int | str] | None = None,
    seeds: int | Iterable[int] = (FIRST_SEED,),
    config: TrainConfig | None = None,
    *,
    settings: Settings | Mapping[str, Any] | None = None,
    grid: Grid | None = None,
    trials: int | None = None,
    device: str = "auto",
    workers: int | None = 1,
) -> Cost:
    """Return what searches by :func:`tune` with these arguments will take here, one for each method on each graph.

    With a grid the trials are known beforehand, and a part of the result has those with the same hidden units. A search
    without one chooses settings as it goes, so a bound is given: each trial counts with 128 hidden units and, with
    suffix ``-t``, with the order from 2 to 8 that needs the most memory, whose matrix every trial may have to make.
    """
    base, numbers = chosen_config(config, settings), check_seeds(seeds)
    space, wanted = planned_trials(grid, trials)
    points = [HIDDEN[-1]] * wanted
    if space is not None:
        every = (dict(zip(space, point, strict=True)) for point in itertools.product(*space.values()))
        points = [int(point["hidden"]) for point in itertools.islice(every, wanted)]
    parts, counts = list[Part](), list[int]()
    for graph, method in itertools.product(graphs, map(tunable, methods)):
        known = learnable(graph, [method])
        chosen = list(map(without_test, choose(known, splits)))
        for hidden, count in Counter(points).items():
            orders = ORDERS if space is None and method.high_order else [base.order]
            configs = (dataclasses.replace(base, hidden=(hidden,), order=order) for order in orders)
            runs = len(chosen) * len(numbers)  # of a trial: those of several are not trained at the same time
            name = f"{method.name} hidden={hidden}"
            possible = [Part.of(known, method, each, chosen, runs, name=name) for each in configs]
            parts.append(max(possible, key=lambda part: part.sizes.entries))
            counts.append(count)
    cost = cost_of(parts, device, workers)
    found, last = list[PartCost](), ("", "")
    for each, count in zip(cost.parts, counts, strict=True):
        # All trials of a search share the matrix and its spectrum, unless they may differ in its order.
        search = (each.part.dataset, each.part.method.name)
        prepared = count if space is None and each.part.method.high_order else 0 if search == last else 1
        part, last = dataclasses.replace(each.part, runs=count * each.part.runs), search
        found.append(dataclasses.replace(each, part=part, preparation=prepared * each.preparation))
    return dataclasses.replace(cost, parts=tuple(found), searched=True)
