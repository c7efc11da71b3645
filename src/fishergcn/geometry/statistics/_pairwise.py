"""All distances of many graphs: each pair once, by several processes, row by row in a folder that can be resumed."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from fishergcn._base.checks import check_choice, check_integer
from fishergcn._base.files import make_folder, read_bytes, refuse_links, write_text
from fishergcn._base.json import parse_json
from fishergcn._base.process import start_python
from fishergcn._base.reprs import one_line
from fishergcn._base.temporary import temporary_folder
from fishergcn._base.types import FloatArray
from fishergcn.errors import DataFileError, InputError
from fishergcn.execution import count_cores
from fishergcn.geometry.intrinsic._density import DENSE_LIMIT
from fishergcn.geometry.intrinsic._laplacian import Local
from fishergcn.geometry.statistics._collection import GraphCollection, Graphs, as_collection
from fishergcn.geometry.statistics._densities import Geometry, Measure, densities_of, traces_of
from fishergcn.geometry.statistics._determinants import find_rule
from fishergcn.geometry.statistics._folder import load_rule, read_row, row_path, save_graphs, save_row, save_rule
from fishergcn.geometry.statistics._rows import Compute, Rows, Settings

# Sum of cubed nodes over pairs up to which all eigenvalues of every pair are found: minutes.
_EXACT_WORK = 1e12
_LARGEST_LABEL = 1 << 20  # bytes
_MOST = 10_000  # graphs: matrices of a gigabyte each


@dataclass(frozen=True, eq=False)
class Distances:
    """All distances of a collection, with error bars; see :func:`pairwise`.

    ``values``, ``low`` and ``high`` are symmetric (m, m) matrices with zeros on the diagonal, ``names`` those of the
    graphs, ``times`` theirs, ``method`` how distances were found.

    Examples
    --------
    >>> import numpy as np
    >>> path, ring = np.diag([1.0, 1.0], 1), np.ones((3, 3)) - np.eye(3)
    >>> found = pairwise({"path": path + path.T, "ring": ring})
    >>> found.names, found.method, float(found.errors.max()), round(float(found.values[0, 1]), 6)
    (('path', 'ring'), 'exact', 0.0, 0.261052)
    """

    values: FloatArray
    low: FloatArray
    high: FloatArray
    names: tuple[str, ...]
    times: tuple[float, ...] | None
    method: str

    __repr__ = one_line

    def __len__(self) -> int:
        return len(self.names)

    @property
    def errors(self) -> FloatArray:
        """Half the width of the intervals: bounds, or two standard errors and the bias; 0 for exact distances."""
        return (self.high - self.low) / 2


def pairwise(
    graphs: Graphs,
    *,
    measure: Measure = "bures",
    geometry: Geometry = "laplacian",
    laplacian: Local = "combinatorial",
    compute: Compute = "auto",
    workers: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    probes: int = 20,
    steps: int = 160,
    seed: int = 0,
) -> Distances:
    """Distances of all pairs of graphs on the same nodes, each pair once.

    ======================  ==========================================================================
    ``measure``             of density matrices ρ and σ
    ======================  ==========================================================================
    ``"bures"``             D_B = (2 - 2F)^½, F = tr (ρ^½ σ ρ^½)^½
    ``"wasserstein"``       W = ((√s - √t)² + √(st) D_B²)^½, of the matrices sρ and tσ: sums of weights count, too
    ``"jensen-shannon"``    root of the quantum Jensen-Shannon divergence, H((ρ+σ)/2) - (H(ρ)+H(σ))/2
    ``"entropy"``           abs(H(ρ) - H(σ)), H the von Neumann entropy; 0 also for different graphs
    ======================  ==========================================================================

    Parameters
    ----------
    graphs : GraphCollection, or graphs as it takes them
        At least two.
    geometry : {"laplacian", "pseudoinverse"}
        Which density stands for a graph: ρ = L / tr L, in which links with large weights count, or ρ = L† / tr L†, as
        in graph optimal transport, in which the slowest directions count: cuts and communities.
    laplacian : {"combinatorial", "normalized", "renormalized"}
        Which Laplacian, see :func:`fishergcn.geometry.intrinsic.graph_laplacian`.
    compute : {"auto", "exact", "bounds", "estimate"}
        "exact" finds all eigenvalues for each pair. "bounds" encloses each Bures distance between two bounds, from a
        few determinants: several times faster, within 0.4% of the distance, and typically a hundred times closer. Both
        take up to 6000 nodes that have a link in some graph. "estimate" is for any size, see
        :func:`fishergcn.geometry.intrinsic.graph_distance`, which ``probes``, ``steps`` and ``seed`` are for. "auto"
        is exact where that takes about a minute, bounds where it would take longer, and estimates beyond 6000 nodes.
    workers : int, optional
        How many processes; by default one per core where "auto" would not be exact, else none beside this one.
    folder : path, optional
        Where the distances of each graph are kept as they are found. A call with the same graphs and settings
        continues there; a folder of other graphs or settings is refused.

    Returns
    -------
    Distances

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> upper = [np.triu(rng.random((8, 8)) < 0.5, 1) * 1.0 for _ in range(3)]
    >>> found = pairwise([each + each.T for each in upper])
    >>> found.values.shape, bool((found.values == found.values.T).all())
    ((3, 3), True)
    """
    check_choice("measure", measure, get_args(Measure))
    check_choice("geometry", geometry, get_args(Geometry))
    check_choice("laplacian", laplacian, get_args(Local))
    check_choice("compute", compute, get_args(Compute))
    if workers is not None:
        check_integer("workers", workers, minimum=1)
    check_integer("probes", probes, minimum=2)
    check_integer("steps", steps, minimum=20)
    check_integer("seed", seed, minimum=0)
    collection = as_collection(graphs, at_least=2, why=" for a distance")
    chosen = _chosen(collection, measure, geometry, compute)
    first: Measure = "bures" if measure == "wasserstein" else measure
    settings = Settings(first, geometry, laplacian, chosen, probes, steps, seed)
    if (place := None if folder is None else Path(folder)) is not None:
        _claim(place, collection, settings)
    known = load_rule(place) if place is not None and chosen == "bounds" else None
    rule = known or (find_rule(densities_of(collection, geometry, laplacian)) if chosen == "bounds" else None)
    workers = workers or (1 if chosen == "exact" else count_cores())
    rows = _all_rows(Rows(collection, settings, rule), workers, place)
    values, low, high = _squares(rows, traces_of(collection, geometry, laplacian) if measure == "wasserstein" else None)
    method = "exact" if chosen == "bounds" and rule is None else chosen
    return Distances(values, low, high, collection.names, collection.times, method)


def _chosen(graphs: GraphCollection, measure: Measure, geometry: Geometry, compute: Compute) -> Compute:
    """Return how distances are found, or say why not."""
    if len(graphs) > _MOST:
        raise InputError(f"graphs must be at most {_MOST} for all their distances, got {len(graphs)}.")
    linked = [np.diff(matrix.indptr) > 0 for matrix in graphs.adjacencies]
    size = int(np.count_nonzero(sum(linked)))
    # A pair costs the cube of its smaller number of linked nodes.
    sizes = np.sort([np.count_nonzero(each) for each in linked])[::-1].astype(np.float64)
    work = float(sizes**3 @ np.arange(sizes.size))
    others_too = measure in ("bures", "wasserstein") and geometry == "laplacian"
    if compute == "auto":
        if size > DENSE_LIMIT and others_too:
            return "estimate"
        return "bounds" if others_too and work > _EXACT_WORK else "exact"
    if compute in ("bounds", "estimate") and not others_too:
        raise InputError(
            f"compute must be 'exact' for measure {measure!r} in geometry {geometry!r}, got {compute!r}: only Bures "
            "distances of Laplacians are bounded or estimated."
        )
    return compute


def _all_rows(work: Rows, workers: int, folder: Path | None) -> list[FloatArray]:
    """Return every graph's distances to those after it, from the folder as far as they are there."""
    graphs, indices = work.graphs, range(len(work.graphs) - 1)
    if folder is None and workers == 1:
        return [work.row(index) for index in indices]
    with ExitStack() as stack:
        place = folder or stack.enter_context(temporary_folder())
        if folder is None:
            _claim(place, graphs, work.settings)
        if work.rule is not None:
            save_rule(place, work.rule)
        missing = [index for index in indices if not row_path(place, index).is_file()]
        if workers == 1 or len(missing) < 2:
            for index in missing:
                save_row(place, index, work.row(index))
        else:
            _in_processes(place, min(workers, len(missing)), graphs)
        return [read_row(place, index, len(graphs) - 1 - index) for index in indices]


def _claim(folder: Path, graphs: GraphCollection, settings: Settings) -> None:
    """Begin a folder of results, or make sure that the one that is there belongs to these graphs and settings."""
    label = folder / "distances.json"
    wanted = {"graphs": graphs.digest, **asdict(settings)}
    refuse_links(folder, label.name)
    if label.exists():
        try:
            found = parse_json(read_bytes(label, limit=_LARGEST_LABEL))
        except (OSError, ValueError, RecursionError) as error:
            raise DataFileError(f"{label} cannot be read, so whose distances the folder holds is unknown.") from error
        if found != wanted:
            differs = [name for name in wanted if not isinstance(found, dict) or found.get(name) != wanted[name]]
            raise InputError(
                f"folder {folder} holds distances of other {' and '.join(differs)}; choose another folder."
            )
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"folder {folder} must be empty or hold distances, but it holds something else.")
    make_folder(folder)
    write_text(label, json.dumps(wanted, indent=1), inside=folder)


def _in_processes(folder: Path, workers: int, graphs: GraphCollection) -> None:
    """Have several processes compute the rows that are missing, each with one thread."""
    save_graphs(folder, graphs)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    started = [
        start_python(
            "fishergcn.geometry.statistics._worker",
            *(str(folder.resolve()), str(share), str(workers)),
            environment=one_thread,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for share in range(workers)
    ]
    try:
        failures = [process.communicate()[1].strip() for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    for process, words in zip(started, failures, strict=True):
        if process.returncode != 0:
            last = words.splitlines()[-1] if words else f"it ended with status {process.returncode}"
            raise DataFileError(f"a process that computed distances failed: {last}; finished rows stay in the folder.")


def _squares(rows: list[FloatArray], traces: FloatArray | None) -> FloatArray:
    """Return the symmetric matrices of values, lower and upper ends; of matrices with these traces, if given."""
    size = len(rows) + 1
    found = np.zeros((3, size, size))
    for index, row in enumerate(rows):
        found[:, index, index + 1 :] = row
    found += found.transpose(0, 2, 1)
    if traces is None:
        return found
    roots = np.sqrt(traces)
    return np.asarray(np.sqrt(np.square(np.subtract.outer(roots, roots)) + np.outer(roots, roots) * found**2))
