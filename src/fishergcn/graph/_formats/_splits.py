"""Splits that come with the data: a column of train, val and test, several of them, or an archive of masks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fishergcn._base.npz import read_arrays
from fishergcn._base.types import BoolArray
from fishergcn.errors import DataFileError, InputError
from fishergcn.graph._node_data import PARTS, check_masks

if TYPE_CHECKING:
    from fishergcn.graph._formats._columns import Columns

_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("", "none", "unused"), ""),
}


def is_archive(column: str | int) -> bool:
    """Say whether a split is an archive of masks instead of a column."""
    return isinstance(column, str) and column.lower().endswith(".npz")


def split_arguments(
    columns: Columns, found: Mapping[str, Mapping[str, str]], number: Mapping[str, int]
) -> dict[str, Any]:
    """Return the arguments of ``Graph`` for splits: columns, which map nodes to parts, or an archive."""
    chosen = columns.splits
    if not chosen:
        return {}
    if any(map(is_archive, chosen)):
        if len(chosen) > 1:
            raise InputError(f"parts must be columns or one archive of masks (.npz), got {len(chosen)} of them.")
        return _masks_of_archive(Path(str(chosen[0])), len(number))
    names = [str(each) for each in chosen]
    masks: dict[str, BoolArray] = {part: np.zeros((len(names), len(number)), dtype=bool) for part in PARTS}
    for row, name in enumerate(names):
        if name not in found:
            raise DataFileError(f"no table of nodes or labels has a column {name!r} for the split.")
        for node, word in found[name].items():
            part = "" if columns.is_missing(word) else _WORDS.get(word.lower())
            if part is None:
                raise DataFileError(f"column {name!r} must say train, val, test or nothing, got {word!r} for {node!r}.")
            if part and node in number:
                masks[part][row, number[node]] = True
    return _as_arguments(masks)


def _masks_of_archive(path: Path, count: int) -> dict[str, Any]:
    """Return the arguments for masks of ``count`` nodes: n, K x n or n x K, called train_mask, train_masks or so."""
    arrays = read_arrays(path)
    masks = {}
    for part in PARTS:
        given = [arrays[name] for name in (f"{part}_mask", f"{part}_masks", part) if name in arrays]
        if not given:
            raise DataFileError(
                f"{path} must hold the masks train_mask, val_mask and test_mask, got {', '.join(arrays)}."
            )
        mask = given[0][None] if given[0].ndim == 1 else given[0]
        fits = mask.ndim == 2 and count in mask.shape and mask.dtype.kind in "biuf"
        if not fits or not np.isin(mask, (0, 1)).all():
            raise DataFileError(
                f"{path}: {part} must be true or false for each of the {count} nodes, in one split or several, got "
                f"{mask.dtype} of shape {given[0].shape}."
            )
        masks[part] = (mask if mask.shape[1] == count else mask.T).astype(bool)
    return _as_arguments(masks)


def _as_arguments(masks: Mapping[str, BoolArray]) -> dict[str, Any]:
    """Return one split as index lists, and several as masks."""
    check_masks(masks, masks["train"].shape[1])
    if all(len(mask) == 1 for mask in masks.values()):
        return {"standard_split": {part: np.flatnonzero(mask[0]) for part, mask in masks.items()}}
    return {"masks": dict(masks)}
