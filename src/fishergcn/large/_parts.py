"""Predictions as Parquet parts: a file for each block, with the class of every node and its probability."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fishergcn._base.files import atomic_path, refuse_links
from fishergcn._base.imports import require
from fishergcn._base.types import AnyArray
from fishergcn.errors import DataFileError, reason
from fishergcn.large._plan import Context
from fishergcn.large._sources import opened
from fishergcn.large._spread import lines_of
from fishergcn.large._store import Facts


def check_parts(folder: Path, nodes: int) -> int:
    """Read the predictions in the folder of a large graph to their end; return in how many parts they are."""
    places = sorted((folder / "predictions").glob("part-*.parquet"))
    refuse_links(folder, *(f"predictions/{each.name}" for each in places))
    files = [opened(each, ("class",)) for each in places]
    found = sum(each.metadata.num_rows for each in files)
    if found != nodes:
        raise DataFileError(f"{folder / 'predictions'} must hold predictions for {nodes} nodes, and holds {found}.")
    for place, file in zip(places, files, strict=True):
        try:
            for batch in file.iter_batches():
                batch.validate(full=True)
        except (OSError, ValueError, NotImplementedError) as error:
            raise DataFileError(f"{place} is damaged ({reason(error)}).") from error
    return len(places)


def write_part(
    context: Context, block: int, chain: str, step: int, shares: list[float], folder: str
) -> tuple[dict[str, AnyArray], Facts]:
    """Write predictions of a block, of the network or of a chain; ``shares`` are those of classes in training."""
    pyarrow = require("pyarrow", extra="report", purpose="Writing Parquet")
    parquet = require("pyarrow.parquet", extra="report", purpose="Writing Parquet")
    plan = context.plan
    if chain == "network":
        found: AnyArray = context.store.arrays("network", block, "values")[0].astype(np.float32)
    else:
        found = lines_of(context, chain, step, block, plan.classes)
    sums = found.sum(axis=1, keepdims=True)
    found = np.where(sums > 0, found / np.where(sums > 0, sums, 1), np.array(shares, dtype=np.float32))
    first, last = plan.rows(block)
    chosen = found.argmax(axis=1)
    names = plan.class_names or [str(each) for each in range(plan.classes)]
    classes = pyarrow.DictionaryArray.from_arrays(chosen.astype(np.int32), names)
    columns = {
        "node": np.arange(first, last),
        "class": classes.cast(pyarrow.string()),
        "probability": found[np.arange(last - first), chosen],
    }
    with atomic_path(Path(folder, f"part-{block:05}.parquet"), inside=folder) as temporary:
        parquet.write_table(pyarrow.table(columns), temporary)
    return {}, {"rows": last - first}
