"""Packed random bits in the registers of a vector unit: entries picked, and lines masked, a vector at a time.

A bit a time, looking at the bits of a dropout mask takes longer than the products that it is for.
"""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

from fishergcn._kernels.cpu_lines import VECTOR_BYTES, data_of

_FAST = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_FEATURES = llvmlite.binding.get_host_cpu_features()
_COMPRESSES = all(_FEATURES.get(name) for name in ("avx512f", "avx512vl"))
_LONG, _INT, _BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)


class _Vectors:
    """The vectors of as many numbers and columns as one register has numbers."""

    def __init__(self, context: Any, builder: Any, dtype: Any) -> None:
        self.builder, self.size = builder, dtype.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.size
        self.numbers = ir.VectorType(context.get_value_type(dtype), self.lanes)
        self.columns = ir.VectorType(_INT, self.lanes)
        self.mask = ir.VectorType(_BIT, self.lanes)

    def mask_of(self, bits: Any) -> Any:
        return self.builder.bitcast(self.builder.trunc(bits, ir.IntType(self.lanes)), self.mask)

    def load(self, kind: Any, array: Any, at: Any, mask: Any, size: int) -> Any:
        """Load what the mask says: what lies behind the end of an array is not touched."""
        place = self.builder.bitcast(self.builder.gep(array, [at]), kind.as_pointer())
        text = f"llvm.masked.load.{_name(kind)}.p0"
        function = self._declared(text, kind, [kind.as_pointer(), _INT, self.mask, kind])
        return self.builder.call(function, [place, ir.Constant(_INT, size), mask, ir.Constant(kind, None)])

    def store(self, vector: Any, array: Any, at: Any, size: int) -> None:
        place = self.builder.bitcast(self.builder.gep(array, [at]), vector.type.as_pointer())
        self.builder.store(vector, place, align=size)

    def compressed(self, vector: Any, mask: Any) -> Any:
        """Return the numbers that the mask says, moved to the front."""
        kind = vector.type
        function = self._declared(f"llvm.x86.avx512.mask.compress.{_name(kind)}", kind, [kind, kind, self.mask])
        return self.builder.call(function, [vector, ir.Constant(kind, None), mask])

    def count(self, bits: Any) -> Any:
        return self.builder.call(self._declared("llvm.ctpop.i64", _LONG, [_LONG]), [bits])

    def everywhere(self, number: Any) -> Any:
        undefined = ir.Constant(self.numbers, ir.Undefined)
        single = self.builder.insert_element(undefined, number, ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(single, undefined, ir.Constant(self.columns, [0] * self.lanes))

    def _declared(self, name: str, result: Any, arguments: list[Any]) -> Any:
        module = self.builder.module
        kind = ir.FunctionType(result, arguments)
        return module.globals.get(name) or ir.Function(module, kind, name)


def _name(kind: Any) -> str:
    elements = {"float": "f32", "double": "f64", "i32": "i32"}
    return f"v{kind.count}{elements[str(kind.element)]}"


@intrinsic
def _pick(typing, columns, factors, count, indices, values, at, bits, scale):
    """Append columns and scaled values from ``at`` on whose bits are set; return how many there are then."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        vectors = _Vectors(context, builder, kinds[4].dtype)
        into_columns, into_factors, where, numbers = (
            data_of(context, builder, kinds[k], arguments[k]) for k in (0, 1, 3, 4)
        )
        position, first, chosen = arguments[2], arguments[5], arguments[6]
        mask = vectors.mask_of(chosen)
        found = vectors.load(vectors.numbers, numbers, first, mask, vectors.size)
        scaled = builder.fmul(found, vectors.everywhere(arguments[7]))
        places = vectors.load(vectors.columns, where, first, mask, 4)
        vectors.store(vectors.compressed(places, mask), into_columns, position, 4)
        vectors.store(vectors.compressed(scaled, mask), into_factors, position, vectors.size)
        return builder.add(position, vectors.count(chosen))

    number = types.int64
    return types.int64(columns, factors, number, indices, values, number, number, scale), code


@intrinsic
def _spread(typing, factors, place, values, at, valid, bits, scale):
    """factors[place + t] = scale * values[at + t] where bit t is set, else 0, for one vector; ``valid`` exist."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        vectors = _Vectors(context, builder, kinds[2].dtype)
        into, numbers = (data_of(context, builder, kinds[k], arguments[k]) for k in (0, 2))
        mask = vectors.mask_of(builder.and_(arguments[4], arguments[5]))
        found = vectors.load(vectors.numbers, numbers, arguments[3], mask, vectors.size)
        vectors.store(builder.fmul(found, vectors.everywhere(arguments[6])), into, arguments[1], vectors.size)
        return context.get_dummy_value()

    number = types.int64
    return types.void(factors, number, values, number, number, number, scale), code


@intrinsic
def _gate(typing, line, at, bits, scale):
    """line[at + t] = scale * max(line[at + t], 0) where bit t is set, else 0, for one vector; NaN stays NaN."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        vectors = _Vectors(context, builder, kinds[0].dtype)
        data = data_of(context, builder, kinds[0], arguments[0])
        place = builder.bitcast(builder.gep(data, [arguments[1]]), vectors.numbers.as_pointer())
        found, zero = builder.load(place, align=vectors.size), ir.Constant(vectors.numbers, None)
        positive = builder.fcmp_unordered("uge", found, zero)
        passed = builder.and_(vectors.mask_of(arguments[2]), positive)
        scaled = builder.fmul(found, vectors.everywhere(arguments[3]))
        builder.store(builder.select(passed, scaled, zero), place, align=vectors.size)
        return context.get_dummy_value()

    return types.void(line, types.int64, types.int64, scale), code


@njit(inline="always", **_FAST)
def bits_at(words, at):
    """Return 32 bits from bit ``at`` on."""
    word = at >> 5
    low, high = np.uint64(words[word]), np.uint64(words[min(word + 1, words.shape[0] - 1)])
    return np.int64(((high << np.uint64(32)) | low) >> np.uint64(at & 31)) & np.int64(0xFFFFFFFF)


@njit(inline="always", **_FAST)
def _below(bits, count, lanes):
    """Return the lowest bits alone, as many as a vector holds and as exist."""
    return bits & ((np.int64(1) << min(count, lanes)) - 1)


def kept(columns, factors, start, stop, indices, values, words, scale):
    """Collect the entries from start to stop whose bit is set, scaled; return how many there are.

    The two arrays that they go to are a vector longer than what they get.
    """
    raise NotImplementedError("compiled code only")


@overload(kept, inline="always", jit_options=_FAST)
def _kept(columns, factors, start, stop, indices, values, words, scale):
    lanes = VECTOR_BYTES // (values.dtype.bitwidth // 8)

    def vectors(columns, factors, start, stop, indices, values, words, scale):
        count = 0
        for e in range(start, stop, lanes):
            chosen = _below(bits_at(words, e), stop - e, lanes)
            count = _pick(columns, factors, count, indices, values, e, chosen, scale)
        return count

    def singles(columns, factors, start, stop, indices, values, words, scale):
        count = 0
        for e in range(start, stop):  # without a branch to mispredict
            columns[count] = indices[e]
            factors[count] = values[e] * scale
            count += np.int64((words[e >> 5] >> np.uint32(e & 31)) & np.uint32(1))
        return count

    return vectors if _COMPRESSES else singles


@njit(inline="always", **_FAST)
def spread(factors, place, start, stop, values, words, scale):
    """factors[place + e - start] = scale * values[e] where bit e is set, else 0; a vector longer than needed."""
    lanes = VECTOR_BYTES // values.itemsize
    for e in range(start, stop, lanes):
        valid = _below(np.int64(-1), stop - e, lanes)
        _spread(factors, place + e - start, values, e, valid, bits_at(words, e), scale)


@njit(inline="always", **_FAST)
def gate(line, base, width, words, scale):
    """line[base + h] = scale * max(line[base + h], 0) where bit h is set, else 0, for h < width; NaN stays NaN."""
    lanes, h = VECTOR_BYTES // line.itemsize, 0
    while h + lanes <= width:
        _gate(line, base + h, bits_at(words, h), scale)
        h += lanes
    for t in range(h, width):
        bit, value = (words[t >> 5] >> np.uint32(t & 31)) & np.uint32(1), line[base + t]
        line[base + t] = line.dtype.type(0) if bit == 0 or value < 0 else value * scale
