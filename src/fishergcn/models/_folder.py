"""A model on disk: a folder of plain files from which predictions can be made again.

``weights.safetensors`` (the tensors of the network by name: W^l as ``weights.l``, b^l as ``biases.l``, …; centers and
scales of the columns of features as ``scaling.center`` and ``scaling.scale``, as far as a model has them; of a method
that trains nothing the nodes that it learned from as ``train``), ``model.json`` (all that is needed to rebuild the
network, and what is known of its run), ``split.safetensors`` (the nodes for training, validation and test, and those
set aside for prediction sets, ``aside``),
``README.md`` (the same for people), ``predictions.csv``, ``runs.json`` (all runs from which this one was chosen) and,
unless the graph ships with the package, ``graph.npz``. Models of several methods stand in folders named after them,
beside one ``runs.json``. Loading runs no code from the folder, and nothing that the files say is used as a path.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fishergcn import datasets
from fishergcn._base.entries import Entries
from fishergcn._base.files import atomic_folder, check_target, read_bytes, refuse_links, write_text
from fishergcn._base.json import parse_json
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.graph import Graph, known_nodes
from fishergcn.models._facts import FORMAT, Facts, read_facts
from fishergcn.models._sets import Aside, aside_from_dict
from fishergcn.models._weights import read_tensors, write_tensors
from fishergcn.splits import Split
from fishergcn.training import RunRecord, TrainConfig, input_size, parse_method

if TYPE_CHECKING:
    from fishergcn.models._trained import TrainedModel

# Of these, geometry.json is what `fishergcn geometry fisher MODEL --keep` adds, certificates.json what `certify --keep`
# adds, report.html what `report` adds.
MODEL_FILES = (
    "weights.safetensors", "model.json", "split.safetensors", "README.md", "predictions.csv", "runs.json", "graph.npz",
    "geometry.json", "certificates.json", "report.html",
)  # fmt: skip
_SPLIT = "split.safetensors"
_PARTS = ("train", "val", "test")
_ASIDE = "aside"
_LARGEST_GRAPH_FILE = 8 << 30
_LARGEST_RUNS_FILE = 1 << 30


def check_model_target(folder: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Return the real path of a folder to save to, or raise if it must not be written."""
    return check_target(folder, overwrite=overwrite, ours=_holds_models_only)


def write_folder(
    folder: str | os.PathLike[str], models: Mapping[str, TrainedModel], runs: Iterable[RunRecord], *, overwrite: bool
) -> None:
    """Write models, each to the folder of its name inside (the folder itself for ""), and all runs."""
    values = [record.to_dict() for record in runs]
    target = check_model_target(folder, overwrite=overwrite)
    with atomic_folder(target, replaces=_holds_models_only if overwrite else None) as temporary:
        _write_json(temporary / "runs.json", {"format": "fishergcn-runs", "version": 1, "runs": values})
        for name, model in models.items():
            _write_model(temporary / name, model)


def read_folder(folder: Path) -> tuple[Facts, Graph, dict[str, AnyArray]]:
    """Read what is known of a model, its graph and its tensors by name, and check that they fit together."""
    refuse_links(folder, *MODEL_FILES)
    facts = read_facts(folder)
    graph = _read_graph(folder, facts)
    tensors = read_tensors(folder / "weights.safetensors", _shapes(graph, facts))
    _check_sum(folder, "weights.safetensors", facts)
    for name, each in tensors.items():
        if name.endswith("train") and not np.isin(each, np.flatnonzero(known_nodes(graph))).all():
            raise DataFileError(f"{folder / 'weights.safetensors'}: {name} must hold labeled nodes of the graph.")
    return facts, graph, tensors


def read_split(folder: Path, facts: Facts, graph: Graph) -> tuple[Split | None, Aside | None]:
    """Read which nodes were trained on, validated with, tested on and set aside; none in a folder of 0.1."""
    if _SPLIT not in facts.sums:
        return None, None
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {part: ("int64", (facts.split_sizes[part],)) for part in _PARTS}
    if facts.sets is not None:
        shapes[_ASIDE] = "int64", (Entries(facts.sets, "the prediction sets of a model").whole("nodes"),)
    parts = read_tensors(folder / _SPLIT, shapes)
    _check_sum(folder, _SPLIT, facts)
    try:
        split = Split(facts.record.split, *(parts[part] for part in _PARTS)).check(graph.num_nodes)
        return split, None if facts.sets is None else aside_from_dict(facts.sets, parts[_ASIDE], graph)
    except InputError as error:
        raise DataFileError(f"{folder / _SPLIT}: {error}") from None


def load_runs(folder: str | os.PathLike[str]) -> list[RunRecord]:
    """Read the runs from which a model was chosen, in the ``runs.json`` of its folder; none without that file."""
    path = Path(folder, "runs.json")
    refuse_links(folder, "runs.json")
    if not os.path.isfile(path):
        return []
    try:
        values = parse_json(read_bytes(path, limit=_LARGEST_RUNS_FILE))
        return [RunRecord.from_dict(each) for each in values["runs"]]
    except DataFileError as error:
        raise DataFileError(f"{path}: {error}") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataFileError(f"{path} is not a list of runs ({reason(error)}).") from None


def _shapes(graph: Graph, facts: Facts) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return type and shape of every tensor that a model has, by name; those of member k begin with ``k.``."""
    if not facts.members:
        return _own_shapes(graph, facts.record, facts.split_sizes["train"])
    return {
        f"{place}.{name}": shape
        for place, each in enumerate(facts.members)
        for name, shape in _own_shapes(graph, each.record, facts.split_sizes["train"]).items()
    }


def _own_shapes(graph: Graph, record: RunRecord, learned: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    config = TrainConfig.from_dict(record.config)
    if not parse_method(record.method).trained:
        return {"train": ("int64", (learned,))}
    network = parse_method(record.method).network
    size = input_size(graph, config)
    tensors = network.tensors(size, graph.num_classes, config)
    found: dict[str, tuple[str, tuple[int, ...]]] = {name: (config.dtype, each.shape) for name, each in tensors.items()}
    if config.scaling == "columns":
        centered = not sparse.issparse(graph.features) and not config.links_as_features
        names = ("center", "scale") if centered else ("scale",)
        found |= {f"scaling.{name}": ("float64", (size,)) for name in names}
    return found


def _tensors(model: TrainedModel) -> dict[str, AnyArray]:
    """Return all that a model has learned, by name."""
    members: tuple[TrainedModel, ...] = getattr(model, "members", ())
    if members:
        return {f"{place}.{name}": each for place, own in enumerate(members) for name, each in _tensors(own).items()}
    if not model.method.trained:
        return {"train": np.asarray(model._learned_from[0], dtype=np.int64)}
    found = {name: each[0].cpu().numpy() for name, each in model.weights.items()}
    scaling = {"scaling.center": model.scaling.center, "scaling.scale": model.scaling.scale}
    return found | {name: each for name, each in scaling.items() if each is not None}


def class_names_of(graph: Graph) -> tuple[str, ...]:
    """Return the names of the classes of a graph; their numbers where they have none."""
    return graph.class_names or tuple(str(label) for label in range(graph.num_classes))


def _write_model(folder: Path, model: TrainedModel) -> None:
    record, graph = model.record, model.graph
    folder.mkdir(exist_ok=True)
    write_tensors(folder / "weights.safetensors", _tensors(model))
    embedded = _is_embedded(graph)
    if not embedded:
        graph.save(folder / "graph.npz")
    if model.runs:
        aside = {} if model.aside is None else {_ASIDE: model.aside.nodes}
        write_tensors(folder / _SPLIT, {part: getattr(model.runs[0].split, part) for part in _PARTS} | aside)
    binary = ("weights.safetensors", "graph.npz", _SPLIT)
    sums = {name: _sum(folder / name) for name in binary if (folder / name).exists()}
    sizes, names = model.split_sizes, model.class_names
    facts = Facts(record, sizes, model.chosen_from, embedded, names, graph.num_features, sums, model.selection,
                  model.chosen_by, model.facts(), None if graph.targets is not None else model.calibration,
                  None if model.aside is None else model.aside.to_dict())  # fmt: skip
    _write_json(folder / "model.json", facts.to_dict())
    write_text(folder / "predictions.csv", model.predictions_csv())
    write_text(folder / "README.md", model.card())


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
    needed = any(parse_method(each.method).trained for each in facts.records)
    if (needed and graph.features is None) or graph.num_features != facts.num_features:
        raise DataFileError(f"{folder}: the graph has {graph.num_features} features, the model {facts.num_features}.")
    if class_names_of(graph) != facts.class_names:
        raise DataFileError(f"{folder}: the classes of the graph are not those in model.json.")
    return graph


def _is_embedded(graph: Graph) -> bool:
    if graph.name not in datasets.available():
        return False
    shipped = datasets.load(graph.name)
    names = ("digest", "node_ids", "class_names", "feature_names")
    return all(getattr(graph, name) == getattr(shipped, name) for name in names)


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
    return entry.name in MODEL_FILES
