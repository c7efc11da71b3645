"""From a folder that one of our commands wrote to a page about it."""

from __future__ import annotations

import os
from pathlib import Path

from fishergcn._base.files import refuse_links
from fishergcn.errors import DataFileError, InputError
from fishergcn.report._graph_results import report_graphs
from fishergcn.report._model import report_model
from fishergcn.report._models import report_models
from fishergcn.report._search import report_tuning
from fishergcn.report._stages import report_stages
from fishergcn.report._study import report_study
from fishergcn.training import find_score

_ACCEPTED = (
    "a model or of several (fishergcn train --out), of a search (fishergcn tune, or the OUT-search folder of fishergcn "
    "train), of a study (fishergcn reproduce, compare or robustness, and archives of them), or of results on many "
    "graphs (fishergcn graphs ... --out)"
)


def write_report(folder: str | os.PathLike[str], *, score: str | None = None) -> Path:
    """Write a page about what is in a folder, into it, and return the path of the page, ``report.html``.

    The page is one file that works offline: the verdict and one figure first, then tables that sort, charts that zoom,
    and what was run. It is about

    - a model: how good it is on each class, how far its probabilities can be trusted, of which nodes it is least
      certain, how it was chosen, what its graph looks like;
    - several models, each in a folder of its own inside, at most two levels down: all of them side by side, and a page
      for each;
    - a search by :func:`fishergcn.studies.tune`, or several in folders inside, or the folder in which
      :func:`fishergcn.fit` kept its runs;
    - a study: a reproduction, a comparison, a robustness study, or an archive of one. Beside the page it has
      ``tables.md``, ``tables.csv``, and every figure as SVG and PNG, with its data as CSV, in ``figures/``. It comes
      from records alone: no data set is loaded and nothing is computed anew but statistics;
    - many graphs (``fishergcn graphs … --out``): a map and a tree of them, a time line with marked changes and the
      nodes and links behind these, and tables.

    What ``fishergcn geometry fisher MODEL --keep`` kept of models in the folder or in its sub-folders is drawn too.
    Each file is written wholly or not at all; equal input gives equal files.

    Parameters
    ----------
    folder
        Any of these folders.
    score
        Which score the page of a study compares methods by, such as ``"macro-f1"`` or ``"log-loss"``; accuracy by
        default. Pages of models and searches show the score by which these were chosen.

    Raises
    ------
    DataFileError
        If it is none of these, if nothing is finished in it, or if a file cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> from fishergcn import studies
    >>> small = studies.make_plan("quick", datasets=["cora"], methods=["gcn"], splits=1, seeds=1, epochs=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     counts = studies.run(small, folder, device="cpu", workers=1)
    ...     page = write_report(folder)
    ...     print(page.name, sorted(path.name for path in page.parent.glob("tables.*")))
    report.html ['tables.csv', 'tables.md']
    """
    target = Path(folder)
    if not os.path.isdir(target):
        what = "is a file" if os.path.exists(target) else "does not exist"
        raise DataFileError(f"{target} {what}; fishergcn report takes the folder of {_ACCEPTED}.")
    if _has(target, "runs.sqlite") or _has(target, "plan.json"):
        return report_study(target, "accuracy" if score is None else score)
    if score is not None:
        raise InputError(
            f"score goes with the folder of a study, and {target} is none, got {find_score(score).name!r}."
        )
    if _has(target, "graphs.json"):
        return report_graphs(target)
    if _has(target, "model.json"):
        return report_model(target)
    if _has(target, "choice.json"):
        return report_stages(target)
    if searches := _inside(target, "tuning.json"):
        return report_tuning(target, searches)
    if models := _inside(target, "model.json"):
        return report_models(target, models)
    raise DataFileError(f"{target} holds nothing to report on; fishergcn report takes the folder of {_ACCEPTED}.")


def _has(folder: Path, name: str) -> bool:
    return os.path.isfile(folder / name)  # unlike Path.is_file, no exception for any path


def _inside(folder: Path, name: str) -> list[Path]:
    """Return the folders with such a file: this one, or those in it, or those in these."""
    for pattern in (name, f"*/{name}", f"*/*/{name}"):
        found = sorted(path.parent for path in folder.glob(pattern) if os.path.isfile(path))
        if found:
            refuse_links(folder, *(str(each.relative_to(folder)) for each in found))
            return found
    return []
