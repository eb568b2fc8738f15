"""Comparisons, questions about floats, logic and bits, and the choice between two by a condition."""

from __future__ import annotations

from typing import Any, overload

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from .common import ArrayLike, at_user, bind, number, operand, truth
from .ufunc import with_methods

# Questions about floats


def _predicate(primitive: Any, x: Any, what: str, otherwise: bool) -> Array:
    array = number(x, what)
    if dtypes.is_inexact(array.dtype):
        return bind(primitive, (array,), {})
    return o.broadcast_to(o.scalar(otherwise, dtypes.bool_), array.shape)


def isfinite(x: ArrayLike, /) -> Array:
    """Whether each element is neither infinite nor NaN.

    >>> tnp.isfinite(tnp.array([1.0, np.inf, np.nan]))
    Array([ True, False, False], dtype=bool)
    """
    return _predicate(prims.is_finite, x, "isfinite", True)


def isinf(x: ArrayLike, /) -> Array:
    """Whether each element is infinite.

    >>> tnp.isinf(tnp.array([1.0, -np.inf, np.nan]))
    Array([False,  True, False], dtype=bool)
    """
    return _predicate(prims.is_inf, x, "isinf", False)


def isnan(x: ArrayLike, /) -> Array:
    """Whether each element is NaN.

    >>> tnp.isnan(tnp.array([1.0, np.inf, np.nan]))
    Array([False, False,  True], dtype=bool)
    """
    return _predicate(prims.is_nan, x, "isnan", False)


def isposinf(x: ArrayLike, /) -> Array:
    """Whether each element is positive infinity.

    >>> tnp.isposinf(tnp.array([1.0, np.inf, -np.inf]))
    Array([False,  True, False], dtype=bool)
    """
    return bitwise_and(isinf(x), greater(x, 0))


def isneginf(x: ArrayLike, /) -> Array:
    """Whether each element is negative infinity.

    >>> tnp.isneginf(tnp.array([1.0, np.inf, -np.inf]))
    Array([False, False,  True], dtype=bool)
    """
    return bitwise_and(isinf(x), less(x, 0))


# Comparisons


def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x == y for each pair of elements, broadcast; NaN equals nothing.

    >>> tnp.equal(tnp.array([1.0, 2.0, np.nan]), tnp.array([1, 3, np.nan]))
    Array([ True, False, False], dtype=bool)
    """
    return o.elementwise(prims.eq, x, y)


def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x != y for each pair of elements, broadcast; NaN equals nothing.

    >>> tnp.not_equal(tnp.array([1.0, 2.0, np.nan]), tnp.array([1, 3, np.nan]))
    Array([False,  True,  True], dtype=bool)
    """
    return o.elementwise(prims.ne, x, y)


def less(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x < y for each pair of elements, broadcast; false for NaN. Complex numbers raise TypeError.

    >>> tnp.less(tnp.array([[1], [2]]), tnp.array([1, 2, 3]))
    Array([[False,  True,  True],
           [False, False,  True]], dtype=bool)
    """
    return o.elementwise(prims.lt, x, y)


def less_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x <= y for each pair of elements, broadcast; false for NaN. Complex numbers raise TypeError.

    >>> tnp.less_equal(tnp.array([1.0, 2.0, np.nan]), 1)
    Array([ True, False, False], dtype=bool)
    """
    return o.elementwise(prims.le, x, y)


def greater(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x > y for each pair of elements, broadcast; false for NaN. Complex numbers raise TypeError.

    >>> tnp.greater(tnp.array([1.0, 2.0, np.nan]), 1)
    Array([False,  True, False], dtype=bool)
    """
    return o.elementwise(prims.gt, x, y)


def greater_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x >= y for each pair of elements, broadcast; false for NaN. Complex numbers raise TypeError.

    >>> tnp.greater_equal(tnp.array([1.0, 0.0, np.nan]), 1)
    Array([ True, False, False], dtype=bool)
    """
    return o.elementwise(prims.ge, x, y)


# Logic and bits


@with_methods(identity=True)
def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether both are true, as bools; numbers are true if they are not 0.

    >>> tnp.logical_and(tnp.array([0, 1, 2]), tnp.array([True, True, False]))
    Array([False,  True, False], dtype=bool)
    """
    return o.bitwise_and(truth(x, "logical_and"), truth(y, "logical_and"))


@with_methods(identity=False)
def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether at least one is true, as bools; numbers are true if they are not 0.

    >>> tnp.logical_or(tnp.array([0, 1, np.nan]), False)
    Array([False,  True,  True], dtype=bool)
    """
    return o.bitwise_or(truth(x, "logical_or"), truth(y, "logical_or"))


@with_methods(identity=False)
def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether exactly one is true, as bools; numbers are true if they are not 0.

    >>> tnp.logical_xor(tnp.array([0, 1, 2]), tnp.array([True, True, False]))
    Array([ True, False,  True], dtype=bool)
    """
    return o.bitwise_xor(truth(x, "logical_xor"), truth(y, "logical_xor"))


def logical_not(x: ArrayLike, /) -> Array:
    """Whether x is false, as bools; numbers are false if they are 0.

    >>> tnp.logical_not(tnp.array([0.0, 0.5, np.nan]))
    Array([ True, False, False], dtype=bool)
    """
    return o.invert(truth(x, "logical_not"))


@with_methods(identity=-1)
def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits set in both; the logical and of bools. Floats raise TypeError.

    >>> tnp.bitwise_and(tnp.array([0b1100, -1]), 0b1010)
    Array([ 8, 10], dtype=int32)
    """
    return o.elementwise(prims.bitwise_and, x, y)


@with_methods(identity=0)
def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits set in either; the logical or of bools. Floats raise TypeError.

    >>> tnp.bitwise_or(tnp.array([0b1100, -1]), 0b1010)
    Array([14, -1], dtype=int32)
    """
    return o.elementwise(prims.bitwise_or, x, y)


@with_methods(identity=0)
def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits set in one but not in both; whether one alone of two bools is true. Floats raise TypeError.

    >>> tnp.bitwise_xor(tnp.array([0b1100, -1]), 0b1010)
    Array([  6, -11], dtype=int32)
    """
    return o.elementwise(prims.bitwise_xor, x, y)


def bitwise_not(x: ArrayLike, /) -> Array:
    """Every bit inverted, -1 - x of signed integers; the logical not of bools. Floats raise TypeError.

    >>> tnp.bitwise_not(tnp.array([0, 7, -1]))
    Array([-1, -8,  0], dtype=int32)
    >>> tnp.bitwise_not(tnp.array([0, 7], "uint8"))
    Array([255, 248], dtype=uint8)
    """
    return o.invert(operand(x, "bitwise_not"))


invert = bitwise_invert = bitwise_not


def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x with its bits moved up by y; 0 if y is not in 0 .. bits - 1.

    >>> tnp.left_shift(tnp.array([1, 3, 1]), tnp.array([4, 1, 40]))
    Array([16,  6,  0], dtype=int32)
    """
    return o.left_shift(x, y)


def right_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x with its bits moved down by y, the sign filling in for signed integers.

    >>> tnp.right_shift(tnp.array([16, -16, -1]), tnp.array([2, 2, 40]))
    Array([ 4, -4, -1], dtype=int32)
    """
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
    """x where the condition holds and y elsewhere, broadcast; with the condition alone, the positions where it holds.

    Numbers hold where they are not 0. The choice that is not taken has the derivative 0, whatever it is. Positions, one array
    of them for each axis, need a known condition, or `size`: see `nonzero`.

    >>> tnp.where(tnp.array([True, False, True]), tnp.array([1, 2, 3]), 0.5)
    Array([1. , 0.5, 3. ], dtype=float32)
    >>> tnp.where(tnp.array([0, 3, 5]))
    (Array([1, 2], dtype=int32),)
    >>> tnp.where(tnp.array([0, 3, 5]), size=3, fill_value=-1)
    (Array([ 1,  2, -1], dtype=int32),)
    >>> tinyfn.grad(lambda x: tnp.where(x > 0, tnp.log(x), 0.0))(0.0)
    Array(0., dtype=float32)
    """
    if x is None and y is None:
        from .positions import nonzero

        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError(f"where takes a condition, or a condition and two choices{at_user()}")
    return o.elementwise_where(condition, x, y)
