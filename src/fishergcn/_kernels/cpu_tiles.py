"""Products with rather full sparse matrices on the CPU, compiled: imported only where they run.

A high-order propagation matrix has hundreds of entries in a row, so that its product is bound by where the operand is
read from, not by the matrix. Four things keep it near: nodes are renumbered so that neighbors stand together, the
operand is cut into tiles of columns that fit the cache, rows are taken in pairs that share what is read, and sums stay
in registers. The last needs vectors of the machine, which numba has no words for: `_pair_sums` says it to LLVM itself.
"""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
from typing import Any, NamedTuple

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from fishergcn._base.types import AnyArray, CSRArray

_FAST = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_MOST_VECTORS = 4  # by two rows these are 8 registers for sums, of the 16 that a processor has at least
_VECTOR_BYTES = 64 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 32


class PairedRows(NamedTuple):
    """A sparse matrix with its rows in pairs: an entry is a column, and its two values, one of which may be 0.

    Attributes
    ----------
    rows, columns
        Which row and which column of the matrix stands where, (p,) and (n,).
    pointers
        Where the entries of a pair begin, (⌈p/2⌉ + 1,).
    places
        The columns of the entries, by their new numbers.
    values
        Two for each entry.
    """

    rows: AnyArray
    columns: AnyArray
    pointers: AnyArray
    places: AnyArray
    values: AnyArray


def paired_rows(matrix: CSRArray) -> PairedRows:
    """Put the rows of a matrix in pairs, those of a symmetric pattern after renumbering the nodes."""
    rows, columns = (np.arange(size, dtype=np.int64) for size in matrix.shape)
    if matrix.shape[0] == matrix.shape[1]:
        # Symmetric or not, neighbors of neighbors get close numbers; a wrong guess costs time, not digits.
        rows = columns = reverse_cuthill_mckee(sparse.csr_matrix(matrix), symmetric_mode=True).astype(np.int64)
        matrix = sparse.csr_array(matrix[rows][:, columns])
    matrix.sort_indices()
    pointers = np.zeros(len(rows) // 2 + len(rows) % 2 + 1, dtype=np.int64)
    _count_pairs(pointers, matrix.indptr, matrix.indices)
    np.cumsum(pointers, out=pointers)
    places, values = np.empty(pointers[-1], dtype=np.uint32), np.zeros(2 * pointers[-1], dtype=matrix.data.dtype)
    _fill_pairs(places, values, matrix.indptr, matrix.indices, matrix.data)
    return PairedRows(rows, columns, pointers, places, values)


@njit(inline="always", **_FAST)
def _next(first, second, first_stop, second_stop, indices):
    """Return the smaller of the next columns of two rows, and which of them have it."""
    a = indices[first] if first < first_stop else np.iinfo(np.int64).max
    b = indices[second] if second < second_stop else np.iinfo(np.int64).max
    return min(a, b), a <= b, b <= a


@njit(**_FAST)
def _count_pairs(pointers, indptr, indices):
    rows = indptr.shape[0] - 1
    for pair in range(pointers.shape[0] - 1):
        a, a_stop = indptr[2 * pair], indptr[2 * pair + 1]
        b, b_stop = a_stop, indptr[min(2 * pair + 2, rows)]
        while a < a_stop or b < b_stop:
            _, in_a, in_b = _next(a, b, a_stop, b_stop, indices)
            a, b = a + in_a, b + in_b
            pointers[pair + 1] += 1


@njit(**_FAST)
def _fill_pairs(places, values, indptr, indices, data):
    rows, t = indptr.shape[0] - 1, 0
    for first in range(0, rows, 2):
        a, a_stop = indptr[first], indptr[first + 1]
        b, b_stop = a_stop, indptr[min(first + 2, rows)]
        while a < a_stop or b < b_stop:
            column, in_a, in_b = _next(a, b, a_stop, b_stop, indices)
            places[t] = column
            if in_a:
                values[2 * t] = data[a]
                a += 1
            if in_b:
                values[2 * t + 1] = data[b]
                b += 1
            t += 1


@njit(cache=True, nogil=True, fastmath={"reassoc"}, error_model="numpy")
def finite(dense):
    """Whether all numbers are finite: in a pair of rows the 0 of one row would make infinity NaN."""
    flat = dense.ravel()
    total = flat.dtype.type(0)
    for t in range(flat.shape[0]):
        total += flat[t] * flat.dtype.type(0)
    return total == 0


def times(out: AnyArray, matrix: PairedRows, dense: AnyArray) -> None:
    """out[i] = Σ_j s_ij dense[j], of shapes (p, B, d) and (n, B, d), for finite activations."""
    width = dense.shape[1] * dense.shape[2]
    flat_out, flat = out.reshape(len(out), width), dense.reshape(len(dense), width)
    lanes = _VECTOR_BYTES // dense.itemsize
    widest = _MOST_VECTORS * lanes
    for start in range(0, width, widest):
        vectors = min(_MOST_VECTORS, -(-(width - start) // lanes))
        _tile((0,) * vectors, flat_out[:, start : start + widest], *matrix, flat[:, start : start + widest])


@njit(**_FAST)
def _tile(vectors, out, rows, columns, pointers, places, values, dense):
    """The product of one tile of columns; the length of ``vectors`` says how many registers hold a row of it."""
    width, padded = out.shape[1], len(vectors) * (_VECTOR_BYTES // values.itemsize)
    tile = np.empty((columns.shape[0], padded), dtype=values.dtype)
    for j in range(columns.shape[0]):
        for h in range(width):
            tile[j, h] = dense[columns[j], h]
        for h in range(width, padded):
            tile[j, h] = 0
    sums = np.empty((2, padded), dtype=values.dtype)
    for pair in range(pointers.shape[0] - 1):
        _pair_sums(vectors, sums, tile, places, values, pointers[pair], pointers[pair + 1])
        for h in range(width):
            out[rows[2 * pair], h] = sums[0, h]
        if 2 * pair + 1 < rows.shape[0]:
            for h in range(width):
                out[rows[2 * pair + 1], h] = sums[1, h]


@intrinsic
def _pair_sums(typing, vectors, sums, tile, places, values, start, stop):
    """sums[a, h] = Σ_t values[2 t + a] tile[places[t], h] for a = 0, 1 and t from start to stop, all in registers."""
    signature = types.void(vectors, sums, tile, places, values, types.int64, types.int64)
    return signature, _pair_sums_code


def _pair_sums_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    sums, tile, places, values = (
        make_array(kind)(context, builder, value).data
        for kind, value in zip(signature.args[1:5], arguments[1:5], strict=True)
    )
    start, stop = arguments[5:]
    count = signature.args[0].count
    lanes = _VECTOR_BYTES // (signature.args[1].dtype.bitwidth // 8)
    long, short = ir.IntType(64), ir.IntType(32)
    vector = ir.VectorType(context.get_value_type(signature.args[1].dtype), lanes)
    zero, undefined = ir.Constant(vector, [0.0] * lanes), ir.Constant(vector, ir.Undefined)
    everywhere = ir.Constant(ir.VectorType(short, lanes), [0] * lanes)

    def constant(value: int) -> Any:
        return ir.Constant(long, value)

    def vector_at(pointer: Any, place: Any) -> Any:
        return builder.bitcast(builder.gep(pointer, [place]), vector.as_pointer())

    before = builder.block
    loop, after = builder.function.append_basic_block("entries"), builder.function.append_basic_block("sums")
    builder.cbranch(builder.icmp_signed("<", start, stop), loop, after)

    builder.position_at_end(loop)
    t = builder.phi(long)
    t.add_incoming(start, before)
    totals = [builder.phi(vector) for _ in range(2 * count)]
    for total in totals:
        total.add_incoming(zero, before)
    place = builder.zext(builder.load(builder.gep(places, [t])), long)
    line = builder.gep(tile, [builder.mul(place, constant(count * lanes))])
    # Arrays of NumPy are aligned to their numbers, not to vectors.
    size = _VECTOR_BYTES // lanes
    parts = [builder.load(vector_at(line, constant(k * lanes)), align=size) for k in range(count)]
    sums_so_far = []
    for a in range(2):
        value = builder.load(builder.gep(values, [builder.add(builder.shl(t, constant(1)), constant(a))]))
        single = builder.insert_element(undefined, value, ir.Constant(short, 0))
        factor = builder.shuffle_vector(single, undefined, everywhere)
        for k, part in enumerate(parts):
            term = builder.fmul(factor, part, flags=["contract"])
            sums_so_far.append(builder.fadd(term, totals[a * count + k], flags=["contract"]))
    following = builder.add(t, constant(1))
    t.add_incoming(following, loop)
    for total, so_far in zip(totals, sums_so_far, strict=True):
        total.add_incoming(so_far, loop)
    builder.cbranch(builder.icmp_signed("<", following, stop), loop, after)

    builder.position_at_end(after)
    results = [builder.phi(vector) for _ in totals]
    for k, result in enumerate(results):
        result.add_incoming(zero, before)
        result.add_incoming(sums_so_far[k], loop)
    for k, result in enumerate(results):
        builder.store(result, vector_at(sums, constant(k * lanes)), align=size)
    return context.get_dummy_value()
