"""Whether a folder from elsewhere is what it seems to be: what is in it, and what the readers say of each part.

Nothing is believed and nothing is followed: names are listed first, links and devices are named, and the rest is read
by the same readers that other commands use, which check schema, sizes and checksums.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fishergcn._base.foreign import printable
from fishergcn.certificates import CertifiedCurve
from fishergcn.errors import DataFileError, FisherGCNError, reason
from fishergcn.geometry.extrinsic import GeometryRecord
from fishergcn.geometry.statistics import check_distances, load_results
from fishergcn.graph import Graph
from fishergcn.large import LARGE_BLOCKS, LARGE_FILES, LargeFit, check_parts
from fishergcn.models import MODEL_FILES, load_model, load_runs
from fishergcn.studies._decisions import load_selection
from fishergcn.studies._folders import STUDY_FILES
from fishergcn.studies._schema import check_search
from fishergcn.studies._store import open_runs
from fishergcn.studies._tuned import load_tuning

_MOST, _DEEPEST = 100_000, 4  # entries, and folders inside each other
_REPORT, _LOCK = r"report\.html", r"runs\.lock"


@dataclass
class Verified:
    """What was found in a folder: parts that are sound, problems, and foreign files."""

    sound: dict[str, str] = field(default_factory=dict)  # path within the folder: what it is
    problems: dict[str, str] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)


def verify(folder: str | os.PathLike[str]) -> Verified:
    """Check a model, a study, an archive, a search or results on graphs, with the folders inside."""
    place = Path(folder)
    if not os.path.isdir(place):
        raise DataFileError(f"{place} {'is a file' if os.path.exists(place) else 'does not exist'}, not a folder.")
    found, known = Verified(), set[Path]()
    folders, files = _listed(place, found)
    for each in folders:
        names = {entry.name for entry in os.scandir(each)}
        for sign, (what, ours, check) in _KINDS.items():
            if sign in names and not (sign == "plan.json" and ("runs.sqlite" in names or each.name == LARGE_BLOCKS)):
                inside = ((name, os.path.relpath(name, each)) for name in files if each in name.parents)
                known |= {name for name, within in inside if within == sign or re.fullmatch(ours, within)}
                _try(found, place, each / sign, what, check)
    found.foreign = [os.path.relpath(name, place) for name in sorted({*files} - known)]
    if not found.sound and not found.problems:
        raise DataFileError(f"{place} holds no model, study, archive, search, graph or results on graphs.")
    return found


def _listed(place: Path, found: Verified) -> tuple[list[Path], list[Path]]:
    """Return all folders, the given one first, and files, and note whatever is neither a file nor a folder."""
    folders, files, count = [place], list[Path](), 0
    for each in folders:
        if len(each.relative_to(place).parts) > _DEEPEST:
            raise DataFileError(f"{each}: a folder of ours has at most {_DEEPEST} levels inside.")
        for entry in os.scandir(each):
            count += 1
            mode = entry.stat(follow_symlinks=False).st_mode
            name = os.path.relpath(entry.path, place)
            if stat.S_ISLNK(mode):
                found.problems[name] = "is a link"
            elif stat.S_ISDIR(mode):
                folders.append(Path(entry.path))
            elif not stat.S_ISREG(mode):
                found.problems[name] = "is neither a file nor a folder"
            else:
                files.append(Path(entry.path))
        if count > _MOST:
            raise DataFileError(f"{place} must hold at most {_MOST} files, and holds more.")
    return folders, files


def _try(found: Verified, place: Path, path: Path, what: str, check: Callable[[Path], str]) -> None:
    name = os.path.relpath(path, place)
    if any(each in found.problems for each in (name, os.path.dirname(name))):
        return
    try:
        found.sound[name] = f"{what}: {check(path)}"
    except FisherGCNError as error:
        found.problems[name] = printable(str(error))
    except (OSError, RecursionError) as error:
        found.problems[name] = printable(reason(error))


def _check_model(path: Path) -> str:
    model = load_model(path.parent)
    model.probabilities()
    return f"{model.record.method}, graph and weights as their checksums say"


def _check_runs(path: Path) -> str:
    return f"{len(load_runs(path.parent))} runs"


def _check_study(path: Path) -> str:
    with open_runs(path.parent) as runs:
        count = sum(1 for _ in runs.entries())
    return f"{count} runs, each as its checksum says" if path.suffix == ".sqlite" else f"{count} runs"


def _check_search(path: Path) -> str:
    check_search(path.with_name("study.sqlite"))
    return f"{len(load_tuning(path.parent).trials)} trials"


def _check_choice(path: Path) -> str:
    selection = load_selection(path.parent)
    return "not finished" if selection is None else f"{len(selection.candidates)} candidates"


def _check_geometry(path: Path) -> str:
    return f"{len(GeometryRecord.load(path).eigenvalues)} eigenvalues"


def _check_certificates(path: Path) -> str:
    return f"{CertifiedCurve.load(path).nodes} nodes"


def _check_graphs(path: Path) -> str:
    return f"{len(load_results(path.parent).names)} graphs"


def _check_distances(path: Path) -> str:
    return f"{check_distances(path.parent)} rows of distances"


def _check_large(path: Path) -> str:
    fit = LargeFit.load(path.parent)
    return f"predictions for {fit.nodes:,} nodes in {check_parts(path.parent, fit.nodes)} parts"


def _check_mapped(path: Path) -> str:
    graph = Graph.load(path.parent)
    return f"{graph.num_nodes:,} nodes, {graph.num_links:,} links"


# By the file that tells: what it is, a pattern of all that belongs to it, and what reads it.
_KINDS: dict[str, tuple[str, str, Callable[[Path], str]]] = {
    "model.json": ("model", "|".join(map(re.escape, MODEL_FILES)), _check_model),
    "runs.sqlite": ("study", STUDY_FILES.pattern, _check_study),
    "plan.json": ("archive of runs", STUDY_FILES.pattern, _check_study),
    "tuning.json": ("search", rf"study\.sqlite(-journal)?|{_LOCK}|{_REPORT}", _check_search),
    "choice.json": ("choice of a model", rf"{_LOCK}|{_REPORT}", _check_choice),
    "runs.json": ("runs of a model", _REPORT, _check_runs),
    "geometry.json": ("geometry of a model", "", _check_geometry),
    "certificates.json": ("certificates", "", _check_certificates),
    "graphs.json": ("results on graphs", rf"{_LOCK}|{_REPORT}", _check_graphs),
    "distances.json": ("distances of graphs", r"graphs\.npz|rule\.npz|row-\d{5,}\.npz", _check_distances),
    "result.json": ("predictions of a large graph", LARGE_FILES.pattern, _check_large),
    "description.npy": ("graph", r"\w+\.npy", _check_mapped),
}


def in_words(found: Verified) -> Iterator[str]:
    """Yield a line for each part, problem and foreign file."""
    for mark, entries in (("ok", found.sound), ("problem", found.problems)):
        for name, words in sorted(entries.items()):
            yield f"{mark:8} {printable(name)}: {words}"
    for name in found.foreign:
        yield f"{'foreign':8} {printable(name)}"
