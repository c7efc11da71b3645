"""Products with a matrix of full rows, in half precision with float32 sums, on the tensor cores of a CUDA device.

Rows that share columns stand together in tiles. A tile is stored as a dense matrix of the columns that occur in it, and
its product gathers these rows of the other factor.
"""

from __future__ import annotations

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,type-arg,attr-defined,assignment"
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from fishergcn._base.tensors import tensor_ranges

_MATRIX_EXPONENT = 10  # entries of a propagation matrix are at most 1; times 2**10 even 1e-7 is a normal half number
_LARGEST_EXPONENT = 14  # activations are scaled so that their largest entry is below 2**15
_TILE = 128  # rows and columns of the product that a program computes
_DEPTH = 64  # columns of a tile that are multiplied at a time; a tile has a multiple of them
_STAGES = 6  # of the pipeline: three tiles of either factor on their way, since the columns come before the rows
_LOOK = 256  # rows of which a program finds the largest entries
_ROWS_TOGETHER = 8  # which subtract multiples of the same rows
_ROUNDS = 8  # in which a tile is filled with rows
_GROUP = 4  # tiles of columns that take turns with all tiles of rows, so that either factor is found in the cache


class HalfTiles(NamedTuple):
    """A matrix as tiles of rows.

    Attributes
    ----------
    shape
        Of the matrix.
    order : Tensor of shape (tiles * 128,)
        Which row is where; the number of rows where there is none.
    starts : Tensor of shape (tiles + 1,)
        Where the columns of each tile begin.
    columns : Tensor of shape (K,)
        Columns of all tiles, one after the other, with zeros behind those of a tile up to a multiple of 64.
    values : Tensor of shape (K, 128)
        Entries times 2**10: values[k, i] is that of the tile's row i in column k.
    """

    shape: tuple[int, int]
    order: Tensor
    starts: Tensor
    columns: Tensor
    values: Tensor


def half_tiles(csr: Tensor) -> HalfTiles:
    """Return the tiles of a matrix."""
    rows, columns = csr.shape
    device = csr.device
    pointers, indices = csr.crow_indices().long(), csr.col_indices().long()
    order = _together(csr)
    tiles = triton.cdiv(rows, _TILE)
    place = torch.empty(rows, dtype=torch.int64, device=device)
    place[order] = torch.arange(rows, device=device)
    place = torch.repeat_interleave(place, pointers.diff())  # of the row of each entry
    cells, cell = torch.unique(place // _TILE * columns + indices, return_inverse=True)
    tile = cells // columns
    counts = torch.bincount(tile, minlength=tiles)
    padded = (counts + _DEPTH - 1) // _DEPTH * _DEPTH
    starts = torch.cat([padded.new_zeros(1), padded.cumsum(0)])
    slot = starts[tile] + torch.arange(len(cells), device=device) - (counts.cumsum(0) - counts)[tile]
    used = torch.zeros(int(starts[-1]), dtype=torch.int32, device=device)
    used[slot] = (cells % columns).int()
    values = torch.zeros((len(used), _TILE), dtype=torch.half, device=device)
    values[slot[cell], place % _TILE] = (csr.values() * 2.0**_MATRIX_EXPONENT).half()
    whole = torch.full((tiles * _TILE,), rows, dtype=torch.int32, device=device)
    whole[:rows] = order.int()
    return HalfTiles((rows, columns), whole, starts.int(), used, values)


def _together(csr: Tensor) -> Tensor:
    """Order the rows so that those of a tile have many columns in common.

    A tile begins with the fullest row that is left. In each round it takes the rows that have the most columns more in
    it than outside.
    """
    rows, columns = csr.shape
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
            taken = torch.topk(cost, min(_TILE // _ROUNDS, last - at), largest=False).indices
    return order


def half_product(tiles: HalfTiles, dense: Tensor, left: Tensor | None = None, weighted: Tensor | None = None) -> Tensor:
    """S Z - L V, shape (m, B, d), for the tiles of S (m, n), Z of shape (n, B, d), L (m, k) and V (k, B, d).

    Half precision has the 10-bit mantissa of TF32 at twice its speed; its narrow range is met by scaling S, and each
    batch entry of Z, by powers of two. So the relative rounding of an operand is at most 2**-11. L V is in float32.
    """
    rows = tiles.shape[0]
    count, batch, width = dense.shape
    flat = batch * width
    parts = torch.empty((triton.cdiv(count, _LOOK), flat), dtype=torch.float32, device=dense.device)
    _largest_of[(len(parts), triton.cdiv(flat, 1024))](parts, dense, count, flat, ROWS=_LOOK, BLOCK=1024)
    largest = parts.view(-1, batch, width).amax((0, 2)).clamp_min(1e-30)
    scale = torch.exp2(torch.floor(_LARGEST_EXPONENT - torch.log2(largest)))
    blocks = triton.cdiv(flat, _TILE)
    operand = torch.empty((count, blocks * _TILE), dtype=torch.half, device=dense.device)
    grid = (count, triton.cdiv(operand.shape[1], 1024))
    _scaled_half[grid](operand, dense, scale, flat, width, operand.shape[1], BLOCK=1024)
    out = torch.empty((rows, batch, width), dtype=torch.float32, device=dense.device)
    height = len(tiles.starts) - 1
    _tiles_times_dense[(height * blocks,)](
        out, tiles.order, tiles.starts, tiles.columns, tiles.values, operand,
        rows, flat, operand.shape[1], height, blocks,
        TILE=_TILE, DEPTH=_DEPTH, GROUP=_GROUP, num_warps=4, num_stages=_STAGES,
    )  # fmt: skip
    # Not in the kernel above: its sums need the registers that this would take.
    if left is None or weighted is None:
        left, weighted = dense[:0], dense[:0]  # nothing to subtract: K = 0
    _finished[(triton.cdiv(rows, _ROWS_TOGETHER), triton.cdiv(flat, 512))](
        out, 2.0**-_MATRIX_EXPONENT / scale, left.contiguous(), weighted.contiguous(), rows, flat, width,
        K=left.shape[1] if len(left) else 0, ROWS=_ROWS_TOGETHER, BLOCK=512,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["rows", "columns"])
def _largest_of(out, dense, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    part = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    most = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(part * ROWS, tl.minimum(part * ROWS + ROWS, rows)):
        value = tl.load(dense + i * columns + c, mask=c < columns, other=0.0)
        most = tl.maximum(most, tl.abs(value), propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + part * columns + c, most, mask=c < columns)


@triton.jit(do_not_specialize=["rows", "columns"])
def _finished(
    out, factor, basis, weighted, rows, columns, width, K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (i < rows)[:, None] & (c < columns)[None, :]
    place = out + i[:, None] * columns + c[None, :]
    times = tl.load(factor + c // width, mask=c < columns, other=0.0)
    total = tl.load(place, mask=inside, other=0.0) * times[None, :]
    for k in tl.static_range(K):
        low = tl.load(weighted + k * columns + c, mask=c < columns, other=0.0)
        total -= tl.load(basis + i * K + k, mask=i < rows, other=0.0)[:, None] * low[None, :]
    tl.store(place, total, mask=inside)


@triton.jit(do_not_specialize=["columns"])
def _scaled_half(out, dense, scale, columns, width, padded, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = c < columns
    value = tl.load(dense + i * columns + c, mask=inside, other=0.0)
    factor = tl.load(scale + c // width, mask=inside, other=0.0)
    tl.store(out + i * padded + c, (value * factor).to(tl.float16), mask=c < padded)


@triton.jit(do_not_specialize=["height", "blocks"])
def _tiles_times_dense(
    out, order, starts, used, values, dense, rows, columns, padded, height, blocks,
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
    place = out + row.to(tl.int64)[:, None] * columns + c[None, :]
    tl.store(place, total, mask=(row < rows)[:, None] & (c < columns)[None, :])
