"""Tasks that bring a graph into blocks: links, degrees and classes, and rows of features in half precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from fishergcn._base.types import AnyArray, IntArray
from fishergcn.errors import InputError
from fishergcn.large._plan import JUDGING, Context
from fishergcn.large._sources import PARTS, MappedSource
from fishergcn.large._store import Facts

_WRONG = {
    1: "adjacency must have columns below the number of nodes, got others.",
    2: "adjacency must have ascending columns in each row.",
    3: "adjacency must hold finite positive weights, got others.",
}
_HELD_OUT = 5  # every fifth labeled node judges, where no split is given
_MOST_KEY = 2**64


def spill(context: Context, block: int) -> tuple[dict[str, AnyArray], Facts]:
    """Sort a piece of the links, in both directions, by the block to which each belongs."""
    plan, source = context.plan, context.source
    one, other = source.pairs(block)  # type: ignore[union-attr]  # only Parquet has pieces
    rows, columns = np.concatenate([one, other]), np.concatenate([other, one])
    order = np.argsort(rows >> plan.shift, kind="stable")
    rows, columns = rows[order], columns[order]
    ends = np.searchsorted(rows >> plan.shift, np.arange(plan.blocks + 1))
    kind = _index(context)
    return {"rows": rows.astype(kind), "columns": columns.astype(kind), "ends": ends}, {}


def links(context: Context, block: int) -> tuple[dict[str, AnyArray], Facts]:
    """Write the rows of A of a block, its scales 1/√(d + 1) and 1/√d, and classes and parts of its nodes."""
    from fishergcn._kernels.cpu_blocks import check_links

    plan, source = context.plan, context.source
    first, last = plan.rows(block)
    if isinstance(source, MappedSource):
        indptr, indices, weights = source.rows(first, last)
    else:
        source.check_numbers(first, last)
        indptr, indices = _merged(context, block)
        weights = np.empty(0)
    degrees = np.empty(last - first)
    wrong, sums = check_links(indptr, indices, weights, first, plan.nodes, np.uint64(plan.seed), degrees)
    if wrong:
        raise InputError(_WRONG[wrong])
    labels, parts = source.labels(first, last), source.parts(first, last)
    if labels.min() < -1 or labels.max() >= plan.classes:
        raise InputError(f"labels must be from -1 to {plan.classes - 1}, got {labels.min()} to {labels.max()}.")
    if parts is None:
        parts = np.where(labels < 0, 0, np.where(_random(first, last, plan.seed + 1) % _HELD_OUT == 0, 2, 1))
        parts = parts.astype(np.uint8)
    parts[labels < 0] = 0
    plain = np.zeros(len(degrees), dtype=np.float32)
    plain[degrees > 0] = 1 / np.sqrt(degrees[degrees > 0])
    arrays = {
        "indptr": indptr,
        "indices": indices.astype(_index(context), copy=False),
        "weights": weights.astype(np.float32),
        "loops": (1 / np.sqrt(degrees + 1)).astype(np.float32),
        "plain": plain,
        "labels": labels.astype(np.int32),
        "parts": parts,
    }
    counts = np.bincount(parts, minlength=len(PARTS) + 1).tolist()
    train = np.bincount(labels[parts == 1], minlength=plan.classes).tolist()
    return arrays, {"entries": int(indptr[-1]), "sums": list(map(str, sums)), "parts": counts, "train": train}


def judged(context: Context, block: int, counts: list[int]) -> tuple[IntArray, AnyArray]:
    """Return classes and parts of a block's nodes, of validation and test nodes no more than are needed.

    ``counts`` are those of all blocks, by part.
    """
    first, last = context.plan.rows(block)
    labels, stored = context.store.arrays("links", block, "labels", "parts")
    parts, chance = np.array(stored), _random(first, last, context.plan.seed + 2)
    for part in (2, 3):
        if counts[part] > JUDGING:
            limit = np.uint64(min(JUDGING / counts[part] * _MOST_KEY, _MOST_KEY - 1))
            parts[(parts == part) & (chance >= limit)] = 0
    return labels, parts


def squares(context: Context, block: int) -> tuple[dict[str, AnyArray], Facts]:
    """Sum the squares of each column of X."""
    found = context.source.features(*context.plan.rows(block))
    if not np.isfinite(found).all():
        raise InputError("features must be finite numbers in float32, got NaN or infinity.")
    return {}, {"squares": np.einsum("nd,nd->d", found, found, dtype=np.float64, casting="same_kind").tolist()}


def rows(context: Context, block: int, total: list[float]) -> tuple[dict[str, AnyArray], Facts]:
    """Write rows of X in half precision, each column divided by its root mean square: so no number is too large."""
    sizes = np.sqrt(np.array(total) / context.plan.nodes)
    found = context.source.features(*context.plan.rows(block))
    found /= np.where(sizes > 0, sizes, 1).astype(np.float32)
    slabs = context.plan.slabs(context.plan.columns)
    return {f"slab{at}": found[:, low:high].astype(np.float16) for at, (low, high) in enumerate(slabs)}, {}


def _merged(context: Context, block: int) -> tuple[IntArray, IntArray]:
    """Return the rows of A of a block from all pieces; links that come several times count once."""
    plan, store = context.plan, context.store
    first, last = plan.rows(block)
    keys = []
    for piece in range(plan.pieces):
        found, columns, ends = store.arrays("spill", piece, "rows", "columns", "ends")
        span = slice(int(ends[block]), int(ends[block + 1]))
        keys.append((found[span].astype(np.int64) - first) * plan.nodes + columns[span])
    merged = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *keys]))
    rows, columns = np.divmod(merged[np.diff(merged, prepend=-1) > 0], plan.nodes)
    return np.searchsorted(rows, np.arange(last - first + 1)), columns


def _index(context: Context) -> Any:
    return np.int32 if context.plan.nodes <= np.iinfo(np.int32).max else np.int64


def _random(first: int, last: int, seed: int) -> AnyArray:
    """Return a random number for each node, 64 bits, that depends on the node and the seed alone (splitmix64)."""
    found = np.arange(first, last, dtype=np.uint64) + np.uint64(seed * 0x9E3779B97F4A7C15 % _MOST_KEY)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))
