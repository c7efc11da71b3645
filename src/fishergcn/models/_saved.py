"""Models in folders: the best run of every method is saved, and read again."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from fishergcn._base.files import refuse_links
from fishergcn._base.types import AnyArray, IntArray
from fishergcn.errors import InputError
from fishergcn.execution import check_records
from fishergcn.graph import Graph
from fishergcn.models._ensemble import Ensemble
from fishergcn.models._facts import Facts
from fishergcn.models._folder import read_folder, read_split, write_folder
from fishergcn.models._trained import TrainedModel
from fishergcn.nn import FeatureScaling
from fishergcn.splits import Split
from fishergcn.training import Run, RunRecord, TrainConfig, find_score, find_task, parse_method, rank


def best_run(records: Iterable[RunRecord], score: str = "accuracy") -> RunRecord:
    """Return the run with the best score on validation nodes, of equal ones that with the least validation loss.

    Test scores play no part. Runs that diverged are out; if all did, that is an error. See
    :func:`fishergcn.training.rank`.

    Examples
    --------
    >>> import numpy as np, fishergcn
    >>> graph = fishergcn.Graph.from_edges([(0, 1), (1, 2), (2, 3)], features=np.eye(4), labels=[0, 0, 1, 1])
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> records = fishergcn.train(graph, "gcn", split, seeds=3, config=fishergcn.TrainConfig(max_epochs=5))
    >>> best_run(records).val_accuracy == max(record.val_accuracy for record in records)
    True
    """
    runs = check_records(records)
    best = rank(runs, score)[0]
    if best.status != "ok" or not math.isfinite(best.val_loss):
        raise InputError(
            f"no run can be chosen: {'the only run' if len(runs) == 1 else f'all {len(runs)} runs'} diverged."
        )
    return best


def save_models(
    folder: str | os.PathLike[str],
    graph: Graph,
    records: Iterable[RunRecord],
    splits: Split | str | Iterable[Split | str],
    *,
    score: str | None = None,
    overwrite: bool = False,
    aside: Mapping[str, IntArray] | None = None,
    coverage: float = 0.9,
) -> dict[Path, TrainedModel]:
    """Save the best run of every method, and what is known of all runs.

    Parameters
    ----------
    folder
        A new or an empty folder. The model of a single method is that folder; those of several methods are folders
        in it, named after them.
    graph, splits
        What the runs were trained on; splits may be given by their names.
    records
        What :func:`fishergcn.train` returned with ``keep_weights=True``, of one method or of several;
        :func:`best_run` chooses.
    score
        By which validation score, such as ``"macro-f1"`` or ``"log-loss"``; by default accuracy, of several labels a
        node micro F1, of numbers R².
    overwrite
        Replace model folders that are there. A folder with other files in it is never replaced.
    aside, coverage
        For prediction sets: nodes that were set aside, by the name of the split that they are in no part of, and the
        coverage to promise by default.

    Returns
    -------
    dict
        The models by their folders.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import TrainConfig, datasets, train
    >>> graph = datasets.load("cora")
    >>> records = train(graph, "gcn", "public", 2, TrainConfig(max_epochs=2), keep_weights=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = save_models(f"{folder}/model", graph, records, "public")
    ...     load_model(f"{folder}/model").probabilities().shape
    (2708, 7)
    """
    by = find_score(score or find_task(graph.task).score).check_classes(graph.num_classes, graph.task).name
    runs = check_records(records)
    models = {}
    for method in dict.fromkeys(record.method for record in runs):
        own = [record for record in runs if record.method == method]
        model = TrainedModel.from_records(graph, best_run(own, by), splits)
        if aside is not None:
            model = model.set_aside(aside[model.record.split], coverage)
        models[method] = dataclasses.replace(model, chosen_from=len(own), chosen_by=by)
    places = {method if len(models) > 1 else "": model for method, model in models.items()}
    write_folder(folder, places, runs, overwrite=overwrite)
    return {Path(folder, name): model for name, model in places.items()}


def load_model(folder: str | os.PathLike[str]) -> TrainedModel:
    """Read a model folder; what is missing, damaged or does not fit together is refused with one sentence.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import TrainConfig, TrainedModel, datasets, train
    >>> graph = datasets.load("cora")
    >>> records = train(graph, "gcn", "public", config=TrainConfig(max_epochs=2), keep_weights=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     TrainedModel.from_records(graph, records, "public").save(f"{folder}/model")
    ...     model = load_model(f"{folder}/model")
    >>> model.method.name, model.record.split, dict(model.split_sizes)
    ('gcn', 'public', {'train': 140, 'val': 500, 'test': 1000})
    """
    facts, graph, arrays = read_folder(Path(folder))
    split, aside = read_split(Path(folder), facts, graph)
    known: dict[str, Any] = {
        "chosen_from": facts.chosen_from, "selection": facts.choice, "chosen_by": facts.chosen_by,
        "_calibration": facts.calibration, "aside": aside,
    }  # fmt: skip
    if not facts.members:
        made = _model(facts.record, facts, graph, split, arrays)
        return dataclasses.replace(made, **known)
    members = [
        _model(each.record, facts, graph, split, _own(arrays, place)) for place, each in enumerate(facts.members)
    ]
    shares, heats = [each.share for each in facts.members], [each.temperature for each in facts.members]
    whole = Ensemble.joined(members, shares, heats, facts.record)
    return dataclasses.replace(whole, **known)


def _own(arrays: Mapping[str, AnyArray], place: int) -> dict[str, AnyArray]:
    """Return the arrays of a member by their own names."""
    start = f"{place}."
    return {name.removeprefix(start): each for name, each in arrays.items() if name.startswith(start)}


def _model(
    record: RunRecord, facts: Facts, graph: Graph, split: Split | None, arrays: Mapping[str, AnyArray]
) -> TrainedModel:
    weights = {
        name: torch.from_numpy(each.copy()).unsqueeze(0)
        for name, each in arrays.items()
        if name != "train" and not name.startswith("scaling.")
    }
    scale = arrays.get("scaling.scale")
    return TrainedModel(
        graph,
        parse_method(record.method),
        TrainConfig.from_dict(record.config),
        weights,
        (record,),
        () if split is None else (Run(split, record.seed),),
        _sizes=(facts.split_sizes,),
        _learned_from=(arrays["train"],) if "train" in arrays else (),
        _scaling=None if scale is None else FeatureScaling(center=arrays.get("scaling.center"), scale=scale),
    )


def load_models(folder: str | os.PathLike[str]) -> dict[Path, TrainedModel]:
    """Read the model that a folder is, and those in its folders, by their folders; there may be none.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import TrainConfig, datasets, train
    >>> graph, options = datasets.load("cora"), {"config": TrainConfig(max_epochs=2), "keep_weights": True}
    >>> records = train(graph, "gcn", "public", **options) + train(graph, "gcn-x5", "public", **options)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = save_models(f"{folder}/both", graph, records, "public")
    ...     [place.name for place in load_models(f"{folder}/both")]
    ['gcn', 'gcn-x5']
    """
    found = sorted([*Path(folder).glob("model.json"), *Path(folder).glob("*/model.json")])
    refuse_links(folder, *(str(path.parent.relative_to(folder)) for path in found))
    return {path.parent: load_model(path.parent) for path in found}
