"""Tasks that multiply with the graph, a block of rows at a time.

    F ← α S F + (1 - α) G

from F = G. Features are propagated with α = 1 and S = Ã = (D+I)^-½ (A+I) (D+I)^-½, and all steps are kept; classes and
errors of predictions with S = D^-½ A D^-½, of which the last step is. Of all nodes one slab of columns is in memory
at a time, mapped from files, which processes of a machine share.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from fishergcn._base.types import AnyArray
from fishergcn.large._into_blocks import judged
from fishergcn.large._plan import Context
from fishergcn.large._store import Facts

_lock = threading.Lock()
_mapped: dict[str, tuple[Any, list[AnyArray]]] = {}  # the last slab and the last scales of this process


def place_of(chain: str, step: int, slab: int) -> tuple[str, str]:
    """Return the stage and the name of the array of a slab after some steps."""
    return (f"{chain}-0", f"slab{slab}") if step == 0 else (f"{chain}-{step}.{slab}", "values")


def lines_of(context: Context, chain: str, step: int, block: int, columns: int) -> AnyArray:
    """Return rows of a block after some steps, all slabs side by side, in single precision."""
    slabs = context.plan.slabs(columns)
    first, last = context.plan.rows(block)
    found = np.empty((last - first, columns), dtype=np.float32)
    for slab, (low, high) in enumerate(slabs):
        stage, name = place_of(chain, step, slab)
        found[:, low:high] = context.store.arrays(stage, block, name)[0]
    return found


def spread(
    context: Context, block: int, chain: str, step: int, slab: int, share: float | None = None
) -> tuple[dict[str, AnyArray], Facts]:
    """Write one step of a slab, for a block; ``share`` is α, or None for propagation with Ã."""
    from fishergcn._kernels.cpu_blocks import sum_neighbors

    plan = context.plan
    stage, name = place_of(chain, step - 1, slab)
    lines = _all_blocks(context, "lines", stage, name)
    scales = _all_blocks(context, "scales", "links", "loops" if share is None else "plain")
    indptr, indices, weights = context.store.arrays("links", block, "indptr", "indices", "weights")
    out = np.empty(lines[block].shape, dtype=np.float32)
    places = (np.array([each.ctypes.data for each in kind], dtype=np.uint64) for kind in (scales, lines))
    sum_neighbors(out, indptr, indices, weights, *places, plan.shift, plan.rows(block)[0], share is None)
    if share is not None:
        [given] = context.store.arrays(*_given(chain, block, slab))
        out *= np.float32(share)
        out += np.float32(1 - share) * given
    return {"values": out.astype(np.float16)}, {}


def _given(chain: str, block: int, slab: int) -> tuple[str, int, str]:
    stage, name = place_of(chain, 0, slab)
    return stage, block, name


def _all_blocks(context: Context, kind: str, stage: str, name: str) -> list[AnyArray]:
    """Return an array of all blocks, mapped; the last of each kind is kept, since the next task wants it too."""
    key = (context.store.folder, stage, name)
    with _lock:
        if kind not in _mapped or _mapped[kind][0] != key:
            _mapped.pop(kind, None)
            found = [context.store.arrays(stage, block, name)[0] for block in range(context.plan.blocks)]
            _mapped[kind] = key, found
        return _mapped[kind][1]


def forget() -> None:
    """Let go of files that are kept for the next task."""
    with _lock:
        _mapped.clear()


def classes(context: Context, block: int) -> tuple[dict[str, AnyArray], Facts]:
    """Write the known classes of training nodes as 0 and 1, from which label propagation begins."""
    return _slabs(context, _known(context, block)), {}


def errors(context: Context, block: int) -> tuple[dict[str, AnyArray], Facts]:
    """Write what predictions lack at training nodes, from which their correction begins."""
    known = _known(context, block)
    lacking = np.where(known.any(axis=1, keepdims=True), known - _predicted(context, block), 0)
    return _slabs(context, lacking), {"lacking": float(np.abs(lacking).sum(dtype=np.float64))}


def corrected(context: Context, block: int, step: int, size: float) -> tuple[dict[str, AnyArray], Facts]:
    """Write predictions plus the errors that reached each node, with known classes in their place at training nodes.

    An error that was spread counts as much as one at a training node: ``size``, the mean of their absolute sums.
    """
    found, known = lines_of(context, "errors", step, block, context.plan.classes), _known(context, block)
    sums = np.abs(found).sum(axis=1, keepdims=True)
    found *= np.divide(size, sums, out=np.zeros_like(sums), where=sums > 1e-6)
    found += _predicted(context, block)
    np.clip(found, 0, 1, out=found)
    is_known = known.any(axis=1)
    found[is_known] = known[is_known]
    return _slabs(context, found), {}


def judge(context: Context, block: int, chain: str, step: int, counts: list[int]) -> tuple[dict[str, AnyArray], Facts]:
    """Count how many validation and test nodes have the class that is largest there."""
    labels, parts = judged(context, block, counts)
    asked = np.flatnonzero(parts >= 2)
    found = lines_of(context, chain, step, block, context.plan.classes)[asked]
    right = (found.argmax(axis=1) == labels[asked]) & (found.max(axis=1, initial=0) > 0)
    return {}, {
        name: [int((right & (parts[asked] == part)).sum()), int((parts[asked] == part).sum())]
        for name, part in (("val", 2), ("test", 3))
    }


def _known(context: Context, block: int) -> AnyArray:
    labels, parts = context.store.arrays("links", block, "labels", "parts")
    found = np.zeros((len(labels), context.plan.classes), dtype=np.float32)
    train = np.flatnonzero(parts == 1)
    found[train, labels[train]] = 1
    return found


def _predicted(context: Context, block: int) -> AnyArray:
    found: AnyArray = context.store.arrays("network", block, "values")[0].astype(np.float32)
    return found


def _slabs(context: Context, values: AnyArray) -> dict[str, AnyArray]:
    slabs = context.plan.slabs(context.plan.classes)
    return {f"slab{at}": values[:, low:high].astype(np.float16) for at, (low, high) in enumerate(slabs)}
