"""What a graph says about its nodes: features, labels, names, published splits; each checked and frozen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from fishergcn._base.arrays import check_indices
from fishergcn._base.checks import check_text
from fishergcn._base.types import AnyArray, BoolArray, IntArray, MatrixLike
from fishergcn.errors import InputError, reason

PARTS = ("train", "val", "test")
_MOST_CLASSES = 1_000_000  # a label beyond is a slip or a damaged file, and would size arrays by itself


def frozen(data: Any) -> Any:
    """Return an array or CSR matrix after making its memory read-only."""
    for array in (data,) if isinstance(data, np.ndarray) else (data.data, data.indices, data.indptr):
        array.setflags(write=False)
    return data


def check_features(features: MatrixLike, num_nodes: int) -> Any:
    """Return X as frozen float32, CSR if it came sparse and dense otherwise."""
    try:
        raw: Any = features if sparse.issparse(features) else np.asarray(features)
        if raw.dtype.kind not in "buif":
            raise TypeError(f"got type {raw.dtype}")
        # What float32 cannot hold becomes infinite and is refused below, or 0 and is refused there.
        with np.errstate(over="ignore", under="ignore"):
            matrix = _float32_copy(raw)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"features must be a matrix of real numbers ({reason(error)}).") from error
    if matrix.ndim != 2:
        raise InputError(f"features must be a matrix with one row per node, got {matrix.ndim} dimension(s).")
    if matrix.shape[0] != num_nodes:
        raise InputError(f"features must have one row for each of the {num_nodes} nodes, got {matrix.shape[0]} rows.")
    if not np.isfinite(matrix if isinstance(matrix, np.ndarray) else matrix.data).all():
        raise InputError("features must be finite numbers in float32, got NaN or infinity.")
    return frozen(matrix)


def _float32_copy(features: Any) -> Any:
    if isinstance(features, np.ndarray):
        dense = np.array(features, dtype=np.float32, order="C")
        _refuse_underflow(features, dense)
        return dense
    matrix = sparse.csr_array(features, dtype=np.float32, copy=True)
    matrix.check_format(full_check=True)
    _refuse_underflow(sparse.csr_array(features).data, matrix.data)
    matrix.sum_duplicates()  # canonical, so that equal features have equal bytes
    matrix.eliminate_zeros()
    return matrix


def _refuse_underflow(exact: AnyArray, rounded: AnyArray) -> None:
    """Raise if a number that is not 0 became 0 in float32."""
    if exact.dtype.kind == "f" and exact.dtype.itemsize > 4 and np.count_nonzero(exact) != np.count_nonzero(rounded):
        lost = np.abs(exact[exact != 0]).min()
        raise InputError(f"features must be 0 or at least 1.4e-45 in size, the least of float32, got {lost:.3g}.")


def check_labels(labels: Sequence[int] | AnyArray, num_nodes: int) -> IntArray:
    """Return one class per node as frozen int64, -1 where unknown."""
    raw = np.asarray(labels)
    if raw.ndim == 2 and raw.shape[0] == num_nodes and raw.shape[1] > 1:
        raise InputError(
            f"labels must hold one class for each of the {num_nodes} nodes, got {raw.shape[1]} columns: of one-hot "
            "columns give the argmax, and task='multilabel' predicts several labels a node."
        )
    if raw.ndim != 1 or raw.shape[0] != num_nodes:
        raise InputError(f"labels must hold one class for each of the {num_nodes} nodes, got shape {raw.shape}.")
    if np.issubdtype(raw.dtype, np.floating) and not np.array_equal(raw, np.round(raw)):
        raise InputError(
            "labels must be classes, numbered from 0 (-1 for unknown), got numbers such as "
            f"{float(raw[raw != np.round(raw)][0])}: task='regression' predicts numbers."
        )
    if not np.issubdtype(raw.dtype, np.integer):
        instead = "; task='regression' predicts numbers" if raw.dtype.kind == "f" else ""
        raise InputError(f"labels must be integers (-1 for unknown), got type {raw.dtype}{instead}.")
    if raw.min() < -1 or raw.max() >= _MOST_CLASSES:
        raise InputError(
            f"labels must lie between -1 (unknown) and {_MOST_CLASSES - 1}, got {raw.min()} to {raw.max()}."
        )
    result: IntArray = frozen(raw.astype(np.int64))
    return result


def check_classes(labels: IntArray, names: Sequence[str] | None) -> None:
    """Raise if the classes are numbers that someone wants predicted, or combinations of classes."""
    known = int((labels >= 0).sum())
    texts = [str(each) for each in np.unique(labels[labels >= 0])] if names is None else list(names)
    numbers = _numbers(texts)
    # Classes repeat; a measurement is another number on almost every node.
    whole = all(each == round(each) for each in numbers)
    if len(numbers) > _FEW and len(numbers) > known * (0.5 if whole else 0.1):
        raise InputError(
            f"labels must be classes, got {len(numbers)} different numbers for {known} nodes: task='regression' "
            "predicts numbers; for classes group them first."
        )
    for separator in _SEPARATORS:
        joined = [text for text in texts if separator in text.strip(separator)]
        parts = [part.strip() for text in texts for part in text.split(separator)]
        if joined and len(set(parts)) < len(parts):
            raise InputError(
                f"labels must name one class for each node, got {joined[0]!r}, which reads like several separated by "
                f"{separator!r}: task='multilabel' predicts several labels a node (a matrix of 0 and 1, or a table "
                "with | or ; or, in all cells, commas between them); for classes keep one of them, or give the "
                "combination a name."
            )


_FEW = 20
_SEPARATORS = ";|,"


def _numbers(texts: Sequence[str]) -> list[float]:
    """Return texts as numbers if all of them are, else none."""
    try:
        found = [float(text) for text in texts]
    except ValueError:
        return []
    return found if np.isfinite(found).all() else []


def check_names(
    what: str, names: Sequence[str] | None, count: int | None = None, things: str = "nodes"
) -> tuple[str, ...] | None:
    """Return distinct texts, one for each of ``count`` things if that is given."""
    if names is None:
        return None
    texts = tuple(check_text(what, str(name)) for name in names)
    if count is not None and len(texts) != count:
        raise InputError(f"{what} must name each of the {count} {things}, got {len(texts)} names.")
    if len(set(texts)) != len(texts):
        raise InputError(f"{what} must be distinct, got {Counter(texts).most_common(1)[0][0]!r} more than once.")
    return texts


def check_split(split: Mapping[str, Sequence[int] | AnyArray] | None, num_nodes: int) -> Mapping[str, IntArray] | None:
    """Return the published index arrays, in the order they came."""
    if split is None:
        return None
    if set(split) != set(PARTS):
        raise InputError(f"standard_split must have the parts {', '.join(PARTS)}, got {', '.join(map(str, split))}.")
    parts = {part: check_indices(f"standard_split[{part!r}]", split[part], num_nodes) for part in PARTS}
    return MappingProxyType(parts)


def check_masks(masks: Mapping[str, AnyArray] | None, num_nodes: int) -> Mapping[str, BoolArray] | None:
    """Return K published splits as three boolean K x n arrays, in which no node is in two parts of a split."""
    if masks is None:
        return None
    if set(masks) != set(PARTS):
        raise InputError(f"masks must have the parts {', '.join(PARTS)}, got {', '.join(map(str, masks))}.")
    parts = {part: frozen(np.array(masks[part])) for part in PARTS}
    count = parts["train"].shape[0] if parts["train"].ndim == 2 else 0
    for part, mask in parts.items():
        if mask.dtype != np.bool_ or mask.shape != (count, num_nodes) or count == 0:
            raise InputError(
                f"masks must be of true and false, a row for each split and a column for each of the {num_nodes} "
                f"nodes, got {mask.dtype} of shape {mask.shape} for {part}."
            )
    for first, second in combinations(PARTS, 2):
        both = np.argwhere(parts[first] & parts[second])
        if len(both):
            row, node = both[0]
            raise InputError(f"masks must not overlap, but node {node} is in {first} and {second} of mask {row}.")
    return MappingProxyType(parts)
