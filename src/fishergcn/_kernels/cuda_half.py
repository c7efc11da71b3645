"""Products with a matrix of full rows, in half precision with float32 sums, on the tensor cores of a CUDA device.

Rows that share columns stand together in tiles. A tile is stored as a dense matrix of the columns that occur in it, and
its product gathers these rows of the other factor. Half precision has the 10-bit mantissa of TF32 at twice its speed;
its narrow range is met by scaling with powers of two, so that the relative rounding of an operand is at most 2**-11.
"""

from __future__ import annotations

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,type-arg,attr-defined,assignment"
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from fishergcn._base.tensors import tensor_ranges
from fishergcn._kernels.cuda import features_backward, moments
from fishergcn._kernels.launch import launch

_MATRIX_EXPONENT = 10  # of the largest entry of a matrix: even 1e-7 of it is a normal half number
_LARGEST_EXPONENT = 14  # activations are scaled so that their largest entry is below 2**15
_TILE = 128  # rows and columns of the product that a program computes
_DEPTH = 64  # columns of a tile that are multiplied at a time; a tile has a multiple of them
_STAGES = 6  # of the pipeline: three tiles of either factor on their way, since the columns come before the rows
_ROWS_IN_TURN = 8  # of features that a program multiplies
_LOOK = 256  # rows of which a program finds the largest entries
_ROUNDS, _FEW_ROUNDS = 8, 2  # in which a tile is filled with rows; of a block that multiplies a few columns only
_GROUP = 4  # tiles of columns that take turns with all tiles of rows, so that either factor is found in the cache


class HalfTiles(NamedTuple):
    """A matrix as tiles of 128 rows."""

    shape: tuple[int, int]
    order: Tensor  # which row is where, (tiles * 128,); the number of rows where there is none
    starts: Tensor  # where the columns of each tile begin, (tiles + 1,)
    columns: Tensor  # of all tiles, (K,), with zeros behind those of a tile up to a multiple of 64
    values: Tensor  # entries times the scale, (K, 128): values[k, i] is that of the tile's row i in column k
    scale: float  # a power of two
    row_sum: float  # the largest sum of absolute entries in a row, which bounds the growth by the product


class HalfDense(NamedTuple):
    """Node-major activations (n, B, d) in half precision."""

    shape: tuple[int, int, int]
    values: Tensor  # each batch entry times its scale, (n, ≥ B * d); zeros up to a multiple of 128 columns
    scale: Tensor  # powers of two, (B,)


def half_tiles(csr: Tensor) -> HalfTiles:
    """Return the tiles of a sparse matrix."""
    rows, columns = csr.shape
    device = csr.device
    pointers, indices = csr.crow_indices().long(), csr.col_indices().long()
    order = _together(csr)
    tiles = triton.cdiv(rows, _TILE)
    place = torch.empty(rows, dtype=torch.int64, device=device)
    place[order] = torch.arange(rows, device=device)
    row = torch.repeat_interleave(torch.arange(rows, device=device), pointers.diff())
    place = place[row]  # of each entry
    cells, cell = torch.unique(place // _TILE * columns + indices, return_inverse=True)
    tile = cells // columns
    counts = torch.bincount(tile, minlength=tiles)
    padded = (counts + _DEPTH - 1) // _DEPTH * _DEPTH
    starts = torch.cat([padded.new_zeros(1), padded.cumsum(0)])
    slot = starts[tile] + torch.arange(len(cells), device=device) - (counts.cumsum(0) - counts)[tile]
    used = torch.zeros(int(starts[-1]), dtype=torch.int32, device=device)
    used[slot] = (cells % columns).int()
    size = csr.values().abs()
    scale = _power_below(_MATRIX_EXPONENT, float(size.max()) if len(size) else 0.0)
    values = torch.zeros((len(used), _TILE), dtype=torch.half, device=device)
    values[slot[cell], place % _TILE] = (csr.values() * scale).half()
    row_sum = float(size.new_zeros(rows).index_add(0, row, size).max()) if rows else 0.0
    return HalfTiles((rows, columns), _filled_up(order, rows), starts.int(), used, values, scale, row_sum)


def full_tiles(dense: Tensor) -> HalfTiles:
    """Return the tiles of a dense matrix, each with all of its columns."""
    rows, columns = dense.shape
    tiles, depth = triton.cdiv(rows, _TILE), triton.cdiv(columns, _DEPTH) * _DEPTH
    number = torch.arange(rows, device=dense.device)
    used = torch.arange(depth, dtype=torch.int32, device=dense.device)
    used[columns:] = 0
    size = dense.abs()
    scale = _power_below(_MATRIX_EXPONENT, float(size.max()))
    values = torch.zeros((tiles, depth, _TILE), dtype=torch.half, device=dense.device)
    values[number // _TILE, :columns, number % _TILE] = (dense * scale).half()
    starts = torch.arange(tiles + 1, dtype=torch.int32, device=dense.device) * depth
    row_sum = float(size.sum(1).max())
    whole = values.view(-1, _TILE)
    return HalfTiles((rows, columns), _filled_up(number, rows), starts, used.repeat(tiles), whole, scale, row_sum)


def _filled_up(order: Tensor, rows: int) -> Tensor:
    whole = torch.full((triton.cdiv(rows, _TILE) * _TILE,), rows, dtype=torch.int32, device=order.device)
    whole[:rows] = order.int()
    return whole


def _power_below(exponent: int, largest: float) -> float:
    """Return the power of two that brings the largest entry below 2**exponent."""
    return 2.0 ** (exponent - math.frexp(largest)[1])


def _together(csr: Tensor) -> Tensor:
    """Order the rows so that those of a tile have many columns in common.

    A tile begins with the fullest row that is left. In each round it takes the rows that have the most columns more in
    it than outside. Blocks of some rows are those of a last layer, whose products are small.
    """
    rows, columns = csr.shape
    rounds = _ROUNDS if rows == columns else _FEW_ROUNDS
    pointers, indices = csr.crow_indices().long(), csr.col_indices().long()
    lengths = pointers.diff()
    pattern = torch.sparse_csr_tensor(
        csr.crow_indices(), csr.col_indices(), torch.ones_like(csr.values()), size=csr.shape, check_invariants=False
    )
    numbers = torch.arange(rows, device=csr.device)
    never = (columns + 1) * rows
    left = torch.ones(rows, dtype=torch.bool, device=csr.device)
    order = torch.empty(rows, dtype=torch.int64, device=csr.device)
    for first in range(0, rows, _TILE):
        last = min(first + _TILE, rows)
        covered = torch.zeros(columns, dtype=csr.values().dtype, device=csr.device)
        at, taken = first, torch.where(left, lengths * rows + numbers, -1).argmax()[None]
        while True:
            order[at : at + len(taken)] = taken
            left[taken] = False
            at += len(taken)
            if at == last:
                break
            covered[indices[tensor_ranges(pointers[taken], lengths[taken])]] = 1
            added = lengths - (pattern @ covered).long()
            # Long rows that add little: short ones find a place anywhere. Numbers break ties, so that the order is
            # always the same.
            cost = torch.where(left, (2 * added - lengths) * rows + numbers, never)
            taken = torch.topk(cost, min(_TILE // rounds, last - at), largest=False).indices
    return order


def as_half(dense: Tensor) -> HalfDense:
    """Return activations in half precision, each batch entry scaled by its largest one."""
    count, batch, width = dense.shape
    flat = batch * width
    parts = torch.empty((triton.cdiv(count, _LOOK), flat), dtype=torch.float32, device=dense.device)
    launch(_largest_of, (len(parts), triton.cdiv(flat, 1024)), parts, dense, count, flat, ROWS=_LOOK, BLOCK=1024)
    scale = _scale_for(parts.view(-1, batch, width).amax((0, 2)))
    values = torch.empty((count, triton.cdiv(flat, _TILE) * _TILE), dtype=torch.half, device=dense.device)
    grid = (count, triton.cdiv(values.shape[1], 1024))
    launch(_scaled_half, grid, values, dense, scale, flat, width, values.shape[1], BLOCK=1024)
    return HalfDense((count, batch, width), values, scale)


def _scale_for(largest: Tensor) -> Tensor:
    """Return the power of two that brings numbers up to the largest into the range of half precision."""
    return torch.exp2(torch.floor(_LARGEST_EXPONENT - torch.log2(largest.clamp_min(1e-30))))


def half_product(
    tiles: HalfTiles, dense: HalfDense, left: Tensor | None = None, weighted: Tensor | None = None
) -> Tensor:
    """S Z - L V, shape (m, B, d), for the tiles of S (m, n), Z of shape (n, B, d), L (m, k) and V (k, B, d).

    L V is in float32.
    """
    _, batch, width = dense.shape
    out = torch.empty((tiles.shape[0], batch, width), dtype=torch.float32, device=dense.values.device)
    _multiply(out, tiles, dense, left, weighted)
    return out


def half_from_product(
    tiles: HalfTiles, dense: HalfDense, runs: int, left: Tensor | None = None, weighted: Tensor | None = None
) -> HalfDense:
    """Return the same in half precision; samples of a run are scaled alike, by what they can be at most."""
    _, batch, width = dense.shape
    largest = tiles.row_sum * 2.0 ** (_LARGEST_EXPONENT + 1) / dense.scale
    if left is not None and weighted is not None:
        largest = largest + left.abs().sum(1).max() * weighted.abs().amax((0, 2))
    scale = _scale_for(largest.view(runs, -1).amax(1)).repeat_interleave(batch // runs)
    values = _room(tiles.shape[0], batch * width, dense.values.device)
    _multiply(values, tiles, dense, left, weighted, scale)
    return HalfDense((tiles.shape[0], batch, width), values, scale)


def _room(rows: int, flat: int, device: torch.device) -> Tensor:
    """Return room for activations in half precision, with zeros where no kernel writes."""
    columns = triton.cdiv(flat, _TILE) * _TILE
    return (torch.empty if columns == flat else torch.zeros)((rows, columns), dtype=torch.half, device=device)


def _multiply(
    out: Tensor,
    tiles: HalfTiles,
    dense: HalfDense,
    left: Tensor | None,
    weighted: Tensor | None,
    scale: Tensor | None = None,
) -> None:
    """Set out to S Z - L V, each batch entry times its ``scale`` if that is given."""
    _, batch, width = dense.shape
    factor = (1.0 if scale is None else scale) / (tiles.scale * dense.scale)
    height, blocks = len(tiles.starts) - 1, dense.values.shape[1] // _TILE
    if left is None or weighted is None:
        rank, left, weighted = 0, factor, factor  # not read
    else:
        rank = left.shape[1]
        weighted = weighted if scale is None else weighted * scale[:, None]
        left, weighted = left.contiguous(), weighted.contiguous()
    launch(
        _tiles_times_dense, (height * blocks,),
        out, tiles.order, tiles.starts, tiles.columns, tiles.values, dense.values, factor, left, weighted,
        tiles.shape[0], batch * width, width, dense.values.shape[1], out.stride(0), height, blocks, rank,
        TILE=_TILE, DEPTH=_DEPTH, GROUP=_GROUP, num_warps=4, num_stages=_STAGES,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows", "columns"])
def _largest_of(out, dense, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    part = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    most = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(part * ROWS, tl.minimum(part * ROWS + ROWS, rows)):
        value = tl.load(dense + i * columns + c, mask=c < columns, other=0.0)
        most = tl.maximum(most, tl.abs(value), propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + part * columns + c, most, mask=c < columns)


@triton.jit(do_not_specialize=["columns"])
def _scaled_half(out, dense, scale, columns, width, padded, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = c < columns
    value = tl.load(dense + i * columns + c, mask=inside, other=0.0)
    factor = tl.load(scale + c // width, mask=inside, other=0.0)
    tl.store(out + i * padded + c, (value * factor).to(tl.float16), mask=c < padded)


@triton.jit(do_not_specialize=["rows", "width", "height", "blocks", "rank"])
def _tiles_times_dense(
    out, order, starts, used, values, dense, factor, basis, weighted,
    rows, columns, width, padded, stride, height, blocks, rank,
    TILE: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    group, within = tl.program_id(0) // (GROUP * height), tl.program_id(0) % (GROUP * height)
    size = tl.minimum(blocks - group * GROUP, GROUP)
    block, tile = group * GROUP + within % size, within // size
    c = block * TILE + tl.arange(0, TILE)
    i, k = tl.arange(0, TILE), tl.arange(0, DEPTH)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for first in range(tl.load(starts + tile), tl.load(starts + tile + 1), DEPTH):
        j = tl.load(used + first + k).to(tl.int64)
        a = tl.load(values + (first + k).to(tl.int64)[None, :] * TILE + i[:, None])
        b = tl.load(dense + j[:, None] * padded + c[None, :])
        total = tl.dot(a, b, total)
    row = tl.load(order + tile * TILE + i)
    total *= tl.load(factor + c // width, mask=c < columns, other=0.0)[None, :]
    for direction in range(rank):  # one at a time: the sums take nearly all registers
        low = tl.load(weighted + direction * columns + c, mask=c < columns, other=0.0)
        total -= tl.load(basis + row * rank + direction, mask=row < rows, other=0.0)[:, None] * low[None, :]
    place = out + row.to(tl.int64)[:, None] * stride + c[None, :]
    tl.store(place, total.to(out.dtype.element_ty), mask=(row < rows)[:, None] & (c < columns)[None, :])


def half_features(
    features: tuple[Tensor, ...], weight: Tensor, words: Tensor, samples: int, keep: float, largest: Sequence[float]
) -> HalfDense:
    """Z[p, r*M+m, :] = Σ_e bit[r, m, e] x_e weight[r, j_e, :] / keep over the stored entries e of row p.

    ``features`` are the chosen rows, then row pointers, columns and values of X; ``largest`` are its largest entry and
    its largest sum of a row, both absolute, by which Z is scaled.
    """
    runs, columns, width = weight.shape
    rows = features[0]
    entry, row_sum = largest
    values = _room(len(rows), runs * samples * width, weight.device)
    greatest = weight.abs().amax((1, 2))
    own, scale = _scale_for(greatest), _scale_for(greatest * (row_sum / keep))
    small = (weight * own[:, None, None]).half()
    times = _power_below(_MATRIX_EXPONENT, entry)
    factor = scale / (own * (times * keep))
    launch(
        _half_features, (triton.cdiv(len(rows), _ROWS_IN_TURN), runs),
        values, *features, small, words, factor, words.shape[1], len(rows), columns, width, values.shape[1], times,
        M=samples, BM=max(16, triton.next_power_of_2(samples)), BH=max(16, triton.next_power_of_2(width)),
        ROWS=_ROWS_IN_TURN, num_warps=1, num_stages=1,
    )  # fmt: skip
    return HalfDense((len(rows), runs * samples, width), values, scale.repeat_interleave(samples))


@triton.jit(do_not_specialize=["stride", "count", "D"])
def _half_features(
    out, rows, indptr, indices, values, weight, words, factor, stride, count, D, H, padded, times,
    M: tl.constexpr, BM: tl.constexpr, BH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(1).to(tl.int64)
    h, m, bit = tl.arange(0, BH), tl.arange(0, BM), tl.arange(0, 32)
    last = tl.load(factor + r)
    first = tl.program_id(0).to(tl.int64) * ROWS
    for p in range(first, tl.minimum(first + ROWS, count)):
        i = tl.load(rows + p)
        start, stop = tl.load(indptr + i), tl.load(indptr + i + 1)
        total = tl.zeros((BM, BH), dtype=tl.float32)
        for block in range(start // 32, (stop + 31) // 32):  # the entries of a word of masks at a time
            e = block * 32 + bit
            inside = (e >= start) & (e < stop)
            j = tl.load(indices + e, mask=inside, other=0)
            x = (tl.load(values + e, mask=inside, other=0.0) * times).to(tl.float16)
            place = weight + (r * D + j)[:, None] * H + h[None, :]
            w = tl.load(place, mask=inside[:, None] & (h < H)[None, :], other=0.0)
            word = tl.load(words + (r * M + m) * stride + block, mask=m < M, other=0)
            kept = tl.where(((word[:, None] >> bit[None, :]) & 1) != 0, x[None, :], 0.0)
            total = tl.dot(kept, w, total)
        place = out + p * padded + ((r * M + m) * H)[:, None] + h[None, :]
        tl.store(place, (total * last).to(tl.float16), mask=(m < M)[:, None] & (h < H)[None, :])


def half_moments(basis: Tensor, dense: HalfDense) -> Tensor:
    """Σ_i basis[i, k] Z[i], shape (K, B, d), in float32."""
    count, batch, width = dense.shape
    found = moments(basis, dense.values.view(count, 1, -1))[:, 0, : batch * width]
    return found.reshape(-1, batch, width) / dense.scale[:, None]


def half_features_backward(
    out: Tensor, parts: tuple[Tensor, ...], grad: HalfDense, words: Tensor, samples: int, keep: float
) -> None:
    """out[r, j, :] = Σ_{p, m, e: j_e = j} bit[r, m, e] x_e grad[p, r*M+m, :] / keep.

    Samples of a run must be scaled alike.
    """
    features_backward(out, parts, grad.values, words, samples, keep)
    out /= grad.scale[::samples, None, None]
