"""Problems as plain arrays, in which form they travel to other processes and machines. Nothing is pickled."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn import nn, propagation
from fishergcn._base.npz import pack_json, unpack_json
from fishergcn._base.types import AnyArray
from fishergcn._settings.config import TrainConfig
from fishergcn.errors import InputError
from fishergcn.graph import Graph
from fishergcn.operators import SparseMatrix
from fishergcn.spectrum import Spectrum
from fishergcn.training import _scores
from fishergcn.training._methods import parse_method
from fishergcn.training._problem import Problem, network_inputs, prepare


def problem_key(problem: Problem) -> str:
    """Return a name for what all runs of a problem share: graph, method and settings."""
    text = json.dumps([problem.graph.digest, problem.graph.name, problem.method.name, problem.config.to_dict()])
    drawn_from = b"" if problem.moved is None else np.ascontiguousarray(problem.moved).tobytes()
    return hashlib.sha256(text.encode() + drawn_from).hexdigest()[:32]


def problem_arrays(problem: Problem) -> dict[str, AnyArray]:
    """Return a problem as arrays by name; those of the graph and of what was made of it share its memory."""
    matrix = problem.propagation
    facts: dict[str, Any] = {
        "method": problem.method.name,
        "config": problem.config.to_dict(),
        "modules": _importable(problem.method.name),
    }
    found = {f"graph_{name}": array for name, array in problem.graph.to_arrays().items()}
    found |= {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data}
    found |= _ready_arrays(problem)
    spectrum = None if problem.neighborhood is None else problem.neighborhood.spectrum
    if spectrum is not None:
        found |= {"eigenvalues": spectrum.eigenvalues, "eigenvectors": spectrum.eigenvectors}
        facts["spectrum"] = {"trace": spectrum.trace, "residual": spectrum.residual, "solver": spectrum.solver}
    if problem.moved is not None:
        found["moved"] = problem.moved
    return found | {"facts": pack_json(facts)}


def problem_from_arrays(arrays: Mapping[str, AnyArray]) -> Problem:
    """Undo :func:`problem_arrays`, on the memory of these arrays."""
    facts = unpack_json(arrays["facts"])
    for module in facts["modules"]:  # which register networks, scores and matrices
        importlib.import_module(module)
    spectrum = None
    if "spectrum" in facts:
        vectors = arrays["eigenvalues"], arrays["eigenvectors"]
        spectrum = Spectrum(eigenvalues=vectors[0], eigenvectors=vectors[1], **facts["spectrum"])
    parts = {name.removeprefix("graph_"): array for name, array in arrays.items() if name.startswith("graph_")}
    nodes, single = len(arrays["indptr"]) - 1, arrays.get("single")
    matrix = _sorted((arrays["data"], arrays["indices"], arrays["indptr"]), (nodes, nodes))
    graph, config = Graph.from_arrays(parts), TrainConfig.from_dict(facts["config"])
    return prepare(
        graph,
        parse_method(facts["method"]),
        config,
        propagation=matrix,
        spectrum=spectrum,
        moved=arrays.get("moved"),
        operator=None if single is None else SparseMatrix.from_symmetric(matrix, single),
        scaled=_scaled(graph, config, arrays),
    )


def _importable(method: str) -> list[str]:
    """Return the modules outside this package that registered something, for other processes to import."""
    # A network asks for its matrix by name, and may ask for it when it is registered: matrices come first.
    found = {each: None for registry in (propagation, nn, _scores) for each in registry.outside_modules()}
    if "__main__" in found:
        raise InputError(
            f"{method} cannot be trained in other processes while the main program registers a network, a score or a "
            "matrix, which they could not import; put it in a module of its own, or use workers=1."
        )
    return list(found)


def _ready_arrays(problem: Problem) -> dict[str, AnyArray]:
    """Return what each process would make for itself: X as it is scaled, and the values of Ã in float32."""
    found, method = dict[str, AnyArray](), problem.method
    given = problem.inputs if method.trained else None
    number = np.float32 if problem.config.dtype == "float32" else np.float64
    if given is not None:
        scaled: Any = problem.scaling.apply(given)
        values: Any = scaled.data if isinstance(scaled, sparse.csr_array) else scaled
        own: Any = given.data if isinstance(given, sparse.csr_array) else given
        values = values.astype(number)
        found["scaled"] = own if values.dtype == own.dtype and np.array_equal(values, own) else values
    if method.matrix.linked and method.matrix.symmetric and method.trained and number == np.float32:
        found["single"] = problem.propagation.data.astype(np.float32)
    return found


def _scaled(graph: Graph, config: TrainConfig, arrays: Mapping[str, AnyArray]) -> Any:
    """Return X as it is scaled, on the indices of the graph."""
    if "scaled" not in arrays:
        return None
    given = network_inputs(graph, config)
    if not isinstance(given, sparse.csr_array):
        return arrays["scaled"]
    return _sorted((arrays["scaled"], given.indices, given.indptr), given.shape)


def _sorted(parts: tuple[AnyArray, ...], shape: Any) -> Any:
    found: Any = sparse.csr_array(parts, shape=shape)
    found.has_sorted_indices = found.has_canonical_format = True  # as they were when they left
    return found
