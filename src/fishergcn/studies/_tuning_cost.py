"""What a search for settings costs: exactly known trials of a grid, or a bound where the search chooses as it goes."""

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
from fishergcn.studies._search import HIDDEN, ORDERS, Grid, planned_trials, tunable, without_test
from fishergcn.training import Method, Sizes, TrainConfig, learnable


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
    """Return what searches by :func:`tune` will take here, one for each method on each graph.

    With a grid the trials are known beforehand, and a part of the result has those with the same hidden units. A search
    without one chooses settings as it goes, so a bound is given: each trial counts with those that take longest, 128
    hidden units and, with suffix ``-t``, the slowest of orders 2 to 8, whose matrix every trial may have to make.

    Parameters
    ----------
    graphs, methods
        What is searched on what.
    splits, seeds, config, settings, grid, trials, device, workers
        As in :func:`tune`.

    Examples
    --------
    >>> import fishergcn
    >>> cost = tuning_cost([fishergcn.datasets.load("cora")], ["gcn"], "public", grid="paper", device="cpu")
    >>> [(each.part.name, each.part.runs) for each in cost.parts]
    [('gcn hidden=16', 24), ('gcn hidden=32', 24), ('gcn hidden=64', 24)]
    """
    base, numbers = chosen_config(config, settings), check_seeds(seeds)
    space, wanted = planned_trials(grid, trials)
    points = [HIDDEN[-1]] * wanted
    if space is not None:
        every = (dict(zip(space, point, strict=True)) for point in itertools.product(*space.values()))
        points = [int(point["hidden"]) for point in itertools.islice(every, wanted)]
    parsed, rows = [tunable(each) for each in methods], list[tuple[int, list[Part]]]()
    for graph, method in itertools.product(graphs, parsed):
        known = learnable(graph, [method])
        chosen = list(map(without_test, choose(known, splits)))
        for hidden, count in Counter(points).items():
            config = dataclasses.replace(base, hidden=(hidden,))
            name = f"{method.name} hidden={hidden}"
            sizes = _sizes(known, method, config, chosen, searched=space is None)
            runs = len(chosen) * len(numbers)  # of a trial: those of several are not trained at the same time
            rows.append((count, [Part(graph.name or "", name, size, method, each, runs) for size, each in sizes]))
    cost = cost_of([part for _, parts in rows for part in parts], device, workers)
    found, made, last = iter(cost.parts), list[PartCost](), ("", "")
    for count, parts in rows:
        worst = _worst(list(itertools.islice(found, len(parts))))
        # All trials of a search share the matrix and its spectrum, unless they may differ in its order.
        search = (worst.part.dataset, worst.part.method.name)
        prepared = count if len(parts) > 1 else 0 if search == last else 1
        part, last = dataclasses.replace(worst.part, runs=count * worst.part.runs), search
        made.append(dataclasses.replace(worst, part=part, preparation=prepared * worst.preparation))
    searches = len({(each.part.dataset, each.part.method.name) for each in made})
    return dataclasses.replace(cost, parts=tuple(made), start=searches * cost.start, searched=True)


def _sizes(
    graph: Graph, method: Method, config: TrainConfig, splits: list[Split], *, searched: bool
) -> Iterator[tuple[Sizes, TrainConfig]]:
    """Yield the sizes that a graph may have in the trials of a search, with the settings that make them so."""
    for order in ORDERS if searched and method.high_order else [config.order]:
        changed = dataclasses.replace(config, order=order)
        yield Sizes.of(graph, method, changed, splits), changed


def _worst(found: list[PartCost]) -> PartCost:
    """Return the most that each thing can take."""
    most = {
        name: max(getattr(each, name) for each in found) for name in ("preparation", "epoch", "run", "longest", "bytes")
    }
    return dataclasses.replace(max(found, key=lambda each: each.longest), **most)
