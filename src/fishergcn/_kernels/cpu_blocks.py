"""Products of a block of a graph's rows with lines of numbers that lie in mapped files, one file for each block.

Lines are in half precision, and sums in single precision. A file is known by its address: files are mapped wherever
the system puts them, and there may be hundreds.
"""

from __future__ import annotations

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba import njit, types
from numba.extending import intrinsic

_FAST = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_BYTE, _HALF, _WORD, _SINGLE = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.FloatType()
_AHEAD, _LINE = 8, 64  # links between asking for a line and reading it; bytes of a line of the cache


@intrinsic
def _half(typing, address, place):
    """Read the number in half precision at address[place], exactly.

    Its bits, moved by 13 places, are those of the number times 2^-112 in single precision.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = builder.inttoptr(arguments[0], _HALF.as_pointer())
        bits = builder.zext(builder.load(builder.gep(start, [arguments[1]])), _WORD)
        size = builder.shl(builder.and_(bits, ir.Constant(_WORD, 0x7FFF)), ir.Constant(_WORD, 13))
        sign = builder.shl(builder.and_(bits, ir.Constant(_WORD, 0x8000)), ir.Constant(_WORD, 16))
        small = builder.bitcast(builder.or_(size, sign), _SINGLE)
        return builder.fmul(small, ir.Constant(_SINGLE, 2.0**112))

    return types.float32(types.uint64, types.int64), code


@intrinsic
def _single(typing, address, place):
    """Read the number in single precision at address[place]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = builder.inttoptr(arguments[0], _SINGLE.as_pointer())
        return builder.load(builder.gep(start, [arguments[1]]))

    return types.float32(types.uint64, types.int64), code


@intrinsic
def _ask(typing, address):
    """Ask for the memory at an address, which is then near when it is read."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], _BYTE.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _WORD, _WORD, _WORD])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        builder.call(ask, [pointer, *(ir.Constant(_WORD, each) for each in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.uint64), code


@njit(**_FAST)
def sum_neighbors(out, indptr, indices, weights, scales, lines, shift, first, loops):
    """out[r] = s_i (Σ_j w_ij s_j x_j + s_i x_i if ``loops``) for node i = first + r.

    The s and x of node j are in block j >> shift, at ``scales`` and ``lines``. Without ``weights`` all w are 1.
    """
    width, mask, line = out.shape[1], (np.int64(1) << shift) - 1, np.uint64(2 * out.shape[1])
    weighted, last = weights.size > 0, np.int64(indices.shape[0])
    total = np.empty(width, dtype=np.float32)
    for r in range(out.shape[0]):
        node = np.int64(first + r)
        own = _single(scales[node >> shift], node & mask)
        if loops:
            place = lines[node >> shift] + np.uint64(node & mask) * line
            for h in range(width):
                total[h] = own * _half(place, h)
        else:
            for h in range(width):
                total[h] = np.float32(0)
        for e in range(indptr[r], indptr[r + 1]):
            if e + _AHEAD < last:
                later = np.int64(indices[e + _AHEAD])
                far = lines[later >> shift] + np.uint64(later & mask) * line
                _ask(scales[later >> shift] + np.uint64(4 * (later & mask)))
                for part in range(0, 2 * width, _LINE):
                    _ask(far + np.uint64(part))
            other = np.int64(indices[e])
            factor = _single(scales[other >> shift], other & mask)
            if weighted:
                factor *= weights[e]
            place = lines[other >> shift] + np.uint64(other & mask) * line
            for h in range(width):
                total[h] += factor * _half(place, h)
        for h in range(width):
            out[r, h] = own * total[h]


@njit(cache=True, nogil=True, error_model="numpy")
def check_links(indptr, indices, weights, first, nodes, key, degrees):
    """Write row sums to ``degrees``; return what is wrong, 0 for nothing, and two sums that are equal over all blocks.

    1: a column is out of range, 2: columns do not ascend, 3: a weight is not finite and positive. The sums are those
    of h(i) g(j) a_ij and of g(i) h(j) a_ij, with random h and g and a_ij as its bits, modulo 2^64: they are equal if A
    is its transpose, and otherwise almost never.
    """
    sums, bits, weighted = np.zeros(2, dtype=np.uint64), weights.view(np.uint64), weights.size > 0
    ends, hashes = np.empty(2, dtype=np.uint64), np.empty((2, 2), dtype=np.uint64)
    for r in range(degrees.shape[0]):
        degree, before = 0.0, np.int64(-1)
        for e in range(indptr[r], indptr[r + 1]):
            column, weight, word = np.int64(indices[e]), 1.0, np.uint64(1)
            if column < 0 or column >= nodes:
                return 1, sums
            if column <= before:
                return 2, sums
            if weighted:
                weight = weights[e]
                word = (bits[e] ^ (bits[e] >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            if not (weight > 0.0 and weight < np.inf):
                return 3, sums
            before = column
            degree += weight
            ends[0], ends[1] = np.uint64(first + r), np.uint64(column)
            for end in range(2):
                for kind in range(2):  # the finalizer of splitmix64
                    z = ends[end] * np.uint64(2) + np.uint64(kind) + key
                    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                    hashes[end, kind] = (z ^ (z >> np.uint64(31))) | np.uint64(1)
            sums[0] += hashes[0, 0] * hashes[1, 1] * word
            sums[1] += hashes[1, 0] * hashes[0, 1] * word
        degrees[r] = degree
    return 0, sums
