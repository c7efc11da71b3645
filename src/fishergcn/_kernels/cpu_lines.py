"""Sums of lines of a table in the registers of a vector unit, said to LLVM: numba has no words for registers.

Every product of this package on the CPU is such a sum: Σ_t factor_t · line_t over few or many lines of some hundred
numbers. Written as a loop over an array, each term is a load and a store of the sum beside the work itself.
"""

from __future__ import annotations

# mypy: disable-error-code="assignment,no-untyped-def,no-untyped-call,untyped-decorator"
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

#: The bytes of a vector register of this machine.
VECTOR_BYTES = 64 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 32
#: Lines are tuples of zeros, one for each vector: of 64 bits for a whole one, of 32 for one that is a quarter as long.
QUARTER = 4
_LONG, _SHORT = ir.IntType(64), ir.IntType(32)


class Lines:
    """Code that adds up lines of a number of vectors, in a function that numba compiles.

    Arrays of NumPy are aligned to their numbers, not to vectors.
    """

    def __init__(self, context: Any, builder: Any, dtype: Any, vectors: Any) -> None:
        self.builder, self.count, self.alignment = builder, vectors.count, dtype.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.alignment // (1 if vectors.dtype.bitwidth == 64 else QUARTER)
        self.vector = ir.VectorType(context.get_value_type(dtype), self.lanes)
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)

    def constant(self, value: int) -> Any:
        """Return a whole number."""
        return ir.Constant(_LONG, value)

    def pointers(self, line: Any) -> list[Any]:
        """Return where the vectors of a line stand that begins at a pointer."""
        places = (self.builder.gep(line, [self.constant(k * self.lanes)]) for k in range(self.count))
        return [self.builder.bitcast(place, self.vector.as_pointer()) for place in places]

    def everywhere(self, number: Any) -> Any:
        """Return a vector that holds a number in all places."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        single = self.builder.insert_element(undefined, number, ir.Constant(_SHORT, 0))
        return self.builder.shuffle_vector(
            single, undefined, ir.Constant(ir.VectorType(_SHORT, self.lanes), [0] * self.lanes)
        )

    def store(self, sums: list[Any], line: Any) -> None:
        """Write vectors to a line."""
        for each, pointer in zip(sums, self.pointers(line), strict=True):
            self.builder.store(each, pointer, align=self.alignment)

    def loop(self, start: Any, stop: Any, sums: list[Any], line_of: Any, factors_of: Any) -> list[Any]:
        """Return sums + Σ_t factor_t line_t for t from start to stop: ``count`` vectors for each factor of a term."""
        builder, before = self.builder, self.builder.block
        inside, after = builder.append_basic_block("terms"), builder.append_basic_block("sums")
        builder.cbranch(builder.icmp_signed("<", start, stop), inside, after)
        builder.position_at_end(inside)
        t = builder.phi(_LONG)
        t.add_incoming(start, before)
        totals = [builder.phi(self.vector) for _ in sums]
        for total, first in zip(totals, sums, strict=True):
            total.add_incoming(first, before)
        parts = [builder.load(pointer, align=self.alignment) for pointer in self.pointers(line_of(t))]
        factors = [self.everywhere(factor) for factor in factors_of(t)]
        terms = [builder.fmul(factor, part, flags=["contract"]) for factor in factors for part in parts]
        new = [builder.fadd(term, total, flags=["contract"]) for term, total in zip(terms, totals, strict=True)]
        following = builder.add(t, self.constant(1))
        t.add_incoming(following, inside)
        for total, result in zip(totals, new, strict=True):
            total.add_incoming(result, inside)
        builder.cbranch(builder.icmp_signed("<", following, stop), inside, after)
        builder.position_at_end(after)
        results = [builder.phi(self.vector) for _ in sums]
        for result, first, last in zip(results, sums, new, strict=True):
            result.add_incoming(first, before)
            result.add_incoming(last, inside)
        return results


def data_of(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return make_array(kind)(context, builder, value).data


@intrinsic
def pair_sums(typing, vectors, sums, tile, places, values, start, stop):
    """sums[a, h] = Σ_t values[2 t + a] tile[places[t], h] for a = 0, 1 and t from start to stop.

    The length of ``vectors`` says how many registers hold a line of ``tile``.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        lines = Lines(context, builder, kinds[1].dtype, kinds[0])
        out, table, where, factors = (data_of(context, builder, kinds[k], arguments[k]) for k in range(1, 5))
        width = lines.count * lines.lanes

        def line_of(t: Any) -> Any:
            place = builder.zext(builder.load(builder.gep(where, [t])), _LONG)
            return builder.gep(table, [builder.mul(place, lines.constant(width))])

        def factors_of(t: Any) -> list[Any]:
            first = builder.shl(t, lines.constant(1))
            return [builder.load(builder.gep(factors, [builder.add(first, lines.constant(a))])) for a in range(2)]

        found = lines.loop(arguments[5], arguments[6], [lines.zero] * (2 * lines.count), line_of, factors_of)
        lines.store(found[: lines.count], out)
        lines.store(found[lines.count :], builder.gep(out, [lines.constant(width)]))
        return context.get_dummy_value()

    return types.void(vectors, sums, tile, places, values, types.int64, types.int64), code


@intrinsic
def line_sum(
    typing, vectors, out, place, table, shift, offset, stride, columns, factors, start, stop, left, weighted, row, rank
):
    """out[place + h] = Σ_t factors[t] table[columns[t], offset + h] - Σ_k left[row, k] weighted[k, offset + h].

    All arrays are flat, and lines of both tables ``stride`` apart, the first one of ``table`` at ``shift``; t goes from
    start to stop, k below ``rank``, h below what the ``vectors`` hold.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        lines = Lines(context, builder, kinds[1].dtype, kinds[0])
        target, source, where, values, sides, middle = (
            data_of(context, builder, kinds[k], arguments[k]) for k in (1, 3, 7, 8, 11, 12)
        )
        first, offset, step = arguments[4:7]
        begin = builder.add(first, offset)

        def line_of(t: Any) -> Any:
            column = builder.load(builder.gep(where, [t]))
            column = builder.zext(column, _LONG) if column.type.width < 64 else column
            return builder.gep(source, [builder.add(builder.mul(column, step), begin)])

        def factors_of(t: Any) -> list[Any]:
            return [builder.load(builder.gep(values, [t]))]

        def middle_line(k: Any) -> Any:
            return builder.gep(middle, [builder.add(builder.mul(k, step), offset)])

        def side(k: Any) -> list[Any]:
            place = builder.add(builder.mul(arguments[13], arguments[14]), k)
            return [builder.load(builder.gep(sides, [place]))]

        # Two sums that do not wait for each other.
        nothing = [lines.zero] * lines.count
        taken = lines.loop(lines.constant(0), arguments[14], nothing, middle_line, side)
        given = lines.loop(arguments[9], arguments[10], nothing, line_of, factors_of)
        sums = [builder.fsub(plus, minus) for plus, minus in zip(given, taken, strict=True)]
        lines.store(sums, builder.gep(target, [arguments[2]]))
        return context.get_dummy_value()

    number = types.int64
    places, lines = (number,) * 3, (columns, factors)
    return types.void(
        vectors, out, number, table, *places, *lines, number, number, left, weighted, number, number
    ), code


@intrinsic
def moment_sums(typing, vectors, group, out, place, table, shift, stride, factors, first, pitch, count):
    """out[place + a stride + h] = Σ_t factors[first + t pitch + a] table[shift + t stride + h] for t < count.

    All arrays are flat; h is below what the ``vectors`` hold, and a below the length of ``group``.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        lines = Lines(context, builder, kinds[2].dtype, kinds[0])
        target, source, values = (data_of(context, builder, kinds[k], arguments[k]) for k in (2, 4, 7))
        place, shift, stride, first, pitch, count = (arguments[k] for k in (3, 5, 6, 8, 9, 10))

        def line_of(t: Any) -> Any:
            return builder.gep(source, [builder.add(builder.mul(t, stride), shift)])

        def factors_of(t: Any) -> list[Any]:
            start = builder.add(builder.mul(t, pitch), first)
            places = (builder.add(start, lines.constant(a)) for a in range(kinds[1].count))
            return [builder.load(builder.gep(values, [each])) for each in places]

        sums = lines.loop(lines.constant(0), count, [lines.zero] * (lines.count * kinds[1].count), line_of, factors_of)
        for a in range(kinds[1].count):
            at = builder.add(place, builder.mul(stride, lines.constant(a)))
            lines.store(sums[a * lines.count : (a + 1) * lines.count], builder.gep(target, [at]))
        return context.get_dummy_value()

    number = types.int64
    return types.void(vectors, group, out, number, table, number, number, factors, number, number, number), code


@intrinsic
def add_to_lines(
    typing, vectors, samples, table, shift, stride, columns, first, factors, place, pitch, count, grad, base, step
):
    """table[columns[first + t], h] += Σ_s factors[place + s pitch + t] grad[base + s step + h] for t < count.

    All arrays are flat, and lines of the table ``stride`` apart, the first one at ``shift``; h is below what the
    ``vectors`` hold, and s below the length of ``samples``: their lines of ``grad`` are read once.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        lines = Lines(context, builder, kinds[2].dtype, kinds[0])
        target, where, values, source = (data_of(context, builder, kinds[k], arguments[k]) for k in (2, 5, 7, 11))
        shift, stride, first, place, pitch, count, base, step = (arguments[k] for k in (3, 4, 6, 8, 9, 10, 12, 13))

        def moved(start: Any, by: Any, times: int) -> Any:
            return builder.add(start, builder.mul(by, lines.constant(times)))

        given = [
            [
                builder.load(pointer, align=lines.alignment)
                for pointer in lines.pointers(builder.gep(source, [moved(base, step, s)]))
            ]
            for s in range(kinds[1].count)
        ]
        before = builder.block
        inside, after = builder.append_basic_block("terms"), builder.append_basic_block("added")
        builder.cbranch(builder.icmp_signed("<", lines.constant(0), count), inside, after)
        builder.position_at_end(inside)
        t = builder.phi(_LONG)
        t.add_incoming(lines.constant(0), before)
        column = builder.zext(builder.load(builder.gep(where, [builder.add(first, t)])), _LONG)
        pointers = lines.pointers(builder.gep(target, [builder.add(builder.mul(column, stride), shift)]))
        sums = [builder.load(pointer, align=lines.alignment) for pointer in pointers]
        for s, parts in enumerate(given):
            factor = builder.load(builder.gep(values, [builder.add(moved(place, pitch, s), t)]))
            terms = [builder.fmul(lines.everywhere(factor), part, flags=["contract"]) for part in parts]
            sums = [builder.fadd(term, total, flags=["contract"]) for term, total in zip(terms, sums, strict=True)]
        for total, pointer in zip(sums, pointers, strict=True):
            builder.store(total, pointer, align=lines.alignment)
        following = builder.add(t, lines.constant(1))
        t.add_incoming(following, inside)
        builder.cbranch(builder.icmp_signed("<", following, count), inside, after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    number = types.int64
    places = (columns, number, factors, number, number, number)
    return types.void(vectors, samples, table, number, number, *places, grad, number, number), code


@intrinsic
def fetch(typing, table, place):
    """Ask for the part of memory at table[place], of a flat table, which is then near when it is read."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = data_of(context, builder, signature.args[0], arguments[0])
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _SHORT, _SHORT, _SHORT])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        to_read, into_all_caches, data_not_code = (ir.Constant(_SHORT, each) for each in (0, 3, 1))
        builder.call(ask, [pointer, to_read, into_all_caches, data_not_code])
        return context.get_dummy_value()

    return types.void(table, types.int64), code
