"""Exact simplifications of scalar expressions: the result has the same bits for every input, NaN, inf and
-0.0 too.

So floats get `x*1.0`, `x + -0.0` and folding of operations that every device rounds the same way, but never
`x*0.0`, `x - x` or `x + 0.0`. Integers wrap around, and rules that hold only without wrapping ask the
operands' bounds."""

from __future__ import annotations

from typing import Any

from . import dtype as dtypes
from .dtype import DType
from .pattern import Pattern, anything, constant, repeated
from .rewrite import Rule, RuleSet
from .scalar import (
    ADD,
    AND,
    BITCAST,
    CAST,
    EQ,
    IDIV,
    LT,
    MAX,
    MIN,
    MOD,
    MUL,
    OR,
    SCALAR_OPS,
    WHERE,
    XOR,
    ScalarOp,
    build,
    evaluate,
)  # fmt: skip
from .sint import bounds
from .uop import CONST, UOp, const

_INTEGERS = frozenset(dtypes.INTEGERS)
_BITS = _INTEGERS | {dtypes.bool_}
_MANTISSA = {
    dtypes.bfloat16: 8,
    dtypes.float16: 11,
    dtypes.float32: 24,
    dtypes.float64: 53,
}  # bits, with the hidden one

x, y, z = anything("x"), anything("y"), anything("z")
c, d = constant(name="c"), constant(name="d")
integer_x = anything("x", dtype=_INTEGERS)


def _ops(**conditions: bool) -> tuple[ScalarOp, ...]:
    return tuple(
        op for op in SCALAR_OPS.values() if all(bool(getattr(op, k)) is v for k, v in conditions.items())
    )


def _fold(node: UOp) -> UOp:
    return const(evaluate([node], {})[0], node.dtype)


def _swap(node: UOp, x: UOp, c: UOp) -> UOp | None:
    return build(node.op, x, c) if x.op is not CONST else None


def _is(c: UOp, value: Any) -> bool:
    return value is not None and c is const(value, c.dtype)


def _drop_identity(node: UOp, x: UOp, c: UOp) -> UOp | None:
    return x if _is(c, node.op.identity(c.dtype)) else None


def _absorb(node: UOp, x: UOp, c: UOp) -> UOp | None:
    return c if _is(c, node.op.absorbing(c.dtype)) else None


def _regroup(node: UOp, inner: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    return build(node.op, x, _fold(build(node.op, c, d))) if inner.op is node.op else None


# Rules by bounds.


def _divide(x: UOp, c: UOp) -> UOp | None:
    divisor, (low, high) = int(c.value), bounds(x)
    return const(low // divisor, x.dtype) if divisor > 0 and low // divisor == high // divisor else None


def _remainder(x: UOp, c: UOp) -> UOp | None:
    divisor, (low, high) = int(c.value), bounds(x)
    if divisor <= 0 or low // divisor != high // divisor:
        return None
    offset = -(low // divisor) * divisor
    if offset == 0:
        return x
    lowest, highest = _limits(x.dtype)
    return build(ADD, x, const(offset, x.dtype)) if lowest <= offset <= highest else None


def _no_wrap(op: ScalarOp, *operands: UOp) -> bool:
    """Whether the operation on integers never wraps around."""
    low, high = op.interval(*map(bounds, operands))  # type: ignore[misc]
    limits = _limits(operands[0].dtype)
    return limits[0] <= low and high <= limits[1]


def _limits(dtype: DType) -> tuple[int, int]:
    bits = 8 * dtype.itemsize
    return (0, (1 << bits) - 1) if dtype in dtypes.UNSIGNED else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _divide_multiple(x: UOp, c: UOp) -> UOp | None:
    return x if int(c.value) and _no_wrap(MUL, x, c) else None


def _divide_sum(product: UOp, x: UOp, c: UOp, y: UOp) -> UOp | None:
    if int(c.value) and _no_wrap(MUL, x, c) and _no_wrap(ADD, product, y):
        return build(ADD, x, build(IDIV, y, c))
    return None


def _remainder_of_multiple(x: UOp, c: UOp) -> UOp | None:
    return const(0, x.dtype) if int(c.value) and _no_wrap(MUL, x, c) else None


def _remainder_of_sum(product: UOp, x: UOp, c: UOp, y: UOp) -> UOp | None:
    return build(MOD, y, c) if int(c.value) and _no_wrap(MUL, x, c) and _no_wrap(ADD, product, y) else None


def _less(x: UOp, y: UOp) -> UOp | None:
    (x_low, x_high), (y_low, y_high) = bounds(x), bounds(y)
    return _bool(True) if x_high < y_low else _bool(False) if x_low >= y_high else None


def _differ(x: UOp, y: UOp) -> UOp | None:
    (x_low, x_high), (y_low, y_high) = bounds(x), bounds(y)
    return _bool(False) if x_high < y_low or x_low > y_high else None


def _larger(x: UOp, y: UOp) -> UOp | None:
    (x_low, x_high), (y_low, y_high) = bounds(x), bounds(y)
    return y if x_high <= y_low else x if y_high <= x_low else None


def _smaller(x: UOp, y: UOp) -> UOp | None:
    (x_low, x_high), (y_low, y_high) = bounds(x), bounds(y)
    return x if x_high <= y_low else y if y_high <= x_low else None


def _zero(x: UOp) -> UOp:
    return const(0, x.dtype)


def _bool(value: bool) -> UOp:
    return const(value, dtypes.bool_)


# Casts. One that keeps every value may be dropped before another cast, if that treats both types alike.


def _keeps_values(a: DType, b: DType) -> bool:
    """Whether every value of `a` is a value of `b`."""
    if a is b or a is dtypes.bool_:
        return True
    if b in _INTEGERS:
        return a in _INTEGERS and _limits(b)[0] <= _limits(a)[0] and _limits(a)[1] <= _limits(b)[1]
    if b not in _MANTISSA:
        return False
    if a in _INTEGERS:
        return 8 * a.itemsize - (a in dtypes.SIGNED) <= _MANTISSA[b] and (b, a) != (
            dtypes.float16,
            dtypes.uint16,
        )
    return (a, b) in _WIDER_FLOATS


_WIDER_FLOATS = {(a, b) for a in (*dtypes.NARROW_FLOATS, dtypes.float16, dtypes.bfloat16, dtypes.float32)
                 for b in (dtypes.float32, dtypes.float64) if a.itemsize < b.itemsize}  # fmt: skip


def _cast_of_cast(node: UOp, inner: UOp, x: UOp) -> UOp | None:
    first, second, third = x.dtype, inner.dtype, node.dtype
    # Between integers, casts wrap: the inner one only matters where it is narrower than both.
    wraps = (
        first in _INTEGERS
        and second in _INTEGERS
        and third in _INTEGERS
        and third.itemsize <= second.itemsize
    )
    # From a float, a cast to an integer saturates; from an integer it wraps.
    saturates = (
        first in _INTEGERS and second in _MANTISSA and third in _INTEGERS and not _keeps_values(first, third)
    )
    return build(CAST, x, arg=third) if wraps or (_keeps_values(first, second) and not saturates) else None


def _drop_cast(node: UOp, x: UOp) -> UOp | None:
    return x if x.dtype is node.dtype else None


def _select_bool(x: UOp, c: UOp, d: UOp) -> UOp | None:
    if c is d:
        return c
    return x if c.value else build(XOR, x, _bool(True))


def _with_constant(ops: Any, **conditions: Any) -> Pattern:
    """`x op c`: constants have moved to the right when other rules look."""
    return Pattern(ops, (x, c), any_order=False, **conditions)


ASSOCIATIVE = _ops(associative=True)
product_plus_y = Pattern(ADD, (Pattern(MUL, (x, c), name="product"), y))

SIMPLIFY = RuleSet(
    [
        Rule("fold constants", Pattern(_ops(exact=True), repeated(constant()), name="node"), _fold),
        Rule("constant to the right",
             Pattern(_ops(commutative=True), (c, x), name="node", any_order=False), _swap),
        Rule("x op identity", _with_constant(_ops(identity=True), name="node"), _drop_identity),
        Rule("x op absorbing", _with_constant(_ops(absorbing=True), name="node"), _absorb),
        Rule("(x op c) op d",
             Pattern(ASSOCIATIVE, (_with_constant(ASSOCIATIVE, name="inner"), d), name="node", dtype=_BITS,
                     any_order=False),
             _regroup),
        Rule("x - x", Pattern(ADD, (integer_x, Pattern(MUL, (x, constant(-1))))), _zero),
        Rule("x op x is x", Pattern((AND, OR, MAX, MIN), (x, x)), lambda x: x),
        Rule("x xor x", Pattern(XOR, (x, x)), _zero),
        Rule("x < x", Pattern(LT, (x, x)), lambda x: _bool(False)),  # of floats too: NaN < NaN is false
        Rule("x == x", Pattern(EQ, (anything("x", dtype=_BITS), x)), lambda x: _bool(True)),
        Rule("idiv by bounds", Pattern(IDIV, (x, c)), _divide),
        Rule("mod by bounds", Pattern(MOD, (x, c)), _remainder),
        Rule("x*c idiv c", Pattern(IDIV, (Pattern(MUL, (x, c)), c)), _divide_multiple),
        Rule("(x*c + y) idiv c", Pattern(IDIV, (product_plus_y, c)), _divide_sum),
        Rule("x*c mod c", Pattern(MOD, (Pattern(MUL, (x, c)), c)), _remainder_of_multiple),
        Rule("(x*c + y) mod c", Pattern(MOD, (product_plus_y, c)), _remainder_of_sum),
        Rule("lt by bounds", Pattern(LT, (integer_x, y)), _less),
        Rule("eq by bounds", Pattern(EQ, (integer_x, y), any_order=False), _differ),
        Rule("max by bounds", Pattern(MAX, (integer_x, y), any_order=False), _larger),
        Rule("min by bounds", Pattern(MIN, (integer_x, y), any_order=False), _smaller),
        Rule("where of a constant", Pattern(WHERE, (c, x, y)), lambda c, x, y: x if c.value else y),
        Rule("where of equals", Pattern(WHERE, (y, x, x)), lambda x, y: x),
        Rule("where of bools", Pattern(WHERE, (x, c, d), dtype=dtypes.bool_), _select_bool),
        Rule("where of not", Pattern(WHERE, (Pattern(XOR, (z, constant(True))), x, y)),
             lambda x, y, z: build(WHERE, z, y, x)),
        Rule("cast to itself", Pattern((CAST, BITCAST), (x,), name="node"), _drop_cast),
        Rule("cast of cast", Pattern(CAST, (Pattern(CAST, (x,), name="inner"),), name="node"), _cast_of_cast),
        Rule("bitcast of bitcast", Pattern(BITCAST, (Pattern(BITCAST, (x,)),), name="node"),
             lambda node, x: build(BITCAST, x, arg=node.dtype)),
    ]
)  # fmt: skip
