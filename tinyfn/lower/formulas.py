"""The scalar formula of each elementwise primitive that compiles: one expression of scalar ops per element.

Arithmetic maps to one machine op or two; everything transcendental comes from `decompositions`. Half precision is computed in
float32 and rounded once for each primitive, as the references do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..trace import dtype as dtypes
from ..trace import prims as p
from ..trace import scalar as s
from ..trace.uop import UOp, const

Formula = Callable[..., UOp]  # (node, *elements of its sources) -> its element


def _not(x: UOp) -> UOp:
    return s.build(s.XOR, x, const(True, dtypes.bool_))


def _negative(x: UOp) -> UOp:
    # Times -1, which for unsigned integers is the number of all ones: products wrap around.
    minus_one = int(np.iinfo(x.dtype).max) if dtypes.kind(x.dtype) == "unsigned" else -1
    return s.build(s.MUL, x, const(minus_one, x.dtype))


def _subtract(x: UOp, y: UOp) -> UOp:
    return s.build(s.ADD, x, _negative(y))


def _less(x: UOp, y: UOp) -> UOp:
    return s.build(s.LT, x, y)


def _either(x: UOp, y: UOp) -> UOp:
    return s.build(s.OR, x, y)


def _equal(x: UOp, y: UOp) -> UOp:
    return s.build(s.EQ, x, y)


def _mul_zero(x: UOp, y: UOp) -> UOp:
    return s.build(s.WHERE, _equal(x, const(0, x.dtype)), x, s.build(s.MUL, x, y))


_WIDE = {dtypes.float16: dtypes.float32, dtypes.bfloat16: dtypes.float32}


def cast(x: UOp, dtype: Any) -> UOp:
    """x cast, or x itself if it has that dtype."""
    return x if x.dtype is dtype else s.build(s.CAST, x, arg=dtype)


def _in_float32(formula: Callable[..., UOp]) -> Formula:
    """The formula on half precision widened to float32, its result rounded back."""

    def apply(node: UOp, *elements: UOp) -> UOp:
        wide = [cast(e, _WIDE.get(e.dtype, e.dtype)) for e in elements]
        return cast(formula(*wide), node.dtype)

    return apply


def _convert(node: UOp, x: UOp) -> UOp:
    if node.dtype is dtypes.bool_:
        x = cast(x, _WIDE.get(x.dtype, x.dtype))
        return _not(_equal(x, const(0, x.dtype)))
    return cast(x, node.dtype)


def _integer_power(node: UOp, x: UOp) -> UOp:
    """By squaring; a negative power is the reciprocal of the positive one."""
    exponent = node.params["exponent"]
    x = cast(x, _WIDE.get(x.dtype, x.dtype))
    result: UOp | None = None
    square, left = x, abs(exponent)
    while left:
        if left & 1:
            result = square if result is None else s.build(s.MUL, result, square)
        left >>= 1
        if left:
            square = s.build(s.MUL, square, square)
    if result is None:
        result = const(1, x.dtype)
    return cast(s.build(s.RECIP, result) if exponent < 0 else result, node.dtype)


_BASIC: dict[Any, Callable[..., UOp]] = {
    p.neg: _negative,
    p.add: lambda x, y: s.build(s.ADD, x, y),
    p.sub: _subtract,
    p.mul: lambda x, y: s.build(s.MUL, x, y),
    p.mul_zero: _mul_zero,
    p.max: lambda x, y: s.build(s.MAX, x, y) if x.dtype is not dtypes.bool_ else _either(x, y),
    p.min: lambda x, y: s.build(s.MIN, x, y) if x.dtype is not dtypes.bool_ else s.build(s.AND, x, y),
    p.sqrt: lambda x: s.build(s.SQRT, x),
    p.trunc: lambda x: s.build(s.TRUNC, x),
    p.eq: _equal,
    p.ne: lambda x, y: _not(_equal(x, y)),
    p.lt: _less,
    p.gt: lambda x, y: _less(y, x),
    p.le: lambda x, y: _either(_less(x, y), _equal(x, y)),
    p.ge: lambda x, y: _either(_less(y, x), _equal(x, y)),
    p.is_nan: lambda x: _not(_equal(x, x)),
    p.bitwise_and: lambda x, y: s.build(s.AND, x, y),
    p.bitwise_or: _either,
    p.bitwise_xor: lambda x, y: s.build(s.XOR, x, y),
    p.where: lambda c, x, y: s.build(s.WHERE, c, x, y),
    p.clamp: lambda low, x, high: s.build(s.MIN, s.build(s.MAX, x, low), high),
    p.stop_gradient: lambda x: x,
}


def _divide(node: UOp, x: UOp, y: UOp) -> UOp:
    """Of floats; the quotient of integers, which rounds towards zero, is the floor's plus one where that is below."""
    if dtypes.is_float(x.dtype):
        return _in_float32(lambda a, b: s.build(s.DIV, a, b))(node, x, y)
    floor = s.build(s.IDIV, x, y)
    if dtypes.kind(x.dtype) == "unsigned":
        return floor
    zero = const(0, x.dtype)
    inexact = _not(_equal(s.build(s.MOD, x, y), zero))
    below = s.build(s.AND, inexact, _less(floor, zero))
    return s.build(s.ADD, floor, s.build(s.CAST, below, arg=x.dtype))


FORMULAS: dict[Any, Formula] = {
    **{op: _in_float32(formula) for op, formula in _BASIC.items()},
    p.div: _divide,
    p.convert: _convert,
    p.integer_pow: _integer_power,
}
