"""Kernel 1: features with dropout, times weights.

    Z[p, r, m] = ((X_{i(p)} ∘ mask[r, m]) / keep) W[r]

for the rows i(p) that are asked for, runs r with their own weights and samples m with their own dropout
masks. Sparse features are never made dense: dropout acts on their stored entries.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, get_args

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fishergcn._base.arrays import check_compressed
from fishergcn._base.autograd import in_derivative, kernel
from fishergcn._base.backend import backend_of
from fishergcn._base.checks import check_choice
from fishergcn._base.tensors import HALVES, tensor_ranges
from fishergcn._base.types import AnyArray, CSRArray, MatrixLike
from fishergcn._settings.choices import Scaling
from fishergcn.errors import InputError
from fishergcn.nn._scaling import FeatureScaling
from fishergcn.streams import keep_probability, unpack

_CHUNK_ROWS = 4096
_MOST_UNEVEN = 4096.0


def make_features(
    features: MatrixLike,
    *,
    scaling: Scaling | FeatureScaling = "rows",
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> SparseFeatures | DenseFeatures:
    """Prepare a feature matrix for training.

    Parameters
    ----------
    features
        X, n x D, a SciPy sparse matrix or an array.
    scaling
        ``"rows"``: divide each row by its sum, as GCN does; ``"none"``; ``"columns"``: standardize each column; or a
        scaling that was learned from other features.
    device, dtype
        Where and in which precision the products run.

    Examples
    --------
    >>> import numpy as np
    >>> make_features(np.array([[1.0, 3.0], [0.0, 0.0]])).values
    tensor([[0.2500, 0.7500],
            [0.0000, 0.0000]])
    """
    if not isinstance(scaling, FeatureScaling):
        check_choice("scaling", scaling, get_args(Scaling))
        scaling = FeatureScaling.learn(features, scaling)
    return ready_features(scaling.apply(features), device, dtype)


def with_links(features: MatrixLike, links: CSRArray) -> CSRArray:
    """Return [X, A]: beside the features of each node its links, as CSR; what follows scales them together."""
    given: Any = features if sparse.issparse(features) else sparse.csr_array(np.asarray(features))
    return sparse.csr_array(sparse.hstack([given, links], format="csr", dtype=given.dtype))


def ready_features(
    scaled: Any, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> SparseFeatures | DenseFeatures:
    """Take features that are scaled already, on their own memory where they have this precision."""
    if sparse.issparse(scaled):
        return SparseFeatures(scaled, device, dtype)
    with _constants():
        return DenseFeatures(torch.as_tensor(scaled, dtype=dtype, device=device))


@contextlib.contextmanager
def _constants() -> Iterator[None]:
    """Keep torch from warning of arrays that are read only, as mapped and shared ones are: nobody writes to them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        yield


class DenseFeatures:
    """X as a dense tensor, n x D."""

    def __init__(self, values: Tensor, rows: Tensor | None = None) -> None:
        self.values = values
        self.rows = rows

    @property
    def shape(self) -> tuple[int, int]:
        """(n, D) of the whole matrix."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def mask_words(self) -> int:
        """How many words a dropout mask of the whole matrix takes."""
        return (self.values.numel() + 31) // 32

    def __repr__(self) -> str:
        return f"DenseFeatures({_size(self)}, {self.values.dtype}, {self.values.device})"

    def restrict(self, rows: Tensor | None) -> DenseFeatures:
        """Return the same features, of which only some rows will be multiplied."""
        return DenseFeatures(self.values, rows)

    def times(self, weight: Tensor, words: Tensor | None, samples: int, dropout: float) -> Tensor:
        """Return Z of shape (rows, R * M, H) for weights (R, D, H); no words, no dropout, M = 1."""
        values = self.values if self.rows is None else self.values[self.rows]
        if words is None:
            return torch.einsum("nd,rdh->nrh", values, weight)
        runs, _, width = weight.shape
        kept = unpack(words, self.values.numel()).view(len(words), *self.values.shape)
        kept = kept if self.rows is None else kept[:, self.rows]
        scaled = (kept * values / keep_probability(dropout)).view(runs, samples, *values.shape)
        return torch.einsum("rmnd,rdh->nrmh", scaled, weight).reshape(len(values), runs * samples, width)


class SparseFeatures:
    """X in compressed rows, n x D, with its columns for the backward pass on a GPU."""

    def __init__(self, matrix: Any, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))
        check_compressed("features", matrix)  # compiled code does not check its bounds
        with _constants():
            self.indptr = torch.as_tensor(matrix.indptr, dtype=torch.int32, device=device)
            self.indices = torch.as_tensor(matrix.indices, dtype=torch.int32, device=device)
            self.values = torch.as_tensor(matrix.data, dtype=dtype, device=device)
        self.rows = torch.arange(self.shape[0], dtype=torch.int32, device=device)
        self._pattern = matrix.indices, matrix.indptr
        self._matrix = matrix if dtype in HALVES else None  # for sums in float32
        self._columns: tuple[Tensor, ...] | None = None
        self._derived: tuple[object, Any] | None = None

    @property
    def mask_words(self) -> int:
        """How many words a dropout mask of the stored entries takes."""
        return (self.values.numel() + 31) // 32

    def __repr__(self) -> str:
        entries = f"{self.values.numel()} entries"
        return f"SparseFeatures({_size(self)}, {entries}, {self.values.dtype}, {self.values.device})"

    def restrict(self, rows: Tensor | None) -> SparseFeatures:
        """Return the same features, of which only some rows will be multiplied."""
        if rows is None:
            return self
        other = object.__new__(SparseFeatures)
        other.__dict__.update(self.__dict__)
        for name in ("arrays", "_single"):
            other.__dict__.pop(name, None)
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < self.shape[0]:
            got = f"{int(rows.min())} to {int(rows.max())}"
            raise InputError(f"rows must be numbers below {self.shape[0]}, got {got}.")
        other.rows = rows.to(device=self.rows.device, dtype=torch.int32).contiguous()
        other._columns = other._derived = None
        return other

    @cached_property
    def _single(self) -> SparseFeatures:
        """The same rows in float32."""
        return SparseFeatures(self._matrix, self.values.device, torch.float32).restrict(self.rows)

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Rows, row pointers, columns and values, for compiled code."""
        return self.rows, self.indptr, self.indices, self.values

    @cached_property
    def arrays(self) -> tuple[AnyArray, ...]:
        """The same for compiled code on the CPU."""
        return tuple(part.numpy() for part in self.parts)

    @property
    def columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """The chosen rows by columns, in chunks of rows: pointers (chunks + 1, D), row positions, stored entries.

        The entries of column j in chunk c are those from pointers[c, j] to pointers[c + 1, j]. A chunk's share of the
        gradient fits in a GPU's cache, which makes the backward pass several times faster on large graphs.
        """
        if self._columns is None:
            chosen = self.rows.cpu().numpy()
            numbered = np.arange(1, len(self._pattern[0]) + 1, dtype=np.int64)
            entry = sparse.csr_array((numbered, *self._pattern), self.shape)
            by_column = sparse.csc_array(entry[chosen])
            by_column.sort_indices()
            column = np.repeat(np.arange(self.shape[1]), np.diff(by_column.indptr))
            chunks = max(1, -(-len(chosen) // _CHUNK_ROWS))
            cell = by_column.indices // _CHUNK_ROWS * self.shape[1] + column
            counts = np.bincount(cell, minlength=chunks * self.shape[1]).reshape(chunks, self.shape[1])
            pointers = by_column.indptr[:-1] + np.vstack([np.zeros_like(counts[:1]), counts.cumsum(axis=0)])
            self._columns = tuple(
                torch.as_tensor(part, dtype=torch.int32, device=self.values.device)
                for part in (pointers, by_column.indices, by_column.data - 1)
            )
        return self._columns  # type: ignore[return-value]

    @cached_property
    def largest(self) -> tuple[float, float]:
        """The largest entry, and the largest sum of a row of the whole matrix, both absolute."""
        return float(self.values.abs().max()) if self.values.numel() else 0.0, float(self._row_sums.max())

    @cached_property
    def even(self) -> bool:
        """Whether sums of rows are so alike that one scale brings all of them into the range of half precision."""
        filled = self._row_sums[self._row_sums > 0]
        return bool(filled.max() <= _MOST_UNEVEN * filled.min()) if len(filled) else True

    @cached_property
    def _row_sums(self) -> Tensor:
        lengths = self.indptr.diff().long()
        row = torch.repeat_interleave(torch.arange(self.shape[0], device=lengths.device), lengths)
        return self.values.new_zeros(self.shape[0]).index_add(0, row, self.values.abs())

    def to_dense(self) -> Tensor:
        """Return the chosen rows with all entries, shape (p, D)."""
        starts = self.indptr[:-1].long()[self.rows]
        lengths = self.indptr[1:].long()[self.rows] - starts
        row = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        entry = tensor_ranges(starts, lengths)
        out = self.values.new_zeros(len(lengths), self.shape[1])
        return out.index_put((row, self.indices.long()[entry]), self.values[entry], accumulate=True)

    def once(self, owner: object, make: Callable[[], Any]) -> Any:
        """Return what was made from these rows and its owner, made when it is first asked for."""
        if self._derived is None or self._derived[0] is not owner:
            self._derived = owner, make()
        return self._derived[1]

    def check(self, weight: Tensor, words: Tensor | None, samples: int) -> None:
        """Raise unless weights and masks are what compiled code takes them for: it does not check its bounds."""
        if weight.ndim != 3 or weight.shape[1] != self.shape[1]:
            wanted = f"3 dimensions and {self.shape[1]} rows"
            raise InputError(f"weights must have {wanted}, got shape {tuple(weight.shape)}.")
        if weight.dtype != self.values.dtype or weight.device != self.values.device:
            wanted, got = f"{self.values.dtype} on {self.values.device}", f"{weight.dtype} on {weight.device}"
            raise InputError(f"weights must be {wanted} like the features, got {got}.")
        if words is not None:
            check_words(words, len(weight) * samples, self.mask_words)

    def times(self, weight: Tensor, words: Tensor | None, samples: int, dropout: float) -> Tensor:
        """Return Z of shape (rows, R * M, H) for weights (R, D, H); no words, no dropout, M = 1."""
        self.check(weight, words, samples)
        if self.values.dtype in HALVES:  # their sums would lose digits, and plain torch gathers a row for each entry
            single = self._single.times(weight.float(), words, samples, dropout)
            return single.to(weight.dtype)
        if backend_of(weight) == "reference":
            return reference(self, weight, words, samples, dropout)
        if torch.is_inference_mode_enabled():  # no derivative can be asked for: spare autograd's overhead
            return _launch(weight, self, words, samples, dropout, False)
        return _product(weight, self, words, samples, dropout, False)


def check_words(words: Tensor, batch: int, count: int) -> None:
    """Raise unless packed masks are what compiled code takes them for: int32, a row for each sample, all of them."""
    if words.dtype != torch.int32 or words.ndim != 2 or len(words) != batch or words.shape[1] < count:
        wanted, got = f"int32 of shape ({batch}, {count} or more)", f"{words.dtype} of shape {tuple(words.shape)}"
        raise InputError(f"masks must be {wanted}, got {got}.")


def _size(features: SparseFeatures | DenseFeatures) -> str:
    rows, columns = features.shape
    used = rows if features.rows is None else len(features.rows)
    return f"{rows} × {columns}" if used == rows else f"{used} of {rows} × {columns}"


def reference(features: SparseFeatures, weight: Tensor, words: Tensor | None, samples: int, dropout: float) -> Tensor:
    """The kernel in plain differentiable torch: gather the weights of all entries, then add by row."""
    runs, _, width = weight.shape
    starts, stops = features.indptr[:-1].long()[features.rows], features.indptr[1:].long()[features.rows]
    lengths = stops - starts
    row = torch.repeat_interleave(torch.arange(len(lengths), device=weight.device), lengths)
    entry = tensor_ranges(starts, lengths)
    terms = features.values[entry][None, :, None] * weight[:, features.indices.long()[entry]]
    if words is None:
        batch, scaled = runs, terms
    else:
        batch = runs * samples
        kept = unpack(words, features.values.numel())[:, entry].view(runs, samples, -1, 1)
        scaled = (terms[:, None] * kept / keep_probability(dropout)).reshape(batch, -1, width)
    out = weight.new_zeros(batch, len(lengths), width)
    return out.index_add(1, row, scaled).movedim(0, 1)


def _product(*arguments: Any) -> Tensor:
    result: Tensor = _Product.apply(*arguments)  # type: ignore[no-untyped-call]
    return result


@kernel
class _Product(torch.autograd.Function):
    """X W or, transposed, Xᵀ G: each is linear, and the other's derivative."""

    @staticmethod
    def forward(*arguments: Any) -> Tensor:
        return _launch(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, *ctx.options, ctx.transposed = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return in_derivative(_Product, grad, *ctx.options, not ctx.transposed), *(None,) * 5

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        return _product(tangent, *ctx.options, ctx.transposed)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], dense: Tensor, *options: Any) -> tuple[Tensor, int]:
        """The mapped dimension joins the columns, each multiplied by itself; or the runs, if masks differ."""
        if in_dims[2] is not None:
            return _over_masks(info.batch_size, in_dims, dense, *options)
        wide = dense.movedim(in_dims[0], 3)
        out = _product(wide.flatten(2), *options)
        return out.view(*out.shape[:2], *wide.shape[2:]), 3


def _over_masks(
    size: int,
    in_dims: tuple[Any, ...],
    dense: Tensor,
    features: SparseFeatures,
    words: Tensor,
    samples: int,
    dropout: float,
    transposed: bool,
) -> tuple[Tensor, int]:
    dense = dense.expand(size, *dense.shape) if in_dims[0] is None else dense.movedim(in_dims[0], 0)
    masks = words.movedim(in_dims[2], 0).flatten(0, 1)
    if transposed:  # from (V, rows, R * M, H) to (V, R, D, H)
        out = _product(dense.movedim(0, 1).flatten(1, 2), features, masks, samples, dropout, True)
        return out.view(size, -1, *out.shape[1:]), 0
    out = _product(dense.flatten(0, 1), features, masks, samples, dropout, False)
    return out.view(len(out), size, -1, out.shape[2]), 1


def _launch(
    dense: Tensor, features: SparseFeatures, words: Tensor | None, samples: int, dropout: float, transposed: bool
) -> Tensor:
    """Run a kernel on W of shape (R, D, H) or, transposed, on G of shape (rows, R * M, H)."""
    dense = dense.detach().contiguous()
    samples = 1 if words is None else samples
    runs, width = dense.shape[1] // samples if transposed else dense.shape[0], dense.shape[2]
    shape = (runs, features.shape[1], width) if transposed else (len(features.rows), runs * samples, width)
    keep = keep_probability(dropout)
    if backend_of(dense) == "triton":
        from fishergcn._kernels import cuda

        out = dense.new_empty(shape)
        if transposed:
            cuda.features_backward(out, (*features.columns, features.values), dense, words, samples, keep)
        else:
            cuda.features_forward(out, features.parts, dense, words, samples, keep)
        return out
    from fishergcn._kernels import cpu

    out = dense.new_zeros(shape) if transposed else dense.new_empty(shape)
    arguments = (out.numpy(), *features.arrays, dense.numpy())
    masks = () if words is None else (words.numpy().view(np.uint32), samples, dense.numpy().dtype.type(1.0 / keep))
    if transposed:
        (cpu.features_backward if masks else cpu.features_backward_plain)(*arguments, *masks)
    else:
        (cpu.features_forward if masks else cpu.features_forward_plain)(*arguments, *masks)
    return out
