"""Elementwise arithmetic, extremes of two, and integers by their bits and divisors."""

from __future__ import annotations

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from .common import ArrayLike, at_user, bind, cast, check_real, inexact, number, operand, promoted
from .logic import equal, greater, isnan, less, where
from .ufunc import with_methods


@with_methods(identity=0)
def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x + y, broadcast to one shape; for two bools their logical or.

    >>> tnp.add(tnp.array([[1], [2]]), tnp.array([0.5, 10.0]))
    Array([[ 1.5, 11. ],
           [ 2.5, 12. ]], dtype=float32)
    >>> tnp.add(tnp.array([True, False]), tnp.array([True, False]))
    Array([ True, False], dtype=bool)
    """
    return o.elementwise(prims.add, x, y)


@with_methods()
def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x - y; integers wrap around. Bools raise TypeError: `logical_xor` tells them apart.

    >>> tnp.subtract(tnp.array([5, 6], "uint8"), 6)
    Array([255,   0], dtype=uint8)
    """
    return o.elementwise(prims.sub, x, y)


@with_methods(identity=1)
def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x * y; for two bools their logical and.

    >>> tnp.multiply(tnp.array([[1], [2]]), tnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    return o.elementwise(prims.mul, x, y)


def divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x / y; integers become float32.

    >>> tnp.divide(tnp.array([1, -1, 0]), tnp.array([2, 0, 0]))
    Array([ 0.5, -inf,  nan], dtype=float32)
    """
    return o.elementwise(prims.div, x, y, inexact=True)


true_divide = divide


def floor_divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greatest whole number that is not above x / y; an integer divided by 0 gives 0. Bools become int32.

    >>> tnp.floor_divide(tnp.array([7, -7, 1]), tnp.array([2, 2, 0]))
    Array([ 3, -4,  0], dtype=int32)
    >>> tnp.floor_divide(-1.0, tnp.array([3.0, np.inf]))
    Array([-1., -1.], dtype=float32)
    """
    return o.floor_divide(x, y)


def remainder(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x modulo y, with the sign of y; an integer modulo 0 is 0. Bools become int32.

    >>> tnp.remainder(tnp.array([-7, 7]), 3)
    Array([2, 1], dtype=int32)
    >>> tnp.remainder(tnp.array([5.5, -5.5]), -2)
    Array([-0.5, -1.5], dtype=float32)
    """
    return o.remainder(x, y)


mod = remainder


def fmod(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The remainder of x / y, with the sign of x; an integer's remainder for 0 is 0. Bools become int32.

    >>> tnp.fmod(tnp.array([-7, 7]), 3)
    Array([-1,  1], dtype=int32)
    """
    return o.elementwise(prims.rem, x, y)


def divmod(x: ArrayLike, y: ArrayLike, /) -> tuple[Array, Array]:
    """The pair of x // y and x % y: x = (x // y) * y + x % y.

    >>> tnp.divmod(tnp.array([-7, 7]), 3)
    (Array([-3,  2], dtype=int32), Array([2, 1], dtype=int32))
    """
    return o.divmod(x, y)


def power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x to the power y. Bools become int32.

    A Python integer as y is exact, and so is its derivative; integers can't have a negative one, and in an integer array of
    exponents the negative ones give what 1 / x**-y is without its fraction.

    >>> tnp.power(tnp.array([2.0, -4.0]), -2)
    Array([0.25  , 0.0625], dtype=float32)
    >>> tnp.power(tnp.array([2, -3]), tnp.array([5, 3]))
    Array([ 32, -27], dtype=int32)
    >>> tnp.power(tnp.array([2.0, -2.0]), 0.5).round(3)
    Array([1.414,   nan], dtype=float32)
    """
    return o.power(x, y)


pow = power


def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x to the power y as floats: integers become float32.

    >>> tnp.float_power(tnp.array([2, 4]), -1)
    Array([0.5 , 0.25], dtype=float32)
    """
    return o.elementwise(prims.pow, inexact(x, "float_power"), inexact(y, "float_power"))


@with_methods(nin=1)
def negative(x: ArrayLike, /) -> Array:
    """-x; integers wrap around, as the only one of int8 without an opposite does here.

    >>> tnp.negative(tnp.array([1, -128], "int8"))
    Array([  -1, -128], dtype=int8)
    """
    return bind(prims.neg, (operand(x, "negative"),), {})


def positive(x: ArrayLike, /) -> Array:
    """x itself, as an array.

    >>> tnp.positive(2.0)
    Array(2., dtype=float32)
    """
    return operand(x, "positive")


def absolute(x: ArrayLike, /) -> Array:
    """The absolute value, of complex numbers in the dtype of their parts; the derivative at 0 is 0.

    >>> tnp.absolute(tnp.array([-2, 0]))
    Array([2, 0], dtype=int32)
    >>> tnp.absolute(tnp.array([3 + 4j]))
    Array([5.], dtype=float32)
    >>> tinyfn.grad(tnp.absolute)(0.0)
    Array(0., dtype=float32)
    """
    return o.absolute(operand(x, "abs"))


abs = absolute


def fabs(x: ArrayLike, /) -> Array:
    """The absolute value as a float; complex numbers raise TypeError.

    >>> tnp.fabs(tnp.array([-2, 0]))
    Array([2., 0.], dtype=float32)
    """
    array = inexact(x, "fabs")
    check_real("fabs", array)
    return absolute(array)


def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 as x is negative, zero or positive; NaN for NaN. Of a complex number x it is x / |x|.

    >>> tnp.sign(tnp.array([-2.5, 0.0, np.nan]))
    Array([-1.,  0., nan], dtype=float32)
    >>> tnp.sign(tnp.array([2j, -3 + 0j, 0j]))
    Array([ 0.+1.j, -1.+0.j,  0.+0.j], dtype=complex64)
    """
    return bind(prims.sign, (operand(x, "sign"),), {})


def square(x: ArrayLike, /) -> Array:
    """x * x; bools become int32.

    >>> tnp.square(tnp.array([-2, 3]))
    Array([4, 9], dtype=int32)
    >>> tnp.square(tnp.array(2j))
    Array(-4.+0.j, dtype=complex64)
    """
    return o.power(operand(x, "square"), 2)


def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x; integers become float32.

    >>> tnp.reciprocal(tnp.array([2, 0]))
    Array([0.5, inf], dtype=float32)
    """
    return divide(1, inexact(x, "reciprocal"))


@with_methods()
def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greater of x and y, NaN if either is; a tie shares the derivative equally.

    >>> tnp.maximum(tnp.array([1.0, np.nan, -2.0]), 0)
    Array([ 1., nan,  0.], dtype=float32)
    >>> tinyfn.grad(tnp.maximum)(0.0, 0.0)
    Array(0.5, dtype=float32)
    """
    return o.elementwise(prims.max, x, y)


@with_methods()
def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The lesser of x and y, NaN if either is; a tie shares the derivative equally.

    >>> tnp.minimum(tnp.array([1.0, np.nan, -2.0]), 0)
    Array([ 0., nan, -2.], dtype=float32)
    """
    return o.elementwise(prims.min, x, y)


def fmax(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greater of x and y; the other one where one is NaN.

    >>> tnp.fmax(tnp.array([1.0, np.nan, -2.0]), 0)
    Array([1., 0., 0.], dtype=float32)
    """
    x, y = promoted(x, y)
    return where(o.bitwise_or(greater(x, y), isnan(y)), x, y)


def fmin(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The lesser of x and y; the other one where one is NaN.

    >>> tnp.fmin(tnp.array([1.0, np.nan, -2.0]), 0)
    Array([ 0.,  0., -2.], dtype=float32)
    """
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
    """The elements limited to [min, max], each of which may be left out and broadcasts; NaN stays NaN.

    Where min is above max, the result is max.

    >>> tnp.clip(tnp.array([-2, 0, 5]), 0, 3)
    Array([0, 0, 3], dtype=int32)
    >>> tnp.clip(tnp.array([-2.0, np.nan, 5.0]), max=tnp.array([-3, 0, 7]))
    Array([-3., nan,  5.], dtype=float32)
    """
    low, high = a_min if min is None else min, a_max if max is None else max
    x = number(arr, "clip")
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)


def bitwise_count(x: ArrayLike, /) -> Array:
    """The number of bits set in the absolute value, as uint8.

    >>> tnp.bitwise_count(tnp.array([7, -7, 255]))
    Array([3, 3, 8], dtype=uint8)
    """
    array = absolute(x)
    array = o.to_dtype(array, dtypes.uint8) if array.dtype is dtypes.bool_ else array
    return cast(bind(prims.population_count, (array,), {}), dtypes.uint8)


def gcd(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greatest common divisor of integers, 0 for two zeros; other dtypes raise TypeError.

    >>> tnp.gcd(tnp.array([12, -8, 0]), 18)
    Array([ 6,  2, 18], dtype=int32)
    """
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
    """The least common multiple of integers, 0 if one of them is; other dtypes raise TypeError.

    >>> tnp.lcm(tnp.array([4, -6, 0]), 10)
    Array([20, 30,  0], dtype=int32)
    """
    x, y = promoted(x, y)
    divisor = gcd(x, y)
    return absolute(multiply(o.floor_divide(x, where(equal(divisor, 0), 1, divisor)), y))
