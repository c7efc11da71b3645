"""The graph file: one ``.npz`` with the upper triangle of A, features, labels and a JSON description."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fishergcn._base.mapped import read_mapped
from fishergcn._base.npz import pack_json, pack_values, read_arrays, smallest, unpack_json, unpack_values, write_arrays
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, InputError, reason
from fishergcn.graph._formats._arrays import NAMES, published
from fishergcn.graph._node_data import PARTS
from fishergcn.graph._pairs import link_matrix

if TYPE_CHECKING:
    from fishergcn.graph._graph import Graph

_FORMAT = "fishergcn-graph"
_VERSION = 1
_WITH_TASK = 2  # of files with targets that are no classes, which older versions would not see
_LONGEST = 2**31 - 1
_PLAIN_FEATURES = ("x_shape", "x_indptr", "x_indices", "x_data")


def save_graph(graph: Graph, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Write ``graph`` to ``path``."""
    arrays = _pack_csr("adjacency", sparse.csr_array(sparse.triu(graph.adjacency)))
    if sparse.issparse(graph.features):
        arrays |= _pack_csr("features", graph.features)
    elif graph.features is not None:
        arrays["features"] = graph.features
    if graph.labels is not None:
        arrays["labels"] = smallest(graph.labels)
    for part, index in (graph.standard_split or {}).items():
        arrays[f"split_{part}"] = smallest(index)
    for part, mask in (graph.masks or {}).items():
        arrays[f"masks_{part}"] = mask
    description = {"format": _FORMAT, "version": _VERSION} | {name: getattr(graph, name) for name in NAMES}
    if graph.feature_names is None:  # without it, a file is the same as of version 0.1
        del description["feature_names"]
    if graph.targets is not None:
        arrays["targets"] = graph.targets
        description |= {"version": _WITH_TASK, "task": graph.task}
    if graph.reading is not None:
        description["reading"] = graph.reading
    write_arrays(path, arrays | {"description": pack_json(description)}, overwrite=overwrite)


def load_graph(kind: type[Graph], path: str | os.PathLike[str]) -> Graph:
    """Read what :func:`save_graph` wrote, or plain arrays."""
    arrays, source = read_arrays(path), str(path)
    if "description" not in arrays and "edges" not in arrays:
        raise DataFileError(
            f"{source} is not a graph file: it has neither a description (was it written by Graph.save?) nor edges."
        )
    with _refusal(f"{source} is not a valid graph file"):
        if "description" not in arrays:
            return kind(**_plain_arguments(arrays), name=Path(path).stem)
        description = unpack_json(arrays["description"])
        if not isinstance(description, dict) or description.get("format") != _FORMAT:
            raise DataFileError("its description is not that of a graph")
        if description.get("version") not in (_VERSION, _WITH_TASK):
            raise DataFileError(f"version {description.get('version')!r} is not {_VERSION} or {_WITH_TASK}")
        upper = _unpack_csr("adjacency", arrays)
        split, masks = published(arrays)
        names: dict[str, Any] = {name: _texts_or_none(description.get(name)) for name in NAMES[1:]}
        features: Any = arrays.get("features")
        if features is None and "features_shape" in arrays:
            features = _unpack_csr("features", arrays)
        return kind(
            upper + sparse.triu(upper, 1).T,
            features,
            arrays.get("labels", arrays.get("targets")),
            name=description.get("name"),
            task=description.get("task"),
            **names,
            reading=description.get("reading"),
            standard_split=split,
            masks=masks,
        )


def load_folder(kind: type[Graph], folder: str | os.PathLike[str]) -> Graph:
    """Map a folder of arrays that ``Graph.save(..., mapped=True)`` wrote."""
    arrays = read_mapped(folder)
    if "description" not in arrays:
        raise DataFileError(f"{folder} is not a folder of a graph: Graph.save(..., mapped=True) makes one.")
    with _refusal(f"{folder} is not a valid graph"):
        return kind.from_arrays(arrays)


@contextlib.contextmanager
def _refusal(sentence: str) -> Iterator[None]:
    """Raise whatever arrays that do not fit together cause as one error, which begins with this."""
    try:
        yield
    except KeyError as error:
        raise DataFileError(f"{sentence}: {error} is missing.") from error
    except (InputError, ValueError, TypeError, OverflowError, IndexError) as error:
        raise DataFileError(f"{sentence}: {reason(error)}.") from error


def _texts_or_none(value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise DataFileError("names must be a list of texts")
    return value


def _pack_csr(name: str, matrix: Any) -> dict[str, AnyArray]:
    packed = {
        f"{name}_shape": np.array(matrix.shape, dtype=np.int64),
        f"{name}_counts": smallest(np.diff(matrix.indptr)),
        f"{name}_indices": smallest(matrix.indices),
    }
    return packed | pack_values(f"{name}_data", matrix.data)


def _unpack_csr(name: str, arrays: Mapping[str, AnyArray]) -> Any:
    counts, indices = arrays[f"{name}_counts"], arrays[f"{name}_indices"]
    return _csr_matrix(name, arrays[f"{name}_shape"], counts, indices, unpack_values(f"{name}_data", arrays))


def _plain_arguments(arrays: Mapping[str, AnyArray]) -> dict[str, Any]:
    """Return the arguments of ``Graph``; see ``Graph.load`` for the arrays. What is missing of a group is an error."""
    features, labels = None, arrays.get("labels")
    if any(name in arrays for name in _PLAIN_FEATURES):
        shape, indptr, indices, data = (arrays[name] for name in _PLAIN_FEATURES)
        if indptr.ndim != 1 or indptr.dtype.kind not in "iu" or indptr.size == 0 or indptr[0] != 0:
            raise DataFileError("x_indptr must be a list of whole numbers from 0 on")
        features = _csr_matrix("x", shape, np.diff(indptr), indices, data)
    if features is None and labels is None:  # a link alone must not decide how much memory is taken
        raise DataFileError("features or labels must be there to say how many nodes it has")
    count = features.shape[0] if features is not None else labels.shape[0] if labels is not None and labels.ndim else 0
    adjacency = link_matrix(arrays["edges"], count, None, "undirected")
    masks = None
    if any(f"{part}_masks" in arrays for part in PARTS):
        masks = {part: arrays[f"{part}_masks"] for part in PARTS}
    return {"adjacency": adjacency, "features": features, "labels": labels, "masks": masks}


def _csr_matrix(name: str, shape: AnyArray, counts: AnyArray, indices: AnyArray, data: AnyArray) -> Any:
    """Return a matrix in compressed rows, after checking all that SciPy's compiled code trusts."""
    size = tuple(int(length) for length in shape)
    if len(size) != 2 or any(part.ndim != 1 for part in (counts, indices, data)):
        raise DataFileError(f"the arrays of {name} have the wrong number of dimensions")
    if not all(np.issubdtype(part.dtype, np.integer) for part in (counts, indices)):
        raise DataFileError(f"the indices of {name} are not integers")
    if max(size) > _LONGEST:
        raise DataFileError(f"the shape {size} of {name} is larger than {_LONGEST}")
    within = counts.size == 0 or (counts.min() >= 0 and counts.max() <= indices.size)
    if counts.size != size[0] or not within or int(counts.sum(dtype=np.int64)) != indices.size:
        raise DataFileError(f"the arrays of {name} do not fit its shape {size}")
    if data.size != indices.size:
        raise DataFileError(f"{name} has {indices.size} entries but {data.size} values")
    if indices.size and (indices.min() < 0 or indices.max() >= size[1]):
        raise DataFileError(f"an index of {name} lies outside its shape {size}")
    indptr = np.zeros(size[0] + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return sparse.csr_array((data, indices.astype(np.int64), indptr), shape=size)
