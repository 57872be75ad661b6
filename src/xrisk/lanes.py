"""Sums in eight lanes and fused products: vector instructions whose order is written down.

A compiler may make vectors of a plain sum only if it may choose the order of summation, and then the last bits, or all
of them where terms cancel, depend on the processor and on what surrounds the loop. Here the order is part of the
program: lane k adds up the terms k, k + 8, k + 16, …, and `lanes_sum` adds up the lanes. In plain Python lanes are an
array of eight numbers, with the same bits.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model
from numba.np.arrayobj import make_array

from xrisk.compile import inlined

LANES = 8  # one vector register of 512 bits, two of 256
REST = ((0, 4), (4, 2), (6, 1))  # of fewer than eight values: the first lane and the number of those in a row


class Lanes(types.Type):
    """Eight float64 side by side."""

    def __init__(self) -> None:
        super().__init__("Lanes")


LANE = Lanes()
DOUBLE, WORD = ir.DoubleType(), ir.IntType(32)
VECTOR = ir.VectorType(DOUBLE, LANES)
NOTHING = ir.Constant(VECTOR, [0.0] * LANES)


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, VECTOR)


def lanes(value):
    """A number in every lane.

    Examples
    --------
    >>> from xrisk.lanes import lanes, lanes_sum
    >>> lanes_sum(lanes(0.5))
    4.0
    """
    return np.full(LANES, value)


def pack(x, j):
    """x[j], …, x[j + 7]; the last ones of an array are followed by zeros, see `rest`."""
    return x[j : j + LANES].astype(np.float64) if j + LANES <= x.size else rest(x, j)


def whole(x, j):
    """`pack` where the array does not end before."""
    return x[j : j + LANES].astype(np.float64)


def rest(x, j):
    """The last values of an array from j on, fewer than eight: four in lanes 0 to 3, two in 4 and 5, one in lane 6."""
    found, left = np.zeros(LANES), x.size - j
    for first, count in REST:
        if left & count:
            found[first : first + count] = x[j : j + count]
            j += count
    return found


def ones(left):
    """One wherever `pack` of an array with ``left`` more values has one of them, else zero."""
    return pack(np.ones(min(left, LANES)), 0)


def unpack(a, x, j):
    """Write lanes to where `pack` took them from."""
    if j + LANES <= x.size:
        x[j : j + LANES] = a
        return
    left = x.size - j
    for first, count in REST:
        if left & count:
            x[j : j + count] = a[first : first + count]
            j += count


def lanes_sum(a):
    """The sum of the lanes, by halves."""
    half = a[:4] + a[4:]
    return float((half[0] + half[2]) + (half[1] + half[3]))


def more_than(a, least, value):
    """The lanes of ``value`` where a > least, zero elsewhere."""
    return np.where(a > least, value, 0.0)


def at_least(a, least, value):
    """The lanes of ``value`` where a ≥ least, zero elsewhere."""
    return np.where(a >= least, value, 0.0)


def clip_from(a, least):
    """The larger of every lane and a number."""
    return np.where(a > least, a, least)


def at_most(a, most):
    """The smaller of every lane and a number."""
    return np.where(a < most, a, most)


def fused(a, b, c):
    """a·b + c, rounded once where the processor does so at no cost; whether it does depends on nothing else."""
    return a * b + c


def _instruction(stub: Callable, takes: tuple[Any, ...], gives: Any = LANE) -> Callable[[Callable], Callable]:
    """Let kernels call ``stub``, by what is generated.

    No overload, which Numba would compile as a function of its own, with reference counts of the arrays it is given.
    """

    class Template(AbstractTemplate):
        def generic(self, arguments: Any, keywords: Any) -> Any:
            if len(arguments) != len(takes) or not all(map(_fits, takes, arguments)):
                return None
            return signature(gives, *map(_taken, takes, arguments))

    infer_global(stub)(Template)

    def implement(generate: Callable) -> Callable:
        lower_builtin(stub, *takes)(generate)
        return generate

    return implement


def _fits(kind: Any, given: Any) -> bool:
    if kind is types.Array:
        return isinstance(given, types.Array) and given.ndim == 1
    return given == LANE if kind is LANE else isinstance(given, types.Number)


def _taken(kind: Any, given: Any) -> Any:
    return given if kind is types.Array else kind


def _splat(builder: Any, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, WORD(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(WORD, LANES), [0] * LANES))


def _item(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    array = make_array(kind)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, kind, array, [at])


def _values(context: Any, builder: Any, kind: Any, array: Any, at: Any, count: int) -> list[Any]:
    """``count`` values of an array from ``at`` on as float64, in one load where they stand side by side."""
    if kind.layout == "C" and isinstance(kind.dtype, types.Float):
        side_by_side = ir.PointerType(ir.VectorType(context.get_data_type(kind.dtype), count))
        place = builder.bitcast(_item(context, builder, kind, array, at), side_by_side)
        block = builder.load(place, align=kind.dtype.bitwidth // 8)
        found = [builder.extract_element(block, WORD(k)) for k in range(count)]
    else:
        places = [builder.add(at, at.type(k)) for k in range(count)]
        found = [builder.load(_item(context, builder, kind, array, place)) for place in places]
    return [context.cast(builder, value, kind.dtype, types.float64) for value in found]


def _placed(builder: Any, vector: Any, values: list[Any], first: int) -> Any:
    for k, value in enumerate(values):
        vector = builder.insert_element(vector, value, WORD(first + k))
    return vector


def _by_runs(builder: Any, left: Any, at: Any, use: Callable) -> None:
    """``use(at, first, count)`` for the runs of `REST` that ``left`` is made of; the sizes before make up ``first``."""
    for first, count in REST:
        bit = builder.and_(left, left.type(count))
        with builder.if_then(builder.icmp_signed("!=", bit, left.type(0))):
            use(builder.add(at, builder.and_(left, left.type(first))), first, count)


def _by_size(builder: Any, left: Any, at: Any, use: Callable) -> None:
    """The same, or for eight at once."""
    with builder.if_else(builder.icmp_signed(">=", left, left.type(LANES))) as (all_of_them, some):
        with all_of_them:
            use(at, 0, LANES)
        with some:
            _by_runs(builder, left, at, use)


def _left(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    (size,) = cgutils.unpack_tuple(builder, make_array(kind)(context, builder, array).shape)
    return builder.sub(size, at)


@_instruction(lanes, (types.float64,))
def _(context, builder, signature, arguments):
    return _splat(builder, arguments[0])


@_instruction(whole, (types.Array, types.intp))
def _(context, builder, signature, arguments):
    found = _values(context, builder, signature.args[0], *arguments, LANES)
    return _placed(builder, NOTHING, found, 0)


def _read(runs: Callable) -> Callable:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (array, at), kind = arguments, signature.args[0]
        kept = cgutils.alloca_once_value(builder, NOTHING)

        def read(at: Any, first: int, count: int) -> None:
            values = _values(context, builder, kind, array, at, count)
            builder.store(_placed(builder, builder.load(kept), values, first), kept)

        runs(builder, _left(context, builder, kind, array, at), at, read)
        return builder.load(kept)

    return generate


_instruction(rest, (types.Array, types.intp))(_read(_by_runs))
_instruction(pack, (types.Array, types.intp))(_read(_by_size))


@_instruction(unpack, (LANE, types.Array, types.intp), types.none)
def _(context, builder, signature, arguments):
    (vector, array, at), kind = arguments, signature.args[1]

    def write(at: Any, first: int, count: int) -> None:
        for k in range(count):
            place = _item(context, builder, kind, array, builder.add(at, at.type(k)))
            builder.store(builder.extract_element(vector, WORD(first + k)), place)

    _by_size(builder, _left(context, builder, kind, array, at), at, write)
    return context.get_dummy_value()


@_instruction(ones, (types.intp,))
def _(context, builder, signature, arguments):
    kept = cgutils.alloca_once_value(builder, NOTHING)

    def fill(at: Any, first: int, count: int) -> None:
        builder.store(_placed(builder, builder.load(kept), [DOUBLE(1.0)] * count, first), kept)

    _by_size(builder, arguments[0], arguments[0], fill)
    return builder.load(kept)


@_instruction(lanes_sum, (LANE,), types.float64)
def _(context, builder, signature, arguments):
    (half,) = arguments
    for width in (4, 2):
        index = ir.VectorType(WORD, width)
        low, high = (ir.Constant(index, list(range(start, start + width))) for start in (0, width))
        half = builder.fadd(builder.shuffle_vector(half, half, low), builder.shuffle_vector(half, half, high))
    return builder.fadd(builder.extract_element(half, WORD(0)), builder.extract_element(half, WORD(1)))


def _where(builder: Any, arguments: Any, compare: str, kept: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered(compare, arguments[0], _splat(builder, arguments[1])), kept, other)


@_instruction(more_than, (LANE, types.float64, LANE))
def _(context, builder, signature, arguments):
    return _where(builder, arguments, ">", arguments[2], NOTHING)


@_instruction(at_least, (LANE, types.float64, LANE))
def _(context, builder, signature, arguments):
    return _where(builder, arguments, ">=", arguments[2], NOTHING)


@_instruction(clip_from, (LANE, types.float64))
def _(context, builder, signature, arguments):
    return _where(builder, arguments, ">", arguments[0], _splat(builder, arguments[1]))


@_instruction(at_most, (LANE, types.float64))
def _(context, builder, signature, arguments):
    return _where(builder, arguments, "<", arguments[0], _splat(builder, arguments[1]))


@_instruction(fused, (types.float64, types.float64, types.float64), types.float64)
def _(context, builder, signature, arguments):
    shape = ir.FunctionType(DOUBLE, [DOUBLE] * 3)
    return builder.call(builder.module.declare_intrinsic("llvm.fmuladd", [DOUBLE], shape), arguments)


def _arithmetic(symbol: Any, instruction: str) -> None:
    """Let +, −, · and / take lanes and numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = zip(signature.args, arguments, strict=True)
        return getattr(builder, instruction)(*(a if kind == LANE else _splat(builder, a) for kind, a in given))

    for pair in ((LANE, LANE), (LANE, types.float64), (types.float64, LANE)):
        _instruction(symbol, pair)(generate)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.iadd, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
_arithmetic(operator.truediv, "fdiv")


@inlined
def array_sum(x):
    """Σ x.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.lanes import array_sum
    >>> array_sum(np.arange(10.0))
    45.0
    """
    total, end = lanes(0.0), x.size - x.size % LANES
    for j in range(0, end, LANES):
        total += whole(x, j)
    return lanes_sum(total + rest(x, end))
