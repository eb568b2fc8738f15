"""Elementwise arithmetic, extremes of two, and integers by their bits and divisors."""

from __future__ import annotations

from typing import Any

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from .common import ArrayLike, at_user, bind, cast, inexact, number, operand, promoted
from .logic import equal, greater, isnan, less, where
from .ufunc import with_methods


@with_methods(identity=0)
def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x + y; for two bools their logical or."""
    return o.elementwise(prims.add, x, y)


@with_methods()
def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x - y"""
    return o.elementwise(prims.sub, x, y)


@with_methods(identity=1)
def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x * y; for two bools their logical and."""
    return o.elementwise(prims.mul, x, y)


def divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x / y; integers become float32."""
    return o.elementwise(prims.div, x, y, inexact=True)


true_divide = divide


def floor_divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greatest whole number that is not above x / y."""
    return o.floor_divide(x, y)


def remainder(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x modulo y, with the sign of y."""
    return o.remainder(x, y)


mod = remainder


def fmod(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The remainder of x / y, with the sign of x."""
    return binary_of_numbers(prims.rem, x, y)


def binary_of_numbers(primitive: Any, x: Any, y: Any) -> Array:
    """A primitive on two arguments promoted to one dtype, bools becoming int32."""
    x, y = promoted(x, y)
    if x.dtype is dtypes.bool_:
        x, y = o.to_dtype(x, dtypes.int32), o.to_dtype(y, dtypes.int32)
    return o.elementwise(primitive, x, y)


def divmod(x: ArrayLike, y: ArrayLike, /) -> tuple[Array, Array]:
    """The pair of x // y and x % y."""
    return o.divmod(x, y)


def power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x to the power y; a Python integer as y is exact, and integers need it to be 0 or more."""
    return o.power(x, y)


pow = power


def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x to the power y as floats, float32 or wider."""
    return o.elementwise(prims.pow, inexact(x, "float_power"), inexact(y, "float_power"))


@with_methods(nin=1)
def negative(x: ArrayLike, /) -> Array:
    """-x"""
    return bind(prims.neg, (operand(x, "negative"),), {})


def positive(x: ArrayLike, /) -> Array:
    """x itself, as an array."""
    return operand(x, "positive")


def absolute(x: ArrayLike, /) -> Array:
    """The absolute value; the derivative at 0 is 0."""
    return o.absolute(operand(x, "abs"))


abs = absolute


def fabs(x: ArrayLike, /) -> Array:
    """The absolute value as a float."""
    return absolute(inexact(x, "fabs"))


def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 as x is negative, zero or positive; NaN for NaN."""
    return bind(prims.sign, (operand(x, "sign"),), {})


def square(x: ArrayLike, /) -> Array:
    """x * x"""
    return bind(prims.integer_pow, (operand(x, "square"),), {"exponent": 2})


def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x; integers become float32."""
    return divide(1, inexact(x, "reciprocal"))


@with_methods()
def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greater of x and y, NaN if either is; a tie shares the derivative equally."""
    return o.elementwise(prims.max, x, y)


@with_methods()
def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The lesser of x and y, NaN if either is; a tie shares the derivative equally."""
    return o.elementwise(prims.min, x, y)


def fmax(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greater of x and y; the other one where one is NaN."""
    x, y = promoted(x, y)
    return where(o.bitwise_or(greater(x, y), isnan(y)), x, y)


def fmin(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The lesser of x and y; the other one where one is NaN."""
    x, y = promoted(x, y)
    return where(o.bitwise_or(less(x, y), isnan(y)), x, y)


def clip(
    arr: ArrayLike,
    /,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    *,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
) -> Array:
    """The elements limited to [min, max]; NaN stays NaN."""
    low, high = a_min if min is None else min, a_max if max is None else max
    x = number(arr, "clip")
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)


def bitwise_count(x: ArrayLike, /) -> Array:
    """The number of bits set in the absolute value, as uint8."""
    array = absolute(x)
    return cast(bind(prims.population_count, (array,), {}), dtypes.uint8)


def gcd(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greatest common divisor of integers."""
    x, y = promoted(x, y)
    if not dtypes.is_integer(x.dtype):
        raise TypeError(f"gcd takes integers, not {dtypes.name(x.dtype)}{at_user()}")
    x, y = absolute(x), absolute(y)
    shape = o.broadcast_shapes(x.shape, y.shape)
    x, y = o.broadcast_to(x, shape), o.broadcast_to(y, shape)
    # Euclid's steps: no pair of integers of this width needs more than 1.45 times its bits.
    for _ in range(int(1.45 * 8 * x.dtype.itemsize) + 2):
        done = equal(y, 0)
        x, y = where(done, x, y), where(done, y, o.elementwise(prims.rem, x, y))
    return x


def lcm(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The least common multiple of integers; 0 if one of them is."""
    x, y = promoted(x, y)
    divisor = gcd(x, y)
    return absolute(multiply(o.floor_divide(x, where(equal(divisor, 0), 1, divisor)), y))
