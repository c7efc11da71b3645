"""Models on disk: a folder of plain files from which predictions can be made again.

``weights.safetensors``, ``model.json`` (all that is needed to rebuild the network, and what is known of its
run), ``README.md`` (the same for people), ``predictions.csv``, ``runs.json`` (all runs from which this one
was chosen) and, unless the graph ships with the package, ``graph.npz``. Loading runs no code from the folder,
and nothing that the files say is used as a path.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fishergcn import datasets
from fishergcn._base.files import write_text
from fishergcn._base.folders import atomic_folder, check_target
from fishergcn._base.types import CSRArray, FloatArray
from fishergcn.errors import DataFileError, InputError
from fishergcn.execution import as_split, check_graph, check_record, check_records
from fishergcn.graph import Graph
from fishergcn.models._facts import FORMAT, Facts, read_facts
from fishergcn.models._weights import read_bytes, read_weights, write_weights
from fishergcn.nn import GCN, layer_sizes, make_features
from fishergcn.splits import Split
from fishergcn.training import Method, RunRecord, TrainConfig, parse_method, propagation_of

__all__ = [
    "SavedModel",
    "best_run",
    "check_model_target",
    "load_model",
    "save_model",
    "write_model",
    "write_runs",
]

_FILES = (
    "weights.safetensors",
    "model.json",
    "README.md",
    "predictions.csv",
    "runs.json",
    "graph.npz",
    "geometry.json",
)
_LARGEST_GRAPH_FILE = 8 << 30


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A trained network with its graph.

    Attributes
    ----------
    model
        The network, ready to predict.
    graph
        The graph it was trained on, with features; its classes and nodes have their names.
    method, config
        How it was trained.
    record
        What came out: scores, epochs, seconds, versions; without curves and weights.
    split_sizes
        The number of nodes for training, validation and test.
    chosen_from
        From how many runs this one was chosen, by validation accuracy.

    Examples
    --------
    >>> import tempfile, numpy as np, fishergcn
    >>> links, names = [(0, 1), (1, 2), (2, 3)], ["left", "right"]
    >>> graph = fishergcn.Graph.from_edges(links, features=np.eye(4), labels=[0, 0, 1, 1], class_names=names)
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> [record] = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=5), keep_weights=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/model", graph, record, split)
    ...     saved = load_model(f"{folder}/model")
    >>> saved.probabilities().shape
    (4, 2)
    >>> saved.predictions_csv().splitlines()[0]
    'node,class,p:left,p:right'
    """

    model: GCN
    graph: Graph
    method: Method
    config: TrainConfig
    record: RunRecord
    split_sizes: Mapping[str, int]
    chosen_from: int

    def __repr__(self) -> str:
        found = self.record
        return (
            f"SavedModel({found.dataset!r}, {found.method!r}, {found.split!r}, seed={found.seed}, "
            f"{self.graph.num_nodes} nodes, {self.graph.num_classes} classes, "
            f"test_accuracy={found.test_accuracy:.4f}, chosen from {self.chosen_from})"
        )

    @cached_property
    def propagation(self) -> CSRArray:
        """Ã, computed from the graph at the first use."""
        return propagation_of(self.graph, self.method, self.config)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes; their numbers where they have none."""
        return _class_names(self.graph)

    def probabilities(self) -> FloatArray:
        """Return the probability of each class for every node, n x C, at ϕ = 0 and without dropout."""
        dtype = getattr(torch, self.config.dtype)
        features = make_features(self.graph.features, normalize=self.config.normalize_features, dtype=dtype)
        with torch.no_grad():
            logits = self.model.eval()(features, self.propagation)
            found: FloatArray = torch.softmax(logits.double(), dim=1).numpy()
        return found

    def predictions_csv(self) -> str:
        """Return a table as CSV: node id, name of the most probable class, probability of each class."""
        probabilities = self.probabilities()
        nodes = self.graph.node_ids or [str(node) for node in range(self.graph.num_nodes)]
        names = self.class_names
        text = io.StringIO(newline="")
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["node", "class", *(f"p:{name}" for name in names)])
        for node, row, best in zip(nodes, probabilities, probabilities.argmax(axis=1), strict=True):
            table.writerow([node, names[best], *(f"{each:.9g}" for each in row)])
        return text.getvalue()


def best_run(records: Iterable[RunRecord]) -> RunRecord:
    """Return the run with the best validation accuracy, of equal ones that with the least validation loss.

    Test scores play no part. Runs that diverged are out; if all did, that is an error.

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
    good = [record for record in runs if record.status == "ok" and math.isfinite(record.val_loss)]
    if not good:
        raise InputError(f"there is no run to choose: {len(runs)} of {len(runs)} diverged.")
    return max(good, key=lambda record: (record.val_accuracy, -record.val_loss))


def save_model(
    folder: str | os.PathLike[str],
    graph: Graph,
    record: RunRecord,
    split: Split | str,
    *,
    runs: Sequence[RunRecord] = (),
    overwrite: bool = False,
) -> None:
    """Write a model folder; it is there wholly or not at all.

    Parameters
    ----------
    folder
        A new or an empty folder.
    graph, split
        What the run was trained on; the split may be given by its name.
    record
        The run, with its weights (``train(..., keep_weights=True)``); of several, :func:`best_run` chooses one.
    runs
        All runs from which it was chosen, if there were others.
    overwrite
        Replace a model folder that is there. A folder with other files in it is never replaced.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import TrainConfig, datasets, train
    >>> graph = datasets.load("cora")
    >>> [record] = train(graph, "gcn", "public", config=TrainConfig(max_epochs=2), keep_weights=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/model", graph, record, "public")
    ...     load_model(f"{folder}/model").probabilities().shape
    (2708, 7)
    """
    graph, record = check_graph(graph), check_record(record)
    split = as_split(graph, split)
    target = check_model_target(folder, overwrite=overwrite)
    with atomic_folder(target) as temporary:
        write_model(temporary, graph, record, split, chosen_from=max(len(runs), 1))
        write_runs(temporary, runs or [record])


def load_model(folder: str | os.PathLike[str]) -> SavedModel:
    """Read a model folder; what is missing, damaged or does not fit together is refused with one sentence.

    Examples
    --------
    >>> import tempfile, numpy as np, fishergcn
    >>> links, names = [(0, 1), (1, 2), (2, 3)], ["left", "right"]
    >>> graph = fishergcn.Graph.from_edges(links, features=np.eye(4), labels=[0, 0, 1, 1], class_names=names)
    >>> split = fishergcn.splits.Split("mine", train=[0, 3], val=[1], test=[2])
    >>> [record] = fishergcn.train(graph, "gcn", split, config=fishergcn.TrainConfig(max_epochs=5), keep_weights=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/model", graph, record, split)
    ...     saved = load_model(f"{folder}/model")
    >>> saved.method.name, saved.record.split, dict(saved.split_sizes)
    ('gcn', 'mine', {'train': 2, 'val': 1, 'test': 1})
    """
    source = Path(folder)
    facts = read_facts(source)
    graph = _read_graph(source, facts)
    shapes = list(pairwise(layer_sizes(graph.num_features, facts.config.hidden, graph.num_classes)))
    weights = read_weights(source / "weights.safetensors", shapes, facts.config.dtype)
    _check_sum(source, "weights.safetensors", facts)
    return _saved_model(graph, facts.record, weights, facts.split_sizes, facts.chosen_from)


def check_model_target(folder: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Return the real path of a folder to save to, or raise if it must not be written."""
    return check_target(folder, overwrite=overwrite, ours=_holds_models_only)


def write_model(folder: Path, graph: Graph, record: RunRecord, split: Split, *, chosen_from: int = 1) -> None:
    """Write the files of a model into a folder, which is made if need be."""
    from fishergcn.models._card import model_card

    if record.weights is None:
        raise InputError("the record has no weights to save; train with keep_weights=True.")
    if (record.graph_digest, record.split) != (graph.digest, split.name):
        raise InputError("the record, the graph and the split do not belong together.")
    sizes = {part: len(getattr(split, part)) for part in ("train", "val", "test")}
    saved = _saved_model(graph, record, record.weights, sizes, chosen_from)
    folder.mkdir(exist_ok=True)
    write_weights(folder / "weights.safetensors", record.weights)
    embedded = _is_embedded(graph)
    if not embedded:
        graph.save(folder / "graph.npz")
    sums = {name: _sum(folder / name) for name in ("weights.safetensors", "graph.npz") if (folder / name).exists()}
    facts = Facts(record, sizes, chosen_from, embedded, saved.class_names, graph.num_features, sums)
    _write_json(folder / "model.json", facts.to_dict())
    write_text(folder / "predictions.csv", saved.predictions_csv())
    write_text(folder / "README.md", model_card(saved))


def write_runs(folder: Path, runs: Iterable[RunRecord]) -> None:
    """Write all records to ``runs.json``."""
    values = [record.to_dict() for record in runs]
    _write_json(folder / "runs.json", {"format": "fishergcn-runs", "version": 1, "runs": values})


def _saved_model(
    graph: Graph, record: RunRecord, weights: Sequence[Any], sizes: Mapping[str, int], chosen_from: int
) -> SavedModel:
    config = TrainConfig.from_dict(record.config)
    # The initial weights are replaced below; a generator of their own leaves the user's alone.
    model = GCN(
        graph.num_features,
        config.hidden,
        graph.num_classes,
        config.dropout,
        generator=torch.Generator(),
        dtype=getattr(torch, config.dtype),
    )
    with torch.no_grad():
        for parameter, values in zip(model.weights, weights, strict=True):
            parameter.copy_(torch.from_numpy(np.array(values)))
    return SavedModel(model.eval(), graph, parse_method(record.method), config, record, dict(sizes), chosen_from)


def _read_graph(folder: Path, facts: Facts) -> Graph:
    if facts.embedded:
        if facts.record.dataset not in datasets.available():
            raise DataFileError(f"{folder / 'model.json'}: {facts.record.dataset!r} is not an embedded data set.")
        graph = datasets.load(facts.record.dataset)
    else:
        _check_sum(folder, "graph.npz", facts)
        graph = Graph.load(folder / "graph.npz")
    if graph.digest != facts.record.graph_digest:
        raise DataFileError(f"{folder}: the graph is not the one the model was trained on (its digest differs).")
    if graph.features is None or graph.num_features != facts.num_features:
        raise DataFileError(f"{folder}: the graph has {graph.num_features} features, the model {facts.num_features}.")
    if _class_names(graph) != facts.class_names:
        raise DataFileError(f"{folder}: the classes of the graph are not those in model.json.")
    return graph


def _class_names(graph: Graph) -> tuple[str, ...]:
    return graph.class_names or tuple(str(label) for label in range(graph.num_classes))


def _is_embedded(graph: Graph) -> bool:
    if graph.name not in datasets.available():
        return False
    shipped = datasets.load(graph.name)
    return (graph.digest, graph.node_ids, graph.class_names) == (
        shipped.digest,
        shipped.node_ids,
        shipped.class_names,
    )


def _check_sum(folder: Path, name: str, facts: Facts) -> None:
    if facts.sums.get(name) != _sum(folder / name):
        raise DataFileError(f"{folder / name} is damaged or was altered: its SHA-256 is not that in model.json.")


def _sum(path: Path) -> str:
    return hashlib.sha256(read_bytes(path, limit=_LARGEST_GRAPH_FILE)).hexdigest()


def _write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _holds_models_only(folder: Path, depth: int = 1) -> bool:
    """Say whether a folder is a model folder, or one of model folders, and holds nothing else."""
    if not all(_is_ours(entry, depth) for entry in folder.iterdir()):
        return False
    places = [folder / "model.json", *folder.glob("*/model.json")]
    return any(FORMAT in place.read_text(encoding="utf-8", errors="replace") for place in places if place.is_file())


def _is_ours(entry: Path, depth: int) -> bool:
    if entry.is_symlink():
        return False
    if entry.is_dir():
        return depth > 0 and _holds_models_only(entry, depth - 1)
    return entry.name in _FILES
