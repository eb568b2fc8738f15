"""Comparisons, questions about floats, logic and bits, and the choice between two by a condition."""

from __future__ import annotations

from typing import Any, overload

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from .common import ArrayLike, at_user, bind, number, operand
from .ufunc import with_methods

# Questions about floats


def _predicate(primitive: Any, x: Any, what: str, otherwise: bool) -> Array:
    array = number(x, what)
    if dtypes.is_inexact(array.dtype):
        return bind(primitive, (array,), {})
    return o.broadcast_to(o.scalar(otherwise, dtypes.bool_), array.shape)


def isfinite(x: ArrayLike, /) -> Array:
    """Whether each element is neither infinite nor NaN."""
    return _predicate(prims.is_finite, x, "isfinite", True)


def isinf(x: ArrayLike, /) -> Array:
    """Whether each element is infinite."""
    return _predicate(prims.is_inf, x, "isinf", False)


def isnan(x: ArrayLike, /) -> Array:
    """Whether each element is NaN."""
    return _predicate(prims.is_nan, x, "isnan", False)


def isposinf(x: ArrayLike, /) -> Array:
    """Whether each element is positive infinity."""
    return bitwise_and(isinf(x), greater(x, 0))


def isneginf(x: ArrayLike, /) -> Array:
    """Whether each element is negative infinity."""
    return bitwise_and(isinf(x), less(x, 0))


# Comparisons


def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x == y"""
    return o.elementwise(prims.eq, x, y)


def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x != y"""
    return o.elementwise(prims.ne, x, y)


def less(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x < y"""
    return o.elementwise(prims.lt, x, y)


def less_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x <= y"""
    return o.elementwise(prims.le, x, y)


def greater(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x > y"""
    return o.elementwise(prims.gt, x, y)


def greater_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x >= y"""
    return o.elementwise(prims.ge, x, y)


# Logic and bits


def _truth(x: Any, what: str) -> Array:
    array = operand(x, what)
    return array if array.dtype is dtypes.bool_ else o.not_equal(array, 0)


@with_methods(identity=True)
def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether both are true; numbers are true if they are not 0."""
    return o.bitwise_and(_truth(x, "logical_and"), _truth(y, "logical_and"))


@with_methods(identity=False)
def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether at least one is true; numbers are true if they are not 0."""
    return o.bitwise_or(_truth(x, "logical_or"), _truth(y, "logical_or"))


@with_methods(identity=False)
def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether exactly one is true; numbers are true if they are not 0."""
    return o.bitwise_xor(_truth(x, "logical_xor"), _truth(y, "logical_xor"))


def logical_not(x: ArrayLike, /) -> Array:
    """Whether x is false; numbers are false if they are 0."""
    return o.invert(_truth(x, "logical_not"))


@with_methods(identity=-1)
def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits set in both; the logical and of bools."""
    return o.elementwise(prims.bitwise_and, x, y)


@with_methods(identity=0)
def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits set in either; the logical or of bools."""
    return o.elementwise(prims.bitwise_or, x, y)


@with_methods(identity=0)
def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits set in one but not in both."""
    return o.elementwise(prims.bitwise_xor, x, y)


def bitwise_not(x: ArrayLike, /) -> Array:
    """Every bit inverted; the logical not of bools."""
    return o.invert(operand(x, "bitwise_not"))


invert = bitwise_invert = bitwise_not


def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x with its bits moved up by y; 0 if y is not in 0 .. bits - 1."""
    return o.left_shift(x, y)


def right_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x with its bits moved down by y, the sign filling in for signed integers."""
    return o.right_shift(x, y)


bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


# Choices


@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...


@overload
def where(
    condition: ArrayLike, /, *, size: int | None = None, fill_value: Any = None
) -> tuple[Array, ...]: ...


def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """x where the condition holds and y elsewhere, broadcast; with the condition alone, the positions where
    it holds.

    The latter needs a known condition, or `size`: see `nonzero`."""
    if x is None and y is None:
        from .indexing import nonzero

        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError(f"where takes a condition, or a condition and two choices{at_user()}")
    return o.elementwise_where(condition, x, y)
