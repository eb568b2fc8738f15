"""Elementwise functions: arithmetic, functions of floats, comparisons, logic, bits, and choices."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from ..trace import dtype as dtypes
from ..trace import operators as o
from ..trace import prims
from ..trace.array import Array
from .common import ArrayLike, at_user, bind, cast, floats, inexact, operand, promoted, unary

# Arithmetic


def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x + y; for two bools their logical or."""
    return o.elementwise(prims.add, x, y)


def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x - y"""
    return o.elementwise(prims.sub, x, y)


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


def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greater of x and y, NaN if either is; a tie shares the derivative equally."""
    return o.elementwise(prims.max, x, y)


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
    x = operand(arr, "clip")
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)


# Functions of floats


def exp(x: ArrayLike, /) -> Array:
    """e to the power x."""
    return unary(prims.exp, x, "exp")


def exp2(x: ArrayLike, /) -> Array:
    """2 to the power x."""
    return unary(prims.exp2, x, "exp2")


def expm1(x: ArrayLike, /) -> Array:
    """exp(x) - 1, exact near 0."""
    return unary(prims.expm1, x, "expm1")


def log(x: ArrayLike, /) -> Array:
    """The natural logarithm; NaN below 0."""
    return unary(prims.log, x, "log")


def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2; NaN below 0."""
    return unary(prims.log2, x, "log2")


def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10; NaN below 0."""
    return divide(log(x), float(np.log(10.0)))


def log1p(x: ArrayLike, /) -> Array:
    """log(1 + x), exact near 0."""
    return unary(prims.log1p, x, "log1p")


def sqrt(x: ArrayLike, /) -> Array:
    """The square root; NaN below 0."""
    return unary(prims.sqrt, x, "sqrt")


def cbrt(x: ArrayLike, /) -> Array:
    """The cube root, negative for negative x."""
    return unary(prims.cbrt, x, "cbrt")


def sin(x: ArrayLike, /) -> Array:
    """The sine of x (radians)."""
    return unary(prims.sin, x, "sin")


def cos(x: ArrayLike, /) -> Array:
    """The cosine of x (radians)."""
    return unary(prims.cos, x, "cos")


def tan(x: ArrayLike, /) -> Array:
    """The tangent of x (radians)."""
    return unary(prims.tan, x, "tan")


def arcsin(x: ArrayLike, /) -> Array:
    """The arc sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
    return unary(prims.asin, x, "arcsin")


def arccos(x: ArrayLike, /) -> Array:
    """The arc cosine, in [0, pi]; NaN outside [-1, 1]."""
    return unary(prims.acos, x, "arccos")


def arctan(x: ArrayLike, /) -> Array:
    """The arc tangent, in [-pi/2, pi/2]."""
    return unary(prims.atan, x, "arctan")


def arctan2(y: ArrayLike, x: ArrayLike, /) -> Array:
    """The angle in [-pi, pi] of the point (x, y); its arguments come as y, x."""
    return o.elementwise(prims.atan2, y, x, inexact=True)


def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine."""
    return unary(prims.sinh, x, "sinh")


def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine."""
    return unary(prims.cosh, x, "cosh")


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent."""
    return unary(prims.tanh, x, "tanh")


def arcsinh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic sine."""
    return unary(prims.asinh, x, "arcsinh")


def arccosh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic cosine; NaN below 1."""
    return unary(prims.acosh, x, "arccosh")


def arctanh(x: ArrayLike, /) -> Array:
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN outside."""
    return unary(prims.atanh, x, "arctanh")


asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2
asinh, acosh, atanh = arcsinh, arccosh, arctanh


def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees as radians."""
    return multiply(inexact(x, "deg2rad"), float(np.pi / 180))


def rad2deg(x: ArrayLike, /) -> Array:
    """Radians as degrees."""
    return multiply(inexact(x, "rad2deg"), float(180 / np.pi))


radians, degrees = deg2rad, rad2deg


def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x), and 1 at 0."""
    scaled = multiply(inexact(x, "sinc"), float(np.pi))
    # The square in the series near 0 keeps the derivatives there right; 0.03^4 / 120 is below half
    # precision's and float32's.
    small = less(absolute(scaled), 0.03)
    safe = where(small, 1, scaled)
    squared = square(where(small, scaled, 0))
    series = subtract(1, multiply(squared, subtract(1 / 6, multiply(squared, 1 / 120))))
    return where(small, series, divide(sin(safe), safe))


def hypot(x: ArrayLike, y: ArrayLike, /) -> Array:
    """sqrt(x² + y²), without overflow on the way; infinite if x or y is, even beside a NaN."""
    x, y = floats("hypot", x, y)
    x, y = absolute(x), absolute(y)
    infinite = o.bitwise_or(isinf(x), isinf(y))
    large, small = maximum(x, y), minimum(x, y)
    unsafe = o.bitwise_or(infinite, equal(large, 0))
    ratio = divide(where(unsafe, 0, small), where(unsafe, 1, large))
    result = where(unsafe, large, multiply(large, sqrt(add(1, multiply(ratio, ratio)))))
    return where(infinite, float("inf"), result)


def logaddexp(x: ArrayLike, y: ArrayLike, /) -> Array:
    """log(exp(x) + exp(y)), without overflow on the way."""
    x, y = floats("logaddexp", x, y)
    return _logaddexp(x, y, 1.0)


def logaddexp2(x: ArrayLike, y: ArrayLike, /) -> Array:
    """log2(2**x + 2**y), without overflow on the way."""
    x, y = floats("logaddexp2", x, y)
    return _logaddexp(x, y, float(np.log(2.0)))


def _logaddexp(x: Array, y: Array, log_base: float) -> Array:
    difference = subtract(x, y)
    # Two equal infinities, or a NaN: no difference to speak of, and the sum is the result.
    undefined = isnan(difference)
    decay = negative(absolute(where(undefined, 0, difference)))
    rest = log1p(exp(decay)) if log_base == 1.0 else divide(log1p(exp2(decay)), log_base)
    return where(undefined, add(x, y), add(maximum(x, y), rest))


# Rounding


def _step(primitive: Any, x: Any, what: str) -> Array:
    array = operand(x, what)
    return bind(primitive, (array,), {}) if dtypes.is_inexact(array.dtype) else array


def floor(x: ArrayLike, /) -> Array:
    """The greatest whole number that is not above x, in x's dtype."""
    return _step(prims.floor, x, "floor")


def ceil(x: ArrayLike, /) -> Array:
    """The least whole number that is not below x, in x's dtype."""
    return _step(prims.ceil, x, "ceil")


def trunc(x: ArrayLike, /) -> Array:
    """The whole number next to x towards zero, in x's dtype."""
    return _step(prims.trunc, x, "trunc")


fix = trunc


def rint(x: ArrayLike, /) -> Array:
    """The nearest whole number, the even one of two that are equally near; integers become float32."""
    array = inexact(x, "rint")
    return _by_parts(rint, array) if dtypes.kind(array.dtype) == "complex" else unary(prims.round, x, "rint")


def round(a: ArrayLike, decimals: int = 0) -> Array:
    """a rounded to a number of decimals, halves to even; for a negative number to tens, hundreds, ..."""
    x = operand(a, "round")
    if dtypes.kind(x.dtype) == "complex":
        return _by_parts(lambda part: round(part, decimals), x)
    if not dtypes.is_float(x.dtype):
        if decimals >= 0 or x.dtype is dtypes.bool_:
            return x
        factor = 10**-decimals
        quotient = floor_divide(add(x, factor // 2), factor)
        tie = equal(remainder(add(x, factor // 2), factor), 0)
        odd = not_equal(bitwise_and(quotient, 1), 0)
        return multiply(subtract(quotient, cast(bitwise_and(tie, odd), x.dtype)), factor)
    if decimals == 0:
        return bind(prims.round, (x,), {})
    wide = o.to_dtype(x, dtypes.float32) if x.dtype.itemsize < 4 else x
    scale = float(10.0 ** (decimals if decimals > 0 else -decimals))
    if decimals > 0:
        scaled = multiply(wide, scale)
        result = where(isfinite(scaled), divide(bind(prims.round, (scaled,), {}), scale), wide)
    else:
        result = multiply(bind(prims.round, (divide(wide, scale),), {}), scale)
    return o.to_dtype(result, x.dtype)


around = round


# Floats taken apart


def _predicate(primitive: Any, x: Any, what: str, otherwise: bool) -> Array:
    array = operand(x, what)
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


def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit is set: for negative numbers, -0.0 among them."""
    array = operand(x, "signbit")
    if dtypes.is_float(array.dtype):
        array = bind(prims.bitcast, (array,), {"dtype": dtypes.canonical(f"int{8 * array.dtype.itemsize}")})
    return less(array, 0)


def copysign(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x with the sign of y."""
    x, y = floats("copysign", x, y)
    return where(not_equal(signbit(x), signbit(y)), negative(x), x)


def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The float next to x towards y."""
    return o.elementwise(prims.nextafter, x, y, inexact=True)


def ldexp(x: ArrayLike, n: ArrayLike, /) -> Array:
    """x * 2**n for integers n."""
    x = inexact(x, "ldexp")
    # In two halves, each of which is in range where the whole may not be.
    half = o.right_shift(operand(n, "ldexp"), 1)
    rest = subtract(n, half)
    return multiply(multiply(x, exp2(cast(half, x.dtype))), exp2(cast(rest, x.dtype)))


def heaviside(x: ArrayLike, y: ArrayLike, /) -> Array:
    """0 where x is negative, 1 where it is positive, y where it is 0."""
    x, y = floats("heaviside", x, y)
    step = where(less(x, 0), 0, where(equal(x, 0), y, 1))
    return where(isnan(x), x, step)


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """x with NaN replaced by a number and infinities by the greatest and least floats, or by the numbers
    given."""
    array = operand(x, "nan_to_num")
    if dtypes.kind(array.dtype) == "complex":
        return _by_parts(lambda part: nan_to_num(part, copy, nan, posinf, neginf), array)
    if not dtypes.is_float(array.dtype):
        return array
    limit = _greatest(array.dtype)
    high, low = limit if posinf is None else posinf, -limit if neginf is None else neginf
    array = where(isnan(array), cast(nan, array.dtype), array)
    array = where(isposinf(array), cast(high, array.dtype), array)
    return where(isneginf(array), cast(low, array.dtype), array)


def _greatest(dtype: dtypes.DType) -> float:
    from ml_dtypes import finfo

    return float(finfo(dtype).max)  # type: ignore[no-untyped-call]


def real(val: ArrayLike, /) -> Array:
    """The real part, in the dtype of the parts; of what is not complex, the argument itself."""
    array = operand(val, "real")
    return bind(prims.real, (array,), {}) if dtypes.kind(array.dtype) == "complex" else array


def imag(val: ArrayLike, /) -> Array:
    """The imaginary part, in the dtype of the parts; 0 for what is not complex."""
    array = operand(val, "imag")
    if dtypes.kind(array.dtype) == "complex":
        return bind(prims.imag, (array,), {})
    return o.broadcast_to(o.scalar(0, array.dtype), array.shape)


def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate; of what is not complex, the argument itself."""
    array = operand(x, "conjugate")
    return bind(prims.conj, (array,), {}) if dtypes.kind(array.dtype) == "complex" else array


conj = conjugate


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle of complex numbers in the plane, in (-pi, pi] or, with `deg`, in degrees; pi for negative real ones."""
    x = inexact(z, "angle")
    result = arctan2(imag(x), real(x))
    return rad2deg(result) if deg else result


def _by_parts(function: Any, x: Array) -> Array:
    """The function of the real and of the imaginary part."""
    return bind(prims.complex_, (function(real(x)), function(imag(x))), {})


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


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether |a - b| <= atol + rtol * |b|, for each element; equal infinities are close."""
    x, y = promoted(a, b)
    if not dtypes.is_inexact(x.dtype):
        x, y = o.to_dtype(x, dtypes.float32), o.to_dtype(y, dtypes.float32)
    near = less_equal(absolute(subtract(x, y)), add(atol, multiply(rtol, absolute(y))))
    near = bitwise_or(bitwise_and(near, isfinite(y)), equal(x, y))
    return bitwise_or(near, bitwise_and(isnan(x), isnan(y))) if equal_nan else near


# Logic and bits


def _truth(x: Any, what: str) -> Array:
    array = operand(x, what)
    return array if array.dtype is dtypes.bool_ else o.not_equal(array, 0)


def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether both are true; numbers are true if they are not 0."""
    return o.bitwise_and(_truth(x, "logical_and"), _truth(y, "logical_and"))


def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether at least one is true; numbers are true if they are not 0."""
    return o.bitwise_or(_truth(x, "logical_or"), _truth(y, "logical_or"))


def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether exactly one is true; numbers are true if they are not 0."""
    return o.bitwise_xor(_truth(x, "logical_xor"), _truth(y, "logical_xor"))


def logical_not(x: ArrayLike, /) -> Array:
    """Whether x is false; numbers are false if they are 0."""
    return o.invert(_truth(x, "logical_not"))


def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits set in both; the logical and of bools."""
    return o.elementwise(prims.bitwise_and, x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits set in either; the logical or of bools."""
    return o.elementwise(prims.bitwise_or, x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits set in one but not in both."""
    return o.elementwise(prims.bitwise_xor, x, y)


def bitwise_not(x: ArrayLike, /) -> Array:
    """Every bit inverted; the logical not of bools."""
    return o.invert(operand(x, "bitwise_not"))


invert = bitwise_invert = bitwise_not


def bitwise_count(x: ArrayLike, /) -> Array:
    """The number of bits set in the absolute value, as uint8."""
    array = absolute(x)
    return cast(bind(prims.population_count, (array,), {}), dtypes.uint8)


def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x with its bits moved up by y; 0 if y is not in 0 .. bits - 1."""
    return o.left_shift(x, y)


def right_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x with its bits moved down by y, the sign filling in for signed integers."""
    return o.right_shift(x, y)


bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


def gcd(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greatest common divisor of integers."""
    x, y = promoted(x, y)
    if not dtypes.is_integer(x.dtype):
        raise TypeError(f"gcd takes integers, not {x.dtype.name}{at_user()}")
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
