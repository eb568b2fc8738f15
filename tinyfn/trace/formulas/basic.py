"""Building nodes of scalar operations: a Python number beside a node is a constant of its dtype; integers wrap around."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import dtype as dtypes
from ..dtype import DType
from ..scalar import (
    ADD,
    AND,
    BITCAST,
    CAST,
    DIV,
    EQ,
    FMA,
    IDIV,
    LT,
    MAX,
    MIN,
    MOD,
    MUL,
    OR,
    RECIP,
    SHL,
    SHR,
    SQRT,
    TRUNC,
    WHERE,
    XOR,
    ScalarOp,
    build,
)  # fmt: skip
from ..uop import UOp, const

Number = UOp | float  # a node, or a Python number that takes the dtype of the nodes beside it
Table = dict[DType, tuple[float, ...]]  # a polynomial's coefficients for each dtype, lowest first


class Format(NamedTuple):
    """How a float is laid out in bits."""

    integer: DType
    mantissa: int  # bits that are stored
    bias: int  # of the exponent
    rounding: float  # 1.5 * 2**mantissa: a sum with it is rounded to a whole number, which its low bits hold


FORMATS = {
    dtypes.float16: Format(dtypes.int16, 10, 15, 1.5 * 2**10),
    dtypes.bfloat16: Format(dtypes.int16, 7, 127, 1.5 * 2**7),
    dtypes.float32: Format(dtypes.int32, 23, 127, 1.5 * 2**23),
    dtypes.float64: Format(dtypes.int64, 52, 1023, 1.5 * 2**52),
}
HALVES = (dtypes.float16, dtypes.bfloat16)
INTEGERS = frozenset(dtypes.INTEGERS)
UNSIGNED = frozenset(dtypes.UNSIGNED)
INF, NAN = float("inf"), float("nan")


def constant(value: float, dtype: DType) -> UOp:
    """A constant; integers wrap around."""
    if dtype in INTEGERS:
        value = int(value) & ((1 << 8 * dtype.itemsize) - 1)
        if dtype not in UNSIGNED and value >> (8 * dtype.itemsize - 1):
            value -= 1 << 8 * dtype.itemsize
    return const(value, dtype)


def _operation(op: ScalarOp) -> Callable[..., UOp]:
    def operation(*operands: Number) -> UOp:
        nodes = [o for o in operands if isinstance(o, UOp)]
        if len(nodes) < len(operands):
            dtype = nodes[0].dtype
            nodes = [o if isinstance(o, UOp) else constant(o, dtype) for o in operands]
        return build(op, *nodes)

    return operation


add, mul, fma, div, maximum, minimum = (_operation(op) for op in (ADD, MUL, FMA, DIV, MAX, MIN))
shift_left, shift_right, and_, or_, xor, less, equal = (
    _operation(op) for op in (SHL, SHR, AND, OR, XOR, LT, EQ)
)
floor_divide, floor_remainder, trunc, sqrt, reciprocal = (
    _operation(op) for op in (IDIV, MOD, TRUNC, SQRT, RECIP)
)


def where(condition: UOp, x: Number, y: Number, dtype: DType | None = None) -> UOp:
    """x where the condition holds, y elsewhere; `dtype` is for two Python numbers."""
    if dtype is None:
        dtype = next(o.dtype for o in (x, y) if isinstance(o, UOp))
    return build(WHERE, condition, *[o if isinstance(o, UOp) else constant(o, dtype) for o in (x, y)])


def cast(x: UOp, dtype: DType) -> UOp:
    """x cast, or x itself if it has that dtype."""
    return x if x.dtype is dtype else build(CAST, x, arg=dtype)


def bits(x: UOp) -> UOp:
    """A float's bits as an integer of its width."""
    return build(BITCAST, x, arg=FORMATS[x.dtype].integer)


def from_bits(bits: UOp, dtype: DType) -> UOp:
    """The float of these bits."""
    return build(BITCAST, bits, arg=dtype)


def negative(x: UOp) -> UOp:
    """-x"""
    return mul(x, -1)


def not_(x: UOp) -> UOp:
    """Not x, of a bool."""
    return xor(x, True)


def sign_mask(dtype: DType) -> int:
    """The sign bit alone."""
    return 1 << (8 * dtype.itemsize - 1)


def magnitude(x: UOp) -> UOp:
    """|x|, of NaN too."""
    return from_bits(and_(bits(x), sign_mask(x.dtype) - 1), x.dtype)


def sign_bit(x: UOp) -> UOp:
    """The bits of x with all but the sign cleared."""
    return and_(bits(x), sign_mask(x.dtype))


def flip_sign(x: UOp, sign: UOp) -> UOp:
    """x, with its sign changed where the sign bit is set."""
    return from_bits(xor(bits(x), sign), x.dtype)


def odd(function: Callable[[UOp], UOp]) -> Callable[[UOp], UOp]:
    """The odd function that is `function` on what is not negative."""
    return lambda x: flip_sign(function(magnitude(x)), sign_bit(x))


def in_float32(function: Callable[..., UOp], *operands: UOp) -> UOp:
    """The function of these operands, worked out in float32 and rounded once more if they are float16 or bfloat16."""
    dtype = operands[0].dtype
    return cast(function(*[cast(x, dtypes.float32) if x.dtype in HALVES else x for x in operands]), dtype)


def less_or_equal(x: UOp, y: UOp) -> UOp:
    """x <= y, which is false if either is NaN."""
    return or_(less(x, y), equal(x, y)) if dtypes.is_float(x.dtype) else not_(less(y, x))


def polynomial(x: UOp, coefficients: Sequence[float]) -> UOp:
    """By Horner's rule, which takes the fewest operations; elements beside each other hide its latency."""
    *rest, last = coefficients
    result: Any = last
    for coefficient in reversed(rest):
        result = fma(x, result, coefficient)
    return result


def two_sum(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """x + y, and what its rounding leaves (Knuth)."""
    total = add(x, y)
    virtual = fma(x, -1.0, total)
    return total, add(fma(fma(virtual, -1.0, total), -1.0, x), fma(virtual, -1.0, y))


def quick_two_sum(x: UOp, y: UOp) -> tuple[UOp, UOp]:
    """x + y, and what its rounding leaves, where |x| >= |y| or x is 0 (Dekker)."""
    total = add(x, y)
    return total, add(fma(total, -1.0, x), y)


def two_product(x: UOp, y: Number) -> tuple[UOp, UOp]:
    """x * y, and what its rounding leaves."""
    product = mul(x, y)
    return product, fma(x, y, negative(product))


def clipped(x: UOp, bounds: tuple[float, float]) -> UOp:
    """x, or the nearer bound if it is outside."""
    return minimum(maximum(x, bounds[0]), bounds[1])


def as_unsigned(x: UOp) -> UOp:
    """The same bits as an unsigned integer."""
    return x if x.dtype in UNSIGNED else build(BITCAST, x, arg=np.dtype(f"u{x.dtype.itemsize}"))


def as_type(x: UOp, dtype: DType) -> UOp:
    """The same bits as another type of that width."""
    return x if x.dtype is dtype else build(BITCAST, x, arg=dtype)
